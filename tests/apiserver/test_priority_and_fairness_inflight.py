import asyncio
import json
from collections.abc import Awaitable

import pytest

from levelset.apiserver.priority_and_fairness import InFlight
from levelset.http import Deferred, Request, Response


async def answer(bounded: InFlight, path: str) -> Response:
    made = bounded.handle(Request("GET", path))
    return made if isinstance(made, Response) else await made


async def test_too_many_requests_at_once_are_asked_to_come_again() -> None:
    gate = asyncio.Event()

    async def wait() -> Response:
        await gate.wait()
        return Response(200)

    def handler(request: Request) -> Response | Awaitable[Response]:
        return wait() if request.path == "/slow" else Response(200)

    bounded = InFlight(handler, 2)
    waiting = [asyncio.ensure_future(answer(bounded, "/slow")) for _ in range(2)]
    await asyncio.sleep(0)
    busy = await answer(bounded, "/quick")
    assert (busy.status, dict(busy.headers)["Retry-After"]) == (429, "1")
    assert isinstance(busy.body, bytes)
    assert json.loads(busy.body)["reason"] == "TooManyRequests"
    assert (await answer(bounded, "/readyz")).status == 200
    gate.set()
    assert [(await one).status for one in waiting] == [200, 200]
    assert (await answer(bounded, "/quick")).status == 200


async def test_a_request_that_fails_waits_no_longer() -> None:
    async def fail() -> Response:
        raise ValueError("out of luck")

    bounded = InFlight(lambda _: fail(), 1)
    with pytest.raises(ValueError, match="out of luck"):
        await answer(bounded, "/")
    assert bounded.waiting == 0


async def test_deferred_answers_count_until_they_are_there() -> None:
    answers = [Deferred(), Deferred()]
    bounded = InFlight(lambda request: answers[int(request.query)], 2)
    for number in range(2):
        assert bounded.handle(Request("POST", "/", str(number))) is answers[number]
    assert (await answer(bounded, "/")).status == 429
    answers[0].settle(Response(201))
    answers[1].fail(ValueError("out of luck"))
    assert (bounded.waiting, str(answers[1].exception())) == (0, "out of luck")
