"""Who waits too long is woken."""

import asyncio

import pytest

from levelset.aio import timing
from levelset.runtime.watch.watcher import Watchdog
from tests.apiserver.clock import virtual


async def wait(watchdog: Watchdog, seconds: float) -> bool:
    """Whether waiting for so long was interrupted by the watchdog."""
    watchdog.enter()
    try:
        await timing.sleep(seconds)
    except asyncio.CancelledError:
        if watchdog.leave():
            return True
        raise
    finally:
        watchdog.leave()
    return False


@virtual
async def test_who_waits_too_long_is_woken_and_others_are_not() -> None:
    watchdog = Watchdog(10.0)
    assert [await wait(watchdog, seconds) for seconds in (9, 9, 0, 9)] == [False] * 4
    began = timing.now()
    assert await wait(watchdog, 11)
    assert timing.now() - began == 10.0


@virtual
async def test_time_in_which_nobody_waits_does_not_count() -> None:
    watchdog = Watchdog(10.0)
    for _ in range(5):
        await timing.sleep(9)
        assert not await wait(watchdog, 9)


@virtual
async def test_a_cancellation_by_somebody_else_is_not_the_watchdogs() -> None:
    watchdog = Watchdog(10.0)
    with pytest.raises(TimeoutError):
        async with timing.within(5):
            await wait(watchdog, 100)
    assert await wait(watchdog, 100)


@virtual
async def test_a_watchdog_that_is_stopped_wakes_nobody() -> None:
    watchdog = Watchdog(10.0)
    await wait(watchdog, 1)
    watchdog.stop()
    watchdog.stop()
    await timing.sleep(100)
