"""Streams: async iterables that can be transformed and merged, and that close what they opened.

Python does not close an async generator when a loop over it is left early. A `Stream` owns its source, so that there is
one object to close, and closing it closes everything behind it:

| how reading ends                                          | `async for` alone      | inside `async with stream` |
|-----------------------------------------------------------|------------------------|----------------------------|
| the source ends, or raises, or a function of a stage does | closed, then raised    | closed                     |
| the reader is cancelled while it waits for an item        | closed, then cancelled | closed                     |
| `aclose()` from another task, or `take_until`             | closed, then the end   | closed                     |
| `break`, `return`, an error or cancellation in the body   | **not closed**         | closed                     |
| the stream is never read                                  | **not closed**         | closed                     |

"Not closed" means: not before the garbage collector finds the stream, with a ResourceWarning if it has tasks.

A stage (`Mapped`, `Merged`, ...) is an async iterator with `aclose`: it reads from the one before and closes it. The
`Stream` around it calls `aclose` once, when reading is over, and never while the stage waits for an item. Stages that
read several sources, or read while the reader is busy, use a `Pump`: one task per source, which passes on every item
and closes its source at the end.
"""

import asyncio
import inspect
import warnings
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Generic, Self, TypeGuard, TypeVar, overload

from levelset.aio import timing
from levelset.aio.batch import Batcher
from levelset.aio.channel import Channel, Closed, WouldBlock
from levelset.aio.debounce import Debouncer, Leading, Trailing
from levelset.aio.supervisor import Interruption

__all__ = [
    "Batched",
    "Debounced",
    "Filtered",
    "Flattened",
    "IterableSource",
    "Mapped",
    "Merged",
    "Pump",
    "Stream",
    "Taken",
    "TaskSet",
    "Until",
    "close_source",
    "merge",
    "report_error",
]

T = TypeVar("T")


