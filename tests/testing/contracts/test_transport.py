"""The built-in transports satisfy the contract, and broken transports violate it."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from levelset.client import Call, Config, InProcessTransport, Response, SocketTransport
from levelset.errors import Unreachable
from levelset.testing.contracts.transport import (
    TRANSPORT_CONTRACT,
    Target,
    TransportCheck,
    check_transport,
    open_target,
)
from levelset.testing.virtual_time import virtual

each = pytest.mark.parametrize("check", TRANSPORT_CONTRACT, ids=lambda check: check.__name__)


@each
async def test_the_contract_holds_over_sockets(check: TransportCheck) -> None:
    async with open_target() as target:
        await check(SocketTransport(Config(server=target.url)), target)


@each
@virtual
async def test_the_contract_holds_in_process(check: TransportCheck) -> None:
    async with open_target(listen=False) as target:
        await check(InProcessTransport(target), target)


@virtual
async def test_all_checks_can_be_run_at_once() -> None:
    await check_transport(InProcessTransport, listen=False)


class BrokenTransport:
    """A transport that violates one check."""

    def __init__(self, target: Target) -> None:
        self._inner = InProcessTransport(target)

    async def send(self, call: Call, /) -> Response:
        return await self._inner.send(call)

    async def aclose(self) -> None:
        await self._inner.aclose()


class RaisesForRefusals(BrokenTransport):
    async def send(self, call: Call, /) -> Response:
        response = await self._inner.send(call)
        if response.status == 500:
            raise Unreachable("the server has failed")
        return response


class Decodes(BrokenTransport):
    async def send(self, call: Call, /) -> Response:
        return await self._inner.send(msgspec.structs.replace(call, path=call.path.replace("%2F", "/")))


class SendsTwice(BrokenTransport):
    async def send(self, call: Call, /) -> Response:
        try:
            return await self._inner.send(call)
        except Unreachable:
            return await self._inner.send(call)


class Collects(BrokenTransport):
    """Reads a whole stream before it returns anything."""

    async def send(self, call: Call, /) -> Response:
        response = await self._inner.send(call)
        if response.stream is None:
            return response
        whole = b"".join([piece async for piece in response.stream])
        return Response(status=response.status, headers=response.headers, body=whole)


class OneAtATime(BrokenTransport):
    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._lock = asyncio.Lock()

    async def send(self, call: Call, /) -> Response:
        async with asyncio.timeout(20), self._lock:
            return await self._inner.send(call)


class StaysOpen(BrokenTransport):
    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize(
    ("make", "broken"),
    [
        (RaisesForRefusals, "every_status_is_returned_as_a_response"),
        (Decodes, "a_call_arrives_unchanged"),
        (SendsTwice, "a_call_that_takes_too_long_times_out"),
        (Collects, "a_stream_ends_with_its_last_piece"),
        (OneAtATime, "calls_do_not_wait_for_one_another"),
        (StaysOpen, "closing_ends_streams_and_refuses_calls"),
    ],
)
@virtual
async def test_a_broken_transport_fails_the_check_it_violates(make: Callable[[Target], Any], broken: str) -> None:
    failed: list[str] = []
    for check in TRANSPORT_CONTRACT:
        async with open_target(listen=False) as target:
            try:
                await asyncio.wait_for(check(make(target), target), 60)
            except (AssertionError, Unreachable, TimeoutError):
                failed.append(check.__name__)
    assert broken in failed
