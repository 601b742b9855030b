"""Cached, stale, live and consistent reads, over the informers of a cluster.

The read modes:

- `cached`, the default: from the cache, but never older than this client's own writes. A get waits for the writes to
  its key, a list for those to its kind (in its namespace), until the deadline; then it reads from the API server.
- `stale`: from the cache as it is, without waiting.
- `live`: from the API server.
- `consistent`: from the cache, once it holds what the API server holds at the time of the call.

A write that was cancelled or timed out has an unknown outcome: reads do not wait for it.

A kind that cannot be kept current, because it no longer exists or may no longer be read, is served from the cache only
to `stale` reads. The others wait for it; at the deadline `cached` raises NotReady with the cause, and `consistent`
reads from the API server.

`Reader` implements the modes. `CacheSource` is one informer as reads see it: its objects, how far it has observed, and
which of this client's writes it has not observed yet.
"""

import asyncio
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeVar

import msgspec
from msgspec import Raw

from levelset.aio import timing
from levelset.client.client import Client
from levelset.client.object_types import OnlyMetadata, View, view_of
from levelset.client.request_body import Write
from levelset.errors import ApiError, BadObject, NotReady, Unreachable
from levelset.objects.cached_object import CachedObject, Head, cached_from_head
from levelset.objects.field_selectors import FieldSelector
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.cache.change import Change
from levelset.runtime.cache.index import Index
from levelset.runtime.cache.informer import Informer
from levelset.runtime.cache.keys import is_older, key_for
from levelset.runtime.cache.list_query import ListQuery, head_filter, select_objects, sort_objects
from levelset.runtime.cache.object_store import DecodedBudget, DecodedObjects, Snapshot, Store
from levelset.runtime.cache.read_your_writes import UnseenWrite, UnseenWrites
from levelset.runtime.cache.scope import Scope
from levelset.runtime.cache.subscribers import log_error

__all__ = [
    "CacheSource",
    "FindSingleSource",
    "FindSource",
    "Read",
    "Reader",
    "as_metadata",
    "may_be_newer",
    "may_match",
]

K = TypeVar("K")


