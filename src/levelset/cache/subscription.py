"""A reader with a pace of its own: changes one by one, conflated for as long as nobody takes them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from levelset.aio import timing
from levelset.aio.channel import Closed, WouldBlock
from levelset.cache.changes import Change
from levelset.cache.conflating import Conflated
from levelset.cache.feeds import Feed, Joining

__all__ = ["Subscription"]

K = TypeVar("K")


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
