"""Looks into the caches without waiting: what is there is given, whoever holds it."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from levelset.client.object_types import View, view_of
from levelset.objects.cached_object import Kept
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.runtime.cache import Cluster, Store
from levelset.runtime.cache.keys import key_for
from levelset.runtime.cache.reader import CacheSource
from levelset.runtime.cache.scope import Scope, choose, refuse

__all__ = ["Peeking"]

K = TypeVar("K")

_MOST_MISSING: Final = 10_000


class Peeking:
    """Finds objects in the stores it was given, and in whatever a cluster has declared."""

    __slots__ = ("_cluster", "_found", "_missing", "_stores")

    def __init__(self, cluster: Cluster, stores: Mapping[GroupVersionKind, Store[Any]] | None = None) -> None:
        self._cluster = cluster
        self._stores = dict(stores or {})
        self._found: dict[tuple[GroupVersionKind, str | None, bool], CacheSource] = {}
        # What nobody holds, and how many watches there were when that was found.
        self._missing: dict[tuple[GroupVersionKind, str | None, bool], int] = {}

    def get(self, ref: Ref[K]) -> K | None:
        """The object as the cache shows it now, or None; NotCached if nobody declared its kind."""
        store = self._stores.get(ref.gvk)
        if store is not None:
            found: K | None = store.get(ref)
            return found
        view: View[K] = view_of(ref.class_ or ref.gvk)
        place = self._place(view, ref.namespace)
        source = self.source(view.gvk, place)
        if source is None:
            raise refuse(Scope(view.gvk, place), self._cluster.declared)
        key = key_for(ref.name, place)
        kept = source.kept(key)
        return None if kept is None else source.memo(view).read(key, kept)

    def kept(self, ref: Ref[Any]) -> Kept | None:
        """What is kept of an object as a whole; None if nobody keeps it."""
        view: View[Any] = view_of(ref.class_ or ref.gvk)
        place = self._place(view, ref.namespace)
        source = self.source(view.gvk, place)
        return None if source is None or source.scope.is_changed else source.kept(key_for(ref.name, place))

    def source(self, gvk: GroupVersionKind, namespace: str | None, *, is_metadata: bool = False) -> CacheSource | None:
        """What holds the objects of a kind in a namespace, whole or at least their metadata; None if nothing does."""
        key = (gvk, namespace, is_metadata)
        found = self._found.get(key)
        if found is None or found.is_closed:
            if self._missing.get(key) == self._cluster.declarations:
                return None
            scope = Scope(gvk, namespace, is_metadata=is_metadata)
            found = choose(scope, self._cluster.sources, by_name=True)
            if found is None:
                self._found.pop(key, None)
                if len(self._missing) >= _MOST_MISSING:
                    self._missing.clear()
                self._missing[key] = self._cluster.declarations
                return None
            self._found[key] = found
        return found

    def _place(self, view: View[Any], namespace: str | None) -> str | None:
        if view.definition is not None and not view.definition.namespaced:
            return None
        # A kind without a class does not say whether it is namespaced: it is where it says that it is.
        return (namespace or self._cluster.client.namespace) if view.definition is not None else namespace