class CacheSource:
    """An informer with the writes of this client that it has not observed yet.

    It is notified of every change of the informer, after the store has it, and wakes the reads that wait for it. Reads
    stop waiting for an informer that has made no progress for `stuck_after` seconds, until it makes some.
    """

    def __init__(self, informer: Informer, *, stuck_after: float) -> None:
        self.informer = informer
        self._stuck_after = stuck_after
        self._is_selective = informer.scope.is_selective
        self.writes = UnseenWrites(is_selective=self._is_selective)
        # The condition of each waiting read, in the order in which they began to wait and are woken.
        self._waiting: dict[asyncio.Future[bool], Callable[[], bool]] = {}
        self._is_closed = False
        self._stores: dict[type[Any], Store[Any]] = {}
        self._detach = informer.on_progress(self._take)

    @property
    def scope(self) -> Scope:
        """The scope of the informer."""
        return self.informer.scope

    @property
    def is_ready(self) -> bool:
        """Whether the informer has synced and can be kept current."""
        return self.informer.is_ready

    @property
    def is_filled(self) -> bool:
        """Whether the informer has synced once, however long ago."""
        return self.informer.readiness.is_filled

    def is_settled_for(self, key: str) -> bool:
        """Whether a cached read of this key would not have to wait."""
        return self.informer.is_ready and not (self.writes.by_key and self.unseen(key))

    def unseen(self, key: str) -> list[UnseenWrite]:
        """The writes that a read of this key has to wait for."""
        return self.writes.unseen(key, self.find)

    @property
    def is_closed(self) -> bool:
        """Whether the informer has ended."""
        return self._is_closed or self.informer.readiness.is_closed

    @property
    def waiting(self) -> int:
        """How many reads wait for progress."""
        return len(self._waiting)

    def close(self) -> None:
        """Detaches from the informer and wakes every waiting read."""
        self._is_closed = True
        self._detach()
        self._wake()

    async def wait_ready(self, within: float | None) -> None:
        """Returns once the informer has synced and can be kept current; NotReady, with the cause, if not in time."""
        await self.informer.readiness.wait(within)

    def store(self, view: View[K]) -> Store[K]:
        """The store for readers of this class, which share decoded objects."""
        found = self._stores.get(view.class_)
        if found is None:
            informer = self.informer
            found = self._stores[view.class_] = Store(informer.table, view, informer.readiness, report=informer.report)
        return found

    def decoded(self, view: View[K]) -> DecodedObjects[K]:
        """The decoded objects that readers of this class share."""
        return self.informer.table.decoded_as(view)

    def decoded_objects(self) -> Iterator[tuple[CachedObject, Any]]:
        """The decoded objects that readers share, each with the cached object it was decoded from."""
        for decoded in self.informer.table.decoded.values():
            yield from decoded.entries()

    def cached(self, key: str) -> CachedObject | None:
        """The cached object under this key."""
        return self.informer.table.cached.get(key)

    def find(self, key: str) -> Head | None:
        """The head of the cached object under this key."""
        return self.cached(key)

    def has_observed(self, version: str) -> bool:
        """Whether the store has everything up to this version; False if the versions cannot be compared."""
        return self.informer.observed is not None and not may_be_newer(version, self.informer.observed)

    def shows(self, key: str, version: str) -> bool:
        """Whether the store has this version of an object, or a later one."""
        head = self.find(key)
        return (head is not None and not may_be_newer(version, head.resource_version)) or self.has_observed(version)

    def concerns(self, gvk: GroupVersionKind) -> bool:
        """Whether writes to a kind affect it; the API version does not matter, it is the same object."""
        own = self.informer.scope.gvk
        return gvk.kind == own.kind and gvk.group == own.group

    def record(self, write: Write) -> None:
        """Records a write of this client; the caller has checked that it `concerns` the kind of this informer."""
        scope, name, namespace = self.informer.scope, write.name, write.namespace
        if scope.namespace is not None and namespace != scope.namespace:
            return
        if name is None:
            self.writes.record_many(write.resource_version)
            return
        key = f"{namespace}/{name}" if namespace else name  # `key_for` inlined: this runs at each write
        held = self.informer.table.cached.get(key)
        if write.is_gone:
            self.writes.record_gone(key, write.uid, write.resource_version, held=held)
        else:
            is_outside = self._is_selective and write.head is not None and not may_match(scope, write.head)
            self.writes.record(key, write.resource_version, uid=write.uid, held=held, is_outside=is_outside)

    async def wait_until(self, is_so: Callable[[], bool], until: float | None) -> bool:
        """Whether a condition on the store became true before the deadline; checked after each change."""
        return is_so() or await self._wait(is_so, until)

    async def _wait(self, is_so: Callable[[], bool], until: float | None) -> bool:
        """As `wait_until`, for a condition that was false just now."""
        is_late = False
        while not is_late and not self.is_closed:
            is_late = await self._progress(is_so, until)
            if is_so():
                return True
        return False

    async def wait_seen(
        self, found: list[UnseenWrite], unseen: Callable[[], list[UnseenWrite]], until: float | None
    ) -> bool:
        """Whether the writes that `unseen` returns, and has just returned as `found`, are observed before the deadline.

        Those still unobserved after about `stuck_after` seconds become late: no further read waits for them.
        """
        if not found:
            return True
        if self.writes.is_stuck or any(entry.is_late for entry in found):
            return False
        began = timing.now()
        if await self._wait(lambda: not unseen(), until):
            return True
        if timing.now() - began > 0.9 * self._stuck_after:  # a short deadline must not decide for others
            self.writes.give_up(unseen())
        return False

    async def _progress(self, is_so: Callable[[], bool], until: float | None) -> bool:
        """Returns once the condition may be true or never will be; True if the deadline has passed."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        # A bare timer: with many waiting reads, asyncio.timeout costs several times as much.
        timer = None if until is None else loop.call_at(until, _end, waiter, True)
        self._waiting[waiter] = is_so
        try:
            return await waiter
        finally:
            self._waiting.pop(waiter, None)
            if timer is not None:
                timer.cancel()

    def _take(self, changes: Sequence[Change[Any]]) -> None:
        writes = self.writes
        for change in changes:
            before, after = change.before, change.after
            if before is not None and (after is None or after.uid != before.uid):
                writes.observe_gone(before.uid)
        writes.observed = self.informer.observed
        if writes.by_key:
            writes.drop_observed()
        if self._waiting:
            self._wake()

    def _wake(self) -> None:
        """Wakes the reads whose condition is true, or all of them when closed; waking all would cost a switch each."""
        is_closed = self.is_closed
        for waiter, is_so in self._waiting.items():
            if is_closed or is_so():
                _end(waiter, False)


def _end(waiter: "asyncio.Future[bool]", is_late: bool) -> None:
    if not waiter.done():
        waiter.set_result(is_late)


def may_be_newer(version: str, than: str) -> bool:
    """Whether one resourceVersion is or may be newer than another; versions that are not numbers may always be."""
    return version != than and not is_older(version, than)


def may_match(scope: Scope, head: Head) -> bool:
    """Whether an object may match the selectors of a scope, judged by its metadata alone."""
    values = {"metadata.name": head.name, "metadata.namespace": head.namespace or ""}
    known = FieldSelector(tuple(one for one in scope.fields.requirements if one.field in values))
    return scope.labels.matches(head.labels) and known.matches(values)


_BEFORE: Final = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'


class _Whole(msgspec.Struct, gc=False):
    metadata: Raw


_wholes: Final = msgspec.json.Decoder(_Whole)


def as_metadata(cached: CachedObject) -> CachedObject:
    """The PartialObjectMetadata of a whole object, as the API server would send it."""
    try:
        metadata = _wholes.decode(cached.raw).metadata
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadObject(f"{cached.name}: not an object with metadata: {error}") from error
    return cached_from_head(cached, b"%b%b}" % (_BEFORE, bytes(metadata)))


Read = Literal["cached", "consistent", "live", "stale"]
"""The read modes; see the module's docstring."""

