"""Time on the clock of the running event loop: now, sleep, deadlines and timeouts; and turns of it for long work.

Everything in levelset that waits uses this module or asyncio's timers, and both use the clock of the loop. A loop with
its own clock (virtual time in tests) therefore needs no change anywhere else.

A task that lets others run after each piece of long work (`sleep(0)`) holds the loop no longer than one piece takes;
five hundred such tasks together hold it five hundred times as long, since each gets its turn. With `take_turn` before
each piece they wait for one another instead, and everything else runs in between.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

__all__ = [
    "clock_of",
    "deadline",
    "now",
    "remaining",
    "sleep",
    "sleep_until",
    "take_turn",
    "until",
    "within",
]

_SAME_CLOCK = 60.0
"""Clocks that are further apart, in seconds, do not count from the same moment; an iteration does not take so long."""


def now() -> float:
    """The seconds on the clock of the running loop; only differences are meaningful."""
    return asyncio.get_running_loop().time()


def clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """The fastest function that returns the time of a loop, for hot paths and for durations.

    asyncio's loops return `time.monotonic()`, so that is called directly. uvloop returns the same clock as it was at
    the beginning of the iteration, in whole milliseconds, which makes most durations 0. A loop with its own clock keeps
    its method.
    """
    is_plain = getattr(loop.time, "__func__", None) is asyncio.BaseEventLoop.time
    is_uvloop = type(loop).__module__ == "uvloop" and abs(loop.time() - time.monotonic()) < _SAME_CLOCK
    return time.monotonic if is_plain or is_uvloop else loop.time


async def sleep(after: float) -> None:
    """Returns `after` seconds from now, never earlier."""
    await sleep_until(now() + after)


async def sleep_until(when: float) -> None:
    """Returns once the loop's clock shows `when`, never earlier.

    For a time in the past it yields to other tasks once.
    """
    if math.isnan(when):
        raise ValueError("cannot sleep until NaN; give a time on the loop's clock, such as now() + 5")
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0)
    # A timer may fire early by the resolution of the clock, hence the loop.
    while loop.time() < when:
        await _timer(loop, when)


def deadline(within: float | None) -> float | None:
    """The time on the loop's clock `within` seconds from now; None (no limit) stays None."""
    return None if within is None else now() + within


def remaining(when: float | None) -> float | None:
    """The seconds left until a deadline, never below zero; None if there is none."""
    return None if when is None else max(0.0, when - now())


def within(seconds: float | None) -> asyncio.Timeout:
    """A block (`async with`) that raises TimeoutError if it takes longer; None is no limit."""
    return asyncio.timeout(seconds)


def until(when: float | None) -> asyncio.Timeout:
    """A block (`async with`) that raises TimeoutError if it is not done by that time; None is no limit."""
    return asyncio.timeout_at(when)


async def _timer(loop: asyncio.AbstractEventLoop, when: float) -> None:
    fired: asyncio.Future[None] = loop.create_future()
    handle = loop.call_at(when, _fire, fired)
    try:
        await fired
    finally:
        handle.cancel()


def _fire(fired: "asyncio.Future[None]") -> None:
    if not fired.done():  # cancelled in the same iteration of the loop
        fired.set_result(None)


class _Turns:
    """Who may begin a piece of long work on one event loop: one task in each turn of the loop, the oldest first."""

    __slots__ = ("_is_taken", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_taken = False
        """Whether a piece has begun in this turn of the loop."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        if self._is_taken:
            future = self._loop.create_future()
            self._waiting.append(future)
            await future
        else:
            self._is_taken = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        """A turn later: the next task may begin; the one that is woken runs in the turn after this one."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():  # its task may have been cancelled
                future.set_result(None)
                self._loop.call_soon(self._next)
                return
        self._is_taken = False


_turns: Final = WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns]()


async def take_turn() -> None:
    """Waits until a piece of long work may begin: at once, unless another one has begun in this turn of the loop."""
    loop = asyncio.get_running_loop()
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = _Turns(loop)
    await turns.take()
