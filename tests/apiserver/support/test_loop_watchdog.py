"""The watchdog of the event loop finds what holds the loop, and nothing else."""

import asyncio
import threading
import time

import pytest

from tests.apiserver.support.loop_watchdog import LIMIT, LoopWatchdog, undisturbed, watch_loop


def compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def test_what_runs_on_the_loop_is_found() -> None:
    with watch_loop() as watchdog:
        await asyncio.sleep(0.01)
        compute(0.08)
        await asyncio.sleep(0.01)
    assert watchdog.longest >= 0.08
    assert "compute" in watchdog.culprit


async def test_a_thread_that_keeps_the_interpreter_is_found() -> None:
    with watch_loop() as watchdog:
        await asyncio.to_thread(sum, range(10_000_000))
    assert watchdog.longest >= 0.05


@undisturbed
async def test_a_thread_that_gives_way_is_not() -> None:
    busy = threading.Event()

    def other_work() -> None:
        busy.set()
        compute(0.5)

    with watch_loop() as watchdog:
        await asyncio.to_thread(other_work)
    assert busy.is_set()
    assert watchdog.longest < LIMIT


async def test_what_comes_after_it_was_stopped_does_not_count() -> None:
    with watch_loop() as watchdog:
        await asyncio.sleep(0.005)
    before = watchdog.longest
    compute(0.08)
    await asyncio.sleep(0.01)
    assert watchdog.longest == before


async def test_a_measurement_is_repeated_if_the_loop_waited_for_a_processor_and_no_other_failure_is() -> None:
    found: list[LoopWatchdog] = []

    @undisturbed
    async def held(*, waited: float, seconds: float, attempts: int) -> None:
        with watch_loop() as watchdog:
            await asyncio.sleep(0.005)
        watchdog.longest, watchdog.waited = seconds, waited
        found.append(watchdog)
        assert len(found) == attempts

    await held(waited=0.1, seconds=LIMIT, attempts=3)
    assert len(found) == 3
    for waited, seconds in ((0.0, LIMIT), (0.1, LIMIT / 2)):
        found.clear()
        with pytest.raises(AssertionError):
            await held(waited=waited, seconds=seconds, attempts=2)
        assert len(found) == 1
