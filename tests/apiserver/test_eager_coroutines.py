import asyncio
from typing import Any

import pytest

from levelset.apiserver.eager_coroutines import Prompt, run_at_once, run_promptly
from levelset.errors import NotFound
from levelset.http import Deferred, Response
from levelset.storage import Change, Landing


async def add(one: int, two: int) -> int:
    return one + two


async def add_all(*numbers: int) -> int:
    total = 0
    for number in numbers:
        total = await add(total, number)
    return total


async def fail() -> None:
    raise NotFound("gone")


def test_what_never_waits_is_done_at_once() -> None:
    assert run_at_once(add_all(1, 2, 3)) == 6


def test_its_errors_come_out() -> None:
    with pytest.raises(NotFound, match="gone"):
        run_at_once(fail())


def test_what_waits_after_all_is_ended_and_told() -> None:
    with pytest.raises(RuntimeError, match="sleep.* waited"):
        run_at_once(asyncio.sleep(0))


async def answered(*waits: Any) -> Response:
    for one in waits:
        await one
    return Response(204)


async def test_an_answer_that_waits_for_nothing_is_there_promptly() -> None:
    response = run_promptly(answered())
    assert isinstance(response, Response)
    assert response.status == 204


async def test_a_promptly_run_answer_is_there_in_the_moment_its_write_has_landed() -> None:
    landing = Landing()
    answer = run_promptly(answered(landing))
    assert isinstance(answer, Deferred)
    landing.set_result(Change(1, "/a", None, None))
    assert answer.result().status == 204


async def test_it_may_wait_for_any_future_and_for_a_turn_of_the_loop_too() -> None:
    future = asyncio.get_running_loop().create_future()
    answer = run_promptly(answered(asyncio.sleep(0), future, asyncio.to_thread(str)))
    asyncio.get_running_loop().call_later(0, future.set_result, None)
    assert isinstance(answer, Deferred)
    assert (await answer).status == 204


async def test_what_a_promptly_run_answer_raises_is_for_who_awaits_it() -> None:
    landing = Landing()
    answer = run_promptly(answered(landing))
    assert isinstance(answer, Deferred)
    landing.set_exception(NotFound("gone"))
    with pytest.raises(NotFound, match="gone"):
        await answer


async def test_a_promptly_run_answer_whose_future_is_cancelled_is_so_too_and_disturbs_nobody() -> None:
    future = asyncio.get_running_loop().create_future()
    answer = run_promptly(answered(future))
    assert isinstance(answer, Deferred)
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer


async def test_a_prompt_is_awaited_as_what_it_stands_for() -> None:
    assert (await Prompt(answered(asyncio.sleep(0)))).status == 204
