"""Subscribers of an informer: subscriptions, which are read, and listeners, which are called.

`Subscription` delivers changes one by one at the subscriber's pace, conflated to at most one change for each object.
`ListenerHandle` calls a function with each slice of changes. `Subscriber` is what both have in common: the objects that
were cached when the subscriber joined (`Replay`) come first, then the changes since, without a gap.

Memory is bounded by the number of objects, however slow a subscriber is.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Container, Iterator, Sequence
from typing import Any, Final, Generic, Self, TypeVar

from levelset.aio import timing
from levelset.aio.channel import Closed, WouldBlock
from levelset.client.object_types import View
from levelset.objects.cached_object import CachedObject
from levelset.runtime.cache.cache_sync import Readiness
from levelset.runtime.cache.change import Change
from levelset.runtime.cache.index import ReportError

__all__ = ["ConflatedChanges", "JoinPoint", "ListenerHandle", "Replay", "Subscriber", "Subscription", "log_error"]

K = TypeVar("K")


class ConflatedChanges(Generic[K]):
    """A queue of changes with at most one for each object, in the order in which the objects first changed.

    Changes of the same object are merged, from the first old to the latest new state; an object that was added and
    deleted in the meantime is dropped.
    """

    __slots__ = ("_changes", "_order", "initial")

    def __init__(self) -> None:
        # Two containers: repeatedly popping the first key of a dict scans past all deleted ones, and an OrderedDict
        # blocks for 12 ms when it grows past 100,000 entries.
        self._changes: dict[str, Change[K]] = {}
        self._order: deque[str] = deque()  # may have stale keys
        self.initial = 0  # the number of initial changes in the queue

    def __len__(self) -> int:
        return len(self._changes)

    def __contains__(self, key: object) -> bool:
        return key in self._changes

    def put(self, change: Change[K]) -> None:
        """Appends a change, or merges it into the queued change of the same object."""
        waiting = self._changes.get(change.key)
        if waiting is None:
            self._changes[change.key] = change
            self._order.append(change.key)
            self.initial += change.is_initial
        elif (both := waiting.then(change)) is not None:
            self._changes[change.key] = both
        else:
            del self._changes[change.key]
            self.initial -= waiting.is_initial
            self._drop_stale()

    def pop(self) -> Change[K] | None:
        """Removes and returns the oldest change; None if the queue is empty."""
        while self._order:
            change = self._changes.pop(self._order.popleft(), None)
            if change is not None:
                self.initial -= change.is_initial
                return change
        return None

    def clear(self) -> None:
        """Removes all changes."""
        self._changes.clear()
        self._order.clear()
        self.initial = 0

    def _drop_stale(self) -> None:
        """Rebuilds the order once most of its keys are stale."""
        if len(self._order) > 2 * len(self._changes) + 64:
            self._order = deque(self._changes)


class Replay(Generic[K]):
    """The cached objects that a subscriber has not seen yet, after it joined or requested a resync."""

    __slots__ = ("_is_resync", "_keys", "_left", "_view")

    def __init__(
        self,
        cached: dict[str, CachedObject],
        view: View[K],
        *,
        is_resync: bool = False,
        without: Container[str] | None = None,
    ) -> None:
        self._left = (
            dict(cached) if without is None else {key: one for key, one in cached.items() if key not in without}
        )
        self._keys: Iterator[str] = iter(list(self._left))
        self._view = view
        self._is_resync = is_resync

    def __len__(self) -> int:
        return len(self._left)

    @property
    def is_resync(self) -> bool:
        """Whether the subscriber has seen these objects before."""
        return self._is_resync

    def absorb(self, change: Change[K]) -> bool:
        """Merges a change into the replay; returns whether the replay delivers it, so that it must not be queued."""
        if change.key not in self._left:
            return False
        if self._is_resync or change.after is None:
            del self._left[change.key]
            return not self._is_resync
        self._left[change.key] = change.after
        return True

    def take(self, count: int) -> list[Change[K]]:
        """The next objects of the replay as changes, at most `count`."""
        taken: list[Change[K]] = []
        for key in self._keys:
            cached = self._left.pop(key, None)
            if cached is not None:
                before = cached if self._is_resync else None
                taken.append(Change(key, before, cached, self._view, not self._is_resync, self._is_resync))
                if len(taken) >= count:
                    break
        return taken


class JoinPoint(Generic[K]):
    """Where a subscriber joins an informer: the objects to replay, and the write after which it gets changes."""

    __slots__ = ("_cached", "detach", "is_complete", "step", "view", "what", "with_replay")

    def __init__(
        self,
        view: View[K],
        cached: Callable[[], dict[str, CachedObject]],
        *,
        step: int,
        is_complete: bool,
        with_replay: bool,
        what: str,
        detach: Callable[[Any], None],
    ) -> None:
        self.view = view
        self.step = step
        self.is_complete = is_complete
        self.with_replay = with_replay
        self.what = what
        self.detach = detach
        self._cached = cached

    def replay(self, *, is_resync: bool = False, without: Container[str] | None = None) -> Replay[K]:
        """A replay of the objects that are cached now."""
        return Replay(self._cached(), self.view, is_resync=is_resync, without=without)


class Subscriber(ABC, Generic[K]):
    """One subscriber of an informer: gets the cached objects, then the changes, in order and without a gap.

    `wait_synced` waits until this subscriber, and not just the informer, has seen the initial objects.
    """

    def __init__(self, join_point: JoinPoint[K]) -> None:
        self._join_point = join_point
        self._synced = Readiness(join_point.what)
        self._has_all = join_point.is_complete  # whether all initial objects were offered, by replay or as changes
        self._replay: Replay[K] | None = join_point.replay() if join_point.with_replay else None
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed."""
        return self._closed

    @property
    def is_synced(self) -> bool:
        """Whether this subscriber has seen all objects that were cached when it joined."""
        return self._synced.is_ready

    async def wait_synced(self, within: float | None = None) -> None:
        """Returns once this subscriber has seen all initial objects; NotReady if not in time, or if it is closed."""
        await self._synced.wait(within)

    def offer(self, changes: Sequence[Change[Any]], step: int) -> None:
        """Delivers the changes of a write, unless the subscriber joined after it."""
        if step <= self._join_point.step or not changes:
            return
        view, replay = self._join_point.view, self._replay
        if changes[0].view is not view:
            changes = [change.seen_as(view) for change in changes]
        if replay is not None:
            changes = [change for change in changes if not replay.absorb(change)]
        if changes:
            self._take(changes)

    def complete(self) -> None:
        """Marks the initial objects as complete."""
        self._has_all = True
        self._check()

    def resync(self) -> None:
        """Delivers every object again to this subscriber only, as changes with `is_resync`.

        Objects with a queued change are left out: that change delivers them.
        """
        if self._replay is None and not self._closed:
            self._replay = self._join_point.replay(is_resync=True, without=self._waiting())
            self._wake()

    def close(self) -> None:
        """Closes it: unread changes are dropped, and no more come. May be called again."""
        if not self._closed:
            self._closed = True
            self._replay = None
            self._join_point.detach(self)
            self._synced.close()
            self._wake()

    async def aclose(self) -> None:
        """Closes it; called by a Stream that reads from it."""
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def end(self) -> None:
        """Called when the informer has ended; queued changes can still be read."""
        self.close()

    @abstractmethod
    def _take(self, changes: Sequence[Change[K]]) -> None: ...

    @abstractmethod
    def _wake(self) -> None: ...

    def _waiting(self) -> Container[str] | None:
        """The keys with a queued change; None if changes are not queued."""
        return None

    @abstractmethod
    def _is_drained(self) -> bool: ...

    def _check(self) -> None:
        if self._has_all and not self._synced.is_ready and self._is_drained():
            self._synced.set_ready()


