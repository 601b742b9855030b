"""The stages that streams are made of: each reads from the one before, and closes it.

A stage is an async iterator with `aclose`. It leaves it to the `Stream` around it to call that exactly when the reading
is over, for whatever reason, and never while it waits for an item.
"""

import asyncio
import inspect
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Hashable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Generic, TypeGuard, TypeVar

from levelset.aio import timing
from levelset.aio.channel import Channel, Closed, WouldBlock
from levelset.aio.debounce import Debouncer, Leading, Trailing
from levelset.aio.pump import Crew, Pump, close

__all__ = ["Debounced", "Filtered", "Flattened", "Items", "Mapped", "Merged", "Taken", "Until"]

T = TypeVar("T")
U = TypeVar("U")


class Items(AsyncIterator[T]):
    """The items of a plain iterable."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)

    async def __anext__(self) -> T:
        for item in self._items:
            return item
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Closes a generator; other iterables need no closing."""
        items: object = self._items
        if inspect.isgenerator(items):
            items.close()


class Mapped(AsyncIterator[U], Generic[T, U]):
    """Each item, changed by a function."""

    def __init__(self, source: AsyncIterator[T], function: Callable[[T], Awaitable[U] | U]) -> None:
        self._source = source
        self._function = function

    async def __anext__(self) -> U:
        result = self._function(await anext(self._source))
        return await result if _is_awaitable(result) else result  # type: ignore[return-value]  # TypeGuard has no else

    async def aclose(self) -> None:
        """Closes the source."""
        await close(self._source)


class Filtered(AsyncIterator[T]):
    """The items for which a predicate holds."""

    def __init__(self, source: AsyncIterator[T], predicate: Callable[[T], Awaitable[bool] | bool]) -> None:
        self._source = source
        self._predicate = predicate

    async def __anext__(self) -> T:
        while True:
            item = await anext(self._source)
            holds = self._predicate(item)
            if await holds if _is_awaitable(holds) else holds:
                return item

    async def aclose(self) -> None:
        """Closes the source."""
        await close(self._source)


class Flattened(AsyncIterator[U], Generic[T, U]):
    """For each item the items that a function makes of it."""

    def __init__(self, source: AsyncIterator[T], function: Callable[[T], Iterable[U] | AsyncIterable[U]]) -> None:
        self._source = source
        self._function = function
        self._inner: AsyncIterator[U] | None = None

    async def __anext__(self) -> U:
        while True:
            if self._inner is None:
                made = self._function(await anext(self._source))
                self._inner = aiter(made) if isinstance(made, AsyncIterable) else Items(made)
            try:
                return await anext(self._inner)
            except StopAsyncIteration:
                inner, self._inner = self._inner, None
                await close(inner)

    async def aclose(self) -> None:
        """Closes what the function made last, and the source."""
        async with AsyncExitStack() as opened:
            opened.push_async_callback(close, self._source)
            if self._inner is not None:
                opened.push_async_callback(close, self._inner)


class Taken(AsyncIterator[T]):
    """The first so many items."""

    def __init__(self, source: AsyncIterator[T], count: int) -> None:
        if count < 0:
            raise ValueError(f"take({count}): the number of items must not be negative")
        self._source = source
        self._left = count

    async def __anext__(self) -> T:
        if not self._left:
            raise StopAsyncIteration
        item = await anext(self._source)
        self._left -= 1
        return item

    async def aclose(self) -> None:
        """Closes the source."""
        await close(self._source)


class Merged(AsyncIterator[T]):
    """The items of several sources, as they come."""

    def __init__(self, sources: list[AsyncIterator[T]], capacity: int) -> None:
        channel: Channel[T] = Channel(capacity=capacity, name="merge")
        self._channel = channel
        self._pump = Pump(sources, deliver=partial(_send, channel), ended=channel.close, name="merge")

    async def __anext__(self) -> T:
        self._pump.start()
        try:
            return await self._channel.receive()
        except Closed:
            await self._pump.aclose()
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """Ends the tasks, which close their sources."""
        try:
            await self._pump.aclose()
        finally:
            self._channel.abandon()


async def _send(channel: Channel[T], item: T) -> None:
    # A merge does not promise who is first, so a source need not queue behind another while there is room for both.
    try:
        channel.send_nowait(item)
    except WouldBlock:
        await channel.send(item)


