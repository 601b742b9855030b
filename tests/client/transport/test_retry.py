import asyncio
from typing import Any

import pytest

from levelset.aio import Backoff
from levelset.client.client import Client
from levelset.client.transport.in_process import InProcessTransport
from levelset.client.transport.interface import Call, Response, Send
from levelset.client.transport.retry import Retries, is_retryable
from levelset.errors import AlreadyExists, ServerFailed, TimedOut, TooManyRequests, Unreachable
from levelset.http import Request
from levelset.http import Response as ServerResponse
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import Namespace, Website, failing, fake_response, open_client, recording, website

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
def test_only_safe_calls_are_retried(status: int, read: bool, write: bool) -> None:  # kube-rs 76
    assert is_retryable(READ, fake_response(status)) is read
    assert is_retryable(WRITE, fake_response(status)) is write


def test_a_lost_request_is_retried_if_it_cannot_have_arrived_or_is_a_read() -> None:
    assert is_retryable(WRITE, Unreachable("refused", is_sent=False))
    assert not is_retryable(WRITE, Unreachable("reset"))
    assert is_retryable(READ, Unreachable("reset"))
    assert not is_retryable(READ, TimedOut("slow"))


def test_an_eviction_that_a_disruption_budget_refuses_is_not_retried() -> None:
    evict = Call(method="POST", path="/api/v1/namespaces/a/pods/b/eviction", verb="create")
    assert not is_retryable(evict, fake_response(429))
    assert is_retryable(evict, fake_response(503))


def test_an_invalid_retry_policy_is_refused() -> None:  # kube-rs 77
    assert Retries().attempts == 5
    with pytest.raises(ValueError, match="first"):
        Retries(backoff=Backoff(first=5.0, cap=1.0))
    with pytest.raises(ValueError, match="attempts"):
        Retries(attempts=0)


@virtual
async def test_a_busy_server_is_retried_after_its_retry_after() -> None:
    calls: list[Call] = []
    faults = failing(fake_response(429, retry_after="7"), fake_response(503, retry_after="3"), when=_is_create)
    async with open_client(wire_hooks=[recording(calls), faults]) as client:
        began = asyncio.get_running_loop().time()
        assert (await client.create(website("blog"))).metadata.uid
        assert 10 <= asyncio.get_running_loop().time() - began < 11
        assert [call.verb for call in calls] == ["create"] * 3


def _is_create(call: Call) -> bool:
    return call.verb == "create" and "websites" in call.path


@virtual
async def test_the_last_error_is_raised_when_all_attempts_are_used_up() -> None:
    calls: list[Call] = []
    faults = failing(*[fake_response(503, b"overloaded")] * 9)
    async with open_client(crd=False, wire_hooks=[recording(calls), faults], retries=Retries(attempts=3)) as client:
        with pytest.raises(ServerFailed, match="overloaded"):
            await client.list(Website)
        assert len(calls) == 3


async def test_a_retry_after_beyond_the_timeout_is_not_waited_for() -> None:
    async with open_client(wire_hooks=[failing(fake_response(429, retry_after="3600"))]) as client:
        with pytest.raises(TooManyRequests) as caught:
            await client.list(Website)
        assert caught.value.retry_after == 3600


@virtual
async def test_all_attempts_together_take_no_longer_than_the_timeout() -> None:
    calls: list[Call] = []
    faults = failing(*[fake_response(503, retry_after="4")] * 99)
    async with open_client(crd=False, wire_hooks=[recording(calls), faults], timeout=10) as client:
        began = asyncio.get_running_loop().time()
        with pytest.raises(ServerFailed):
            await client.list(Website)
        assert asyncio.get_running_loop().time() - began <= 10
        assert [round(call.timeout) for call in calls] == [10, 6, 2]


@virtual
async def test_a_read_survives_broken_connections_and_a_write_is_not_retried() -> None:
    broken = Unreachable("connection reset")
    async with open_client(wire_hooks=[failing(broken, broken, when=_is_website)]) as client:
        with pytest.raises(Unreachable, match="reset"):
            await client.create(website("a"))
        assert len(await client.list(Website)) == 0


def _is_website(call: Call) -> bool:
    return "websites" in call.path


@virtual
async def test_a_write_that_cannot_have_arrived_is_retried() -> None:
    refused = Unreachable("refused", is_sent=False)
    async with open_client(wire_hooks=[failing(refused, refused, when=_is_website)]) as client:
        assert (await client.create(website("a"))).metadata.uid
        with pytest.raises(AlreadyExists):
            await client.create(website("a"))


async def test_hooks_see_one_call_for_each_verb_and_wire_hooks_each_attempt() -> None:
    order: list[str] = []

    def named(name: str) -> Any:
        async def hook(call: Call, send: Send) -> Response:
            order.append(name)
            return await send(call)

        return hook

    hooks = {"hooks": [named("outer"), named("inner")], "wire_hooks": [named("wire"), failing(fake_response(503))]}
    quick = Retries(backoff=Backoff(first=0.001, cap=0.001))
    async with open_client(crd=False, retries=quick, **hooks) as client:
        await client.list(Namespace)
        assert order == ["outer", "inner", "wire", "wire"]


@virtual
async def test_the_timeout_error_of_a_call_describes_it() -> None:
    class Silent:
        async def handle(self, request: Request, /) -> ServerResponse:
            await asyncio.sleep(1000)
            return ServerResponse()

    async with Client(InProcessTransport(Silent()), timeout=5) as client:
        for requested, words in (
            (client.list(Website), "list Website"),
            (anext(client.watch(Website)), "watch Website"),
        ):
            began = asyncio.get_running_loop().time()
            with pytest.raises(TimedOut, match=f"{words} in all namespaces: no response within 5 seconds"):
                await requested
            assert asyncio.get_running_loop().time() - began == pytest.approx(5)
