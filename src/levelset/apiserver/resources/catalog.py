"""The catalog of everything served: which resources there are, by path and by kind, and in which order they are shown.

It changes while the server runs, as definitions come and go; each change is one step (`change`), gets a new number
(`generation`) and is told to whoever listens.

The order of API versions: stable before beta before alpha, and in each the highest number first.

`v2`, `v1`, `v2beta1`, `v1beta2`, `v1alpha1`, and after them by name whatever does not follow the pattern. The first one
that is served is what clients prefer.
"""

import re
from collections.abc import Callable, Iterable

from levelset.apiserver.resources.served_resource import ServedResource

__all__ = ["Catalog", "CatalogListener", "sort_versions"]

_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_STAGE = {"alpha": 2, "beta": 1}


def sort_versions(names: Iterable[str]) -> list[str]:
    """The names of versions, the preferred one first."""
    return sorted(names, key=_rank)


def _rank(name: str) -> tuple[int, int, int, str]:
    found = _VERSION.fullmatch(name)
    if found is None:
        return (3, 0, 0, name)
    major, stage, minor = found.groups()
    return (_STAGE.get(stage, 0), -int(major), -int(minor or 0), name)


CatalogListener = Callable[[tuple[ServedResource, ...], tuple[ServedResource, ...]], None]
"""Told of a change: what is no longer served, and what is now. A resource that changed is in both."""

# Clients resolve a short name that two groups share to the first group; groups that are not named here come last.
ORDER = (
    *("", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io"),
    *("autoscaling", "batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io"),
    *("storage.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io"),
    *("coordination.k8s.io", "node.k8s.io", "discovery.k8s.io", "flowcontrol.apiserver.k8s.io"),
)
_PLACE = {group: place for place, group in enumerate(ORDER)}


class Catalog:
    """What is served. Lookups are plain dictionary lookups; a change costs as much as it touches."""

    def __init__(self, served: Iterable[ServedResource] = ()) -> None:
        self.generation = 0
        self._groups: dict[str, dict[str, dict[str, ServedResource]]] = {}
        self._paths: dict[tuple[str, str, str], ServedResource] = {}
        self._kinds: dict[tuple[str, str, str], ServedResource] = {}
        self._listeners: list[CatalogListener] = []
        self.change(add=served)

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        """The resource at this path, None if there is none; the core group is the empty text."""
        return self._paths.get((group, version, plural))

    def by_gvk(self, group: str, version: str, kind: str) -> ServedResource | None:
        """The resource of this kind, None if it is not served."""
        return self._kinds.get((group, version, kind))

    def kinds(self, group: str, kind: str, version: str | None = None) -> ServedResource | None:
        """The resource of this kind in the given version, or else in the version that clients prefer."""
        if version is not None:
            return self._kinds.get((group, version, kind))
        found = (self._kinds.get((group, one, kind)) for one in self.versions(group))
        return next((one for one in found if one is not None), None)

    def groups(self) -> list[str]:
        """The groups in the order in which they are shown: the core group, the built-in ones, the others by name."""
        return sorted(self._groups, key=lambda group: (_PLACE.get(group, len(ORDER)), group))

    def versions(self, group: str) -> list[str]:
        """The versions of a group, the preferred one first; none if there is no such group."""
        return sort_versions(self._groups.get(group, ()))

    def resources(self, group: str, version: str) -> list[ServedResource]:
        """The resources of a group and version in the order of their names."""
        found = self._groups.get(group, {}).get(version, {})
        return [found[plural] for plural in sorted(found)]

    def all(self) -> list[ServedResource]:
        """Everything, in the order of groups, versions and names."""
        return [
            one for group in self.groups() for version in self.versions(group) for one in self.resources(group, version)
        ]

    def listen(self, listener: CatalogListener) -> Callable[[], None]:
        """Calls `listener` after every change; gives the function that ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def change(self, *, remove: Iterable[ServedResource] = (), add: Iterable[ServedResource] = ()) -> None:
        """Takes some away and brings others, as one step: nobody sees the catalog in between."""
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
        """Serves these from now on."""
        self.change(add=served)

    def remove(self, *served: ServedResource) -> None:
        """Serves these no longer."""
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
