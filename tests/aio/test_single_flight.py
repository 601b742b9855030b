import asyncio

import pytest

from levelset.aio.single_flight import SingleFlight
from levelset.testing.virtual_time import virtual


class Work:
    def __init__(self) -> None:
        self.begun = 0
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.begun += 1
        await asyncio.sleep(1)
        if self.error is not None:
            raise self.error
        return self.begun


@virtual
async def test_concurrent_callers_get_the_same_result() -> None:
    sharing, work = SingleFlight[int](), Work()
    assert await asyncio.gather(*(sharing.run("a", work) for _ in range(3))) == [1, 1, 1]
    assert await sharing.run("a", work) == 2


@virtual
async def test_different_keys_share_nothing() -> None:
    sharing, work = SingleFlight[int](), Work()
    assert sorted(await asyncio.gather(sharing.run("a", work), sharing.run("b", work))) == [2, 2]


@virtual
async def test_all_callers_get_the_error_and_the_next_call_runs_again() -> None:
    sharing, work = SingleFlight[int](), Work()
    work.error = OSError("no")
    found = await asyncio.gather(*(sharing.run("a", work) for _ in range(3)), return_exceptions=True)
    assert found == [work.error] * 3
    assert work.begun == 1
    work.error = None
    assert await sharing.run("a", work) == 2


@virtual
async def test_if_the_first_caller_is_cancelled_a_waiting_one_starts_again() -> None:
    sharing, work = SingleFlight[int](), Work()
    tasks = [asyncio.create_task(sharing.run("a", work)) for _ in range(3)]
    await asyncio.sleep(0.5)
    tasks[0].cancel()
    assert await asyncio.gather(*tasks[1:]) == [2, 2]
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]


@virtual
async def test_a_waiting_caller_can_be_cancelled_alone() -> None:
    sharing, work = SingleFlight[int](), Work()
    tasks = [asyncio.create_task(sharing.run("a", work)) for _ in range(3)]
    await asyncio.sleep(0.5)
    tasks[1].cancel()
    assert await asyncio.gather(*tasks[::2]) == [1, 1]
