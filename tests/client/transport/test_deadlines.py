import asyncio

import pytest

from levelset.client.transport.deadlines import Deadlines
from tests.apiserver.clock import virtual


async def wait(deadlines: Deadlines, within: float) -> float | None:
    """Waits for ever; the time at which the deadline ended that, None if something else did."""
    deadline = deadlines.start(asyncio.get_running_loop().time() + within)
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        if deadline.was_cause():
            return asyncio.get_running_loop().time()
        raise
    finally:
        deadlines.stop(deadline)
    return None


@virtual
async def test_each_call_ends_at_its_own_time():
    deadlines = Deadlines()
    assert await asyncio.gather(*[wait(deadlines, within) for within in (3, 1, 2, 1)]) == [3, 1, 2, 1]
    deadlines.close()


@virtual
async def test_a_call_that_is_done_is_left_alone():
    deadlines = Deadlines()
    deadlines.stop(deadlines.start(asyncio.get_running_loop().time() + 1))
    await asyncio.sleep(5)
    assert await wait(deadlines, 1) == 6


@virtual
async def test_who_was_cancelled_from_outside_stays_cancelled():
    deadlines = Deadlines()
    task = asyncio.create_task(wait(deadlines, 5))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    deadlines.close()


@virtual
async def test_a_cancellation_in_the_same_moment_wins_over_the_deadline():
    deadlines = Deadlines()
    task = asyncio.create_task(wait(deadlines, 1))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_at(1, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


@virtual
async def test_a_deadline_leaves_the_task_able_to_wait_again():
    deadlines = Deadlines()
    assert await wait(deadlines, 1) == 1
    async with asyncio.timeout(10):
        await asyncio.sleep(2)
    assert await wait(deadlines, 1) == 4


class Awaited:
    """Something that is waited for without a task that could be interrupted."""

    def __init__(self, when: float) -> None:
        self.when = when
        self.late: float | None = None

    def expire(self) -> None:
        self.late = asyncio.get_running_loop().time()


@virtual
async def test_answers_are_found_when_it_is_time_for_them():
    answers = [Awaited(when) for when in (5, 2, 9, 2)]
    deadlines = Deadlines(lambda: [one for one in answers if one.late is None])
    for one in answers:
        deadlines.look_at(one.when)
        assert deadlines.rings <= one.when
    assert await wait(deadlines, 3) == 3
    answers.pop(2)
    await asyncio.sleep(100)
    assert [one.late for one in answers] == [5, 2, 2]
    assert deadlines.rings == float("inf")


@virtual
async def test_no_limit_is_one_that_never_comes():
    deadlines = Deadlines()
    task = asyncio.create_task(wait(deadlines, float("inf")))
    assert await wait(deadlines, 10) == 10
    await asyncio.sleep(100_000)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@virtual
async def test_the_timer_is_shared_and_let_go_of():
    deadlines = Deadlines()
    for _ in range(1000):
        deadlines.stop(deadlines.start(30))
    loop = asyncio.get_running_loop()
    assert len(loop._scheduled) == 1
    deadlines.close()
    assert deadlines._timer is None
