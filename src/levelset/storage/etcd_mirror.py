"""A mirror of etcd in memory: loaded in pages at one revision, then fed by one watch, which resumes after a failure.

Reads and watches of the server use the mirror. It never shows what etcd has not committed, and it shows changes in the
order of their revisions. After a lost connection the watch resumes after the last revision; if that is compacted, the
keys are listed again, and the differences become changes, so that watches on the mirror miss nothing.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from operator import attrgetter
from typing import Final

from levelset.storage.etcd_client import EtcdClient, WatchStream
from levelset.storage.etcd_failures import CallFailed, Verdict
from levelset.storage.etcd_messages import KeySpace, StoredKey, WatchBatch, WatchEvent
from levelset.storage.history import Limits
from levelset.storage.interface import Change, Item
from levelset.storage.mvcc import MvccStore

__all__ = ["EtcdMirror", "differences", "has_safe_progress"]

log = logging.getLogger(__name__)

_FIRST_PAGE: Final = 500
_LARGEST_PAGE: Final = 5_000
_PAGE_BYTES: Final = 4 * 1024 * 1024
_SOLICIT_SECONDS: Final = 0.1
_RETRY_SECONDS: Final = 0.1
_LONGEST_RETRY_SECONDS: Final = 2.0
_HEARTBEAT_SECONDS: Final = 2.0


class EtcdMirror:
    """The items and the history of one key space of etcd."""

    def __init__(
        self,
        client: EtcdClient,
        keys: KeySpace,
        *,
        limits: Limits,
        ring: Callable[[], None],
        clock: Callable[[], float] | None,
    ) -> None:
        self._client = client
        self._keys = keys
        self._limits = limits
        self._ring = ring
        self._clock = clock
        self.store = MvccStore(limits=limits, ring=ring)
        self.problem: str | None = "the storage is not started: use it in an `async with`"
        """Why the mirror does not follow etcd now; None if it does."""
        self._is_following = asyncio.Event()
        self._stream: WatchStream | None = None
        self._last_response = 0.0
        self._trusts_progress = False
        # Committed writes of this process that wait for the revisions before them.
        self._own: dict[int, Change] = {}
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._current: asyncio.Task[int] | None = None
        self._next_current: asyncio.Task[int] | None = None

    @property
    def revision(self) -> int:
        """The revision up to which the mirror has everything."""
        return self.store.history.revision

    async def load(self) -> int:
        """Loads all keys; returns the revision that etcd had meanwhile. Raises CallFailed.

        The keys are those of the last compaction, if that is not too far back: the watch then brings the changes since,
        and watches that clients had on another server, or before a restart, can resume.
        """
        marker, current = await self._client.get(self._keys.compaction)
        base = _number(marker)
        if not 0 < base <= current or current - base > self._limits.changes:
            base = current
        try:
            items, revision = await self._list(base)
        except CallFailed as failure:
            if failure.verdict is not Verdict.COMPACTED:
                raise
            items, revision = await self._list(0)
        self.store = MvccStore(items=items, compacted=revision, limits=self._limits, ring=self._ring)
        return current

    async def follow(self) -> None:
        """Follows etcd until it is cancelled."""
        delay = _RETRY_SECONDS
        while True:
            try:
                await self._follow_once()
            except CallFailed as failure:
                delay = await self._recover(failure, delay)
            except Exception:
                log.exception("the mirror of etcd failed; it connects again")
                self.problem = "the mirror of etcd failed; see the log"
            await asyncio.sleep(delay)

    def add_own(self, change: Change) -> None:
        """Shows a committed write of this process; before its event arrives, if no other revision is missing.

        Its revision follows the newest one, or those of other writes of this process: then nothing is in between.
        """
        history = self.store.history
        if change.revision <= history.revision:
            return
        self._own[change.revision] = change
        while (following := self._own.pop(history.revision + 1, None)) is not None:
            self.store.commit(following)
        self._end_batch()

    async def wait_following(self, revision: int, *, within: float) -> bool:
        """Whether the mirror follows etcd in time, and has reached a revision."""
        try:
            async with asyncio.timeout(within):
                await self._is_following.wait()
        except TimeoutError:
            return False
        return await self.wait_revision(revision, within=within, solicits=True)

    async def wait_revision(self, revision: int, *, within: float, solicits: bool = False) -> bool:
        """Whether the mirror reaches a revision in time.

        With `solicits` etcd is made to say that there is nothing to come up to the revision, which may belong to a key
        of another application.
        """
        if self.revision >= revision:
            return True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        reached: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._waiters, (revision, next(self._numbers), reached))
        has_ticked = False
        while not reached.done() and (left := deadline - loop.time()) > 0:
            if solicits and not has_ticked:
                has_ticked = await self._solicit()
            await asyncio.wait({reached}, timeout=min(left, _SOLICIT_SECONDS) if solicits else left)
        if not reached.done():
            reached.cancel()
        return self.revision >= revision

    async def wait_current(self) -> int:
        """Waits until the mirror has all that was committed before this call; returns etcd's revision at that time.

        Raises CallFailed. Calls share a query of etcd, but only one that begins after them.
        """
        if self._next_current is None:
            query = self._learn_current(self._current)
            self._next_current = asyncio.get_running_loop().create_task(query, name="etcd current revision")
        return await asyncio.shield(self._next_current)

    def queries(self) -> "list[asyncio.Task[int]]":
        """The queries of `wait_current` that are under way."""
        return [task for task in (self._current, self._next_current) if task is not None and not task.done()]

    async def _learn_current(self, previous: "asyncio.Task[int] | None") -> int:
        if previous is not None:
            await asyncio.wait({previous})
        self._current, self._next_current = self._next_current, None
        _, revision = await self._client.get(self._keys.compaction)
        if not await self.wait_revision(revision, within=self._client.timeout, solicits=True):
            raise CallFailed(Verdict.UNSENT, self.problem or f"revision {revision} of etcd did not arrive in time")
        return revision

    async def _solicit(self) -> bool:
        """Makes etcd report its progress; whether it was by a write, which needs no repetition."""
        with suppress(CallFailed):
            if not self._trusts_progress:
                await self._client.write(self._keys.tick, b"", expected=None)
                return True
            if self._stream is not None:
                self._stream.send(self._client.messages.progress_request())
        return False

    async def _list(self, revision: int) -> tuple[list[Item], int]:
        """All items at a revision (0: now), and the revision."""
        items: list[Item] = []
        start, limit = self._keys.data, _FIRST_PAGE
        while True:
            page, current, more = await self._client.page(start, self._keys.data_end, limit=limit, revision=revision)
            revision = revision or current
            items += [item for item in map(self._keys.item, page) if item is not None]
            if not more:
                return items, revision
            start = page[-1].key + b"\0"
            size = sum(len(stored.value) for stored in page) or 1
            limit = max(1, min(_LARGEST_PAGE, limit * _PAGE_BYTES // size))

    async def _follow_once(self) -> None:
        """Follows one stream until it ends, with CallFailed."""
        client = self._client
        _, current = await client.get(self._keys.compaction)
        if current < self.revision:
            text = f"etcd is at revision {current}, but this server has seen {self.revision}: it was restored from an"
            raise CallFailed(Verdict.REFUSED, f"{text} older copy, or is another one; restart the server")
        self._trusts_progress = has_safe_progress(await client.version())
        stream = self._stream = await client.open_watch()
        self._last_response = asyncio.get_running_loop().time()
        heartbeat = asyncio.create_task(self._beat(stream), name="etcd heartbeat")
        start, end = self._keys.watch_start, self._keys.data_end
        try:
            stream.send(client.messages.watch_request(start, end, revision=self.revision + 1))
            await self._read(stream)
        finally:
            self._stream = None
            heartbeat.cancel()
            stream.end("the storage is closed")
            await asyncio.wait({heartbeat})

    async def _read(self, stream: WatchStream) -> None:
        now = asyncio.get_running_loop().time
        events: list[WatchEvent] = []
        while True:
            batch = await stream.read()
            self._last_response = now()
            if batch.compacted:
                raise CallFailed(Verdict.COMPACTED, f"etcd is compacted up to revision {batch.compacted}")
            if batch.cancel_reason is not None:
                raise CallFailed(Verdict.UNKNOWN, f"etcd has ended the watch: {batch.cancel_reason}")
            if self.problem is not None:
                log.info("the storage follows etcd", extra={"etcd": self._client.addresses, "revision": self.revision})
                self.problem = None
                self._is_following.set()
            events += batch.events
            if batch.is_partial:
                continue
            self._apply(events)
            if batch.is_progress:
                self._progress(batch)
            events = []

    async def _beat(self, stream: WatchStream) -> None:
        """Ends a stream on which nothing arrives: a member that hangs or is cut off does not end it itself."""
        now = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            silence = now() - self._last_response
            if silence > 2 * _HEARTBEAT_SECONDS:
                break
            try:
                stream.send(self._client.messages.progress_request())
            except CallFailed:
                break
        stream.end(f"etcd has not answered for {now() - self._last_response:.1f} s")

    async def _recover(self, failure: CallFailed, delay: float) -> float:
        """Prepares the next attempt; returns the seconds until then."""
        if failure.verdict is Verdict.COMPACTED:
            with suppress(CallFailed):
                await self._relist()
                return 0.0
        if self.problem is None:
            delay = _RETRY_SECONDS
            log.warning("the connection to etcd is lost; it is retried", extra={"reason": failure.reason})
        if failure.verdict is Verdict.REFUSED:
            self.problem = failure.reason
        else:
            self.problem = f"etcd at {self._client.addresses} does not answer: {failure.reason}"
            self._client.rotate()
        with suppress(CallFailed):
            await self._client.renew_login()
        return min(delay * 2, _LONGEST_RETRY_SECONDS)

    async def _relist(self) -> None:
        """Lists all keys again, and shows the differences as changes."""
        items, revision = await self._list(0)
        store, head = self.store, self.revision
        if revision <= head:
            return
        log.warning("changes of etcd are compacted; all keys were listed again", extra={"after": head, "at": revision})
        for change in differences(store.items, items, revision):
            store.commit(change)
        store.history.add_gap(head, revision)
        store.history.advance(revision)
        self._end_batch()

    def _apply(self, events: Iterable[WatchEvent]) -> None:
        """Shows events; those that are shown already are dropped."""
        store, head, keys = self.store, self.revision, self._keys
        compacted = newest = 0
        for stored, is_deletion in events:
            if stored.revision <= head:
                continue
            newest = stored.revision
            item = keys.item(stored)
            if item is None:
                compacted = _number(stored) if stored.key == keys.compaction else compacted
                continue
            before = store.items.get(item.key)
            if not is_deletion:
                store.commit(Change(newest, item.key, before, item))
            elif before is not None:
                store.commit(Change(newest, item.key, before, None))
        if newest:
            store.history.advance(newest)
            store.history.compact(min(compacted, newest))
            self._end_batch()

    def _progress(self, batch: WatchBatch) -> None:
        if self._trusts_progress or not batch.is_solicited:
            self.store.history.advance(batch.revision)
            self._end_batch()

    def _end_batch(self) -> None:
        revision, waiters = self.revision, self._waiters
        if self._own:
            self._own = {number: change for number, change in self._own.items() if number > revision}
        while waiters and waiters[0][0] <= revision:
            reached = heapq.heappop(waiters)[2]
            if not reached.done():
                reached.set_result(None)
        if self._clock is not None:
            self.store.history.forget_older(self._clock())


def differences(old: Mapping[str, Item], new: Sequence[Item], revision: int) -> list[Change]:
    """The changes from old items to the new ones, which are of `revision`, in the order of revisions.

    When a key was deleted is not known: the deletion gets `revision`, or the one before the key was created again.
    """
    changes: list[Change] = []
    for item in new:
        before = old.get(item.key)
        if before is not None and before.revision == item.revision:
            continue
        if before is not None and before.created != item.created:
            changes.append(Change(item.created - 1, item.key, before, None))
            before = None
        changes.append(Change(item.revision, item.key, before, item))
    present = {item.key for item in new}
    changes += [Change(revision, key, item, None) for key, item in old.items() if key not in present]
    changes.sort(key=attrgetter("revision"))
    return changes


def has_safe_progress(version: Sequence[int]) -> bool:
    """Whether a requested progress report of this version of etcd never overtakes events (3.4.31, 3.5.13, 3.6)."""
    major, minor, patch = (*version, 0, 0, 0)[:3]
    if (major, minor) == (3, 4):
        return patch >= 31
    return (major, minor, patch) >= (3, 5, 13)


def _number(stored: StoredKey | None) -> int:
    return int(stored.value) if stored is not None and stored.value.isdigit() else 0