class Subscription(Subscriber[K], AsyncIterator[Change[K]]):
    """The changes of an informer, for one task: `async for change in subscription`, inside an `async with`.

    The cached objects come first, with `is_initial`, then the changes. A slow subscriber sees the changes of an object
    merged into one; it blocks no other subscriber, and its queue has at most one entry for each object.
    """

    def __init__(self, join_point: JoinPoint[K]) -> None:
        super().__init__(join_point)
        self._queue: ConflatedChanges[K] = ConflatedChanges()
        self._waiter: asyncio.Future[None] | None = None
        self._in_hand = False  # the subscriber is still processing an initial object
        self._ended = False
        self._check()

    def __len__(self) -> int:
        """The number of unread changes."""
        return len(self._queue) + (0 if self._replay is None else len(self._replay))

    async def receive(self, *, within: float | None = None) -> Change[K]:
        """The next change. Raises Closed at the end, TimeoutError if none comes `within` seconds."""
        if (change := self._next()) is not None:
            return change
        async with timing.within(within):
            while (change := self._next()) is None:
                await self._wait()
        return change

    def receive_nowait(self) -> Change[K]:
        """The next change; WouldBlock if there is none yet, Closed at the end."""
        change = self._next()
        if change is None:
            raise WouldBlock(f"{self._join_point.what} has no unread change; use receive() to wait for one")
        return change

    def drain(self, limit: int | None = None) -> list[Change[K]]:
        """The unread changes, at most `limit`, without waiting; perhaps none."""
        batch: list[Change[K]] = []
        while len(self) and (limit is None or len(batch) < limit) and (change := self._next()) is not None:
            batch.append(change)
        return batch

    async def __anext__(self) -> Change[K]:
        try:
            return await self.receive()
        except Closed:
            raise StopAsyncIteration from None

    def close(self) -> None:
        """Closes it: unread changes are dropped, and no more come. May be called again."""
        self._queue.clear()
        super().close()

    def end(self) -> None:
        """Called when the informer has ended; queued changes can still be read."""
        self._ended = True
        self._join_point.detach(self)
        self._wake()

    def _next(self) -> Change[K] | None:
        self._in_hand = False
        change = self._pop()
        if change is not None:
            self._in_hand = change.is_initial
        else:
            self._check()
            if self._closed or self._ended:
                self._synced.close()
                raise Closed(f"{self._join_point.what} is closed; no more changes will come")
        return change

    def _pop(self) -> Change[K] | None:
        if self._replay is not None:
            if shown := self._replay.take(1):
                return shown[0]
            self._replay = None
        change = self._queue.pop()
        if change is not None and not change.is_initial:
            self._check()
        return change

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise RuntimeError(
                f"{self._join_point.what} is already being read by another task; subscribe once per task"
            )
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _take(self, changes: Sequence[Change[K]]) -> None:
        for change in changes:
            self._queue.put(change)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _waiting(self) -> ConflatedChanges[K]:
        return self._queue

    def _is_drained(self) -> bool:
        is_replayed = self._replay is None or self._replay.is_resync or not len(self._replay)
        return is_replayed and not self._in_hand and self._queue.initial == 0


