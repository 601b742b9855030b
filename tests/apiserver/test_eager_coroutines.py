import asyncio
from typing import Any

import pytest

from levelset.apiserver.eager_coroutines import run_eagerly
from levelset.errors import NotFound
from levelset.http import Deferred, Response
from levelset.storage import Change, PendingWrite


async def work(*waits: Any) -> Response:
    for one in waits:
        await one
    return Response(204)


async def fail(*waits: Any) -> Response:
    await work(*waits)
    raise NotFound("gone")


def start(*waits: Any) -> Deferred:
    """Starts work that suspends."""
    response = run_eagerly(work(*waits))
    assert isinstance(response, Deferred)
    return response


def test_a_coroutine_without_suspension_responds_directly() -> None:
    response = run_eagerly(work())
    assert isinstance(response, Response)
    assert response.status == 204


def test_an_exception_without_suspension_is_raised_directly() -> None:
    with pytest.raises(NotFound, match="gone") as caught:
        run_eagerly(fail())
    assert caught.value.__context__ is None


def test_a_coroutine_may_start_another_one() -> None:
    async def nest(depth: int) -> Response:
        return Response(depth) if depth == 3 else await work_at(depth + 1)

    async def work_at(depth: int) -> Response:
        response = run_eagerly(nest(depth))
        assert isinstance(response, Response)
        return response

    for _ in range(2):
        response = run_eagerly(nest(0))
        assert isinstance(response, Response)
        assert response.status == 3


async def test_a_response_settles_when_its_write_is_committed() -> None:
    landing = PendingWrite()
    response = start(landing)
    landing.set_result(Change(1, "/a", None, None))
    assert response.result().status == 204


async def test_a_coroutine_may_await_any_future_and_sleep_zero() -> None:
    future = asyncio.get_running_loop().create_future()
    response = start(asyncio.sleep(0), future, asyncio.to_thread(str))
    asyncio.get_running_loop().call_later(0, future.set_result, None)
    assert (await response).status == 204


async def test_a_response_that_awaits_another_one_settles_with_it() -> None:
    landing = PendingWrite()
    outer = start(start(landing))
    landing.set_result(Change(1, "/a", None, None))
    assert outer.done()


async def test_an_exception_after_a_suspension_is_raised_in_the_awaiter() -> None:
    landing = PendingWrite()
    response = start(landing)
    landing.set_exception(NotFound("gone"))
    with pytest.raises(NotFound, match="gone"):
        await response


async def test_coroutines_that_are_suspended_at_the_same_time_do_not_disturb_each_other() -> None:
    landings = [PendingWrite() for _ in range(3)]
    responses = [start(landing) for landing in landings]
    assert isinstance(run_eagerly(work()), Response)
    for landing, response in zip(reversed(landings), reversed(responses), strict=True):
        assert not response.done()
        landing.set_result(Change(1, "/a", None, None))
        assert response.result().status == 204


async def test_an_error_leaves_later_coroutines_alone() -> None:
    landing = PendingWrite()
    failing = run_eagerly(fail(landing))
    assert isinstance(failing, Deferred)
    landing.set_result(Change(1, "/a", None, None))
    with pytest.raises(NotFound, match="gone"):
        await failing
    with pytest.raises(NotFound, match="gone"):
        run_eagerly(fail())
    assert isinstance(run_eagerly(work()), Response)


async def test_cancelling_the_awaiter_does_not_cancel_the_work() -> None:
    future = asyncio.get_running_loop().create_future()
    response = start(future)
    awaiter = asyncio.ensure_future(asyncio.wait([response]))
    await asyncio.sleep(0)
    awaiter.cancel()
    await asyncio.sleep(0)
    future.set_result(None)
    assert (await response).status == 204


async def test_a_cancelled_future_cancels_the_response_quietly() -> None:
    future = asyncio.get_running_loop().create_future()
    response = start(future)
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await response
