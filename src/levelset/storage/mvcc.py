"""A multi-version store in memory: current items, retained history, reads at a revision, and watches.

All backends share it: `MvccReads` is their reading half, `MvccWatch` their watch. Planning a write (`plan_write`)
is separate from making it visible (`MvccStore.commit`), so that a durable backend can write to its file in between.
Reads never wait, and a watch is only a position in a feed of `History`.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from types import TracebackType
from typing import Self

from levelset.errors import Expired, NotFound
from levelset.storage.history import History, Limits, undo
from levelset.storage.interface import Change, Conditions, Item, Mismatch, Page
from levelset.storage.key_index import KeyIndex, check_key

__all__ = ["MvccReads", "MvccStore", "MvccWatch", "plan_conditions", "plan_write"]


def plan_write(current: Item | None, key: str, value: bytes | None, expected: int | None, head: int) -> Change:
    """The change of a put, or of a deletion (no value), as the next write after revision `head`.

    Raises `Mismatch`, and `NotFound` for the deletion of a key that does not exist.
    """
    if expected is not None and expected != (0 if current is None else current.revision):
        raise Mismatch(key, expected, current)
    revision = head + 1
    if value is None:
        if current is None:
            raise NotFound(f"{key!r} does not exist; there is nothing to delete")
        return Change(revision, key, current, None)
    if current is None:
        if not key.isascii() or not key:
            check_key(key)
        return Change(revision, key, None, Item(key, value, revision, revision, 1))
    return Change(revision, key, current, Item(key, value, revision, current.created, current.version + 1))


def plan_conditions(conditions: Conditions, current: Callable[[str], Item | None], head: int) -> list[Change]:
    """The changes of the claims and releases, all as one write after revision `head`; raises `Mismatch`."""
    for key, revision in conditions.guards.items():
        found = current(key)
        if revision != (0 if found is None else found.revision):
            raise Mismatch(key, revision, found)
    changes = [plan_write(current(key), key, value, 0, head) for key, value in conditions.claims.items()]
    found_releases = [found for found in map(current, conditions.releases) if found is not None]
    return [*changes, *(Change(head + 1, found.key, found, None) for found in found_releases)]


class MvccStore:
    """All current items and the retained history."""

    __slots__ = ("_keys", "history", "items", "listeners")

    def __init__(
        self,
        *,
        items: Iterable[Item] = (),
        changes: Iterable[Change] = (),
        compacted: int = 0,
        limits: Limits,
        ring: Callable[[], None],
    ) -> None:
        self.items: dict[str, Item] = {item.key: item for item in items}
        self._keys = KeyIndex(self.items)
        self.listeners: list[Callable[[Change], None]] = []
        self.history = History(compacted=compacted, changes=changes, limits=limits, ring=ring)

    def commit(self, change: Change) -> None:
        """Makes a change visible to reads and watches; its revision is not below the newest one."""
        key, after = change.key, change.after
        if after is None:
            del self.items[key]
            self._keys.discard(key)
        else:
            self.items[key] = after
            if change.before is None:
                self._keys.add(key)
        self.history.append(change)
        for listener in self.listeners:
            listener(change)

    def get(self, key: str, revision: int | None) -> Item | None:
        """The item, now or at a revision."""
        if revision is not None:
            for change in self.history.since(revision):
                if change.key == key:
                    return change.before
        return self.items.get(key)

    def count(self, prefix: str, revision: int | None) -> int:
        """The number of keys under a prefix, now or at a revision."""
        now = self._keys.count(prefix)
        if revision is None:
            return now
        earlier = undo(self.history.since(revision), prefix)
        return now + sum((item is not None) - (key in self.items) for key, item in earlier.items())

    def page(self, prefix: str, *, limit: int | None, after: str | None, revision: int | None) -> Page:
        """The items under a prefix, now or at a revision; a limit of 0 means no limit, as in etcd."""
        if limit is not None and limit <= 0:
            limit = None
        if revision is not None:
            earlier = undo(self.history.since(revision), prefix)
            if earlier:
                return self._page_before(earlier, prefix, limit=limit, after=after, revision=revision)
        keys = self._keys.take(prefix, after=after, limit=limit)
        full = limit is not None and len(keys) == limit
        remaining = self._keys.count(prefix, after=after) - len(keys) if full else 0
        revision = self.history.revision if revision is None else revision
        return Page(tuple(map(self.items.__getitem__, keys)), revision, remaining > 0, remaining)

    def _page_before(
        self, earlier: dict[str, Item | None], prefix: str, *, limit: int | None, after: str | None, revision: int
    ) -> Page:
        """A page at an older revision: current keys that did not change since, and the others as they were."""
        if after is not None:
            earlier = {key: item for key, item in earlier.items() if key > after}
        enough = None if limit is None else limit + len(earlier)
        keys = [key for key in self._keys.take(prefix, after=after, limit=enough) if key not in earlier]
        keys += [key for key, item in earlier.items() if item is not None]
        keys.sort()
        if limit is not None:
            del keys[limit:]
        there = sum((item is not None) - (key in self.items) for key, item in earlier.items())
        remaining = self._keys.count(prefix, after=after) + there - len(keys)
        items = tuple(earlier.get(key) or self.items[key] for key in keys)
        return Page(items, revision, remaining > 0, remaining)


_LARGEST_BATCH = 1_000


class MvccWatch:
    """The watch of the backends that hold their history in memory; see `levelset.storage.Watch`."""

    __slots__ = ("_closed", "_feed", "_history", "_is_over", "_position", "_seen")

    def __init__(self, history: History, prefix: str, *, after: int, is_over: Callable[[], bool]) -> None:
        self._history = history
        self._feed, self._position = history.subscribe(prefix, after)
        self._seen = after
        self._is_over = is_over
        self._closed = False

    @property
    def revision(self) -> int:
        """The revision up to which everything under the prefix has been delivered."""
        feed = self._feed
        if not self._closed and self._position == feed.first + len(feed.changes):
            self._seen = self._history.revision
        return self._seen

    def batch_nowait(self) -> list[Change]:
        """The next changes, at most a thousand; empty if there are none yet. Raises `Expired`."""
        feed = self._feed
        if self._closed:
            return []
        start = self._position - feed.first
        if start < 0:
            text = f"changes under {feed.prefix!r} after revision {self._seen} are compacted; relist and watch again"
            raise Expired(text)
        batch = feed.changes[start : start + _LARGEST_BATCH]
        if batch:
            if len(batch) == _LARGEST_BATCH:
                batch += _rest_of_revision(feed.changes, start + _LARGEST_BATCH)
            self._position += len(batch)
            self._seen = batch[-1].revision
        return batch

    def call_when_ready(self, callback: Callable[[], None], /) -> None:
        """Calls back once, after the next change or at the end; see `NowaitWatch`."""
        if self in self._feed.waiting:
            raise RuntimeError(f"this watch of {self._feed.prefix!r} has a waiting reader already; open a second watch")
        self._feed.waiting[self] = callback

    def close_nowait(self) -> None:
        """As `close`."""
        if self._closed:
            return
        self._closed = True
        call = self._feed.waiting.pop(self, None)
        self._history.feeds.release(self._feed)
        if call is not None:
            call()

    async def close(self) -> None:
        """Ends the watch and wakes the reader that waits for its next batch."""
        self.close_nowait()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Change]:
        while True:
            batch = self.batch_nowait()
            if batch:
                return batch
            if self._closed or self._is_over():
                raise StopAsyncIteration
            await self._wait_change()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close_nowait()

    async def _wait_change(self) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def resolve() -> None:
            if not ready.done():
                ready.set_result(None)

        self.call_when_ready(resolve)
        try:
            await ready
        finally:
            self._feed.waiting.pop(self, None)


def _rest_of_revision(changes: Sequence[Change], start: int) -> Sequence[Change]:
    """The changes from `start` with the revision of the one before: a client that resumes there must have had all."""
    end = start
    while end < len(changes) and changes[end].revision == changes[start - 1].revision:
        end += 1
    return changes[start:end]


class MvccReads:
    """The reads of the backends that hold everything in memory; a subclass adds writes and closing.

    The async reads return without waiting; the `_nowait` ones are the same without the coroutine.
    """

    def __init__(
        self, *, items: Iterable[Item] = (), changes: Iterable[Change] = (), compacted: int = 0, limits: Limits
    ) -> None:
        self._mvcc = MvccStore(items=items, changes=changes, compacted=compacted, limits=limits, ring=self._ring)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self.damaged: Collection[str] = ()
        """The keys whose stored values are damaged."""
        self.write_problem: str | None = None
        """Why only deletions are possible now; None if everything is."""

    @property
    def revision(self) -> int:
        """The newest revision that reads see."""
        return self._mvcc.history.revision

    @property
    def compacted(self) -> int:
        """The newest compacted revision."""
        return self._mvcc.history.compacted

    def find_write_problem(self) -> str | None:
        """As `write_problem`, with the state of the disk, if there is one."""
        return self.write_problem

    async def get(self, key: str, *, revision: int | None = None) -> Item | None:
        """As `Storage.get`."""
        return self._mvcc.get(key, revision)

    async def list(
        self, prefix: str, *, limit: int | None = None, after: str | None = None, revision: int | None = None
    ) -> Page:
        """As `Storage.list`."""
        return self._mvcc.page(prefix, limit=limit, after=after, revision=revision)

    async def count(self, prefix: str, *, revision: int | None = None) -> int:
        """As `Storage.count`."""
        return self._mvcc.count(prefix, revision)

    def get_nowait(self, key: str, *, revision: int | None = None) -> Item | None:
        """As `get`, synchronously."""
        return self._mvcc.items.get(key) if revision is None else self._mvcc.get(key, revision)

    def list_nowait(
        self, prefix: str, *, limit: int | None = None, after: str | None = None, revision: int | None = None
    ) -> Page:
        """As `list`, synchronously."""
        return self._mvcc.page(prefix, limit=limit, after=after, revision=revision)

    def count_nowait(self, prefix: str, *, revision: int | None = None) -> int:
        """As `count`, synchronously."""
        return self._mvcc.count(prefix, revision)

    def listen(self, listener: Callable[[Change], None], /) -> Callable[[], None]:
        """As `TransactionalStorage.listen`."""
        listeners = self._mvcc.listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def watch(self, prefix: str, *, after: int) -> MvccWatch:
        """As `Storage.watch`; raises `Expired` and `FutureRevision` from this call. Needs a running loop."""
        self._loop = asyncio.get_running_loop()
        return MvccWatch(self._mvcc.history, prefix, after=after, is_over=self._is_closed)

    async def close(self) -> None:
        """Ends all watches."""
        self._closed = True
        for call in self._mvcc.history.feeds.take_all():
            call()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        await self.close()

    def _is_closed(self) -> bool:
        return self._closed

    def _ring(self) -> None:
        """Wakes the due watchers after this iteration of the event loop: once, however many writes there are in it."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        for call in self._mvcc.history.feeds.take_due():
            call()
