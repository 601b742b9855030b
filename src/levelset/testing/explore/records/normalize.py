"""Normalizes stored objects for comparison: removes uids, times, versions and generated names."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import msgspec

from levelset.objects.json_tree import is_list, is_map
from levelset.testing.explore.records.stored_state import Key, Tree

__all__ = ["NormalizedState", "StateCoverage", "find_locations", "normalise", "text_normalizer"]

NormalizedState = Mapping[str, tuple[str, ...]]
"""The objects of each location as sorted canonical JSON; a location is `ConfigMap/test/a` or `ConfigMap/test/a-~`."""

_DROPPED: Final = frozenset(
    {
        "creationTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
        "deletionGracePeriodSeconds",
    }
)
_SETS: Final = frozenset({"finalizers", "ownerReferences"})
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_VARYING: Final = re.compile(
    rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*"
)
_NONE: Final[Mapping[str, str]] = {}
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def normalise(
    trees: Iterable[tuple[Key, Tree]],
    uids: Mapping[str, Key],
    *,
    ignored: Collection[str] = (),
    generated: Mapping[str, str] = _NONE,
    names: Mapping[str, str] = _NONE,
) -> NormalizedState:
    """The objects by location, without what differs from run to run.

    `uids` are those of all objects that ever existed; `generated` maps each generated name to its prefix, and `names`
    other texts, such as ids of the outside, to what they are replaced by.
    """
    there = {key: tree for key, tree in trees if key[1] not in ignored}
    normalizer = _normalizer(there, uids, generated, names)
    found: dict[str, list[str]] = {}
    for key, tree in there.items():
        found.setdefault(normalizer.location(key, _prefix(tree)), []).append(_encode(normalizer.object(tree)).decode())
    return {location: tuple(sorted(texts)) for location, texts in sorted(found.items())}


def find_locations(
    keys: Iterable[tuple[Key, str]],
    trees: Iterable[tuple[Key, Tree]],
    uids: Mapping[str, Key],
    generated: Mapping[str, str] = _NONE,
) -> dict[Key, str]:
    """The location of each object, also of deleted ones; each key comes with the prefix of its generated name."""
    normalizer = _normalizer(dict(trees), uids, generated)
    return {key: normalizer.location(key, prefix) for key, prefix in dict(keys).items()}


def text_normalizer(
    trees: Iterable[tuple[Key, Tree]], uids: Mapping[str, Key], generated: Mapping[str, str]
) -> Callable[[str], str]:
    """A function that replaces uids, times and generated names in a text."""
    return _normalizer(dict(trees), uids, generated).name


def _normalizer(
    there: Mapping[Key, Tree], uids: Mapping[str, Key], generated: Mapping[str, str], more: Mapping[str, str] = _NONE
) -> "_Normalizer":
    names = {**more, **{key[3]: f"{prefix}~" for key, tree in there.items() if (prefix := _prefix(tree))}}
    now = {tree["metadata"].get("uid", "") for tree in there.values()}
    return _Normalizer(uids, names, now, generated)


def _prefix(tree: Tree) -> str:
    metadata = tree["metadata"]
    prefix: str = metadata.get("generateName", "")
    return prefix if prefix and metadata["name"].startswith(prefix) else ""


def _is_set(many: list[Any], name: str) -> bool:
    """Whether the order of a list is irrelevant: conditions, owner references and finalizers."""
    return name in _SETS or (len(many) > 1 and all(is_map(one) and "type" in one for one in many))


def _is_generation(name: str) -> bool:
    """Whether a field, such as `observedGeneration`, tells which generation a controller has seen."""
    return name.lower().endswith("generation")


class StateCoverage:
    """The states that a run reaches, as hashes; cheap, since only the changed object is normalized."""

    def __init__(self) -> None:
        self.states: set[int] = set()
        self._now: dict[tuple[str, ...], int] = {}
        self._all = 0
        self._names: dict[Key, tuple[str, ...]] = {}

    def note(self, key: Key, tree: Tree | None, prefix: str) -> None:
        """Notes that an object was changed or, without a tree, deleted."""
        where = self._names.get(key)
        if where is None:
            # Generated names are numbered by their order.
            number = sum(one[:3] == (*key[1:3], prefix) for one in self._names.values()) if prefix else 0
            where = self._names[key] = (*key[1:3], prefix, str(number)) if prefix else key[1:]
        # Not hash(): an exploration that is continued in another process must know the states of the first one.
        new = 0 if tree is None else _state_of("/".join(where), _signature(tree))
        self._all ^= self._now.get(where, 0) ^ new
        self._now[where] = new
        self.states.add(self._all)


@lru_cache(maxsize=1024)  # nearly all objects of a run are those of another run, with the same uids and times
def _state_of(where: str, signature: bytes) -> int:
    data = where.encode() + _VARYING.sub(b"", signature)
    return int.from_bytes(blake2b(data, digest_size=7).digest(), "big")


def _signature(tree: Tree) -> bytes:
    metadata = {name: value for name, value in tree["metadata"].items() if name not in _DROPPED and name != "name"}
    return _encode({**tree, "metadata": metadata})


class _Normalizer:
    """Replaces what differs from run to run by placeholders."""

    def __init__(
        self, uids: Mapping[str, Key], names: Mapping[str, str], now: Collection[str], generated: Mapping[str, str]
    ) -> None:
        self._uids = uids
        self._names = names
        self._now = now
        self._generated = generated
        self._generation: int | None = None

    def location(self, key: Key, prefix: str) -> str:
        """The location of an object; `prefix` is that of its generated name, if it has one."""
        name = f"{prefix}~" if prefix else self.name(key[3])
        return "/".join(part for part in (key[1], key[2], name) if part)

    def name(self, text: str) -> str:
        """A name, which may contain the generated name or the uid of another object."""
        for made, prefix in self._generated.items():
            if made in text:
                text = text.replace(made, f"{prefix}~")
        return self._text(text)

    def object(self, tree: Tree) -> Tree:
        """A whole object."""
        metadata = tree["metadata"]
        self._generation = metadata.get("generation")
        fields = {name: value for name, value in metadata.items() if name not in _DROPPED}
        if "deletionTimestamp" in fields:
            fields["deletionTimestamp"] = "<time>"
        if _prefix(tree):
            fields.pop("name")
        else:
            fields["name"] = self.name(fields["name"])
        rest = {name: self.value(value, name) for name, value in tree.items() if name != "metadata"}
        return {**rest, "metadata": self.value(fields, "metadata")}

    def value(self, value: Any, name: str = "") -> Any:
        """A nested value."""
        if is_map(value):
            return {self._text(key): self.value(one, key) for key, one in value.items() if one is not None}
        if is_list(value):
            many = [self.value(one, name) for one in value]
            return sorted(many, key=_encode) if _is_set(many, name) else many
        if isinstance(value, int) and self._generation is not None and _is_generation(name):
            return "<this generation>" if value == self._generation else "<another generation>"
        if isinstance(value, str):
            return "<version>" if name.lower().endswith("resourceversion") else self._text(value)
        return value

    def _text(self, text: str) -> str:
        if text in self._names:
            return self._names[text]
        if len(text) >= 20 and text[:4].isdigit():
            text = _TIME.sub("<time>", text)
        return _UID.sub(self._uid, text) if len(text) >= 36 else text

    def _uid(self, found: re.Match[str]) -> str:
        uid = found[0]
        key = self._uids.get(uid)
        if key is None:
            return "<uid>"
        return (
            f"<uid of {key[1]} {self._names.get(key[3], key[3])}>"
            if uid in self._now
            else f"<uid of a former {key[1]}>"
        )
