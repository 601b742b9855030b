"""`Scheme`: the registry of classes by kind and by resource."""

from collections.abc import Iterator
from typing import Any

from levelset.errors import KindClash
from levelset.objects.kind_definition import Definition, definition_of
from levelset.objects.ref import GroupVersionKind, GroupVersionResource
from levelset.objects.resource import Object

__all__ = ["Scheme"]


class Scheme:
    """The kinds that a program has classes for.

    `Scheme(Website, Deployment)` or `scheme.add(Website)`. Adding a class twice is fine; two classes for one kind, or
    two kinds under one plural of the same group and version, is a KindClash that names both.
    """

    def __init__(self, *kinds: type[Object]) -> None:
        self._by_kind: dict[GroupVersionKind, type[Object]] = {}
        self._by_resource: dict[GroupVersionResource, type[Object]] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: type[Object]) -> None:
        """Adds a class; if it clashes with another one, KindClash is raised and nothing changes."""
        definition = definition_of(kind)
        _check_clash(kind, self._by_kind.get(definition.gvk), str(definition.gvk))
        _check_clash(kind, self._by_resource.get(definition.gvr), str(definition.gvr))
        self._by_kind[definition.gvk] = kind
        self._by_resource[definition.gvr] = kind

    def find(self, wanted: GroupVersionKind | GroupVersionResource) -> type[Object] | None:
        """The class for a kind or for a resource, or None."""
        if isinstance(wanted, GroupVersionKind):
            return self._by_kind.get(wanted)
        return self._by_resource.get(wanted)

    def definition(self, wanted: GroupVersionKind | GroupVersionResource) -> Definition | None:
        """The definition of a kind or of a resource; None if it is not registered."""
        found = self.find(wanted)
        return None if found is None else definition_of(found)

    def __contains__(self, kind: Any) -> bool:
        if isinstance(kind, GroupVersionKind | GroupVersionResource):
            return self.find(kind) is not None
        return kind in self._by_kind.values()

    def __iter__(self) -> Iterator[type[Object]]:
        return iter(self._by_kind.values())

    def __len__(self) -> int:
        return len(self._by_kind)

    def __or__(self, other: "Scheme") -> "Scheme":
        return Scheme(*self, *other)

    def __repr__(self) -> str:
        return f"Scheme({', '.join(kind.__name__ for kind in self)})"


def _check_clash(kind: type[Object], present: type[Object] | None, claim: str) -> None:
    if present is not None and present is not kind:
        mine, theirs = (f"{one.__module__}.{one.__qualname__}" for one in (kind, present))
        raise KindClash(f"{mine} and {theirs} both claim {claim}; rename one, or keep them in two schemes")