_CONSISTENT_WITHIN = 1.0
"""How many seconds a consistent list waits by default: the watch of a quiet kind advances only with bookmarks."""


_SLICE = 1000


class FindSource(Protocol):
    """Finds the informer that serves a read."""

    def __call__(self, kind: Any, wanted: Scope, *, by_name: bool) -> CacheSource | None:
        """The informer; None to read from the API server; NotCached if neither is possible."""
        ...


FindSingleSource = Callable[[Any, View[Any], str | None], CacheSource | None]
"""Finds the informer that serves a read of a single object, by kind, view and namespace."""


class Reader:
    """Reads for one client, from the informers that `find` and `find_one` return or from the API server."""

    def __init__(self, client: Client, find: FindSource, find_one: FindSingleSource, *, within: float) -> None:
        self._client = client
        self._find = find
        self._find_one = find_one
        self._within = within

    async def read_one(
        self, kind: Any, view: View[Any], name: str, namespace: str | None, *, read: Read, within: float | None
    ) -> Any | None:
        """The object, or None if there is none; `view` is that of the kind."""
        source = None if read == "live" else self._find_one(kind, view, namespace)
        if source is None:
            return await self._client.find(kind, name, namespace=namespace)
        key = key_for(name, namespace)
        # Nothing to wait for, as most of the time.
        if not (read == "cached" and source.is_settled_for(key)):
            until = timing.deadline(self._within if within is None else within)
            is_ready = read == "cached" and source.is_ready
            if not (is_ready or await _is_filled(source, read, until)):
                return await self._client.find(kind, name, namespace=namespace)
            if not await self._is_fresh_enough(source, kind, key, read, until):
                return await self._client.find(kind, name, namespace=namespace)
        cached = source.cached(key)
        if cached is None:
            # The selector may exclude an object that exists.
            is_left_out = source.scope.is_selective and read != "stale"
            return await self._client.find(kind, name, namespace=namespace) if is_left_out else None
        return _read_one(source, view, cached)

    async def read_many(self, kind: Any, query: ListQuery, *, read: Read, within: float | None) -> Snapshot[Any]:
        """The selected objects, sorted by namespace and name."""
        view: View[Any] = view_of(kind)
        source = None if read == "live" else self._find(kind, query.scope, by_name=False)
        if source is None:
            return await self._list_live(kind, query)
        head_filter(query, source.scope)  # raises BadSelector before the read waits for anything
        default = _CONSISTENT_WITHIN if read == "consistent" else self._within
        until = timing.deadline(default if within is None else within)
        if not await _is_filled(source, read, until):
            return await self._list_live(kind, query)
        if query.lookups:
            await source.informer.build_indexes()
        if not await self._are_fresh_enough(source, kind, query, read, until):
            return await self._list_live(kind, query)
        return await _read_many(source, view, await select_objects(source.store(view), query, source.scope))

    async def _is_fresh_enough(self, source: CacheSource, kind: Any, key: str, read: Read, until: float | None) -> bool:
        if read == "cached":
            return await self._wait_seen(source, kind, partial(source.unseen, key), until)
        return read == "stale" or await self._is_current(source, kind, key, until)

    async def _are_fresh_enough(
        self, source: CacheSource, kind: Any, query: ListQuery, read: Read, until: float | None
    ) -> bool:
        if read == "cached":
            unseen = partial(source.writes.unseen_in, query.scope.namespace, source.find)
            return await self._wait_seen(source, kind, unseen, until)
        if read == "stale":
            return True
        version = await self._learn(source, kind)
        return await source.wait_until(lambda: source.has_observed(version), until)

    async def _wait_seen(
        self, source: CacheSource, kind: Any, unseen: Callable[[], list[UnseenWrite]], until: float | None
    ) -> bool:
        found = unseen()
        vague = [entry for entry in found if entry.is_vague]
        if vague:
            await self._settle(source, kind, vague)
            found = unseen()
        return await source.wait_seen(found, unseen, until)

    async def _settle(self, source: CacheSource, kind: Any, vague: list[UnseenWrite]) -> None:
        """Requests a version from the API server at which writes without one are certainly in the cache."""
        try:
            version = await self._learn(source, kind)
        except (ApiError, Unreachable):
            return  # the live read that follows raises the error, and the next read tries again
        source.writes.settle(vague, version)

    async def _learn(self, source: CacheSource, kind: Any) -> str:
        """The current resourceVersion of the API server; earlier writes are not newer than it."""
        small = kind if isinstance(kind, OnlyMetadata) else OnlyMetadata(kind)
        return (await self._client.list(small, namespace=source.scope.namespace, limit=1)).resource_version

    async def _is_current(self, source: CacheSource, kind: Any, key: str, until: float | None) -> bool:
        """Whether the cache holds, before the deadline, the version of the object that the API server has now."""
        if source.scope.is_selective:
            return False
        namespace, _, name = key.rpartition("/")
        small = kind if isinstance(kind, OnlyMetadata) else OnlyMetadata(kind)
        found = await self._client.find(small, name, namespace=namespace or None)
        if found is not None:
            return await source.wait_until(partial(source.shows, key, found.metadata.resource_version), until)
        # Deleted on the API server: the cache is current once it no longer holds this uid.
        gone = source.find(key)
        return gone is None or await source.wait_until(lambda: _uid(source.find(key)) != gone.uid, until)

    async def _list_live(self, kind: Any, query: ListQuery) -> Snapshot[Any]:
        scope = query.scope
        limit = None if query.lookups else query.limit
        items = await self._client.list(
            kind, namespace=scope.namespace, labels=scope.labels, fields=scope.fields, limit=limit
        )
        found = [cached for cached in items.cached if all(_has(index, value, cached) for index, value in query.lookups)]
        return _own_snapshot(await sort_objects(found, limit=query.limit), items.view)


