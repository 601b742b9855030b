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

Reads several sources at once, in tasks that belong to one object and end with it.

A `Crew` is the set of those tasks. A `Pump` is a crew with one task per source, which hands over every item and closes
its source at the end, in the task that has read it.

The stages that streams are made of: each reads from the one before, and closes it.

A stage is an async iterator with `aclose`. It leaves it to the `Stream` around it to call that exactly when the reading
is over, for whatever reason, and never while it waits for an item.
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
from levelset.aio.channel import Channel, Closed, WouldBlock
from levelset.aio.debounce import Debouncer, Leading, Trailing
from levelset.aio.supervisor import Interruption

__all__ = [
    "Crew",
    "Debounced",
    "Filtered",
    "Flattened",
    "Items",
    "Mapped",
    "Merged",
    "Pump",
    "Stream",
    "Taken",
    "Until",
    "close",
    "merge",
    "report",
]

T = TypeVar("T")


class Crew:
    """Tasks that work for one object; whoever has a crew calls `stop`.

    The tasks must not know the object, only what they need of it. Then a crew that is forgotten with tasks still
    running can be collected: it warns, and cancels them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], ended: Callable[["asyncio.Task[None]"], None]) -> None:
        """Starts a task; `ended` is called with it, always, and looks at its result."""
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
            task.get_loop().call_soon_threadsafe(task.cancel)  # the collector may run in any thread
        if left:
            message = f"{self.name} was dropped without being closed; use it in an `async with`"
            warnings.warn(message, ResourceWarning, stacklevel=2)


def _cancel(tasks: "set[asyncio.Task[None]]") -> None:
    for task in tasks:
        if not task.cancelling():  # a second time would disturb its cleaning up
            task.cancel()


class Pump(Generic[T]):
    """Reads sources concurrently and gives each item to `deliver`, which may make its source wait.

    `ended` is called once, when all sources are at their end or the first has failed; the others are then cancelled.
    """

    def __init__(
        self,
        sources: Sequence[AsyncIterator[T]],
        *,
        deliver: Callable[[T], Coroutine[Any, Any, None]],
        ended: Callable[[], None],
        name: str,
    ) -> None:
        # A task that is cancelled before its first step never runs at all, and cannot close its source.
        self._unread = list(sources)
        self._deliver = deliver
        self._crew = Crew(name)
        self._progress = _Progress(self._crew.tasks, len(sources), ended)
        self._started = False

    @property
    def has_failed(self) -> bool:
        """Whether a source has raised something; `aclose` raises it."""
        return bool(self._progress.errors)

    def start(self) -> None:
        """Begins to read; does nothing if it has begun."""
        if self._started:
            return
        self._started = True
        if not self._unread:
            self._progress.ended()
        for source in tuple(self._unread):
            self._crew.start(_read(source, self._deliver, self._unread), self._progress.task_ended)

    async def aclose(self) -> None:
        """Stops reading and closes the sources; then raises the first error that one of them had, if any.

        An error is raised once. Further ones go to the loop's exception handler.
        """
        self._progress.stopping = self._started = True
        try:
            await self._crew.stop()
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
                opened.push_async_callback(close, self._unread.pop())

    def _report_from(self, start: int) -> None:
        for error in self._progress.errors[start:]:
            report(error, f"{self._crew.name}: a source failed while the stream was being closed")
        del self._progress.errors[start:]


class _Progress:
    """What a pump and its tasks share, so that the tasks need not know the pump."""

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
        # Nobody here has asked for it: without an error, a source would vanish from the stream unseen.
        return RuntimeError(f"a source of {task.get_name()} was cancelled by somebody else; the stream cannot go on")


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
        await close(source)


async def close(source: AsyncIterator[T]) -> None:
    """Closes an iterator, if it is of a sort that can be closed."""
    aclose: Callable[[], Coroutine[Any, Any, None]] | None = getattr(source, "aclose", None)
    if aclose is not None:
        await aclose()


def report(error: BaseException, message: str) -> None:
    """Hands an error that cannot be raised, because another already is, to the loop's exception handler."""
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})


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
        return cls(Items(items))

    @overload
    def map(self, function: Callable[[T], Awaitable[U]]) -> "Stream[U]": ...
    @overload
    def map(self, function: Callable[[T], U]) -> "Stream[U]": ...
    def map(self, function: Callable[[T], Awaitable[U]] | Callable[[T], U]) -> "Stream[U]":
        """Each item replaced by what the function makes of it."""
        return Stream(Mapped(self, function))

    def where(self, predicate: Callable[[T], bool] | Callable[[T], Awaitable[bool]]) -> "Stream[T]":
        """Only the items for which the predicate holds."""
        return Stream(Filtered(self, predicate))

    def flat_map(self, function: Callable[[T], Iterable[U] | AsyncIterable[U]]) -> "Stream[U]":
        """Each item replaced by all the items that the function makes of it, one after the other."""
        return Stream(Flattened(self, function))

    def take(self, count: int) -> "Stream[T]":
        """The first `count` items; then it ends, without waiting for one more."""
        return Stream(Taken(self, count))

    def take_until(self, stop: asyncio.Event | Awaitable[object]) -> "Stream[T]":
        """The items until the event is set or the awaitable is done, also in the middle of waiting for an item.

        An awaitable that raises ends the stream with its error. A coroutine is run, and cancelled at the end; a task
        or future remains yours.
        """
        return Stream(Until(self, stop, interrupt=self._interrupt))

    def debounce(self, rule: Leading | Trailing, *, key: Callable[[T], Hashable] | None = None) -> "Stream[T]":
        """One item for each burst of items with the same key, when the rule says; without a key all are the same.

        The source is read in a task, also while the reader is busy; items with keys not yet answered are kept, one for
        each key. When the source ends, what is open is still answered in its time.
        """
        return Stream(Debounced(self, rule, key))

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
    return Stream(Merged([aiter(source) for source in sources], capacity))
