import asyncio
from typing import Any

import pytest

from levelset.aio import Backoff
from levelset.client.client import Client
from levelset.client.transport.in_process import InsideTransport
from levelset.client.transport.interface import Answer, Call, Send
from levelset.client.transport.retry import Retries, may_repeat
from levelset.errors import AlreadyExists, ServerFailed, TimedOut, TooManyRequests, Unreachable
from levelset.http import Request, Response
from tests.apiserver.clock import virtual
from tests.client.world import Namespace, Website, answering, failing, open_client, recording, website

READ = Call(method="GET", path="/x", verb="get")
WRITE = Call(method="POST", path="/x", verb="create")


@pytest.mark.parametrize(
    ("status", "read", "write"),
    [
        (200, False, False),
        (400, False, False),
        (404, False, False),
        (409, False, False),
        (410, False, False),
        (429, True, True),
        (500, False, False),
        (502, True, False),
        (503, True, True),
        (504, True, False),
    ],
)
def test_only_what_is_safe_is_asked_again(status: int, read: bool, write: bool) -> None:  # kube-rs 76
    assert may_repeat(READ, answering(status)) is read
    assert may_repeat(WRITE, answering(status)) is write


def test_a_request_that_was_lost_is_repeated_if_it_cannot_have_arrived_or_only_reads() -> None:
    assert may_repeat(WRITE, Unreachable("refused", is_sent=False))
    assert not may_repeat(WRITE, Unreachable("reset"))
    assert may_repeat(READ, Unreachable("reset"))
    assert not may_repeat(READ, TimedOut("slow"))


def test_an_eviction_that_a_budget_refuses_is_the_callers_to_wait_for() -> None:
    evict = Call(method="POST", path="/api/v1/namespaces/a/pods/b/eviction", verb="create")
    assert not may_repeat(evict, answering(429))
    assert may_repeat(evict, answering(503))


def test_a_policy_that_makes_no_sense_is_refused() -> None:  # kube-rs 77
    assert Retries().attempts == 5
    with pytest.raises(ValueError, match="first"):
        Retries(backoff=Backoff(first=5.0, cap=1.0))
    with pytest.raises(ValueError, match="attempts"):
        Retries(attempts=0)


@virtual
async def test_a_busy_server_is_asked_again_when_it_wants_to_be() -> None:
    calls: list[Call] = []
    faults = failing(answering(429, retry_after="7"), answering(503, retry_after="3"), when=_is_create)
    async with open_client(wire_hooks=[recording(calls), faults]) as client:
        began = asyncio.get_running_loop().time()
        assert (await client.create(website("blog"))).metadata.uid
        assert 10 <= asyncio.get_running_loop().time() - began < 11
        assert [call.verb for call in calls] == ["create"] * 3


def _is_create(call: Call) -> bool:
    return call.verb == "create" and "websites" in call.path


@virtual
async def test_the_last_refusal_is_raised_when_all_attempts_are_used_up() -> None:
    calls: list[Call] = []
    faults = failing(*[answering(503, b"overloaded")] * 9)
    async with open_client(crd=False, wire_hooks=[recording(calls), faults], retries=Retries(attempts=3)) as client:
        with pytest.raises(ServerFailed, match="overloaded"):
            await client.list(Website)
        assert len(calls) == 3


async def test_a_server_that_wants_to_be_left_alone_for_longer_than_there_is_time_is_taken_at_its_word() -> None:
    async with open_client(wire_hooks=[failing(answering(429, retry_after="3600"))]) as client:
        with pytest.raises(TooManyRequests) as caught:
            await client.list(Website)
        assert caught.value.retry_after == 3600


@virtual
async def test_all_attempts_together_take_no_longer_than_the_call_may() -> None:
    calls: list[Call] = []
    faults = failing(*[answering(503, retry_after="4")] * 99)
    async with open_client(crd=False, wire_hooks=[recording(calls), faults], timeout=10) as client:
        began = asyncio.get_running_loop().time()
        with pytest.raises(ServerFailed):
            await client.list(Website)
        assert asyncio.get_running_loop().time() - began <= 10
        assert [round(call.timeout) for call in calls] == [10, 6, 2]


@virtual
async def test_a_read_survives_connections_that_break_and_a_write_is_not_repeated() -> None:
    broken = Unreachable("connection reset")
    async with open_client(wire_hooks=[failing(broken, broken, when=_is_website)]) as client:
        with pytest.raises(Unreachable, match="reset"):
            await client.create(website("a"))
        assert len(await client.list(Website)) == 0


def _is_website(call: Call) -> bool:
    return "websites" in call.path


@virtual
async def test_a_write_that_cannot_have_arrived_is_repeated() -> None:
    refused = Unreachable("refused", is_sent=False)
    async with open_client(wire_hooks=[failing(refused, refused, when=_is_website)]) as client:
        assert (await client.create(website("a"))).metadata.uid
        with pytest.raises(AlreadyExists):
            await client.create(website("a"))


async def test_hooks_see_one_call_for_each_verb_and_wire_hooks_each_attempt() -> None:
    order: list[str] = []

    def named(name: str) -> Any:
        async def hook(call: Call, send: Send) -> Answer:
            order.append(name)
            return await send(call)

        return hook

    hooks = {"hooks": [named("outer"), named("inner")], "wire_hooks": [named("wire"), failing(answering(503))]}
    quick = Retries(backoff=Backoff(first=0.001, cap=0.001))
    async with open_client(crd=False, retries=quick, **hooks) as client:
        await client.list(Namespace)
        assert order == ["outer", "inner", "wire", "wire"]


@virtual
async def test_a_call_that_gets_no_answer_ends_in_time_and_says_what_it_was() -> None:
    class Silent:
        async def handle(self, request: Request, /) -> Response:
            await asyncio.sleep(1000)
            return Response()

    async with Client(InsideTransport(Silent()), timeout=5) as client:
        for asked, words in ((client.list(Website), "list Website"), (anext(client.watch(Website)), "watch Website")):
            began = asyncio.get_running_loop().time()
            with pytest.raises(TimedOut, match=f"{words} in all namespaces: no answer within 5 seconds"):
                await asked
            assert asyncio.get_running_loop().time() - began == pytest.approx(5)