class TaskSet:
    """Tasks that work for one object, which calls `stop` at its end.

    The tasks must not reference that object, only what they need of it. Then a task set that is dropped with tasks
    still running can be garbage collected: it warns, and cancels them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], ended: Callable[["asyncio.Task[None]"], None]) -> None:
        """Starts a task; `ended` is always called with it, and must retrieve its result."""
        task = asyncio.get_running_loop().create_task(work, name=self.name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        task.add_done_callback(ended)

    async def stop(self) -> None:
        """Cancels the tasks and returns when all have ended, also if it is itself cancelled meanwhile."""
        _cancel(self.tasks)
        cancelled: asyncio.CancelledError | None = None
        while self.tasks:
            try:
                await asyncio.wait(self.tasks)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def __del__(self) -> None:
        left = [task for task in self.tasks if not task.done() and not task.get_loop().is_closed()]
        for task in left:
            task.get_loop().call_soon_threadsafe(task.cancel)  # garbage collection may run in any thread
        if left:
            message = f"{self.name} was dropped without being closed; use it in an `async with`"
            warnings.warn(message, ResourceWarning, stacklevel=2)


def _cancel(tasks: "set[asyncio.Task[None]]") -> None:
    for task in tasks:
        if not task.cancelling():  # a second cancellation would interrupt its cleanup
            task.cancel()


class Pump(Generic[T]):
    """Reads sources concurrently and passes each item to `deliver`, which may make its source wait.

    `ended` is called once, when all sources have ended or the first has failed; the others are then cancelled.
    """

    def __init__(
        self,
        sources: Sequence[AsyncIterator[T]],
        *,
        deliver: Callable[[T], Coroutine[Any, Any, None]],
        ended: Callable[[], None],
        name: str,
    ) -> None:
        # A task that is cancelled before its first step never runs, and cannot close its source: `aclose` does.
        self._unread = list(sources)
        self._deliver = deliver
        self._tasks = TaskSet(name)
        self._progress = _Progress(self._tasks.tasks, len(sources), ended)
        self._started = False

    @property
    def has_failed(self) -> bool:
        """Whether a source has raised an error; `aclose` raises it."""
        return bool(self._progress.errors)

    def start(self) -> None:
        """Starts reading; no effect if it has started."""
        if self._started:
            return
        self._started = True
        if not self._unread:
            self._progress.ended()
        for source in tuple(self._unread):
            self._tasks.start(_read(source, self._deliver, self._unread), self._progress.task_ended)

    async def aclose(self) -> None:
        """Stops reading and closes the sources; then raises the first error that one of them had, if any.

        An error is raised once. Further ones go to the loop's exception handler.
        """
        self._progress.stopping = self._started = True
        try:
            await self._tasks.stop()
        except asyncio.CancelledError:
            self._report_from(0)
            raise
        finally:
            await self._close_unread()
        self._report_from(1)
        if self._progress.errors:
            raise self._progress.errors.pop()

    async def _close_unread(self) -> None:
        async with AsyncExitStack() as opened:
            while self._unread:
                opened.push_async_callback(close_source, self._unread.pop())

    def _report_from(self, start: int) -> None:
        for error in self._progress.errors[start:]:
            report_error(error, f"{self._tasks.name}: a source failed while the stream was being closed")
        del self._progress.errors[start:]


class _Progress:
    """The state that a pump and its tasks share, so that the tasks need not reference the pump."""

    def __init__(self, tasks: "set[asyncio.Task[None]]", running: int, ended: Callable[[], None]) -> None:
        self.errors: list[BaseException] = []
        self.ended = ended
        self.stopping = False
        self._tasks = tasks
        self._running = running

    def task_ended(self, task: "asyncio.Task[None]") -> None:
        self._running -= 1
        error = self._error_of(task)
        if error is not None:
            self.errors.append(error)
        if error is not None and not self.stopping:
            self.stopping = True
            _cancel(self._tasks)
            self.ended()
        elif not self._running and not self.stopping:
            self.ended()

    def _error_of(self, task: "asyncio.Task[None]") -> BaseException | None:
        if not task.cancelled():
            return task.exception()
        if self.stopping:
            return None
        # Not cancelled by the pump: without an error the source would silently vanish from the stream.
        return RuntimeError(f"a source of {task.get_name()} was cancelled from outside; the stream cannot continue")


async def _read(
    source: AsyncIterator[T], deliver: Callable[[T], Coroutine[Any, Any, None]], unread: list[AsyncIterator[T]]
) -> None:
    unread.remove(source)
    try:
        async for item in source:
            try:
                await deliver(item)
            except Closed:
                return
    finally:
        await close_source(source)


async def close_source(source: AsyncIterator[T]) -> None:
    """Closes an iterator, if it has `aclose`."""
    aclose: Callable[[], Coroutine[Any, Any, None]] | None = getattr(source, "aclose", None)
    if aclose is not None:
        await aclose()


def report_error(error: BaseException, message: str) -> None:
    """Passes an error that cannot be raised, because another one is, to the loop's exception handler."""
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})


U = TypeVar("U")


class IterableSource(AsyncIterator[T]):
    """The items of a synchronous iterable."""

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
        await close_source(self._source)


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
        await close_source(self._source)


class Flattened(AsyncIterator[U], Generic[T, U]):
    """The items that a function returns for each item."""

    def __init__(self, source: AsyncIterator[T], function: Callable[[T], Iterable[U] | AsyncIterable[U]]) -> None:
        self._source = source
        self._function = function
        self._inner: AsyncIterator[U] | None = None

    async def __anext__(self) -> U:
        while True:
            if self._inner is None:
                made = self._function(await anext(self._source))
                self._inner = aiter(made) if isinstance(made, AsyncIterable) else IterableSource(made)
            try:
                return await anext(self._inner)
            except StopAsyncIteration:
                inner, self._inner = self._inner, None
                await close_source(inner)

    async def aclose(self) -> None:
        """Closes the current inner iterable, and the source."""
        async with AsyncExitStack() as opened:
            opened.push_async_callback(close_source, self._source)
            if self._inner is not None:
                opened.push_async_callback(close_source, self._inner)


class Taken(AsyncIterator[T]):
    """The first `count` items."""

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
        await close_source(self._source)


class Merged(AsyncIterator[T]):
    """The items of several sources, as they arrive."""

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
    # A merge promises no order between sources, so a source need not queue behind another while there is space.
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
    """The state that the pump task and the reader of a debounced stream share."""

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
        """Returns when a burst is due or has begun, or the source has ended."""
        await _wait_change(self._changed, self.debouncer.next_due())


