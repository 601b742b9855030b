"""The idle watchdog interrupts a read that waits too long."""

import asyncio

import pytest

from levelset.aio import timing
from levelset.runtime.watch.watcher import IdleWatchdog
from levelset.testing.virtual_time import virtual


async def wait(watchdog: IdleWatchdog, seconds: float) -> bool:
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
async def test_a_read_that_waits_too_long_is_interrupted_and_others_are_not() -> None:
    watchdog = IdleWatchdog(10.0)
    assert [await wait(watchdog, seconds) for seconds in (9, 9, 0, 9)] == [False] * 4
    began = timing.now()
    assert await wait(watchdog, 11)
    assert timing.now() - began == 10.0


@virtual
async def test_time_without_a_waiting_read_does_not_count() -> None:
    watchdog = IdleWatchdog(10.0)
    for _ in range(5):
        await timing.sleep(9)
        assert not await wait(watchdog, 9)


@virtual
async def test_an_outside_cancellation_is_not_attributed_to_the_watchdog() -> None:
    watchdog = IdleWatchdog(10.0)
    with pytest.raises(TimeoutError):
        async with timing.within(5):
            await wait(watchdog, 100)
    assert await wait(watchdog, 100)


@virtual
async def test_a_stopped_watchdog_interrupts_nothing() -> None:
    watchdog = IdleWatchdog(10.0)
    await wait(watchdog, 1)
    watchdog.stop()
    watchdog.stop()
    await timing.sleep(100)
