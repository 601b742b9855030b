import asyncio
import json
from collections.abc import AsyncIterator, Awaitable

import pytest

from levelset.apiserver.authn.users import OWNER, Caller
from levelset.apiserver.priority_and_fairness import Flow, Shares
from levelset.errors import TooManyRequests
from levelset.http import Peer, Request, Response, iterate
from tests.apiserver.roles import open_town, rule

JANE, BOB = Caller("jane"), Caller("bob")
MAPS = "/api/v1/namespaces/default/configmaps"


class Gate:
    """Answers when it is opened."""

    def __init__(self, flow: Flow) -> None:
        self._open = asyncio.Event()
        self._flow = flow
        self.tasks: list[asyncio.Future[Response]] = []

    async def enter(self, caller: Caller) -> None:
        made = self._flow.run(caller, self._wait)
        assert not isinstance(made, Response)
        self.tasks.append(asyncio.ensure_future(made))
        await asyncio.sleep(0)

    async def leave(self) -> None:
        self._open.set()
        await asyncio.gather(*self.tasks)

    async def _wait(self) -> Response:
        await self._open.wait()
        return Response(200)


async def test_one_user_who_has_its_share_does_not_keep_others_waiting() -> None:
    flow = Flow(Shares(per_user=2))
    gate = Gate(flow)
    for caller in (JANE, JANE, BOB):
        await gate.enter(caller)
    with pytest.raises(TooManyRequests, match='"jane" has 2'):
        await gate.enter(JANE)
    await gate.enter(BOB)
    await gate.leave()
    assert (flow.in_flight, flow.requests) == (0, {})


async def test_all_users_together_have_a_bound_and_masters_have_none() -> None:
    flow = Flow(Shares(in_flight=2))
    gate = Gate(flow)
    await gate.enter(JANE)
    await gate.enter(BOB)
    with pytest.raises(TooManyRequests):
        await gate.enter(Caller("eve"))
    await gate.enter(OWNER)
    await gate.leave()


async def test_who_speaks_for_many_has_one_share() -> None:
    flow = Flow(Shares(per_user=1))
    gate = Gate(flow)
    await gate.enter(Caller("a", by=JANE))
    with pytest.raises(TooManyRequests):
        await gate.enter(Caller("b", by=JANE))
    await gate.leave()


async def test_a_request_that_fails_or_is_cut_gives_its_share_back() -> None:
    flow = Flow(Shares(per_user=1))

    async def fail() -> Response:
        raise ValueError("out of luck")

    for _ in range(3):
        made = flow.run(JANE, fail)
        assert isinstance(made, Awaitable)
        with pytest.raises(ValueError, match="out of luck"):
            await made
    gate = Gate(flow)
    await gate.enter(JANE)
    gate.tasks[0].cancel()
    await asyncio.sleep(0)
    assert flow.requests == {}


async def test_streams_are_counted_apart_while_they_are_open() -> None:
    flow = Flow(Shares(per_user=1, watches_per_user=1))

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    def stream() -> Response:
        made = flow.run(JANE, lambda: Response(200, (), pieces()))
        assert isinstance(made, Response)
        return made

    reading = iterate(stream().body)
    await anext(reading)
    assert (flow.requests, flow.streams) == ({}, {"jane": 1})
    with pytest.raises(TooManyRequests, match="1 watches"):
        stream()
    assert [piece async for piece in reading] == [b"two"]
    assert flow.streams == {}


async def test_watches_of_a_server_are_bounded_and_end() -> None:
    async with open_town(shares=Shares(watches_per_user=2)) as town:
        await town.allow("jane", rule("watch", "configmaps"))
        request = Request("GET", MAPS, "watch=true", peer=Peer("jane"))
        opened = [iterate((await town.answer(request)).body) for _ in range(2)]
        waiting = [asyncio.ensure_future(anext(one)) for one in opened]
        await asyncio.sleep(0)
        refused = await town.answer(request)
        assert (refused.status, dict(refused.headers)["Retry-After"]) == (429, "1")
        assert isinstance(refused.body, bytes)
        tree = json.loads(refused.body)
        assert (tree["kind"], tree["reason"], tree["details"]["retryAfterSeconds"]) == ("Status", "TooManyRequests", 1)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for stream in opened:
            await stream.aclose()
        assert (await town.answer(request)).status == 200


async def test_health_is_answered_however_busy_a_user_is() -> None:
    async with open_town(shares=Shares(per_user=1)) as town:
        flow = town.server._app.flow
        assert flow is not None
        flow.requests["system:anonymous"] = flow.requests["jane"] = 1
        assert (await town.ask(None, "GET", "/readyz"))[0] == 200
        assert (await town.ask("jane", "GET", "/version"))[0] == 200
        assert (await town.ask("jane", "GET", "/api"))[0] == 429