async def _wait_change(changed: asyncio.Event, due: float | None) -> None:
    """Returns when the event is set, or when it is due."""
    changed.clear()
    # Not asyncio.timeout: its exception would keep alive the frames that it passed through.
    timer = None if due is None else asyncio.get_running_loop().call_at(due, changed.set)
    try:
        await changed.wait()
    finally:
        if timer is not None:
            timer.cancel()


def _same_key(_: object) -> Hashable:
    return None


class Batched(AsyncIterator[list[T]]):
    """Lists of consecutive items, by size and by time."""

    def __init__(self, source: AsyncIterator[T], *, size: int, within: float) -> None:
        self._pending: _PendingBatch[T] = _PendingBatch(size, within)
        self._pump = Pump([source], deliver=self._pending.add, ended=self._pending.end, name="batch")

    async def __anext__(self) -> list[T]:
        self._pump.start()
        while not self._pending.is_over:
            if self._pending.is_due():
                return self._pending.take()
            await self._pending.wait_change()
        await self._pump.aclose()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Ends the task, which closes the source."""
        await self._pump.aclose()


class _PendingBatch(Generic[T]):
    """The state that the pump task and the reader of a batched stream share."""

    def __init__(self, size: int, within: float) -> None:
        self._batcher: Batcher[T] = Batcher(size=size, within=within)
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._ended = False

    @property
    def is_over(self) -> bool:
        return self._ended and not len(self._batcher)

    async def add(self, item: T) -> None:
        while self._batcher.is_full:
            self._taken.clear()
            await self._taken.wait()
        self._batcher.add(item, now=timing.now())
        if len(self._batcher) == 1 or self._batcher.is_full:
            self._changed.set()

    def end(self) -> None:
        self._ended = True
        self._changed.set()

    def is_due(self) -> bool:
        return self._batcher.is_due(timing.now()) or (self._ended and len(self._batcher) > 0)

    def take(self) -> list[T]:
        self._taken.set()
        return self._batcher.take()

    async def wait_change(self) -> None:
        """Returns when the batch is due, has begun or is full, or the source has ended."""
        await _wait_change(self._changed, self._batcher.next_due())


class Until(AsyncIterator[T]):
    """The items until an event is set or an awaitable is done."""

    def __init__(
        self, source: AsyncIterator[T], stop: asyncio.Event | Awaitable[object], *, interrupt: Callable[[], None]
    ) -> None:
        self._source = source
        self._stop = stop
        self._signal = _Signal(interrupt)
        self._tasks = TaskSet("take_until")
        self._is_waiting = False

    async def __anext__(self) -> T:
        self._start_waiting()
        if self._is_stopped():
            self._signal.raise_error()
            raise StopAsyncIteration
        try:
            return await anext(self._source)
        except StopAsyncIteration:
            self._signal.raise_error()
            raise

    async def aclose(self) -> None:
        """Stops waiting, closes the source, and raises the error of the awaitable if it was not raised yet."""
        try:
            await self._stop_waiting()
        finally:
            await close_source(self._source)
        self._signal.raise_error()

    def _is_stopped(self) -> bool:
        match self._stop:
            case asyncio.Event() as event:
                return event.is_set()
            case asyncio.Future() as future:
                return future.done()
            case _:
                return self._signal.is_set

    def _start_waiting(self) -> None:
        if self._is_waiting:
            return
        self._is_waiting = True
        match self._stop:
            case asyncio.Future() as future:
                future.add_done_callback(self._signal.fire)
            case stop:
                self._tasks.start(_wait(stop), self._signal.fire)

    async def _stop_waiting(self) -> None:
        await self._tasks.stop()
        if isinstance(self._stop, asyncio.Future):
            self._stop.remove_done_callback(self._signal.fire)
        elif inspect.iscoroutine(self._stop):
            self._stop.close()  # perhaps never awaited: avoids the warning


class _Signal:
    """Stops a stream, without keeping it alive."""

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
        """Raises the error of the awaitable, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error


