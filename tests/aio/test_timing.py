"""Time on the loop's clock."""

import asyncio
import math
import time

import pytest
import uvloop

from levelset.aio import timing


async def test_now_is_the_clock_of_the_running_loop() -> None:
    assert timing.now() == asyncio.get_running_loop().time()


async def test_clock_of_is_the_system_clock_unless_the_loop_has_its_own() -> None:
    loop = asyncio.get_running_loop()
    await timing.sleep(7.0)
    assert timing.clock_of(loop)() == loop.time() == 7.0
    plain = asyncio.SelectorEventLoop()
    assert timing.clock_of(plain) is time.monotonic
    plain.close()


def test_clock_of_uvloop_counts_from_the_same_moment_and_has_parts_of_a_millisecond() -> None:
    loop = uvloop.new_event_loop()
    clock = timing.clock_of(loop)

    async def differences() -> tuple[float, set[float]]:
        began = loop.time()
        await asyncio.sleep(0)
        return clock() - began, {clock() - began for _ in range(100)}

    try:
        apart, several = loop.run_until_complete(differences())
    finally:
        loop.close()
    assert -0.1 < apart < 60
    assert len(several) > 1  # the loop itself shows one time


async def test_sleep_until_returns_exactly_then() -> None:
    await timing.sleep_until(2.5)
    assert timing.now() == 2.5


@pytest.mark.parametrize("when", [0.1, 0.1 + 0.2, 1e-9, 12345.6789, 1e6])
async def test_sleep_until_is_never_early(when: float) -> None:
    await timing.sleep(1 / 3)
    await timing.sleep_until(when)
    assert timing.now() >= when


async def test_sleep_until_a_time_in_the_past_yields_once() -> None:
    seen: list[str] = []
    asyncio.get_running_loop().call_soon(seen.append, "other")
    await timing.sleep_until(-1.0)
    assert (timing.now(), seen) == (0.0, ["other"])


async def test_sleep_until_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        await timing.sleep_until(math.nan)


async def test_a_cancelled_sleep_ends_at_once_and_leaves_no_timer() -> None:
    sleeper = asyncio.create_task(timing.sleep(1000))
    await timing.sleep(1)
    sleeper.cancel()
    await asyncio.wait([sleeper])
    assert sleeper.cancelled()
    assert timing.now() == 1.0


async def test_a_deadline_counts_down_to_zero_and_no_further() -> None:
    when = timing.deadline(3.0)
    await timing.sleep(2)
    assert timing.remaining(when) == 1.0
    await timing.sleep(2)
    assert timing.remaining(when) == 0.0


async def test_an_absent_limit_stays_absent() -> None:
    assert timing.deadline(None) is None
    assert timing.remaining(None) is None
    async with timing.within(None), timing.until(None):
        await timing.sleep(1e6)


async def test_a_block_that_takes_too_long_times_out() -> None:
    with pytest.raises(TimeoutError):
        async with timing.within(2.0):
            await timing.sleep(3)
    assert timing.now() == 2.0
    with pytest.raises(TimeoutError):
        async with timing.until(5.0):
            await timing.sleep(30)
    assert timing.now() == 5.0
