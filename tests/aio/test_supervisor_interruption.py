"""An interruption wakes a task and is taken back; a real cancellation is not."""

import asyncio

import pytest

from levelset.aio import timing
from levelset.aio.supervisor import Interruption


async def waiting(stretch: Interruption) -> str:
    stretch.enter()
    try:
        await timing.sleep(1000)
    except asyncio.CancelledError:
        if not stretch.leave():
            raise
        await timing.sleep(1)
        return "woken"
    stretch.leave()
    return "slept"


async def test_an_interrupted_task_wakes_and_continues() -> None:
    stretch = Interruption()
    task = asyncio.create_task(waiting(stretch))
    await timing.sleep(1)
    stretch.interrupt()
    stretch.interrupt()
    assert await task == "woken"
    assert (task.cancelling(), timing.now()) == (0, 2.0)


@pytest.mark.parametrize("first", ["cancel", "interrupt"])
async def test_a_cancellation_at_the_same_moment_wins(first: str) -> None:
    stretch = Interruption()
    task = asyncio.create_task(waiting(stretch))
    await timing.sleep(1)
    for act in (task.cancel, stretch.interrupt) if first == "cancel" else (stretch.interrupt, task.cancel):
        act()
    assert stretch.is_cancelled
    await asyncio.wait([task])
    assert task.cancelled()


async def test_an_empty_section_is_not_interrupted() -> None:
    stretch = Interruption()
    stretch.interrupt()
    assert not stretch.leave()
    assert not stretch.is_cancelled
    assert await asyncio.create_task(waiting(stretch)) == "slept"


async def test_a_task_does_not_interrupt_itself() -> None:
    stretch = Interruption()
    stretch.enter()
    stretch.interrupt()
    await timing.sleep(1)
    assert not stretch.leave()


async def test_a_cancellation_from_before_does_not_count() -> None:
    stretch = Interruption()

    async def stubborn() -> str:
        try:
            await timing.sleep(1000)
        except asyncio.CancelledError:
            return await waiting(stretch)
        return "never"

    task = asyncio.create_task(stubborn())
    await timing.sleep(1)
    task.cancel()
    await timing.sleep(1)
    assert not stretch.is_cancelled
    stretch.interrupt()
    assert await task == "woken"


async def test_a_section_cannot_be_entered_outside_of_a_task() -> None:
    raised: list[str] = []

    def enter() -> None:
        try:
            Interruption().enter()
        except RuntimeError as error:
            raised.append(str(error))

    asyncio.get_running_loop().call_soon(enter)
    await timing.sleep(1)
    assert raised == ["an Interruption can only be used inside a task"]
