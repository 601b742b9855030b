"""The catalog of served resources, by path and by kind, in the order of discovery.

It changes while the server runs, as CRDs are created and deleted. Each change is atomic (`change`), increments
`generation` and notifies the listeners.
"""

import functools
from collections.abc import Callable, Iterable

from levelset.apiserver.resources.served_resource import ServedResource
from levelset.objects.lazy_pattern import Pattern

__all__ = ["Catalog", "CatalogListener", "sort_versions"]


_VERSION = Pattern(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_STABILITY = {"alpha": 2, "beta": 1}
# Clients resolve an ambiguous short name to the first group in discovery; groups that are not listed come last.
GROUP_ORDER = (
    *("", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io"),
    *("autoscaling", "batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io"),
    *("storage.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io"),
    *("coordination.k8s.io", "node.k8s.io", "discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io"),
)
_GROUP_RANK = {group: rank for rank, group in enumerate(GROUP_ORDER)}
CatalogListener = Callable[[tuple[ServedResource, ...], tuple[ServedResource, ...]], None]
"""Called with the removed and the added resources of a change; a resource that changed is in both."""


class Catalog:
    """The served resources. Lookups are dictionary lookups; a change costs as much as it touches."""

    def __init__(self, served: Iterable[ServedResource] = ()) -> None:
        self.generation = 0
        self._groups: dict[str, dict[str, dict[str, ServedResource]]] = {}
        self._paths: dict[tuple[str, str, str], ServedResource] = {}
        self._kinds: dict[tuple[str, str, str], ServedResource] = {}
        self._listeners: list[CatalogListener] = []
        self.change(add=served)

    def copy(self, *, replaced: Iterable[ServedResource] = ()) -> "Catalog":
        """Returns a catalog with the same resources and no listeners; `replaced` take the place of those they name."""
        made = Catalog()
        made._groups = {
            group: {version: found.copy() for version, found in versions.items()}
            for group, versions in self._groups.items()
        }
        made._paths, made._kinds = self._paths.copy(), self._kinds.copy()
        made.change(add=replaced)
        made.generation = self.generation
        return made

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        """Returns the resource at this path, or None; the core group is the empty string."""
        return self._paths.get((group, version, plural))

    def by_gvk(self, group: str, version: str, kind: str) -> ServedResource | None:
        """Returns the resource of this kind, or None if it is not served."""
        return self._kinds.get((group, version, kind))

    def kinds(self, group: str, kind: str, version: str | None = None) -> ServedResource | None:
        """Returns the resource of this kind in the given version, by default the preferred one; None if not served."""
        if version is not None:
            return self._kinds.get((group, version, kind))
        found = (self._kinds.get((group, one, kind)) for one in self.versions(group))
        return next((one for one in found if one is not None), None)

    def groups(self) -> list[str]:
        """Returns the groups in the order of discovery: the core group, the built-in ones, the others by name."""
        return sorted(self._groups, key=lambda group: (_GROUP_RANK.get(group, len(GROUP_ORDER)), group))

    def versions(self, group: str) -> list[str]:
        """Returns the versions of a group, the preferred one first; empty for an unknown group."""
        return sort_versions(self._groups.get(group, ()))

    def is_builtin(self, group: str) -> bool:
        """Whether the group has built-in kinds: upstream answers for their unknown paths, and not for other groups."""
        return any(not one.custom for found in self._groups.get(group, {}).values() for one in found.values())

    def resources(self, group: str, version: str) -> list[ServedResource]:
        """Returns the resources of a group and version, sorted by name."""
        found = self._groups.get(group, {}).get(version, {})
        return [found[plural] for plural in sorted(found)]

    def all(self) -> list[ServedResource]:
        """Returns all resources, in the order of groups, versions and names."""
        return [
            one for group in self.groups() for version in self.versions(group) for one in self.resources(group, version)
        ]

    def listen(self, listener: CatalogListener) -> Callable[[], None]:
        """Calls `listener` after every change; returns the function that unsubscribes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def change(self, *, remove: Iterable[ServedResource] = (), add: Iterable[ServedResource] = ()) -> None:
        """Removes and adds resources in one step: no reader sees the catalog in between."""
        removed, added = tuple(remove), tuple(add)
        if not removed and not added:
            return
        for one in removed:
            self._discard(one)
        for one in added:
            self._groups.setdefault(one.group, {}).setdefault(one.version, {})[one.plural] = one
            self._paths[one.group, one.version, one.plural] = one
            self._kinds[one.gvk] = one
        self.generation += 1
        for listener in tuple(self._listeners):
            listener(removed, added)

    def add(self, *served: ServedResource) -> None:
        """Adds resources."""
        self.change(add=served)

    def remove(self, *served: ServedResource) -> None:
        """Removes resources."""
        self.change(remove=served)

    def _discard(self, served: ServedResource) -> None:
        if self._paths.get((served.group, served.version, served.plural)) is served:
            del self._paths[served.group, served.version, served.plural]
            versions = self._groups[served.group]
            del versions[served.version][served.plural]
            if not versions[served.version]:
                del versions[served.version]
            if not versions:
                del self._groups[served.group]
        if self._kinds.get(served.gvk) is served:
            del self._kinds[served.gvk]


def sort_versions(names: Iterable[str]) -> list[str]:
    """Sorts API versions, the preferred one first: stable before beta before alpha, higher numbers first.

    `v2`, `v1`, `v2beta1`, `v1beta2`, `v1alpha1`; names of another pattern come last, by name.
    """
    return sorted(names, key=_rank)


@functools.lru_cache(maxsize=256)
def _rank(name: str) -> tuple[int, int, int, str]:
    found = _VERSION.fullmatch(name)
    if found is None:
        return (3, 0, 0, name)
    major, stability, minor = found.groups()
    return (_STABILITY.get(stability, 0), -int(major), -int(minor or 0), name)
