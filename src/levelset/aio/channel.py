"""A bounded queue between tasks that either end can close, so that no task waits for a peer that is gone.

A `Channel` has a buffer and two queues of waiting tasks: receivers wait for items, senders for space. A waiting task
gets a *permit* when there is an item (space) for it, and uses it when it runs next. The item stays in the buffer until
then, so that a task that is cancelled in between loses nothing: its permit goes to the next waiter.
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
    """The channel is closed, by this end or the other.

    What to do: end the loop that sends or receives; `async for` over a channel ends by itself.
    """


class WouldBlock(Exception):
    """A `..._nowait` call would have to wait.

    What to do: use the verb without `_nowait`, which waits, or drop the item.
    """


class Channel(AsyncIterator[T]):
    """Passes items from tasks that send to tasks that receive, in order, each item to one receiver.

    `capacity=None` is an unbounded channel. A `send` that returns has put its item into the channel; one that raises,
    for whatever reason, has not. A `receive` that raises has taken nothing. Waiting tasks are served first come, first
    served; the `_nowait` forms do not queue, and take only what is not promised to a waiting task.

    For one event loop; not thread-safe.
    """

    __slots__ = ("_abandoned", "_closed", "_items", "_limit", "_receivers", "_senders", "capacity", "name")

    def __init__(self, *, capacity: int | None, name: str = "channel") -> None:
        if capacity is not None and capacity < 1:
            raise ValueError(f"{name}: capacity must be at least 1, or None for no bound, not {capacity}")
        self.capacity = capacity
        self.name = name
        self._limit = math.inf if capacity is None else capacity
        self._items: deque[T] = deque()
        self._receivers = _Waiters()
        self._senders = _Waiters()
        self._closed = False
        self._abandoned = False

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        bound = "unbounded" if self.capacity is None else f"of {self.capacity}"
        return f"<Channel {self.name!r}: {len(self)} {bound}{', closed' if self._closed else ''}>"

    @property
    def is_closed(self) -> bool:
        """Whether sending has ended; there may still be items to receive."""
        return self._closed

    async def send(self, item: T, *, within: float | None = None) -> None:
        """Puts the item in, waiting for space if necessary.

        Raises Closed as soon as either end closes, TimeoutError if there is no space `within` so many seconds. Does not
        yield to other tasks if it need not wait.
        """
        senders = self._senders
        if not self._closed and (len(self._items) >= self._limit or senders.permits or senders.waiting):
            await _limited(within, self._wait_space())
        if self._closed:
            raise self._gone()
        self._put(item)

    def send_nowait(self, item: T) -> None:
        """Puts the item in, or raises WouldBlock if the channel is full, Closed if it is closed."""
        if self._closed:
            raise self._gone()
        if len(self._items) + self._senders.permits >= self._limit:
            raise WouldBlock(f"{self.name} is full ({self.capacity} items); use send to wait for space")
        self._put(item)

    def push(self, item: T) -> int:
        """Puts the item in without waiting; a full channel drops its oldest. Returns how many were dropped, 0 or 1."""
        if self._closed:
            raise self._gone()
        dropped = 0
        if len(self._items) >= self._limit:
            self._items.popleft()
            dropped = 1
        self._put(item)
        return dropped

    async def receive(self, *, within: float | None = None) -> T:
        """Takes the oldest item, waiting for one if necessary.

        Raises Closed when the channel is closed and empty, TimeoutError if nothing arrives `within` so many seconds.
        Does not yield to other tasks if it need not wait.
        """
        receivers = self._receivers
        if not self._items or receivers.permits or receivers.waiting:
            if self._items or not self._closed:
                await _limited(within, receivers.wait(self._items.__len__))
            if not self._items:
                raise self._gone()
        return self._take()

    def receive_nowait(self) -> T:
        """Takes the oldest item, or raises WouldBlock if there is none yet, Closed if there will never be one."""
        if len(self._items) > self._receivers.permits:
            return self._take()
        if self._closed and not self._items:
            raise self._gone()
        raise WouldBlock(f"{self.name} is empty; use receive to wait for an item")

    def drain(self) -> list[T]:
        """Takes all items that are there now, without waiting; perhaps none."""
        return [self._take() for _ in range(len(self._items) - self._receivers.permits)]

    async def __anext__(self) -> T:
        try:
            return await self.receive()
        except Closed:
            raise StopAsyncIteration from None

    def close(self) -> None:
        """Ends sending. Senders, also waiting ones, get Closed; receivers get the buffered items, then Closed."""
        self._closed = True
        self._senders.dismiss()
        if not self._items:
            self._receivers.dismiss()

    def abandon(self) -> list[T]:
        """Ends receiving, and sending with it: every sender gets Closed at once. Returns the items left over."""
        left = list(self._items)
        self._items.clear()
        self._abandoned = not self._closed or bool(left)
        self.close()
        return left

    async def aclose(self) -> None:
        """`abandon`, for a Stream that reads from it."""
        self.abandon()

    @contextmanager
    def reading(self) -> Generator[Self, None, None]:
        """A block in which this task receives; leaving it in any way abandons the channel."""
        try:
            yield self
        finally:
            self.abandon()

    @contextmanager
    def writing(self) -> Generator[Self, None, None]:
        """A block in which this task sends; leaving it in any way closes the channel."""
        try:
            yield self
        finally:
            self.close()

    async def _wait_space(self) -> None:
        await self._senders.wait(self._space)
        while not self._closed and len(self._items) >= self._limit:  # a `push` took the space
            await self._senders.wait(self._space)

    def _space(self) -> float:
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
            return Closed(f"{self.name} was abandoned by its receiver; stop sending")
        return Closed(f"{self.name} is closed")


async def _limited(within: float | None, waiting: Coroutine[Any, Any, None]) -> None:
    if within is None:
        await waiting
    else:
        async with timing.within(within):
            await waiting


class _Waiters:
    """Tasks that wait for a permit, first come, first served."""

    __slots__ = ("permits", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[bool]] = deque()
        self.permits = 0  # permits of tasks that have not run since

    async def wait(self, available: Callable[[], float]) -> None:
        """Returns when this task gets a permit, or when all waiters are dismissed.

        A permit that coincides with a cancellation goes to the next waiter. `available` returns how many items (how
        much space) there are.
        """
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.waiting.append(waiter)
        self.admit(available())
        try:
            if waiter.done():  # tasks with earlier permits have to run first
                await asyncio.sleep(0)
            await waiter
        except BaseException:
            self._leave(waiter)
            self.admit(available())
            raise
        self.permits -= waiter.result()

    def _leave(self, waiter: "asyncio.Future[bool]") -> None:
        if waiter.done() and not waiter.cancelled():
            self.permits -= waiter.result()
        elif waiter in self.waiting:
            self.waiting.remove(waiter)

    def admit(self, available: float) -> None:
        """Gives permits to waiters, up to `available`."""
        while self.waiting and self.permits < available:
            waiter = self.waiting.popleft()
            if not waiter.done():  # cancelled, and about to leave the queue
                waiter.set_result(True)
                self.permits += 1

    def dismiss(self) -> None:
        """Wakes all waiters without a permit."""
        while self.waiting:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(False)
