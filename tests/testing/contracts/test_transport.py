"""The transports of the house keep the contract, and the contract tells one that does not."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from levelset.client import Answer, Call, Config, InsideTransport, SocketTransport
from levelset.errors import Unreachable
from levelset.testing.contracts.transport import (
    TRANSPORT_CONTRACT,
    Target,
    TransportCheck,
    check_transport,
    open_target,
)
from tests.apiserver.clock import virtual

each = pytest.mark.parametrize("check", TRANSPORT_CONTRACT, ids=lambda check: check.__name__)


@each
async def test_the_contract_holds_over_sockets(check: TransportCheck) -> None:
    async with open_target() as target:
        await check(SocketTransport(Config(server=target.url)), target)


@each
@virtual
async def test_the_contract_holds_inside_a_process(check: TransportCheck) -> None:
    async with open_target(listen=False) as target:
        await check(InsideTransport(target), target)


@virtual
async def test_all_checks_can_be_run_at_once() -> None:
    await check_transport(InsideTransport, listen=False)


class Spoilt:
    """A transport that does one thing wrong."""

    def __init__(self, target: Target) -> None:
        self._inner = InsideTransport(target)

    async def send(self, call: Call, /) -> Answer:
        return await self._inner.send(call)

    async def aclose(self) -> None:
        await self._inner.aclose()


class RaisesForRefusals(Spoilt):
    async def send(self, call: Call, /) -> Answer:
        answer = await self._inner.send(call)
        if answer.status == 500:
            raise Unreachable("the server has failed")
        return answer


class Decodes(Spoilt):
    async def send(self, call: Call, /) -> Answer:
        return await self._inner.send(msgspec.structs.replace(call, path=call.path.replace("%2F", "/")))


class SendsTwice(Spoilt):
    async def send(self, call: Call, /) -> Answer:
        try:
            return await self._inner.send(call)
        except Unreachable:
            return await self._inner.send(call)


class Collects(Spoilt):
    """Waits for all of a stream before it hands on anything."""

    async def send(self, call: Call, /) -> Answer:
        answer = await self._inner.send(call)
        if answer.pieces is None:
            return answer
        whole = b"".join([piece async for piece in answer.pieces])
        return Answer(status=answer.status, headers=answer.headers, body=whole)


class OneAtATime(Spoilt):
    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._turn = asyncio.Lock()

    async def send(self, call: Call, /) -> Answer:
        async with asyncio.timeout(20), self._turn:
            return await self._inner.send(call)


class StaysOpen(Spoilt):
    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize(
    ("make", "broken"),
    [
        (RaisesForRefusals, "an_answer_is_an_answer_whatever_its_status"),
        (Decodes, "a_call_arrives_as_it_was_written"),
        (SendsTwice, "a_call_that_takes_too_long_times_out"),
        (Collects, "a_stream_that_ends_is_over"),
        (OneAtATime, "calls_do_not_wait_for_one_another"),
        (StaysOpen, "closing_ends_streams_and_refuses_calls"),
    ],
)
@virtual
async def test_a_transport_that_breaks_a_promise_is_told_which(make: Callable[[Target], Any], broken: str) -> None:
    failed: list[str] = []
    for check in TRANSPORT_CONTRACT:
        async with open_target(listen=False) as target:
            try:
                await asyncio.wait_for(check(make(target), target), 60)
            except (AssertionError, Unreachable, TimeoutError):
                failed.append(check.__name__)
    assert broken in failed
