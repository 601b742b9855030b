"""Who is who: the kind of an object, the resource it is served under, and a reference to one object."""

import re
from collections.abc import Iterator
from typing import Any, Final, Generic, NamedTuple, TypeVar, overload

from levelset.errors import BadName, ConfigError
from levelset.objects.lazy_pattern import Pattern

__all__ = ["GroupVersionKind", "GroupVersionResource", "Ref", "parse_api_version", "ref_at", "ref_to"]

K_co = TypeVar("K_co", covariant=True)

_GROUP: Final = Pattern(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_VERSION: Final = Pattern(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)


class GroupVersionKind(NamedTuple):
    """A kind of object: `apps/v1 Deployment`. The core group is the empty text."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """What stands in an object's `apiVersion`: `apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def of(cls, api_version: str, kind: str) -> "GroupVersionKind":
        """The kind that an object with this `apiVersion` and `kind` has."""
        group, version = parse_api_version(api_version)
        if not isinstance(kind, str) or not kind:
            raise BadName(f"kind {kind!r} is no kind; write one such as Deployment", field="kind")
        return cls(group, version, kind)

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"


class GroupVersionResource(NamedTuple):
    """What a kind is served under: `apps/v1 deployments`, the plural word of its URL."""

    group: str
    version: str
    resource: str

    @property
    def api_version(self) -> str:
        """Group and version as an object's `apiVersion` writes them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version} {self.resource}"


def parse_api_version(text: str) -> tuple[str, str]:
    """Group and version of an `apiVersion`: `apps/v1` gives ("apps", "v1"), `v1` gives ("", "v1")."""
    if not isinstance(text, str):
        raise BadName(f"apiVersion {text!r} is no text; write it as group/version", field="apiVersion")
    group, slash, version = text.rpartition("/")
    if (slash and not _fits(_GROUP, group, 253)) or not _fits(_VERSION, version, 63):
        raise BadName(f"apiVersion {text[:80]!r} is not of the form group/version", field="apiVersion")
    return group, version


def _fits(pattern: Pattern, text: str, most: int) -> bool:
    return len(text) <= most and pattern.fullmatch(text) is not None


class _Fields:
    """What a ref is made of: the same place in memory, but still open for writing."""

    __slots__ = ("_hash", "class_", "gvk", "key", "name", "namespace")


class Ref(_Fields, Generic[K_co]):
    """A reference to one object: its kind, name and namespace (None for cluster-scoped objects).

    It is made from a class (`Ref(Website, "blog", "default")`) or from a `GroupVersionKind`, compares, sorts and
    hashes by kind, namespace and name, and prints as `Website/default/blog`.
    """

    __slots__ = ()

    gvk: GroupVersionKind
    name: str
    namespace: str | None
    class_: "type[K_co] | None"
    key: str
    """Under what a cache keeps the object: `default/blog`, or `blog` for what is cluster-scoped."""

    @overload
    def __init__(self, of: "type[K_co]", name: str, namespace: str | None = None) -> None: ...
    @overload
    def __init__(self: "Ref[Any]", of: GroupVersionKind, name: str, namespace: str | None = None) -> None: ...
    def __init__(self, of: "type[Any] | GroupVersionKind", name: str, namespace: str | None = None) -> None:
        gvk, found = (of, None) if isinstance(of, GroupVersionKind) else (_kind_of(of), of)
        if not name or "/" in name:
            raise BadName(f"{name!r} is no name of a {gvk.kind}; a name is not empty and has no slash", field="name")
        put = object.__setattr__
        put(self, "gvk", gvk)
        put(self, "class_", found)
        put(self, "name", name)
        put(self, "namespace", namespace or None)
        put(self, "key", f"{namespace}/{name}" if namespace else name)
        put(self, "_hash", hash(self.key) ^ hash(gvk.kind))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Ref does not change; make another one instead of setting {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Ref does not change; {name} stays")

    @property
    def kind(self) -> str:
        """The kind's name, without group and version."""
        return self.gvk.kind

    def _order(self) -> tuple[GroupVersionKind, str, str]:
        return self.gvk, self.namespace or "", self.name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ref):
            return NotImplemented
        return self.name == other.name and self.namespace == other.namespace and self.gvk == other.gvk

    def __lt__(self, other: "Ref[Any]") -> bool:
        return self._order() < other._order()

    def __le__(self, other: "Ref[Any]") -> bool:
        return self._order() <= other._order()

    def __gt__(self, other: "Ref[Any]") -> bool:
        return self._order() > other._order()

    def __ge__(self, other: "Ref[Any]") -> bool:
        return self._order() >= other._order()

    def __hash__(self) -> int:
        # Of two texts that know their own: a child often has its owner's name, but not its kind.
        return self._hash  # type: ignore[attr-defined,no-any-return]  # a slot, hidden from the annotations

    def __iter__(self) -> Iterator[str]:
        raise TypeError("a Ref is one thing, not several; use its name, namespace and gvk")

    def __reduce__(self) -> tuple[Any, ...]:
        return Ref, (self.class_ or self.gvk, self.name, self.namespace)

    def __str__(self) -> str:
        return "/".join(part for part in (self.gvk.kind, self.namespace, self.name) if part)

    def __repr__(self) -> str:
        return f"Ref({self})"


def ref_to(
    gvk: GroupVersionKind, class_: type[Any] | None, name: str, namespace: str | None, key: str | None = None
) -> Ref[Any]:
    """The same as `Ref(class_ or gvk, name, namespace)`, for whoever knows both and makes refs by the thousand.

    The class, if there is one, has to be one of that kind, and the key, if it is given, the one that the ref will have.
    """
    if not name or "/" in name:
        return Ref(gvk, name, namespace)  # which says what is wrong with it
    namespace = namespace or None
    # To write first and close it then takes a quarter of the time of five writes past the lock.
    made: Any = _Fields()
    made.gvk = gvk
    made.class_ = class_
    made.name = name
    made.namespace = namespace
    made.key = key = key or (f"{namespace}/{name}" if namespace else name)
    made._hash = hash(key) ^ hash(gvk.kind)
    made.__class__ = Ref
    ref: Ref[Any] = made
    return ref


def ref_at(gvk: GroupVersionKind, class_: type[Any] | None, key: str) -> Ref[Any]:
    """The ref of this kind that has this key: a name has no slash, so a key stands for one namespace and name only."""
    namespace, _, name = key.rpartition("/")
    return ref_to(gvk, class_, name, namespace, key)


def _kind_of(of: Any) -> GroupVersionKind:
    definition = getattr(of, "__definition__", None)
    if definition is None:
        shown = getattr(of, "__name__", repr(of))
        raise ConfigError(f"{shown} is no kind: give its class api=, or pass a GroupVersionKind")
    gvk: GroupVersionKind = definition.gvk
    return gvk