def _has(index: Index[Any], value: Hashable, cached: CachedObject) -> bool:
    """Whether an object has this value in an index; an object for which its function fails has none."""
    try:
        return value in index.values(cached)
    except Exception as error:  # noqa: BLE001  # the user's function
        log_error(f"{index!r}", error)
        return False


async def _is_filled(source: CacheSource, read: Read, until: float | None) -> bool:
    """Whether the informer can be read; for a consistent read, False instead of NotReady."""
    if read == "stale" and source.is_filled:
        return True
    try:
        await source.wait_ready(timing.remaining(until))
    except NotReady:
        if read == "consistent":
            return False
        raise
    return True


def _uid(head: Head | None) -> str | None:
    return None if head is None else head.uid


def _read_one(source: CacheSource, view: View[Any], cached: CachedObject) -> Any:
    """The decoded object; readers of one class share it."""
    if view.is_metadata and not source.scope.is_metadata:
        return view.read(as_metadata(cached).raw)
    return source.decoded(view).share(cached)


async def _read_many(source: CacheSource, view: View[Any], found: list[CachedObject]) -> Snapshot[Any]:
    """A snapshot of these objects; lets other tasks run if there are many to convert."""
    if view.is_metadata and not source.scope.is_metadata:
        small: list[CachedObject] = []
        for number, cached in enumerate(found, 1):
            small.append(as_metadata(cached))
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return _own_snapshot(small, view)
    return Snapshot(found, view, source.decoded(view).share_listed)


def _own_snapshot(found: list[CachedObject], view: View[Any]) -> Snapshot[Any]:
    """A snapshot of objects that are in no cache; what it decodes is retained as long as it is."""
    decoded: DecodedObjects[Any] = DecodedObjects(view, DecodedBudget(sys.maxsize))
    return Snapshot(found, view, decoded.share)
