"""An event loop of asyncio whose rounds take fewer calls: tests in virtual time are mostly such rounds.

asyncio makes seven calls of Python functions for a callback that is scheduled and run, and more for a timer: they check
whether the loop is in debug mode, and are shared by loops that wait for sockets. `LeanLoop` makes one. It runs the same
callbacks in the same order, that of timers for the same moment included (`test_lean_loop.py` compares it with asyncio's
own loop). In debug mode callbacks are scheduled by asyncio, so that errors show where they come from.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

__all__ = ["LeanLoop"]

H = TypeVar("H", bound=asyncio.Handle)
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_MANY_TIMERS: Final = 100
_CANCELLED_SHARE: Final = 0.5
"""With more timers than these, of which more than this share is cancelled, the cancelled ones are removed."""
_LONGEST: Final = 24 * 3600.0
"""The longest wait of one round, in seconds."""


class _Handle(asyncio.Handle):
    """A scheduled callback, made without asyncio's constructor."""

    __slots__ = ()

    _callback: Any
    _args: Any
    _context: Context
    _loop: asyncio.AbstractEventLoop
    _repr: str | None
    _source_traceback: None


class _TimerHandle(asyncio.TimerHandle):
    """The same for a callback that is due later."""

    __slots__ = ()

    _callback: Any
    _args: Any
    _context: Context
    _loop: asyncio.AbstractEventLoop
    _repr: str | None
    _source_traceback: None
    _when: float
    _scheduled: bool

    def __lt__(self, other: Any) -> bool:
        # The heap compares timers with timers only.
        return self._when < other._when  # type: ignore[no-any-return]


_new: Final[Any] = object.__new__


class LeanLoop(asyncio.SelectorEventLoop):
    """A selector event loop with fewer calls for each callback, timer and task."""

    _ready: "deque[Any]"
    _scheduled: list[Any]
    _clock_resolution: float
    _closed: bool
    _debug: bool
    _selector: Any
    _stopping: bool
    _task_factory: Any
    _timer_cancelled_count: int
    rounds = 0
    """The number of rounds; a subclass may start to count again."""
    unpolled = 0
    """As long as `rounds` is not above this number, I/O is polled only in rounds in which no callback is ready."""

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Runs the callback in the next round."""
        if self._debug or self._closed:
            return _as_of_caller(super().call_soon(callback, *args, context=context))
        handle: Any = _new(_Handle)
        handle._callback, handle._args, handle._cancelled = callback, args, False
        handle._context = copy_context() if context is None else context
        handle._loop, handle._repr, handle._source_traceback = self, None, None
        self._ready.append(handle)
        return handle  # type: ignore[no-any-return]

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Runs the callback after so many seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Runs the callback at a time of the loop's clock."""
        if self._debug or self._closed:
            return _as_of_caller(super().call_at(when, callback, *args, context=context))
        handle: Any = _new(_TimerHandle)
        handle._callback, handle._args, handle._cancelled = callback, args, False
        handle._context = copy_context() if context is None else context
        handle._loop, handle._repr, handle._source_traceback = self, None, None
        handle._when, handle._scheduled = when, True
        heappush(self._scheduled, handle)
        return handle  # type: ignore[no-any-return]

    def create_task(
        self, coro: "Generator[Any, None, T] | Coroutine[Any, Any, T]", **options: Any
    ) -> "asyncio.Task[T]":
        """Starts a task."""
        if self._task_factory is not None or self._closed:
            return super().create_task(coro, **options)
        return asyncio.Task(coro, loop=self, **options)

    def _run_once(self) -> None:
        """One round: waits for something to do, then runs what is due, but not what that schedules."""
        scheduled, ready = self._scheduled, self._ready
        if scheduled and (scheduled[0]._cancelled or len(scheduled) > _MANY_TIMERS):
            scheduled = self._drop_cancelled()
        self.rounds += 1
        if not ready or self.rounds > self.unpolled:
            timeout: float | None = None
            if ready or self._stopping:
                timeout = 0
            elif scheduled:
                timeout = min(max(0, scheduled[0]._when - self.time()), _LONGEST)
            found = self._selector.select(timeout)
            if found:
                self._process_events(found)  # type: ignore[attr-defined]  # of asyncio's selector loops
        if scheduled:
            end = self.time() + self._clock_resolution
            while scheduled and scheduled[0]._when < end:
                timer = heappop(scheduled)
                timer._scheduled = False
                ready.append(timer)
        take = ready.popleft
        for _ in range(len(ready)):
            handle = take()
            if not handle._cancelled:
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 -- as asyncio: reported, and the loop goes on
                    self._report(handle, error)

    def _drop_cancelled(self) -> list[Any]:
        """The timers, without cancelled ones at their head, and without any if there are many."""
        scheduled = self._scheduled
        if len(scheduled) > _MANY_TIMERS and self._timer_cancelled_count > _CANCELLED_SHARE * len(scheduled):
            for one in scheduled:
                one._scheduled = not one._cancelled
            self._scheduled = scheduled = [one for one in scheduled if not one._cancelled]
            heapify(scheduled)
            self._timer_cancelled_count = 0
        else:
            while scheduled and scheduled[0]._cancelled:
                self._timer_cancelled_count -= 1
                heappop(scheduled)._scheduled = False
        return scheduled

    def _report(self, handle: Any, error: BaseException) -> None:
        message = f"Exception in callback {handle!r}"
        context = {"message": message, "exception": error, "handle": handle}
        if handle._source_traceback:
            context["source_traceback"] = handle._source_traceback
        self.call_exception_handler(context)


def _as_of_caller(handle: H) -> H:
    """A handle of debug mode that shows where it was scheduled, without the frames of this module."""
    frames: list[Any] = getattr(handle, "_source_traceback", None) or []
    while frames and frames[-1].filename == __file__:
        del frames[-1]
    return handle
