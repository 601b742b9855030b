"""A queue between tasks that either end can close, so that nobody waits for ever on somebody who has gone.

`Channel` holds the items, and two lines of waiting tasks: readers for items, senders for room. A task that waits is
given a *turn* when there is something for it, and takes it when it runs next. The item stays in the buffer until then:
whoever is cancelled between the two loses nothing, and the turn goes to the next in line.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from levelset.aio import timing

__all__ = ["Channel", "Closed", "WouldBlock"]

T = TypeVar("T")


class Closed(Exception):
    """Nothing more will pass: the other end of a channel has closed it, or this one has."""


class WouldBlock(Exception):
    """A `..._nowait` call could not be answered at once."""


class Channel(AsyncIterator[T]):
    """Passes items from tasks that send to tasks that receive, in order, each item to one receiver.

    `capacity=None` is a channel without a bound. A `send` that returns has put its item into the channel; one that
    raises, for whatever reason, has not. A `receive` that raises has taken nothing. Those who wait are served first
    come, first served; the `_nowait` forms do not queue, and take only what is not promised to somebody in line.

    For one event loop; not for threads.
    """

    __slots__ = ("_abandoned", "_closed", "_items", "_limit", "_receivers", "_senders", "capacity", "name")

    def __init__(self, *, capacity: int | None, name: str = "channel") -> None:
        if capacity is not None and capacity < 1:
            raise ValueError(f"{name}: capacity must be at least 1, or None for no bound, not {capacity}")
        self.capacity = capacity
        self.name = name
        self._limit = math.inf if capacity is None else capacity
        self._items: deque[T] = deque()
        self._receivers = _Line()
        self._senders = _Line()
        self._closed = False
        self._abandoned = False

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        bound = "unbounded" if self.capacity is None else f"of {self.capacity}"
        return f"<Channel {self.name!r}: {len(self)} {bound}{', closed' if self._closed else ''}>"

    @property
    def is_closed(self) -> bool:
        """Whether sending is over; there may still be items to receive."""
        return self._closed

    async def send(self, item: T, *, within: float | None = None) -> None:
        """Puts the item in, waiting for room if need be.

        Raises Closed, at once also for those already waiting, when either end closes; TimeoutError if there is no room
        `within` so many seconds. Does not give way to other tasks when it need not wait.
        """
        senders = self._senders
        if not self._closed and (len(self._items) >= self._limit or senders.given or senders.waiting):
            await _limited(within, self._wait_room())
        if self._closed:
            raise self._gone()
        self._put(item)

    def send_nowait(self, item: T) -> None:
        """Puts the item in, or raises WouldBlock if the channel is full, Closed if it is closed."""
        if self._closed:
            raise self._gone()
        if len(self._items) + self._senders.given >= self._limit:
            raise WouldBlock(f"{self.name} is full ({self.capacity} items); use send to wait for room")
        self._put(item)

    def push(self, item: T) -> int:
        """Puts the item in without waiting; a full channel drops its oldest. Returns how many it dropped, 0 or 1."""
        if self._closed:
            raise self._gone()
        dropped = 0
        if len(self._items) >= self._limit:
            self._items.popleft()
            dropped = 1
        self._put(item)
        return dropped

    async def receive(self, *, within: float | None = None) -> T:
        """Takes the oldest item, waiting for one if need be.

        Raises Closed when the channel is closed and empty; TimeoutError if nothing comes `within` so many seconds.
        Does not give way to other tasks when it need not wait.
        """
        receivers = self._receivers
        if not self._items or receivers.given or receivers.waiting:
            if self._items or not self._closed:
                await _limited(within, receivers.wait_turn(self._items.__len__))
            if not self._items:
                raise self._gone()
        return self._take()

    def receive_nowait(self) -> T:
        """Takes the oldest item, or raises WouldBlock if there is none yet, Closed if there will never be one."""
        if len(self._items) > self._receivers.given:
            return self._take()
        if self._closed and not self._items:
            raise self._gone()
        raise WouldBlock(f"{self.name} has nothing to receive; use receive to wait for it")

    def drain(self) -> list[T]:
        """Takes everything that is there now, without waiting: a batch, perhaps empty."""
        return [self._take() for _ in range(len(self._items) - self._receivers.given)]

    async def __anext__(self) -> T:
        try:
            return await self.receive()
        except Closed:
            raise StopAsyncIteration from None

    def close(self) -> None:
        """Ends the sending. Senders, also those waiting, get Closed; readers first get what is there, then the end."""
        self._closed = True
        self._senders.dismiss()
        if not self._items:
            self._receivers.dismiss()

    def abandon(self) -> list[T]:
        """Ends the reading, and the sending with it: every sender gets Closed at once. Returns what nobody has read."""
        left = list(self._items)
        self._items.clear()
        self._abandoned = not self._closed or bool(left)
        self.close()
        return left

    async def aclose(self) -> None:
        """Abandons the channel: what a Stream that reads from it calls when it is closed."""
        self.abandon()

    @contextmanager
    def reading(self) -> Generator[Self, None, None]:
        """A block in which this task reads; leaving it, in whatever way, abandons the channel."""
        try:
            yield self
        finally:
            self.abandon()

    @contextmanager
    def writing(self) -> Generator[Self, None, None]:
        """A block in which this task sends; leaving it, in whatever way, closes the channel."""
        try:
            yield self
        finally:
            self.close()

    async def _wait_room(self) -> None:
        await self._senders.wait_turn(self._room)
        while not self._closed and len(self._items) >= self._limit:  # a push was faster
            await self._senders.wait_turn(self._room)

    def _room(self) -> float:
        return self._limit - len(self._items)

    def _put(self, item: T) -> None:
        self._items.append(item)
        if self._receivers.waiting:
            self._receivers.admit(len(self._items))

    def _take(self) -> T:
        item = self._items.popleft()
        if self._senders.waiting:
            self._senders.admit(self._limit - len(self._items))
        elif self._closed and not self._items:
            self._receivers.dismiss()
        return item

    def _gone(self) -> Closed:
        if self._abandoned:
            return Closed(f"{self.name} was abandoned by its reader; stop sending")
        return Closed(f"{self.name} is closed; nothing more will pass")


async def _limited(within: float | None, waiting: Coroutine[Any, Any, None]) -> None:
    if within is None:
        await waiting
    else:
        async with timing.within(within):
            await waiting


class _Line:
    """Tasks that wait for a turn, first come, first served."""

    __slots__ = ("given", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[bool]] = deque()
        self.given = 0  # turns given to tasks that have not run since

    async def wait_turn(self, places: Callable[[], float]) -> None:
        """Returns when it is this task's turn, or when the line is dismissed.

        A turn that comes together with a cancellation goes to the next in line: the `places` are asked again.
        """
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.waiting.append(waiter)
        self.admit(places())
        try:
            if waiter.done():  # others have been given their turns earlier, and have yet to take them
                await asyncio.sleep(0)
            await waiter
        except BaseException:
            self._leave(waiter)
            self.admit(places())
            raise
        self.given -= waiter.result()

    def _leave(self, waiter: "asyncio.Future[bool]") -> None:
        if waiter.done() and not waiter.cancelled():
            self.given -= waiter.result()
        elif waiter in self.waiting:
            self.waiting.remove(waiter)

    def admit(self, places: float) -> None:
        """Gives turns, as far as there are places for them."""
        while self.waiting and self.given < places:
            waiter = self.waiting.popleft()
            if not waiter.done():  # cancelled, and about to leave the line
                waiter.set_result(True)
                self.given += 1

    def dismiss(self) -> None:
        """Sends everybody home who has no turn."""
        while self.waiting:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(False)