async def _wait(stop: asyncio.Event | Awaitable[object]) -> None:
    await (stop.wait() if isinstance(stop, asyncio.Event) else stop)


def _is_awaitable(result: Awaitable[U] | U) -> TypeGuard[Awaitable[U]]:
    # Several times cheaper than isinstance with an ABC, and this runs for every item.
    return hasattr(result, "__await__")


class Stream(AsyncIterator[T]):
    """Items over time, for one reader; a stage such as `map` returns a new stream that owns this one.

    Functions of stages may be plain or async; awaitable results are awaited. The first error ends the stream, after
    everything has been closed; an error while closing after an error goes to the loop's exception handler. The table at
    the top of this file says what is closed when.
    """

    def __init__(self, source: AsyncIterable[T]) -> None:
        self._source = aiter(source)
        self._reading = Interruption()
        self._ended = False
        self._closer: asyncio.Task[object] | None = None
        self._closed = asyncio.Event()

    @classmethod
    def of(cls, *items: T) -> Self:
        """A stream of these items."""
        return cls(IterableSource(items))

    @overload
    def map(self, function: Callable[[T], Awaitable[U]]) -> "Stream[U]": ...
    @overload
    def map(self, function: Callable[[T], U]) -> "Stream[U]": ...
    def map(self, function: Callable[[T], Awaitable[U]] | Callable[[T], U]) -> "Stream[U]":
        """The results of the function for each item."""
        return Stream(Mapped(self, function))

    def where(self, predicate: Callable[[T], bool] | Callable[[T], Awaitable[bool]]) -> "Stream[T]":
        """Only the items for which the predicate holds."""
        return Stream(Filtered(self, predicate))

    def flat_map(self, function: Callable[[T], Iterable[U] | AsyncIterable[U]]) -> "Stream[U]":
        """All items that the function returns for each item, in sequence."""
        return Stream(Flattened(self, function))

    def take(self, count: int) -> "Stream[T]":
        """The first `count` items; ends without waiting for one more."""
        return Stream(Taken(self, count))

    def take_until(self, stop: asyncio.Event | Awaitable[object]) -> "Stream[T]":
        """The items until the event is set or the awaitable is done, also while waiting for an item.

        An awaitable that raises ends the stream with its error. A coroutine is run, and cancelled at the end; a task
        or future stays the caller's.
        """
        return Stream(Until(self, stop, interrupt=self._interrupt))

    def debounce(self, rule: Leading | Trailing, *, key: Callable[[T], Hashable] | None = None) -> "Stream[T]":
        """One item for each burst of items with the same key, at the time of the rule; without a key all are equal.

        The source is read in a task, also while the reader is busy; one pending item is buffered per key. When the
        source ends, pending items are still emitted at their time.
        """
        return Stream(Debounced(self, rule, key))

    def batch(self, size: int, *, within: float) -> "Stream[list[T]]":
        """Lists of consecutive items: of `size` items, or fewer `within` so many seconds of the first one.

        The source is read in a task, also while the reader is busy; while a full batch waits for the reader, the source
        waits. No item is dropped: when the source ends or fails, what is pending is emitted at once, then the end or
        the error.
        """
        return Stream(Batched(self, size=size, within=within))

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
        if self._ended:  # closed meanwhile, although the source returned an item
            await self._close()
        return item

    async def aclose(self) -> None:
        """Ends the stream and returns when everything behind it is closed; may be called again, from any task.

        A task that waits for an item sees the end. Raises an error of a source that was not raised yet.
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
            report_error(another, "closing a stream failed after the stream itself had failed")

    async def _close(self) -> None:
        if self._closer is not None:
            if self._closer is not asyncio.current_task():
                await self._closed.wait()
            return
        self._closer = asyncio.current_task()
        try:
            await close_source(self._source)
        finally:
            self._closed.set()


def merge(*sources: AsyncIterable[T], capacity: int = 16) -> Stream[T]:
    """The items of all sources as they arrive, until all have ended; the first error ends it, and is raised.

    Every source is read in its own task, which also closes it. They read ahead by at most `capacity` items together,
    and one each. Items read ahead are dropped when the reader stops early, and delivered before an error is raised.
    """
    return Stream(Merged([aiter(source) for source in sources], capacity))
