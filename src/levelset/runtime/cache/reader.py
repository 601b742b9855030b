"""Reads from the cache, from the server, or from the cache once it is as new as the server.

Four ways to read:

- `cached`, the default: from memory, but never older than what this client has itself written. A get waits for the own
  writes to its key, a list for those to its kind (in its namespace), for as long as a deadline allows; then the server
  is asked.
- `stale`: from memory as it is, without waiting.
- `live`: from the server.
- `consistent`: from memory, once it shows what the server holds at the time of the call.

What a write that was cancelled or has timed out has done, nobody knows: it is not waited for.

A kind that cannot be kept current, because it is gone or may not be read any more, is not read from memory but with
`stale`: others wait for it, and in the end `cached` raises NotReady with the cause, and `consistent` asks the server.

One informer as reads see it: what it holds, how far it has come, and which own writes it has yet to show.

The metadata of a whole object, as a server would send them alone.
"""

import asyncio
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
from levelset.objects.cached_object import Head, Kept, kept_of
from levelset.objects.field_selectors import FieldSelector
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.cache.change import Change
from levelset.runtime.cache.decoded_objects import Memo
from levelset.runtime.cache.index import Index
from levelset.runtime.cache.informer import Informer
from levelset.runtime.cache.keys import is_older, key_for, key_of
from levelset.runtime.cache.list_query import Query, match, select, sort
from levelset.runtime.cache.read_your_writes import OwnWrites, Unseen
from levelset.runtime.cache.scope import Scope
from levelset.runtime.cache.store import Snapshot, Store
from levelset.runtime.cache.subscribers import report_error

__all__ = ["CacheSource", "Finds", "FindsOne", "Read", "Reader", "as_metadata", "is_newer", "may_meet"]

K = TypeVar("K")


