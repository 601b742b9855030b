"""Streams: async iterables that can be transformed and merged, and that close what they opened.

Python does not close an async generator when a loop over it is left early. A `Stream` owns its source, so that there is
one object to close, and closing it closes everything behind it:

| how the reading ends                                     | `async for` alone         | inside `async with stream` |
|----------------------------------------------------------|---------------------------|----------------------------|
| the source ends, or raises, or a function of a stage does | closed, then told         | closed                     |
| the reader is cancelled while it waits for an item       | closed, then cancelled    | closed                     |
| `aclose()` from another task, or `take_until`            | closed, then the end      | closed                     |
| `break`, `return`, an error or cancellation in the body  | **not closed**            | closed                     |
| nobody ever reads                                        | **not closed**            | closed                     |

"Not closed" means: as late as the garbage collector finds the stream, and with a ResourceWarning if it has tasks.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Hashable, Iterable
from typing import Self, TypeVar, overload

from levelset.aio import stages
from levelset.aio.debounce import Leading, Trailing
from levelset.aio.interruption import Interruption
from levelset.aio.pump import close, report

__all__ = ["Stream", "merge"]

T = TypeVar("T")
U = TypeVar("U")


class Stream(AsyncIterator[T]):
    """Items that come with time, for one reader; a stage such as `map` makes a new stream that owns this one.

    Functions given to stages may be plain or async; a result that can be awaited is awaited. The first error ends the
    stream, after everything has been closed; an error while closing after an error goes to the loop's exception
    handler. See the table at the top of this file for what is closed when.
    """

    def __init__(self, source: AsyncIterable[T]) -> None:
        self._source = aiter(source)
        self._reading = Interruption()
        self._ended = False
        self._closer: asyncio.Task[object] | None = None
        self._closed = asyncio.Event()

    @classmethod
    def of(cls, *items: T) -> Self:
        """A stream of these items, at once."""
        return cls(stages.Items(items))

    @overload
    def map(self, function: Callable[[T], Awaitable[U]]) -> "Stream[U]": ...
    @overload
    def map(self, function: Callable[[T], U]) -> "Stream[U]": ...
    def map(self, function: Callable[[T], Awaitable[U]] | Callable[[T], U]) -> "Stream[U]":
        """Each item replaced by what the function makes of it."""
        return Stream(stages.Mapped(self, function))

    def where(self, predicate: Callable[[T], bool] | Callable[[T], Awaitable[bool]]) -> "Stream[T]":
        """Only the items for which the predicate holds."""
        return Stream(stages.Filtered(self, predicate))

    def flat_map(self, function: Callable[[T], Iterable[U] | AsyncIterable[U]]) -> "Stream[U]":
        """Each item replaced by all the items that the function makes of it, one after the other."""
        return Stream(stages.Flattened(self, function))

    def take(self, count: int) -> "Stream[T]":
        """The first `count` items; then it ends, without waiting for one more."""
        return Stream(stages.Taken(self, count))

    def take_until(self, stop: asyncio.Event | Awaitable[object]) -> "Stream[T]":
        """The items until the event is set or the awaitable is done, also in the middle of waiting for an item.

        An awaitable that raises ends the stream with its error. A coroutine is run, and cancelled at the end; a task
        or future remains yours.
        """
        return Stream(stages.Until(self, stop, interrupt=self._interrupt))

    def debounce(self, rule: Leading | Trailing, *, key: Callable[[T], Hashable] | None = None) -> "Stream[T]":
        """One item for each burst of items with the same key, when the rule says; without a key all are the same.

        The source is read in a task, also while the reader is busy; items with keys not yet answered are kept, one for
        each key. When the source ends, what is open is still answered in its time.
        """
        return Stream(stages.Debounced(self, rule, key))

    async def to_list(self) -> list[T]:
        """All items, once the stream has ended."""
        async with self:
            return [item async for item in self]

    async def __anext__(self) -> T:
        if self._ended:
            await self.aclose()
            raise StopAsyncIteration
        if self._reading.task is not None:
            raise RuntimeError("two tasks read from one stream; give each its own, for example with a Broadcast")
        self._reading.enter()
        try:
            item = await anext(self._source)
        except (Exception, asyncio.CancelledError) as error:
            await self._end_with(error, interrupted=self._reading.leave())
            raise
        finally:
            self._reading.leave()
        if self._ended:  # meanwhile, and the source has gone on all the same
            await self._close()
        return item

    async def aclose(self) -> None:
        """Ends the stream and returns when everything behind it is closed; may be called again, and by any task.

        A task that waits for an item sees the end. Raises what a source raised that nobody has seen yet.
        """
        self._interrupt()
        if self._reading.task is None:
            await self._close()
        elif self._reading.task is not asyncio.current_task():
            await self._closed.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _interrupt(self) -> None:
        self._ended = True
        self._reading.interrupt()

    async def _end_with(self, error: BaseException, *, interrupted: bool) -> None:
        self._ended = True
        if isinstance(error, StopAsyncIteration) or (interrupted and isinstance(error, asyncio.CancelledError)):
            await self._close()
            raise StopAsyncIteration from None
        try:
            await self._close()
        except Exception as another:  # noqa: BLE001 -- the first error is the one to raise
            report(another, "a stream failed to close after it had failed")

    async def _close(self) -> None:
        if self._closer is not None:
            if self._closer is not asyncio.current_task():
                await self._closed.wait()
            return
        self._closer = asyncio.current_task()
        try:
            await close(self._source)
        finally:
            self._closed.set()


def merge(*sources: AsyncIterable[T], capacity: int = 16) -> Stream[T]:
    """The items of all sources as they come, until all have ended; the first error ends it, and is raised.

    Every source is read in a task of its own, which also closes it. They read ahead by at most `capacity` items
    together, and one each; what was read ahead is dropped when the reader stops early, and still comes before an error.
    """
    return Stream(stages.Merged([aiter(source) for source in sources], capacity))
