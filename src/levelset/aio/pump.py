"""Reads several sources at once, in tasks that belong to one object and end with it.

A `Crew` is the set of those tasks. A `Pump` is a crew with one task per source, which hands over every item and closes
its source at the end, in the task that has read it.
"""

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any, Generic, TypeVar

from levelset.aio.channel import Closed

__all__ = ["Crew", "Pump", "close", "report"]

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
