"""Identities: GroupVersionKind, GroupVersionResource, and `Ref`, a reference to one object."""

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
    """A kind of object: `apps/v1 Deployment`. The core group is the empty string."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects: `apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def of(cls, api_version: str, kind: str) -> "GroupVersionKind":
        """The kind from the `apiVersion` and `kind` of an object."""
        group, version = parse_api_version(api_version)
        if not isinstance(kind, str) or not kind:
            raise BadName(f"kind {kind!r} is not a kind; write one such as Deployment", field="kind")
        return cls(group, version, kind)

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"


class GroupVersionResource(NamedTuple):
    """The resource under which a kind is served: `apps/v1 deployments`, with the plural of its URL."""

    group: str
    version: str
    resource: str

    @property
    def api_version(self) -> str:
        """Group and version in the form of an `apiVersion`."""
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


def _fits(pattern: Pattern[str], text: str, max_length: int) -> bool:
    return len(text) <= max_length and pattern.fullmatch(text) is not None


class _Fields:
    """The mutable base of a ref with the same memory layout, so that `ref_to` can fill it before it is frozen."""

    __slots__ = ("_hash", "class_", "gvk", "key", "name", "namespace")


class Ref(_Fields, Generic[K_co]):
    """A reference to one object: its kind, name and namespace (None for cluster-scoped objects).

    It is created from a class (`Ref(Website, "blog", "default")`) or a `GroupVersionKind`, compares, sorts and hashes
    by kind, namespace and name, and prints as `Website/default/blog`.
    """

    __slots__ = ()

    gvk: GroupVersionKind
    name: str
    namespace: str | None
    class_: "type[K_co] | None"
    key: str
    """The cache key of the object: `default/blog`, or `blog` for a cluster-scoped object."""

    @overload
    def __init__(self, of: "type[K_co]", name: str, namespace: str | None = None) -> None: ...
    @overload
    def __init__(self: "Ref[Any]", of: GroupVersionKind, name: str, namespace: str | None = None) -> None: ...
    def __init__(self, of: "type[Any] | GroupVersionKind", name: str, namespace: str | None = None) -> None:
        gvk, found = (of, None) if isinstance(of, GroupVersionKind) else (_kind_of(of), of)
        if not name or "/" in name:
            raise BadName(
                f"{name!r} is not the name of a {gvk.kind}: it must not be empty or contain '/'", field="name"
            )
        put = object.__setattr__
        put(self, "gvk", gvk)
        put(self, "class_", found)
        put(self, "name", name)
        put(self, "namespace", namespace or None)
        put(self, "key", f"{namespace}/{name}" if namespace else name)
        put(self, "_hash", hash(self.key) ^ hash(gvk.kind))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Ref is immutable; create another one instead of setting {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Ref is immutable; {name} cannot be deleted")

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
        # From two strings that cache their own hashes: a child often has the name of its owner, but not its kind.
        return self._hash  # type: ignore[attr-defined,no-any-return]  # a slot, hidden from the annotations

    def __iter__(self) -> Iterator[str]:
        raise TypeError("a Ref is not iterable; use its name, namespace and gvk")

    def __reduce__(self) -> tuple[Any, ...]:
        return Ref, (self.class_ or self.gvk, self.name, self.namespace)

    def __str__(self) -> str:
        return "/".join(part for part in (self.gvk.kind, self.namespace, self.name) if part)

    def __repr__(self) -> str:
        return f"Ref({self})"


def ref_to(
    gvk: GroupVersionKind, class_: type[Any] | None, name: str, namespace: str | None, key: str | None = None
) -> Ref[Any]:
    """`Ref(class_ or gvk, name, namespace)` without its checks, for hot paths.

    The caller guarantees that the class, if given, is of that kind, and that the key, if given, is that of the ref.
    """
    if not name or "/" in name:
        return Ref(gvk, name, namespace)  # raises BadName
    namespace = namespace or None
    # Filling the mutable base and then changing its class takes a quarter of the time of object.__setattr__ calls.
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
    """The ref of this kind with this cache key; a name has no slash, so a key determines the namespace and name."""
    namespace, _, name = key.rpartition("/")
    return ref_to(gvk, class_, name, namespace, key)


def _kind_of(of: Any) -> GroupVersionKind:
    definition = getattr(of, "__definition__", None)
    if definition is None:
        shown = getattr(of, "__name__", repr(of))
        raise ConfigError(f"{shown} does not declare a kind: give its class api=, or pass a GroupVersionKind")
    gvk: GroupVersionKind = definition.gvk
    return gvk
