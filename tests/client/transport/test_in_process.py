import asyncio
from collections.abc import AsyncIterator

import pytest

from levelset.apiserver import ApiServer
from levelset.client.client import Client
from levelset.client.transport.in_process import InsideTransport
from levelset.client.transport.interface import Call
from levelset.errors import ConfigError, Forbidden, Unauthorized, Unreachable
from levelset.http import Peer, Request, Response
from tests.client.world import Namespace, Website, open_client


class Endless:
    """A server that sends a body without end."""

    def __init__(self) -> None:
        self.closed = 0

    def handle(self, request: Request, /) -> Response:
        return Response(200, (("X-Path", request.path), ("X-Query", request.query)), self._body())

    async def _body(self) -> AsyncIterator[bytes]:
        try:
            yield b"a"
            await asyncio.get_running_loop().create_future()
        finally:
            self.closed += 1


STREAM = Call(method="GET", path="/a%20b", query="x=%26", is_stream=True, words="stream")


async def test_a_call_reaches_the_server_as_it_was_written() -> None:
    transport = InsideTransport(Endless())
    answer = await transport.send(STREAM)
    assert (answer.headers.get("x-path"), answer.headers.get("x-query")) == ("/a%20b", "x=%26")
    await transport.aclose()


async def test_closing_a_stream_closes_the_servers_body() -> None:
    server = Endless()
    transport = InsideTransport(server)
    answer = await transport.send(STREAM)
    assert answer.pieces is not None
    assert await anext(aiter(answer.pieces)) == b"a"
    await answer.pieces.aclose()
    assert server.closed == 1


async def test_closing_a_stream_from_another_task_wakes_its_reader() -> None:
    server = Endless()
    answer = await InsideTransport(server).send(STREAM)
    assert answer.pieces is not None
    pieces = aiter(answer.pieces)
    await anext(pieces)
    reader = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)
    await answer.pieces.aclose()
    with pytest.raises(Unreachable, match="closed"):
        await reader
    with pytest.raises(Unreachable, match="closed"):
        await anext(pieces)
    assert server.closed == 1


async def test_closing_the_transport_ends_what_is_open_and_refuses_what_is_new() -> None:
    server = Endless()
    transport = InsideTransport(server)
    idle, busy = await transport.send(STREAM), await transport.send(STREAM)
    assert idle.pieces is not None
    assert busy.pieces is not None
    for one in (idle, busy):
        await anext(aiter(one.pieces or _none()))
    reader = asyncio.ensure_future(anext(aiter(busy.pieces)))
    await asyncio.sleep(0)
    await transport.aclose()
    with pytest.raises(Unreachable):
        await reader
    with pytest.raises(Unreachable) as caught:
        await transport.send(STREAM)
    assert (caught.value.is_sent, server.closed) == (False, 2)


async def _none() -> AsyncIterator[bytes]:
    return
    yield b""


async def test_a_cancelled_reader_is_cancelled_and_nothing_else() -> None:
    server = Endless()
    answer = await InsideTransport(server).send(STREAM)
    assert answer.pieces is not None
    pieces = aiter(answer.pieces)
    await anext(pieces)
    reader = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await answer.pieces.aclose()
    assert server.closed == 1


async def test_a_server_of_this_process_is_asked_as_its_owner_or_as_a_given_peer() -> None:
    server = ApiServer()
    await server.start(listen=False)
    async with await Client.connect(server) as owner:
        assert (await owner.get(Namespace, "default")).name == "default"
    async with await Client.connect(server, peer=Peer("nobody")) as nobody:
        with pytest.raises((Forbidden, Unauthorized)):
            await nobody.get(Namespace, "default")
    await server.stop()


async def test_what_is_no_server_is_refused() -> None:
    with pytest.raises(ConfigError, match="no server"):
        await Client.connect(object())  # type: ignore[arg-type]  # the point
    async with open_client() as client:
        with pytest.raises(ConfigError, match="kubeconfig"):
            await Client.connect(ApiServer(), context="dev")
        assert client.using(timeout=3).namespace == "default"


async def test_closing_a_copy_of_a_client_leaves_the_connections_open() -> None:
    async with open_client() as client:
        async with client.using(manager="me") as copy:
            await copy.list(Website)
        assert len(await client.list(Website)) == 0


async def test_a_task_that_only_asks_does_not_keep_others_from_running() -> None:
    async with open_client() as client:

        async def ask_for_ever() -> None:
            while True:
                await client.list(Namespace)

        asking = asyncio.create_task(ask_for_ever())
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):  # which nobody would see if the asking had no end
            async with asyncio.timeout(0.001):
                await asking
        assert asking.cancelled()
