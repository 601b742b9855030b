"""A reader with a pace of its own: changes one by one, conflated for as long as nobody takes them.

What one reader has yet to see: at most one change for each object, however slow the reader is.

`Replay` is the part that was there before the reader came, `Conflated` what has happened since. Both are bounded by the
number of objects that the reader knows or could know, and neither waits for anything.

Those who hear of every change in an informer: what they have in common.

A reader that is called: batches of changes, at once, for those who only put them somewhere else.

Where the errors of other people's functions go: into the log, while the cache goes on.
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
from levelset.objects.cached_object import Kept
from levelset.runtime.cache.cache_sync import Readiness
from levelset.runtime.cache.change import Change
from levelset.runtime.cache.index import Report

__all__ = ["Conflated", "Feed", "Joining", "Listening", "Replay", "Subscription", "report_error"]

K = TypeVar("K")


class Conflated(Generic[K]):
    """Changes in the order in which their objects first changed; two of the same object are one.

    It goes from the first old to the latest new object. What came and went in the meantime was never there.
    """

    __slots__ = ("_changes", "_order", "initial")

    def __init__(self) -> None:
        # Two containers, since taking the first of a dict again and again looks at all that were there before, and an
        # OrderedDict takes 12 ms to grow past a hundred thousand.
        self._changes: dict[str, Change[K]] = {}
        self._order: deque[str] = deque()  # may name some that are gone
        self.initial = 0  # how many of them are initial

    def __len__(self) -> int:
        return len(self._changes)

    def __contains__(self, key: object) -> bool:
        return key in self._changes

    def put(self, change: Change[K]) -> None:
        """Takes in a change that comes after all the others."""
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
            self._tidy()

    def pop(self) -> Change[K] | None:
        """Takes out the change that waits longest; None if none does."""
        while self._order:
            change = self._changes.pop(self._order.popleft(), None)
            if change is not None:
                self.initial -= change.is_initial
                return change
        return None

    def clear(self) -> None:
        """Forgets everything."""
        self._changes.clear()
        self._order.clear()
        self.initial = 0

    def _tidy(self) -> None:
        """Forgets the places of those that are gone once they are the most."""
        if len(self._order) > 2 * len(self._changes) + 64:
            self._order = deque(self._changes)


class Replay(Generic[K]):
    """The objects that were there when a reader came, or that he asked to see again, still to be shown to him."""

    __slots__ = ("_is_resync", "_keys", "_left", "_view")

    def __init__(
        self, kept: dict[str, Kept], view: View[K], *, is_resync: bool = False, without: Container[str] | None = None
    ) -> None:
        self._left = dict(kept) if without is None else {key: one for key, one in kept.items() if key not in without}
        self._keys: Iterator[str] = iter(list(self._left))
        self._view = view
        self._is_resync = is_resync

    def __len__(self) -> int:
        return len(self._left)

    @property
    def is_resync(self) -> bool:
        """Whether the reader has seen these objects before."""
        return self._is_resync

    def absorb(self, change: Change[K]) -> bool:
        """Whether a change of an object is already told by showing the object, in its latest state, when it is due."""
        if change.key not in self._left:
            return False
        if self._is_resync or change.after is None:
            del self._left[change.key]
            return not self._is_resync
        self._left[change.key] = change.after
        return True

    def take(self, count: int) -> list[Change[K]]:
        """The next objects to show, at most so many."""
        taken: list[Change[K]] = []
        for key in self._keys:
            kept = self._left.pop(key, None)
            if kept is not None:
                before = kept if self._is_resync else None
                taken.append(Change(key, before, kept, self._view, not self._is_resync, self._is_resync))
                if len(taken) >= count:
                    break
        return taken


class Joining(Generic[K]):
    """What a reader is given when he comes: the objects that are there, and since which write he is told of changes."""

    __slots__ = ("_kept", "detach", "is_complete", "step", "view", "what", "with_replay")

    def __init__(
        self,
        view: View[K],
        kept: Callable[[], dict[str, Kept]],
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
        self._kept = kept

    def replay(self, *, is_resync: bool = False, without: Container[str] | None = None) -> Replay[K]:
        """The objects that are there now."""
        return Replay(self._kept(), self.view, is_resync=is_resync, without=without)


class Feed(ABC, Generic[K]):
    """One reader of an informer: is shown what is there, then told what changes, each in its turn and without a gap.

    `wait_synced` waits until this reader, and not just the informer, has seen what was there.
    """

    def __init__(self, joining: Joining[K]) -> None:
        self._joining = joining
        self._synced = Readiness(joining.what)
        self._has_all = joining.is_complete  # of the initial objects, be they in the replay or told as changes
        self._replay: Replay[K] | None = joining.replay() if joining.with_replay else None
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether nothing more comes."""
        return self._closed

    @property
    def is_synced(self) -> bool:
        """Whether this reader has seen all that was there when he came."""
        return self._synced.is_ready

    async def wait_synced(self, within: float | None = None) -> None:
        """Returns once this reader has seen all that was there; NotReady if that takes longer or never happens."""
        await self._synced.wait(within)

    def offer(self, changes: Sequence[Change[Any]], step: int) -> None:
        """Tells the reader what a write has changed, unless he came after it."""
        if step <= self._joining.step or not changes:
            return
        view, replay = self._joining.view, self._replay
        if changes[0].view is not view:
            changes = [change.seen_as(view) for change in changes]
        if replay is not None:
            changes = [change for change in changes if not replay.absorb(change)]
        if changes:
            self._take(changes)

    def complete(self) -> None:
        """Says that all initial objects have been told."""
        self._has_all = True
        self._check()

    def resync(self) -> None:
        """Shows this reader, and no other, every object again, as changes with `is_resync`.

        Objects of which he has yet to see a change are left out: they will be shown anyway.
        """
        if self._replay is None and not self._closed:
            self._replay = self._joining.replay(is_resync=True, without=self._waiting())
            self._wake()

    def close(self) -> None:
        """Ends it: nothing more comes, and what has not been read is dropped. A second time does nothing."""
        if not self._closed:
            self._closed = True
            self._replay = None
            self._joining.detach(self)
            self._synced.close()
            self._wake()

    async def aclose(self) -> None:
        """Closes it: what a Stream that reads from it calls when it is closed."""
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def end(self) -> None:
        """Says that the informer has ended; what the reader has yet to see can still be read."""
        self.close()

    @abstractmethod
    def _take(self, changes: Sequence[Change[K]]) -> None: ...

    @abstractmethod
    def _wake(self) -> None: ...

    def _waiting(self) -> Container[str] | None:
        """The keys of which the reader has yet to see a change."""
        return None

    @abstractmethod
    def _is_drained(self) -> bool: ...

    def _check(self) -> None:
        if self._has_all and not self._synced.is_ready and self._is_drained():
            self._synced.settle()


