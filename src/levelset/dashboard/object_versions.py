"""The versions of objects that were seen, and how two of them differ.

Informers deliver every version of the kinds that controllers watch; the history holds on to their bytes, which the
cache had anyway, within a limit for each object and one for all of them together.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from levelset.dashboard.views import map_in, object_text, shown_tree
from levelset.objects import codec
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.controller.hot_loops import differences

__all__ = ["ObjectVersions", "Version", "changed_fields", "tree_diff", "unified_diff"]

MOST_BYTES: Final = 32 * 1024 * 1024
MOST_PER_OBJECT: Final = 20

_LONGEST_VALUE: Final = 400
_MOST_LINES: Final = 2_000

Place = tuple[GroupVersionKind, str | None, str]
"""A kind, a namespace and a name."""


class Version(msgspec.Struct, frozen=True, gc=False):
    """One version of an object: its resource version, when it was seen (seconds since 1970), and its JSON."""

    resource_version: str
    at: float
    raw: bytes


class ObjectVersions:
    """The last versions of each object; the objects that changed longest ago are forgotten first."""

    def __init__(self, most_bytes: int = MOST_BYTES, most_per_object: int = MOST_PER_OBJECT) -> None:
        self._most_bytes = most_bytes
        self._most = most_per_object
        self._versions: OrderedDict[Place, list[Version]] = OrderedDict()
        self.size = 0
        """The bytes of all versions."""

    def __len__(self) -> int:
        """The number of objects with versions."""
        return len(self._versions)

    def add(self, place: Place, version: Version) -> None:
        """Adds a version, unless it is known."""
        known = self._versions.setdefault(place, [])
        if any(one.resource_version == version.resource_version for one in known):
            return
        self._versions.move_to_end(place)
        known.append(version)
        self.size += len(version.raw)
        if len(known) > self._most:
            self.size -= len(known.pop(0).raw)
        while self.size > self._most_bytes and self._versions:
            _, dropped = self._versions.popitem(last=False)
            self.size -= sum(len(one.raw) for one in dropped)

    def of(self, place: Place) -> Sequence[Version]:
        """The versions of an object, oldest first."""
        return tuple(self._versions.get(place, ()))

    def find(self, place: Place, resource_version: str) -> Version | None:
        """One version of an object; None if it was not seen, or is forgotten."""
        return next((one for one in self.of(place) if one.resource_version == resource_version), None)

    def before(self, place: Place, resource_version: str) -> Version | None:
        """The version that was seen before this one."""
        known = self.of(place)
        at = next((number for number, one in enumerate(known) if one.resource_version == resource_version), 0)
        return known[at - 1] if at else None


def changed_fields(before: Version | None, after: Version) -> list[dict[str, str]]:
    """The fields in which two versions differ, as paths with both values; secrets are masked.

    Items of lists that have a type or a name are compared by it: `status.conditions[Ready].reason`. Without
    one before they are those of a new object, but for its metadata.
    """
    new: Any = shown_tree(codec.decode_tree(after.raw))
    if before is None:
        old: Any = {name: new.get(name) for name in ("apiVersion", "kind", "metadata")}
    else:
        old = shown_tree(codec.decode_tree(before.raw))
    return [
        {"field": ".".join(path).replace(".[", "["), "before": _value(was), "after": _value(now)}
        for path, was, now in differences(*_by_keys(old, new))
    ]


def _by_keys(old: Any, new: Any) -> tuple[Any, Any]:
    """Two trees in which lists of both whose items have keys are maps of them."""
    if is_list(old) and is_list(new):
        both = _items_by_key(old), _items_by_key(new)
        return (old, new) if None in both else _by_keys(*both)
    if not is_map(old) or not is_map(new):
        return old, new
    pairs = {name: _by_keys(old[name], new[name]) for name in old if name in new}
    first = {name: pairs[name][0] if name in pairs else value for name, value in old.items()}
    return first, {name: pairs[name][1] if name in pairs else value for name, value in new.items()}


def _items_by_key(items: Any) -> dict[str, Any] | None:
    """The items of a list by their type or name, if each has one of its own."""
    for name in ("type", "name"):
        keys = [one.get(name) if is_map(one) else None for one in items]
        if keys and all(isinstance(one, str) for one in keys) and len(set(keys)) == len(keys):
            return {f"[{key}]": one for key, one in zip(keys, items, strict=True)}
    return None


def unified_diff(before: Version, after: Version) -> list[str]:
    """The difference of two versions as lines of YAML; secrets are masked, and very long ones truncated."""
    old, new = (codec.decode_tree(one.raw) for one in (before, after))
    first, second = (f"resourceVersion {one.resource_version}" for one in (before, after))
    return tree_diff(old, new, first, second)


def tree_diff(before: Any, after: Any, first: str, second: str) -> list[str]:
    """The difference of two objects, under these names; as `unified_diff`, which may take long: call it in a thread."""
    old, new = (_lines(one) for one in (before, after))
    from difflib import unified_diff as text_diff  # noqa: PLC0415  # for a user who compares versions

    return list(text_diff(old, new, first, second, lineterm="", n=3))[:_MOST_LINES]


def _lines(given: Any) -> list[str]:
    tree: Any = shown_tree(given)
    meta = {name: value for name, value in map_in(tree, "metadata").items() if name != "resourceVersion"}
    text: str = object_text({**tree, "metadata": meta})["text"]
    return text.splitlines()[:_MOST_LINES]


def _value(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
