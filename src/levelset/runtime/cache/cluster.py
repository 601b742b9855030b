"""A cluster: a client, the informers that were declared, and reads that use both.

```python
async with Cluster(client) as cluster:
    websites = cluster.declare(Website, indexes=[uses])
    site = await cluster.get(Website, "blog")
    await cluster.client.update(site.with_spec(replicas=2))
    site = await cluster.get(Website, "blog")  # has two replicas: own writes are waited for
```
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self, TypedDict, TypeVar, Unpack, cast, get_args, overload

from levelset.aio import timing
from levelset.client.client import Client, kind_and_name
from levelset.client.lists import Transform
from levelset.client.object_types import Kind, OnlyMetadata, View, view_of
from levelset.client.request_body import Write
from levelset.client.requests import Fields, Labels
from levelset.errors import ConfigError, NotFound, NotReady
from levelset.objects.cached_object import Kept
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.resource import PartialObjectMetadata
from levelset.objects.unstructured import Unstructured
from levelset.runtime.cache.index import Index
from levelset.runtime.cache.informer import Handle, Informer, Stats
from levelset.runtime.cache.keys import key_for
from levelset.runtime.cache.list_query import Lookup, make_query
from levelset.runtime.cache.reader import CacheSource, Read, Reader
from levelset.runtime.cache.scope import Scope, choose, refuse
from levelset.runtime.cache.shared_informers import Informers
from levelset.runtime.cache.store import Snapshot

__all__ = ["Cluster", "GetOptions", "ListOptions", "Undeclared"]

K = TypeVar("K")

Undeclared = Literal["live", "refuse", "watch"]
"""What a read of a kind that nobody declared does: asks the server, raises NotCached, or declares it."""

_WITHIN: Final = 5.0
_READS_AT_ONCE: Final = 64
_MOST_REMEMBERED: Final = 10_000
_UNDECLARED: Final = get_args(Undeclared)
_READS: Final = get_args(Read)


class GetOptions(TypedDict, total=False):
    """How to read one object: from where, and how long to wait before the server is asked."""

    read: Read
    within: float | None


class ListOptions(GetOptions, total=False):
    """Which objects to read; `index` is an index with the value to look for, or several of them."""

    namespace: str | None
    labels: Labels | None
    fields: Fields | None
    index: Lookup | Sequence[Lookup]
    limit: int | None


class Cluster:
    """What belongs to one API server: its client, and a cache of the kinds that were declared.

    Reads come from the cache and never show less than what this client has written itself; see
    `levelset.runtime.cache.reader` for the other ways to read. Writes go to the server, through `client`. A kind that
    was not declared is `undeclared`: reading it raises NotCached unless the cluster may read it live or declare
    it. Kinds in `live` are always read from the server. `within` is how many seconds a read waits for the cache before
    it asks the server.
    """

    def __init__(
        self,
        client: Client,
        *,
        undeclared: Undeclared = "refuse",
        live: Iterable[Kind[Any]] = (),
        within: float = _WITHIN,
    ) -> None:
        _check_choice("undeclared", undeclared, _UNDECLARED)
        self.client = client
        self._undeclared: Undeclared = undeclared
        self._live = frozenset(view_of(kind).gvk for kind in live)
        self._informers = Informers(client)
        self._sources: dict[Informer, CacheSource] = {}
        self.declarations = 0
        """How many watches were declared so far: as long as it stays the same, nothing has come to `sources`."""
        self._own: list[Handle[Any]] = []
        # The sources that writes to a kind concern, with the number of declarations when that was found.
        self._hearers: dict[GroupVersionKind, tuple[int, Sequence[CacheSource]]] = {}
        # The only source of a kind, with the number of declarations when it was that.
        self._only: dict[tuple[GroupVersionKind, str | None, bool], tuple[int, CacheSource]] = {}
        self._within = within
        self._reader = Reader(client, self._find, self._find_one, within=within)
        self._reads = 0
        self._state: Literal["new", "closed", "open"] = "new"
        self._detach: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Self:
        if self._state != "new":
            raise NotReady(f"this cluster is {self._state} already; make another one")
        self._state = "open"
        self._detach = self.client.observe_writes(self._note)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stops all informers; the client stays open, as it was there before."""
        self._state = "closed"
        self._detach()
        for source in self._sources.values():
            source.close()
        self._sources.clear()
        self._hearers.clear()
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
        """Keeps these objects in the cache from now on, until the handle is closed (`async with`, or with the cluster).

        Who declares the same twice shares one watch; the last handle to be closed ends it. Without `managed_fields`
        these are not kept, and `transform` may take away more before anything is kept.
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
            self._sources[handle.informer] = CacheSource(handle.informer, patience=self._within)
            self.declarations += 1
        return handle

    @property
    def declared(self) -> tuple[Scope, ...]:
        """What the cache holds, one entry for each watch."""
        return tuple(source.scope for source in self.sources)

    @property
    def sources(self) -> Sequence[CacheSource]:
        """The informers as reads see them; those that were closed are forgotten here."""
        closed = [informer for informer, source in self._sources.items() if source.is_closed]
        for informer in closed:
            self._sources.pop(informer).close()
        return tuple(self._sources.values())

    async def wait_ready(self, within: float | None = None) -> None:
        """Returns once all that is declared now is filled; NotReady names what is not, with the cause of the first."""
        self._check_open()
        until = timing.deadline(within)
        waits = [source.wait_ready(timing.remaining(until)) for source in self.sources]
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

        It is frozen and shared with all other readers. Raises NotCached if nobody declared its kind (or its
        namespace), and NotReady, with the cause, if the cache has not been filled in time.
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

    def peek(self, source: CacheSource, name: str, namespace: str | None) -> Kept | None:
        """What `find` would read of an object that a source holds; None if it would have to wait, or to ask."""
        key = key_for(name, namespace)
        is_turn_of_others = (self._reads + 1) % _READS_AT_ONCE == 0
        if is_turn_of_others or source.is_closed or source.scope.gvk in self._live or not source.is_settled_for(key):
            return None
        self._reads += 1
        return source.kept(key)

    @overload
    async def list(self, kind: type[K], /, **options: Unpack[ListOptions]) -> Snapshot[K]: ...
    @overload
    async def list(self, kind: GroupVersionKind, /, **options: Unpack[ListOptions]) -> Snapshot[Unstructured]: ...
    @overload
    async def list(self, kind: OnlyMetadata, /, **options: Unpack[ListOptions]) -> Snapshot[PartialObjectMetadata]: ...
    async def list(self, kind: Any, /, **options: Unpack[ListOptions]) -> Snapshot[Any]:
        """The objects that are asked for, by namespace and name; of all namespaces unless one is named.

        They are frozen and shared, and decoded when they are looked at. Raises as `get` does; ConfigError if an index
        was not declared, and BadSelector for fields that only the server can tell.
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

    def stats(self) -> Sequence[Stats]:
        """How each informer is doing, in numbers."""
        return self._informers.stats()

    def remembered(self) -> Iterator[tuple[Kept, Any]]:
        """The decoded objects that readers share, each with what it was decoded from; for `testing.mutation`."""
        for source in self.sources:
            yield from source.remembered()

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
        """Checks how a read is meant; whether it is time to let others run.

        A read from memory waits for nothing: who looks again and again until something changes would keep out the very
        watch that brings the change.
        """
        _check_choice("read", read, _READS)
        self._reads += 1
        return self._reads % _READS_AT_ONCE == 0

    def _find_one(self, kind: Kind[Any], view: View[Any], namespace: str | None) -> CacheSource | None:
        """What answers reads of single objects of a kind in a namespace."""
        key = (view.gvk, namespace, view.is_metadata)
        declarations, only = self._only.get(key, (0, None))
        if only is not None and declarations == self.declarations and not only.is_closed and self._state == "open":
            return only
        found = self._find(kind, Scope(view.gvk, namespace, is_metadata=view.is_metadata), by_name=True)
        # Where there is no choice there will be none until somebody declares another one, or this one is closed.
        if found is not None and len(self._sources_of(view.gvk)) == 1:
            if len(self._only) >= _MOST_REMEMBERED:
                self._only.clear()
            self._only[key] = self.declarations, found
        return found

    def _sources_of(self, gvk: GroupVersionKind) -> Sequence[CacheSource]:
        return [source for source in self._sources.values() if source.scope.gvk == gvk]

    def _find(self, kind: Kind[Any], asked: Scope, *, by_name: bool) -> CacheSource | None:
        if asked.gvk in self._live:
            return None
        self._check_open()
        found = choose(asked, self.sources, by_name=by_name)
        if found is not None or self._undeclared == "live":
            return found
        if self._undeclared == "refuse":
            raise refuse(asked, self.declared)
        self._own.append(self.declare(kind))
        return self._find(kind, asked, by_name=by_name)

    def _note(self, write: Write) -> None:
        declarations, hearers = self._hearers.get(write.gvk, (0, ()))
        if declarations != self.declarations:
            # One that was closed since has nobody to tell; one that comes is declared.
            hearers = tuple(source for source in self._sources.values() if source.concerns(write.gvk))
            self._hearers[write.gvk] = self.declarations, hearers
        for source in hearers:
            source.enter(write)

    def _check_open(self) -> None:
        if self._state != "open":
            how = "has not been started: use it in `async with`" if self._state == "new" else "is closed"
            raise NotReady(f"this cluster {how}")

    async def _place(self, kind: Kind[Any], namespace: str | None) -> str | None:
        """Where an object is looked for: nowhere in particular if its kind knows no namespaces."""
        definition = view_of(kind).definition
        served = await self.client.resource(kind) if definition is None else definition
        return (namespace or self.client.namespace) if served.namespaced else None

    async def _not_found(self, view: View[Any], name: str, namespace: str | None) -> NotFound:
        gvk, place = view.gvk, await self._place(view.class_ if view.definition else view.gvk, namespace)
        error = NotFound("there is no such object", details={"name": name, "group": gvk.group, "kind": gvk.kind})
        error.request = f"get {'/'.join(part for part in (gvk.kind, place, name) if part)}"
        return error


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    # A slip must not choose for somebody: one way reads the server, another opens a watch of everything.
    if value not in choices:
        raise ConfigError(f"{name}={value!r} is no choice; there is: {', '.join(choices)}")


def _kind(what: Any) -> Any:
    return (cast("Any", what).class_ or what.gvk) if isinstance(what, Ref) else what
