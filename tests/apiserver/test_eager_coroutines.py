import asyncio
from typing import Any

import pytest

from levelset.apiserver.eager_coroutines import run_eagerly
from levelset.errors import NotFound
from levelset.http import Deferred, Response
from levelset.storage import Change, PendingWrite


async def respond(*waits: Any) -> Response:
    for one in waits:
        await one
    return Response(204)


async def test_a_response_without_suspension_is_returned_directly() -> None:
    response = run_eagerly(respond())
    assert isinstance(response, Response)
    assert response.status == 204


async def test_a_response_settles_when_its_write_is_committed() -> None:
    landing = PendingWrite()
    response = run_eagerly(respond(landing))
    assert isinstance(response, Deferred)
    landing.set_result(Change(1, "/a", None, None))
    assert response.result().status == 204


async def test_it_may_await_any_future_and_sleep_zero() -> None:
    future = asyncio.get_running_loop().create_future()
    response = run_eagerly(respond(asyncio.sleep(0), future, asyncio.to_thread(str)))
    asyncio.get_running_loop().call_later(0, future.set_result, None)
    assert isinstance(response, Deferred)
    assert (await response).status == 204


async def test_an_exception_after_a_suspension_is_raised_in_the_awaiter() -> None:
    landing = PendingWrite()
    response = run_eagerly(respond(landing))
    assert isinstance(response, Deferred)
    landing.set_exception(NotFound("gone"))
    with pytest.raises(NotFound, match="gone"):
        await response


async def test_a_cancelled_future_cancels_the_response_quietly() -> None:
    future = asyncio.get_running_loop().create_future()
    response = run_eagerly(respond(future))
    assert isinstance(response, Deferred)
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await response


async def test_a_response_that_awaits_another_one_settles_with_it() -> None:
    landing = PendingWrite()
    inner = run_eagerly(respond(landing))
    outer = run_eagerly(respond(inner))
    assert isinstance(outer, Deferred)
    landing.set_result(Change(1, "/a", None, None))
    assert outer.done()