class CacheSource:
    """An informer with the ledger of the writes that it has yet to show.

    It hears of everything that the informer takes in, after the store has it, and wakes the reads that wait for it. An
    informer that has not come on in `patience` seconds is not waited for any more, until it does.
    """

    def __init__(self, informer: Informer, *, patience: float) -> None:
        self.informer = informer
        self._patience = patience
        self._is_selective = informer.scope.is_selective
        self.writes = OwnWrites(is_selective=self._is_selective)
        # In order: who came first is woken first. Each with what it waits for.
        self._waiting: dict[asyncio.Future[bool], Callable[[], bool]] = {}
        self._is_closed = False
        self._stores: dict[type[Any], Store[Any]] = {}
        self._detach = informer.on_progress(self._take)

    @property
    def scope(self) -> Scope:
        """What the informer holds."""
        return self.informer.scope

    @property
    def is_ready(self) -> bool:
        """Whether the informer has been filled and can be kept current."""
        return self.informer.is_ready

    @property
    def is_filled(self) -> bool:
        """Whether the informer has been filled once, however old that may be by now."""
        return self.informer.readiness.is_filled

    def is_settled_for(self, key: str) -> bool:
        """Whether there is nothing that a read of this key would have to wait for."""
        return self.informer.is_ready and not (self.writes.ledger and self.writes.unseen(key, self.find))

    @property
    def is_closed(self) -> bool:
        """Whether the informer has ended."""
        return self._is_closed or self.informer.readiness.is_closed

    @property
    def waiting(self) -> int:
        """How many reads wait for it to move on."""
        return len(self._waiting)

    def close(self) -> None:
        """Hears nothing more; whoever waits for it waits no longer."""
        self._is_closed = True
        self._detach()
        self._wake()

    async def wait_ready(self, within: float | None) -> None:
        """Returns once the informer is filled and can be kept current; NotReady, with the cause, if not in time."""
        await self.informer.readiness.wait(within)

    def store(self, view: View[K]) -> Store[K]:
        """The objects as a reader of this class sees them; all readers of a class share what was decoded."""
        found = self._stores.get(view.class_)
        if found is None:
            informer = self.informer
            found = self._stores[view.class_] = Store(informer.table, view, informer.readiness, report=informer.report)
        return found

    def memo(self, view: View[K]) -> Memo[K]:
        """What was decoded for the readers of this class."""
        self.store(view)
        found: Memo[K] = self.informer.table.memos[view.class_]
        return found

    def remembered(self) -> Iterator[tuple[Kept, Any]]:
        """The decoded objects that readers share, each with what it was decoded from."""
        for memo in self.informer.table.memos.values():
            yield from memo.entries()

    def kept(self, key: str) -> Kept | None:
        """What the store shows under this key."""
        return self.informer.table.kept.get(key)

    def find(self, key: str) -> Head | None:
        """The head of the object that the store shows under this key."""
        return self.kept(key)

    def has_come_to(self, version: str) -> bool:
        """Whether the store shows all that the server had at this version; False where that cannot be told."""
        return self.informer.observed is not None and not is_newer(version, self.informer.observed)

    def shows(self, key: str, version: str) -> bool:
        """Whether the store shows this version of an object, or a later one."""
        head = self.find(key)
        return (head is not None and not is_newer(version, head.resource_version)) or self.has_come_to(version)

    def concerns(self, gvk: GroupVersionKind) -> bool:
        """Whether writes to a kind concern it: written through whatever version, it is the same object."""
        own = self.informer.scope.gvk
        return gvk.kind == own.kind and gvk.group == own.group

    def note(self, write: Write) -> None:
        """Enters a write into the ledger, if it concerns what this informer holds."""
        if self.concerns(write.gvk):
            self.enter(write)

    def enter(self, write: Write) -> None:
        """The same for a write to a kind that concerns it."""
        scope, name, namespace = self.informer.scope, write.name, write.namespace
        if scope.namespace is not None and namespace != scope.namespace:
            return
        if name is None:
            self.writes.record_many(write.resource_version)
            return
        key = f"{namespace}/{name}" if namespace else name  # as `key_for`, since it is done at each write
        held = self.informer.table.kept.get(key)
        if write.is_gone:
            self.writes.record_gone(key, write.uid, write.resource_version, held=held)
        else:
            is_outside = self._is_selective and write.head is not None and not may_meet(scope, write.head)
            self.writes.record(key, write.resource_version, uid=write.uid, held=held, is_outside=is_outside)

    async def wait_until(self, is_so: Callable[[], bool], until: float | None) -> bool:
        """Whether something became true about the store before the deadline; looks after each thing it takes in."""
        if is_so():
            return True
        is_late = False
        while not is_late and not self.is_closed:
            is_late = await self._progress(is_so, until)
            if is_so():
                return True
        return False

    async def wait_seen(self, unseen: Callable[[], list[Unseen]], until: float | None) -> bool:
        """Whether the own writes that `unseen` finds are all shown before the deadline.

        Those that were waited for with patience are late: from then on nobody waits for them any more.
        """
        began = timing.now()
        found = unseen()
        if not found:
            return True
        if self.writes.is_stuck or any(entry.is_late for entry in found):
            return False
        if await self.wait_until(lambda: not unseen(), until):
            return True
        if timing.now() - began > 0.9 * self._patience:  # who is in a hurry does not speak for the others
            self.writes.give_up(unseen())
        return False

    async def _progress(self, is_so: Callable[[], bool], until: float | None) -> bool:
        """Returns once that may have become true, or cannot any more; True if it is too late for it."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        # A timer of its own, as many wait, and a block with a time limit costs several times as much.
        timer = None if until is None else loop.call_at(until, _end, waiter, True)
        self._waiting[waiter] = is_so
        try:
            return await waiter
        finally:
            self._waiting.pop(waiter, None)
            if timer is not None:
                timer.cancel()

    def _take(self, changes: Sequence[Change[Any]]) -> None:
        gone = [
            before.uid
            for change in changes
            if (before := change.before) is not None and ((after := change.after) is None or after.uid != before.uid)
        ]
        if gone:
            self.writes.observe_gone(gone)
        self.writes.observe(self.informer.observed)
        self._wake()

    def _wake(self) -> None:
        """Wakes those who have what they wait for, or wait in vain; to wake all of them would cost each a turn."""
        is_closed = self.is_closed
        for waiter, is_so in self._waiting.items():
            if is_closed or is_so():
                _end(waiter, False)


def _end(waiter: "asyncio.Future[bool]", is_late: bool) -> None:
    if not waiter.done():
        waiter.set_result(is_late)


def is_newer(version: str, than: str) -> bool:
    """Whether one resourceVersion is newer than another, or may be: those that are no numbers are only ever equal."""
    return version != than and not is_older(version, than)


def may_meet(scope: Scope, head: Head) -> bool:
    """Whether an object may meet the selectors, as far as its metadata tell."""
    told = {"metadata.name": head.name, "metadata.namespace": head.namespace or ""}
    known = FieldSelector(tuple(one for one in scope.fields.requirements if one.field in told))
    return scope.labels.matches(head.labels) and known.matches(told)


_BEFORE: Final = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'


class _Whole(msgspec.Struct, gc=False):
    metadata: Raw


_wholes: Final = msgspec.json.Decoder(_Whole)


def as_metadata(kept: Kept) -> Kept:
    """What is kept of the same object when only its metadata are asked for."""
    try:
        metadata = _wholes.decode(kept.raw).metadata
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadObject(f"{kept.name}: this is no object with metadata: {error}") from error
    return kept_of(kept, b"%b%b}" % (_BEFORE, bytes(metadata)))


Read = Literal["cached", "consistent", "live", "stale"]
"""From where a read comes: see the module."""

_PATIENCE = 1.0
"""How long a consistent list waits, unless it is told: a kind that is quiet while others change moves on slowly."""


_SLICE = 1000


class Finds(Protocol):
    """Finds the informer that answers a read."""

    def __call__(self, kind: Any, asked: Scope, *, by_name: bool) -> CacheSource | None:
        """The informer; None if the server shall be asked; NotCached if neither."""
        ...


FindsOne = Callable[[Any, View[Any], str | None], CacheSource | None]
"""The same for a single object: by its kind, how that is read, and its namespace."""


class Reader:
    """Reads for one client from those informers that `find` and `find_one` find."""

    def __init__(self, client: Client, find: Finds, find_one: FindsOne, *, within: float) -> None:
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
        kept = source.kept(key)
        if kept is None:
            # The selector may leave out what the server has.
            is_left_out = source.scope.is_selective and read != "stale"
            return await self._client.find(kind, name, namespace=namespace) if is_left_out else None
        return _read_one(source, view, key, kept)

    async def read_many(self, kind: Any, query: Query, *, read: Read, within: float | None) -> Snapshot[Any]:
        """The objects that are meant, by namespace and name."""
        view: View[Any] = view_of(kind)
        source = None if read == "live" else self._find(kind, query.scope, by_name=False)
        if source is None:
            return await self._list_live(kind, query)
        match(query, source.scope)  # what cannot be told is said before anybody waits
        patience = _PATIENCE if read == "consistent" else self._within
        until = timing.deadline(patience if within is None else within)
        if not await _is_filled(source, read, until):
            return await self._list_live(kind, query)
        if query.lookups:
            await source.informer.build_indexes()
        if not await self._are_fresh_enough(source, kind, query, read, until):
            return await self._list_live(kind, query)
        return await _read_many(source, view, await select(source.store(view), query, source.scope))

    async def _is_fresh_enough(self, source: CacheSource, kind: Any, key: str, read: Read, until: float | None) -> bool:
        if read == "cached":
            unseen = partial(source.writes.unseen, key, source.find)
            vague = [entry for entry in unseen() if entry.is_vague]
            if vague:
                await self._settle(source, kind, vague)
            return await source.wait_seen(unseen, until)
        return read == "stale" or await self._is_current(source, kind, key, until)

    async def _are_fresh_enough(
        self, source: CacheSource, kind: Any, query: Query, read: Read, until: float | None
    ) -> bool:
        if read == "cached":
            unseen = partial(source.writes.unseen_in, query.scope.namespace, source.find)
            return await self._wait_seen(source, kind, unseen, until)
        if read == "stale":
            return True
        version = await self._learn(source, kind)
        return await source.wait_until(lambda: source.has_come_to(version), until)

    async def _wait_seen(
        self, source: CacheSource, kind: Any, unseen: Callable[[], list[Unseen]], until: float | None
    ) -> bool:
        vague = [entry for entry in unseen() if entry.is_vague]
        if vague:
            await self._settle(source, kind, vague)
        return await source.wait_seen(unseen, until)

    async def _settle(self, source: CacheSource, kind: Any, vague: list[Unseen]) -> None:
        """Learns for writes without a version at which one they are in the cache for certain."""
        try:
            version = await self._learn(source, kind)
        except (ApiError, Unreachable):
            return  # a live read that follows says what is wrong, and the next read tries again
        source.writes.settle(vague, version)

    async def _learn(self, source: CacheSource, kind: Any) -> str:
        """The version that the server's data have now; what was written before is not newer."""
        small = kind if isinstance(kind, OnlyMetadata) else OnlyMetadata(kind)
        return (await self._client.list(small, namespace=source.scope.namespace, limit=1)).resource_version

    async def _is_current(self, source: CacheSource, kind: Any, key: str, until: float | None) -> bool:
        """Whether the cache shows, before the deadline, the version of the object that the server has now."""
        if source.scope.is_selective:
            return False
        namespace, _, name = key.rpartition("/")
        small = kind if isinstance(kind, OnlyMetadata) else OnlyMetadata(kind)
        found = await self._client.find(small, name, namespace=namespace or None)
        if found is not None:
            return await source.wait_until(partial(source.shows, key, found.metadata.resource_version), until)
        # What the cache still shows of it is about to go.
        gone = source.find(key)
        return gone is None or await source.wait_until(lambda: _uid(source.find(key)) != gone.uid, until)

    async def _list_live(self, kind: Any, query: Query) -> Snapshot[Any]:
        scope = query.scope
        limit = None if query.lookups else query.limit
        items = await self._client.list(
            kind, namespace=scope.namespace, labels=scope.labels, fields=scope.fields, limit=limit
        )
        found = [kept for kept in items.kept if all(_has(index, value, kept) for index, value in query.lookups)]
        memo: Memo[Any] = Memo(items.view, max(1, len(found)))
        return Snapshot(await sort(found, limit=query.limit), items.view, lambda kept: memo.read(key_of(kept), kept))


