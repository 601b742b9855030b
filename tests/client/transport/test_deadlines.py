import asyncio

import pytest

from levelset.client.transport.deadlines import Deadlines
from levelset.testing.virtual_time import virtual


async def wait(deadlines: Deadlines, within: float) -> float | None:
    """Waits for ever; returns the time at which the deadline expired, None if the wait ended otherwise."""
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
async def test_each_call_expires_at_its_own_time():
    deadlines = Deadlines()
    assert await asyncio.gather(*[wait(deadlines, within) for within in (3, 1, 2, 1)]) == [3, 1, 2, 1]
    deadlines.close()


@virtual
async def test_a_finished_call_does_not_expire():
    deadlines = Deadlines()
    deadlines.stop(deadlines.start(asyncio.get_running_loop().time() + 1))
    await asyncio.sleep(5)
    assert await wait(deadlines, 1) == 6


@virtual
async def test_a_task_cancelled_from_outside_stays_cancelled():
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
    """An awaitable that is awaited without a task that could be interrupted."""

    def __init__(self, when: float) -> None:
        self.when = when
        self.late: float | None = None

    def expire(self) -> None:
        self.late = asyncio.get_running_loop().time()


@virtual
async def test_pending_responses_expire_at_their_time():
    responses = [Awaited(when) for when in (5, 2, 9, 2)]
    deadlines = Deadlines(lambda: [one for one in responses if one.late is None])
    for one in responses:
        deadlines.schedule(one.when)
        assert deadlines.next_expiry <= one.when
    assert await wait(deadlines, 3) == 3
    responses.pop(2)
    await asyncio.sleep(100)
    assert [one.late for one in responses] == [5, 2, 2]
    assert deadlines.next_expiry == float("inf")


@virtual
async def test_an_infinite_deadline_never_expires():
    deadlines = Deadlines()
    task = asyncio.create_task(wait(deadlines, float("inf")))
    assert await wait(deadlines, 10) == 10
    await asyncio.sleep(100_000)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@virtual
async def test_the_timer_is_shared_and_cancelled_on_close():
    deadlines = Deadlines()
    for _ in range(1000):
        deadlines.stop(deadlines.start(30))
    loop = asyncio.get_running_loop()
    assert len(loop._scheduled) == 1
    deadlines.close()
    assert deadlines._timer is None


@virtual
async def test_a_call_that_cannot_be_expired_does_not_take_the_deadlines_of_the_others():
    class Broken:
        when = 1.0

        def expire(self) -> None:
            pending.clear()
            raise OSError("injected")

    unhandled: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(str(context["exception"])))
    pending = [Broken()]
    deadlines = Deadlines(lambda: pending)
    deadlines.schedule(1.0)
    assert await asyncio.gather(wait(deadlines, 2), wait(deadlines, 3)) == [2, 3]
    assert unhandled == ["injected"]
    deadlines.close()


@virtual
async def test_a_call_that_can_never_be_expired_does_not_keep_others_from_it():
    class Exchange:
        when = 1.0

        def __init__(self, *, is_broken: bool) -> None:
            self.is_broken = is_broken

        def expire(self) -> None:
            if self.is_broken:
                raise OSError("injected")
            pending.remove(self)

    unhandled: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(str(context["exception"])))
    pending = [Exchange(is_broken=at in (0, 3)) for at in range(4)]
    deadlines = Deadlines(lambda: pending)
    deadlines.schedule(1.0)
    await asyncio.sleep(2.5)
    assert [one.is_broken for one in pending] == [True, True]
    assert unhandled == ["injected", "injected"], "tried again every second"
    deadlines.close()