class Subscription(Feed[K], AsyncIterator[Change[K]]):
    """The changes of an informer, for one reader: `async for change in subscription`, inside an `async with`.

    First come the objects that are there, with `is_initial`, then what happens to them. A reader who is slow sees an
    object's changes as one, holds up nobody, and needs no more memory than one entry for each object.
    """

    def __init__(self, joining: Joining[K]) -> None:
        super().__init__(joining)
        self._queue: Conflated[K] = Conflated()
        self._waiter: asyncio.Future[None] | None = None
        self._in_hand = False  # the reader still works on an initial object
        self._ended = False
        self._check()

    def __len__(self) -> int:
        """The number of changes that wait to be read."""
        return len(self._queue) + (0 if self._replay is None else len(self._replay))

    async def receive(self, *, within: float | None = None) -> Change[K]:
        """The next change. Raises Closed when nothing more comes, TimeoutError if nothing comes `within` seconds."""
        if (change := self._next()) is not None:
            return change
        async with timing.within(within):
            while (change := self._next()) is None:
                await self._wait()
        return change

    def receive_nowait(self) -> Change[K]:
        """The next change, or WouldBlock if there is none yet; Closed if there will never be one."""
        change = self._next()
        if change is None:
            raise WouldBlock(f"{self._joining.what} has nothing new; use receive to wait for it")
        return change

    def drain(self, limit: int | None = None) -> list[Change[K]]:
        """Everything that is there now, or so many of it, without waiting: a batch, perhaps empty."""
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
        """Ends it: nothing more comes, and what has not been read is dropped. A second time does nothing."""
        self._queue.clear()
        super().close()

    def end(self) -> None:
        """Says that the informer has ended; what the reader has yet to see can still be read."""
        self._ended = True
        self._joining.detach(self)
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
                raise Closed(f"{self._joining.what} is closed; nothing more will come")
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
            raise RuntimeError(f"{self._joining.what} has a reader already; subscribe once more for another one")
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

    def _waiting(self) -> Conflated[K]:
        return self._queue

    def _is_drained(self) -> bool:
        is_replayed = self._replay is None or self._replay.is_resync or not len(self._replay)
        return is_replayed and not self._in_hand and self._queue.initial == 0


_SHOWN: Final = 500
"""How many objects are shown at once to a listener who comes late."""


class Listening(Feed[K]):
    """Calls a function with what changes, in the same moment; it must be quick and must not wait.

    What is there already is shown first, a few hundred objects at a time. What the function raises is reported, and
    harms neither the informer nor other readers; the next change comes all the same.
    """

    def __init__(self, joining: Joining[K], call: Callable[[Sequence[Change[K]]], None], report: Report) -> None:
        super().__init__(joining)
        self.failures = 0
        self._call = call
        self._report = report
        self._timer: asyncio.Handle | None = None
        self._wake()

    def close(self) -> None:
        """Ends it: the function is not called any more. A second time does nothing."""
        super().close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._replay is None or self._closed:
            self._check()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_soon(self._show)

    def _show(self) -> None:
        self._timer = None
        if self._replay is None:
            return
        shown = self._replay.take(_SHOWN)
        if len(shown) < _SHOWN:
            self._replay = None
        if shown:
            self._take(shown)
        self._wake()

    def _take(self, changes: Sequence[Change[K]]) -> None:
        try:
            self._call(changes)
        except Exception as error:  # noqa: BLE001 -- the function is the user's; the informer goes on
            self.failures += 1
            self._report(f"a listener of {self._joining.view.gvk}", error)

    def _is_drained(self) -> bool:
        return not self._closed and (self._replay is None or self._replay.is_resync)


_log = logging.getLogger("levelset.runtime.cache")


def report_error(where: str, error: Exception) -> None:
    """Writes the error to the log of `levelset.runtime.cache`, with the place where it happened."""
    _log.error("%s: %s", where, error, exc_info=error)