_REPLAY_SLICE: Final = 500
"""How many objects of a replay are delivered to a listener at once."""


class ListenerHandle(Subscriber[K]):
    """Calls a function with each slice of changes, synchronously; the function must be quick and must not block.

    The cached objects are delivered first, some hundred at a time. An error of the function is reported and affects
    neither the informer nor other subscribers; the next slice is delivered all the same.
    """

    def __init__(
        self, join_point: JoinPoint[K], call: Callable[[Sequence[Change[K]]], None], report: ReportError
    ) -> None:
        super().__init__(join_point)
        self.failures = 0
        self._call = call
        self._report = report
        self._timer: asyncio.Handle | None = None
        self._wake()

    def close(self) -> None:
        """Closes it: the function is not called any more. May be called again."""
        super().close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._replay is None or self._closed:
            self._check()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_soon(self._deliver_replay)

    def _deliver_replay(self) -> None:
        self._timer = None
        if self._replay is None:
            return
        try:
            shown = self._replay.take(_REPLAY_SLICE)
        except Exception as error:  # noqa: BLE001 -- a callback has no caller: `wait_synced` raises it
            self._report(f"the initial objects of a listener of {self._join_point.view.gvk}", error)
            self.close()
            self._synced.close(error)
            return
        if len(shown) < _REPLAY_SLICE:
            self._replay = None
        if shown:
            self._take(shown)
        self._wake()

    def _take(self, changes: Sequence[Change[K]]) -> None:
        try:
            self._call(changes)
        except Exception as error:  # noqa: BLE001 -- a user's function; the informer must go on
            self.failures += 1
            self._report(f"a listener of {self._join_point.view.gvk}", error)

    def _is_drained(self) -> bool:
        return not self._closed and (self._replay is None or self._replay.is_resync)


_log = logging.getLogger("levelset.runtime.cache")


def log_error(where: str, error: Exception) -> None:
    """Logs an error of a user's function to `levelset.runtime.cache`, with the place where it happened."""
    _log.error("%s: %s", where, error, exc_info=error)
