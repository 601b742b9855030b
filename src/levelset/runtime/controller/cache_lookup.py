"""Synchronous reads from the caches of a cluster: what is cached right now, without waiting."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from levelset.client.object_types import View, view_of
from levelset.objects.cached_object import CachedObject
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.runtime.cache import Cluster, Store
from levelset.runtime.cache.cluster import cluster_sources
from levelset.runtime.cache.keys import key_for
from levelset.runtime.cache.reader import CacheSource
from levelset.runtime.cache.scope import Scope, choose_source, not_cached

__all__ = ["CacheLookup"]

K = TypeVar("K")

_MAX_MISSING: Final = 10_000


class CacheLookup:
    """Finds objects in the given stores, and in the caches that a cluster has declared."""

    __slots__ = ("_cluster", "_found", "_missing", "_stores")

    def __init__(self, cluster: Cluster, stores: Mapping[GroupVersionKind, Store[Any]] | None = None) -> None:
        self._cluster = cluster
        self._stores = dict(stores or {})
        self._found: dict[tuple[GroupVersionKind, str | None, bool], CacheSource] = {}
        # Kinds that no cache holds, with the number of declarations at that time: a new declaration invalidates them.
        self._missing: dict[tuple[GroupVersionKind, str | None, bool], int] = {}

    def get(self, ref: Ref[K]) -> K | None:
        """The object in the cache right now, or None; NotCached if its kind is not declared."""
        store = self._stores.get(ref.gvk)
        if store is not None:
            found: K | None = store.get(ref)
            return found
        view: View[K] = view_of(ref.class_ or ref.gvk)
        place = self._effective_namespace(view, ref.namespace)
        source = self.source(view.gvk, place)
        if source is None:
            raise not_cached(Scope(view.gvk, place), self._cluster.declared)
        cached = source.cached(key_for(ref.name, place))
        return None if cached is None else source.decoded(view).share(cached)

    def cached(self, ref: Ref[Any]) -> CachedObject | None:
        """The cache entry of a whole object; None if its kind is not cached as a whole."""
        view: View[Any] = view_of(ref.class_ or ref.gvk)
        place = self._effective_namespace(view, ref.namespace)
        source = self.source(view.gvk, place)
        return None if source is None or source.scope.is_changed else source.cached(key_for(ref.name, place))

    def source(self, gvk: GroupVersionKind, namespace: str | None, *, is_metadata: bool = False) -> CacheSource | None:
        """The cache of a kind in a namespace, of whole objects or of their metadata; None if there is none."""
        key = (gvk, namespace, is_metadata)
        found = self._found.get(key)
        if found is None or found.is_closed:
            if self._missing.get(key) == self._cluster.declarations:
                return None
            scope = Scope(gvk, namespace, is_metadata=is_metadata)
            found = choose_source(scope, cluster_sources(self._cluster), by_name=True)
            if found is None:
                self._found.pop(key, None)
                if len(self._missing) >= _MAX_MISSING:
                    self._missing.clear()
                self._missing[key] = self._cluster.declarations
                return None
            self._found[key] = found
        return found

    def _effective_namespace(self, view: View[Any], namespace: str | None) -> str | None:
        if view.definition is not None and not view.definition.namespaced:
            return None
        # Without a class it is not known whether the kind is namespaced: the ref is taken as it is.
        return (namespace or self._cluster.client.namespace) if view.definition is not None else namespace
