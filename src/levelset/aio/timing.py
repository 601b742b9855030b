"""Words for time: now, later, and until when, all on the clock of the running event loop.

Everything in levelset that waits goes through here or through asyncio's own timers, and both ask the loop what time it
is. A loop with a clock of its own (a test that skips over the waiting) therefore needs no change anywhere else.
"""

import asyncio
import math
import time
from collections.abc import Callable

__all__ = ["clock_of", "deadline", "now", "remaining", "sleep", "sleep_until", "until", "within"]


def now() -> float:
    """The seconds on the running loop's clock: only differences mean something."""
    return asyncio.get_running_loop().time()


def clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """What tells the time of a loop soonest, for those who ask at every turn.

    A loop of asyncio's passes the question on to the system's clock, and so that one is asked; a loop with a clock of
    its own is asked itself.
    """
    is_plain = getattr(loop.time, "__func__", None) is asyncio.BaseEventLoop.time
    return time.monotonic if is_plain else loop.time


async def sleep(after: float) -> None:
    """Returns `after` seconds from now, never earlier."""
    await sleep_until(now() + after)


async def sleep_until(when: float) -> None:
    """Returns once the loop's clock shows `when`, never earlier.

    A time in the past lets the other tasks run once and returns.
    """
    if math.isnan(when):
        raise ValueError("cannot sleep until nan; give a time on the loop's clock, such as now() + 5")
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0)
    # A timer may fire early by the resolution of the clock, hence the loop.
    while loop.time() < when:
        await _timer(loop, when)


def deadline(within: float | None) -> float | None:
    """The time on the loop's clock `within` seconds from now; None, which means no limit, stays None."""
    return None if within is None else now() + within


def remaining(when: float | None) -> float | None:
    """The seconds left until a deadline, never below zero; None if there is none."""
    return None if when is None else max(0.0, when - now())


def within(seconds: float | None) -> asyncio.Timeout:
    """A block (`async with`) that raises TimeoutError if it takes longer; None is no limit."""
    return asyncio.timeout(seconds)


def until(when: float | None) -> asyncio.Timeout:
    """A block (`async with`) that raises TimeoutError if it is not done at that time; None is no limit."""
    return asyncio.timeout_at(when)


async def _timer(loop: asyncio.AbstractEventLoop, when: float) -> None:
    rung: asyncio.Future[None] = loop.create_future()
    handle = loop.call_at(when, _ring, rung)
    try:
        await rung
    finally:
        handle.cancel()


def _ring(rung: "asyncio.Future[None]") -> None:
    if not rung.done():  # cancelled in the same turn of the loop
        rung.set_result(None)
