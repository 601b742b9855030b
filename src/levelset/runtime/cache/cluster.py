"""`Cluster`: a client, the informers that were declared, and reads that use both.

```python
async with Cluster(client) as cluster:
    websites = cluster.declare(Website, indexes=[uses])
    site = await cluster.get(Website, "blog")
    await cluster.client.update(site.with_spec(replicas=2))
    site = await cluster.get(Website, "blog")  # has two replicas: a cached read waits for this client's writes
```

`cluster_sources` and `peek_cached` are internal: other packages of the runtime use them to read the cache without
waiting. They are not exported by the package.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self, TypedDict, TypeVar, Unpack, cast, get_args, overload

from levelset.aio import timing
from levelset.client.client import Client, kind_and_name
from levelset.client.internals import observe_writes
from levelset.client.lists import Transform
from levelset.client.object_types import Kind, OnlyMetadata, View, view_of
from levelset.client.request_body import Write
from levelset.client.requests import Fields, Labels
from levelset.errors import ConfigError, NotFound, NotReady
from levelset.objects.cached_object import CachedObject
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.resource import PartialObjectMetadata
from levelset.objects.unstructured import Unstructured
from levelset.runtime.cache.index import Index
from levelset.runtime.cache.informer import BatchTap, Handle, Informer, Stats
from levelset.runtime.cache.keys import key_for
from levelset.runtime.cache.list_query import Lookup, make_query
from levelset.runtime.cache.object_store import DECODED_BYTES, Snapshot
from levelset.runtime.cache.reader import CacheSource, Read, Reader
from levelset.runtime.cache.scope import Scope, choose_source, not_cached
from levelset.runtime.cache.shared_informers import Informers
from levelset.runtime.watch.watcher import IDLE_TIMEOUT

__all__ = ["Cluster", "GetOptions", "ListOptions", "Undeclared", "cluster_sources", "peek_cached"]

K = TypeVar("K")

Undeclared = Literal["live", "refuse", "watch"]
"""How an undeclared kind is read: from the API server, not at all (NotCached), or by declaring it."""

_WITHIN: Final = 5.0
_READS_PER_YIELD: Final = 64
_MAX_ONLY_SOURCES: Final = 10_000
_UNDECLARED: Final = get_args(Undeclared)
_READS: Final = get_args(Read)


class GetOptions(TypedDict, total=False):
    """How to read one object: from where, and how many seconds to wait for the cache."""

    read: Read
    within: float | None


class ListOptions(GetOptions, total=False):
    """Which objects to read; `index` is one pair of an index and a value, or several of them."""

    namespace: str | None
    labels: Labels | None
    fields: Fields | None
    index: Lookup | Sequence[Lookup]
    limit: int | None


class Cluster:
    """One API server: its client, and a cache of the declared kinds.

    Reads come from the cache and are never older than this client's own writes; see `levelset.runtime.cache.reader`
    for the other read modes. Writes go to the API server, through `client`.

    - `undeclared`: what a read of an undeclared kind does: "refuse" raises NotCached (the default), "live" reads from
      the API server, "watch" declares the kind.
    - `live`: kinds that are always read from the API server.
    - `within`: how many seconds a read waits for the cache before it reads from the API server (default 5).
    - `idle_timeout`: after so many seconds without an event or a bookmark (servers send one every minute) a watch
      counts as dead and is opened again from its last version (default 75).
    - `decoded_bytes`: how much memory the typed objects that readers share may take, besides the JSON of all cached
      objects (default 64 MiB). What is not retained is decoded again at each read; 0 retains nothing.
    """

    def __init__(
        self,
        client: Client,
        *,
        undeclared: Undeclared = "refuse",
        live: Iterable[Kind[Any]] = (),
        within: float = _WITHIN,
        idle_timeout: float = IDLE_TIMEOUT,
        decoded_bytes: int = DECODED_BYTES,
    ) -> None:
        _check_choice("undeclared", undeclared, _UNDECLARED)
        self.client = client
        self._undeclared: Undeclared = undeclared
        self._live = frozenset(view_of(kind).gvk for kind in live)
        self._informers = Informers(client, idle_timeout=idle_timeout, decoded_bytes=decoded_bytes)
        self._sources: dict[Informer, CacheSource] = {}
        self.declarations = 0
        """How many watches were declared so far: while it is unchanged, `cluster_sources` has no new entry."""
        self._own: list[Handle[Any]] = []
        # The sources that cache a written kind, with the value of `declarations` at which that was computed.
        self._write_sources: dict[GroupVersionKind, tuple[int, Sequence[CacheSource]]] = {}
        # The only source of a kind, with the value of `declarations` at which it was the only one.
        self._only: dict[tuple[GroupVersionKind, str | None, bool], tuple[int, CacheSource]] = {}
        self._within = within
        self._reader = Reader(client, self._find, self._find_one, within=within)
        self._reads = 0
        self._state: Literal["new", "closed", "open"] = "new"
        self._detach: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Self:
        if self._state != "new":
            raise NotReady(f"this cluster is {self._state} already; create another one")
        self._state = "open"
        self._detach = observe_writes(self.client, self._record_write)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stops all informers; the client stays open, because the caller owns it."""
        self._state = "closed"
        self._detach()
        for source in self._sources.values():
            source.close()
        self._sources.clear()
        self._write_sources.clear()
        self._only.clear()
        await self._informers.aclose()

    def declare(
        self,
        kind: Kind[K],
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        transform: Transform | None = None,
        managed_fields: bool = False,
        indexes: Iterable[Index[Any]] = (),
        page_size: int = 500,
    ) -> Handle[K]:
        """Caches these objects until the handle is closed (by `async with`, or with the cluster).

        Equal declarations share one watch; closing the last handle ends it. Managed fields are dropped unless
        `managed_fields` is set, and `transform` may remove more fields before an object is cached.
        """
        self._check_open()
        handle = self._informers.open(
            kind,
            namespace=namespace,
            labels=labels,
            fields=fields,
            transform=transform,
            managed_fields=managed_fields,
            indexes=indexes,
            page_size=page_size,
        )
        if handle.informer not in self._sources:
            self._sources[handle.informer] = CacheSource(handle.informer, stuck_after=self._within)
            self.declarations += 1
        return handle

    @property
    def declared(self) -> tuple[Scope, ...]:
        """The scopes that the cache holds, one for each watch."""
        return tuple(source.scope for source in cluster_sources(self))

    async def wait_ready(self, within: float | None = None) -> None:
        """Returns once every declared scope has synced; NotReady names those that have not, with the first cause."""
        self._check_open()
        until = timing.deadline(within)
        waits = [source.wait_ready(timing.remaining(until)) for source in cluster_sources(self)]
        outcomes = await asyncio.gather(*waits, return_exceptions=True)
        failed = [one for one in outcomes if isinstance(one, NotReady)]
        for one in outcomes:
            if one is not None and not isinstance(one, NotReady):
                raise one
        if failed:
            raise NotReady("; ".join(map(str, failed)), cause=failed[0].cause) from failed[0]

    @overload
    async def get(self, what: Ref[K], /, **options: Unpack[GetOptions]) -> K: ...
    @overload
    async def get(
        self, what: type[K], name: str, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> K: ...
    @overload
    async def get(
        self, what: GroupVersionKind, name: str, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> Unstructured: ...
    @overload
    async def get(
        self, what: OnlyMetadata, name: str, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> PartialObjectMetadata: ...
    async def get(
        self, what: Any, name: str | None = None, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> Any:
        """The object; NotFound if there is none.

        It is frozen and shared with all other readers. Raises NotCached if its kind (or namespace) is not declared, and
        NotReady, with the cause, if the cache has not synced in time.
        """
        found = await self._read(what, name, namespace, **options)
        if found is None:
            raise await self._not_found(*kind_and_name(what, name, namespace))
        return found

    @overload
    async def find(self, what: Ref[K], /, **options: Unpack[GetOptions]) -> K | None: ...
    @overload
    async def find(
        self, what: type[K], name: str, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> K | None: ...
    @overload
    async def find(
        self, what: GroupVersionKind, name: str, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> Unstructured | None: ...
    @overload
    async def find(
        self, what: OnlyMetadata, name: str, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> PartialObjectMetadata | None: ...
    async def find(
        self, what: Any, name: str | None = None, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> Any:
        """The object, or None if there is none; otherwise as `get`."""
        return await self._read(what, name, namespace, **options)

    @overload
    async def list(self, kind: type[K], /, **options: Unpack[ListOptions]) -> Snapshot[K]: ...
    @overload
    async def list(self, kind: GroupVersionKind, /, **options: Unpack[ListOptions]) -> Snapshot[Unstructured]: ...
    @overload
    async def list(self, kind: OnlyMetadata, /, **options: Unpack[ListOptions]) -> Snapshot[PartialObjectMetadata]: ...
    async def list(self, kind: Any, /, **options: Unpack[ListOptions]) -> Snapshot[Any]:
        """The selected objects, sorted by namespace and name; of all namespaces unless `namespace` is given.

        They are frozen and shared, and decoded when they are accessed. Raises as `get` does; ConfigError if an index
        was not declared, and BadSelector for fields that only the API server can evaluate.
        """
        return await self._list(kind, **options)

    @overload
    async def first(self, kind: type[K], /, **options: Unpack[ListOptions]) -> K | None: ...
    @overload
    async def first(self, kind: GroupVersionKind, /, **options: Unpack[ListOptions]) -> Unstructured | None: ...
    @overload
    async def first(self, kind: OnlyMetadata, /, **options: Unpack[ListOptions]) -> PartialObjectMetadata | None: ...
    async def first(self, kind: Any, /, **options: Unpack[ListOptions]) -> Any:
        """The first object of such a list, or None if it is empty."""
        options["limit"] = 1
        found = await self._list(kind, **options)
        return found[0] if found else None

    def attach(self, tap: BatchTap | None) -> None:
        """Has this tap see what all informers apply, those that are declared later too; None detaches it."""
        self._informers.attach(tap)

    def stats(self) -> Sequence[Stats]:
        """The statistics of each informer."""
        return self._informers.stats()

    def decoded_objects(self) -> Iterator[tuple[CachedObject, Any]]:
        """The decoded objects that readers share, each with the cached object behind it; for the mutation guard."""
        for source in cluster_sources(self):
            yield from source.decoded_objects()

    async def _read(
        self,
        what: Any,
        name: str | None,
        namespace: str | None,
        *,
        read: Read = "cached",
        within: float | None = None,
    ) -> Any:
        if self._begin(read):
            await asyncio.sleep(0)
        view, called, place = kind_and_name(what, name, namespace)
        kind: Any = _kind(what)
        if view.definition is None:
            place = await self._place(kind, place)
        else:
            place = (place or self.client.namespace) if view.definition.namespaced else None
        return await self._reader.read_one(kind, view, called, place, read=read, within=within)

    async def _list(
        self, kind: Any, *, read: Read = "cached", within: float | None = None, **options: Any
    ) -> Snapshot[Any]:
        if self._begin(read):
            await asyncio.sleep(0)
        view: View[Any] = view_of(kind)
        options["namespace"] = options.get("namespace") or self.client.only_namespace
        if view.definition is not None and not view.definition.namespaced:
            options["namespace"] = None
        return await self._reader.read_many(kind, make_query(view, **options), read=read, within=within)

    def _begin(self, read: Read) -> bool:
        """Checks the read mode and counts the read; returns whether the caller must yield to other tasks first.

        A read from memory never suspends: a caller that polls in a loop until something changes would starve the watch
        that delivers the change.
        """
        _check_choice("read", read, _READS)
        self._reads += 1
        return self._reads % _READS_PER_YIELD == 0

    def _find_one(self, kind: Kind[Any], view: View[Any], namespace: str | None) -> CacheSource | None:
        """The source for reads of single objects of a kind in a namespace; None to read from the API server."""
        key = (view.gvk, namespace, view.is_metadata)
        declarations, only = self._only.get(key, (0, None))
        if only is not None and declarations == self.declarations and not only.is_closed and self._state == "open":
            return only
        found = self._find(kind, Scope(view.gvk, namespace, is_metadata=view.is_metadata), by_name=True)
        # The only source of a kind stays the choice until another one is declared or this one is closed.
        if found is not None and len(self._sources_of(view.gvk)) == 1:
            if len(self._only) >= _MAX_ONLY_SOURCES:
                self._only.clear()
            self._only[key] = self.declarations, found
        return found

    def _sources_of(self, gvk: GroupVersionKind) -> Sequence[CacheSource]:
        return [source for source in self._sources.values() if source.scope.gvk == gvk]

    def _find(self, kind: Kind[Any], wanted: Scope, *, by_name: bool) -> CacheSource | None:
        if wanted.gvk in self._live:
            return None
        self._check_open()
        found = choose_source(wanted, cluster_sources(self), by_name=by_name)
        if found is not None or self._undeclared == "live":
            return found
        if self._undeclared == "refuse":
            raise not_cached(wanted, self.declared)
        self._own.append(self.declare(kind))
        return self._find(kind, wanted, by_name=by_name)

    def _record_write(self, write: Write) -> None:
        declarations, sources = self._write_sources.get(write.gvk, (0, ()))
        if declarations != self.declarations:
            # A source that was closed since is harmless here, and a new one changes `declarations`.
            sources = tuple(source for source in self._sources.values() if source.concerns(write.gvk))
            self._write_sources[write.gvk] = self.declarations, sources
        for source in sources:
            source.record(write)

    def _check_open(self) -> None:
        if self._state != "open":
            how = "is not open yet: use it in `async with`" if self._state == "new" else "is closed"
            raise NotReady(f"this cluster {how}")

    async def _place(self, kind: Kind[Any], namespace: str | None) -> str | None:
        """The namespace to read an object from; None if its kind is cluster-scoped."""
        definition = view_of(kind).definition
        served = await self.client.resource(kind) if definition is None else definition
        return (namespace or self.client.namespace) if served.namespaced else None

    async def _not_found(self, view: View[Any], name: str, namespace: str | None) -> NotFound:
        gvk, place = view.gvk, await self._place(view.class_ if view.definition else view.gvk, namespace)
        error = NotFound("there is no such object", details={"name": name, "group": gvk.group, "kind": gvk.kind})
        error.request = f"get {'/'.join(part for part in (gvk.kind, place, name) if part)}"
        return error


def cluster_sources(cluster: Cluster) -> Sequence[CacheSource]:
    """The open informers of a cluster as read sources; also drops those that were closed. Internal."""
    sources = cluster._sources  # pyright: ignore[reportPrivateUsage]
    closed = [informer for informer, source in sources.items() if source.is_closed]
    for informer in closed:
        sources.pop(informer).close()
    return tuple(sources.values())


def peek_cached(cluster: Cluster, source: CacheSource, name: str, namespace: str | None) -> CachedObject | None:
    """What `Cluster.find` would read from a source; None if that would wait or read from the API server. Internal."""
    key = key_for(name, namespace)
    reads = cluster._reads + 1  # pyright: ignore[reportPrivateUsage]
    must_yield = reads % _READS_PER_YIELD == 0
    is_live = source.scope.gvk in cluster._live  # pyright: ignore[reportPrivateUsage]
    if must_yield or source.is_closed or is_live or not source.is_settled_for(key):
        return None
    cluster._reads = reads  # pyright: ignore[reportPrivateUsage]
    return source.cached(key)


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    # Checked at run time too: a typo must neither read from the API server nor open a watch of a whole kind.
    if value not in choices:
        raise ConfigError(f"{name}={value!r} is not a valid choice; choose one of: {', '.join(choices)}")


def _kind(what: Any) -> Any:
    return (cast("Any", what).class_ or what.gvk) if isinstance(what, Ref) else what