def _has(index: Index[Any], value: Hashable, kept: Kept) -> bool:
    """Whether an index has this value for an object; one whose function fails has none, as in a store."""
    try:
        return value in index.values(kept)
    except Exception as error:  # noqa: BLE001  # the user's function
        report_error(f"{index!r}", error)
        return False


async def _is_filled(source: CacheSource, read: Read, until: float | None) -> bool:
    """Whether the informer can be read; for who wants the truth, False instead of NotReady."""
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


def _read_one(source: CacheSource, view: View[Any], key: str, kept: Kept) -> Any:
    """The object as this reader sees it; those of one class share what was decoded."""
    if view.is_metadata and not source.scope.is_metadata:
        return view.read(as_metadata(kept).raw)
    return source.memo(view).read(key, kept)


async def _read_many(source: CacheSource, view: View[Any], found: list[Kept]) -> Snapshot[Any]:
    """The objects as this reader sees them; others may run while there are many."""
    if view.is_metadata and not source.scope.is_metadata:
        small: list[Kept] = []
        for number, kept in enumerate(found, 1):
            small.append(as_metadata(kept))
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        own: Memo[Any] = Memo(view, max(1, len(found)))
        return Snapshot(small, view, lambda kept: own.read(key_of(kept), kept))
    shared = source.memo(view)
    # A walk over more objects than are remembered would only drive out those that are read often.
    is_few = len(found) <= shared.limit
    return Snapshot(found, view, lambda kept: shared.read(key_of(kept), kept, remember=is_few))