class Debounced(AsyncIterator[T]):
    """One item for each burst of items with the same key."""

    def __init__(self, source: AsyncIterator[T], rule: Leading | Trailing, key: Callable[[T], Hashable] | None) -> None:
        self._bursts = _Bursts(rule, key or _same_key)
        self._pump = Pump([source], deliver=self._bursts.trigger, ended=self._bursts.end, name="debounce")

    async def __anext__(self) -> T:
        self._pump.start()
        while not (self._pump.has_failed or self._bursts.is_over):
            for item in self._bursts.debouncer.take_due(timing.now(), limit=1):
                return item
            await self._bursts.wait_change()
        await self._pump.aclose()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Ends the task, which closes the source."""
        await self._pump.aclose()


class _Bursts(Generic[T]):
    """What the reading task and the reader of a debounced stream share."""

    def __init__(self, rule: Leading | Trailing, key: Callable[[T], Hashable]) -> None:
        self.debouncer: Debouncer[Hashable, T] = Debouncer(rule)
        self._key = key
        self._changed = asyncio.Event()
        self._ended = False

    @property
    def is_over(self) -> bool:
        return self._ended and not len(self.debouncer)

    async def trigger(self, item: T) -> None:
        if self.debouncer.trigger(self._key(item), item, now=timing.now()):
            self._changed.set()

    def end(self) -> None:
        self._ended = True
        self._changed.set()

    async def wait_change(self) -> None:
        """Returns when a burst is due, has begun, or the source has ended."""
        self._changed.clear()
        due = self.debouncer.next_due()
        # A timer of our own: a timeout would end in an exception, which keeps alive whoever it went through.
        timer = None if due is None else asyncio.get_running_loop().call_at(due, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            if timer is not None:
                timer.cancel()


def _same_key(_: object) -> Hashable:
    return None


class Until(AsyncIterator[T]):
    """The items until something happens."""

    def __init__(
        self, source: AsyncIterator[T], stop: asyncio.Event | Awaitable[object], *, interrupt: Callable[[], None]
    ) -> None:
        self._source = source
        self._stop = stop
        self._signal = _Signal(interrupt)
        self._crew = Crew("take_until")
        self._watching = False

    async def __anext__(self) -> T:
        self._watch()
        if self._is_stopped():
            self._signal.raise_error()
            raise StopAsyncIteration
        try:
            return await anext(self._source)
        except StopAsyncIteration:
            self._signal.raise_error()
            raise

    async def aclose(self) -> None:
        """Ends the watching, closes the source, and raises the error of the awaitable if nobody has seen it."""
        try:
            await self._unwatch()
        finally:
            await close(self._source)
        self._signal.raise_error()

    def _is_stopped(self) -> bool:
        match self._stop:
            case asyncio.Event() as event:
                return event.is_set()
            case asyncio.Future() as future:
                return future.done()
            case _:
                return self._signal.is_set

    def _watch(self) -> None:
        if self._watching:
            return
        self._watching = True
        match self._stop:
            case asyncio.Future() as future:
                future.add_done_callback(self._signal.fire)
            case stop:
                self._crew.start(_wait(stop), self._signal.fire)

    async def _unwatch(self) -> None:
        await self._crew.stop()
        if isinstance(self._stop, asyncio.Future):
            self._stop.remove_done_callback(self._signal.fire)
        elif inspect.iscoroutine(self._stop):
            self._stop.close()  # it may never have been awaited, on purpose


class _Signal:
    """Tells a stream to stop, without keeping it alive."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self.is_set = False
        self._error: BaseException | None = None
        self._interrupt = weakref.WeakMethod(interrupt)

    def fire(self, stop: "asyncio.Future[Any]") -> None:
        self.is_set = True
        if not stop.cancelled():
            self._error = stop.exception()
        interrupt = self._interrupt()
        if interrupt is not None:
            interrupt()

    def raise_error(self) -> None:
        """Raises the error of what was waited for, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error


async def _wait(stop: asyncio.Event | Awaitable[object]) -> None:
    await (stop.wait() if isinstance(stop, asyncio.Event) else stop)


def _is_awaitable(result: Awaitable[U] | U) -> TypeGuard[Awaitable[U]]:
    # Several times cheaper than isinstance with an abstract class, and this runs for every item.
    return hasattr(result, "__await__")
