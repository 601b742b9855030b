import asyncio
from collections.abc import AsyncIterator

import pytest

from levelset.apiserver import ApiServer
from levelset.client.client import Client
from levelset.client.internals import with_settings
from levelset.client.transport.in_process import InProcessTransport
from levelset.client.transport.interface import Call
from levelset.errors import ConfigError, Forbidden, Unauthorized, Unreachable
from levelset.http import Peer, Request, Response
from tests.client.fixtures import Namespace, Website, open_client


class Endless:
    """A server that sends an endless body."""

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


STREAM = Call(method="GET", path="/a%20b", query="x=%26", is_stream=True, about="stream")


async def test_a_call_reaches_the_server_as_it_was_written() -> None:
    transport = InProcessTransport(Endless())
    response = await transport.send(STREAM)
    assert (response.headers.get("x-path"), response.headers.get("x-query")) == ("/a%20b", "x=%26")
    await transport.aclose()


async def test_closing_a_stream_closes_the_servers_body() -> None:
    server = Endless()
    transport = InProcessTransport(server)
    response = await transport.send(STREAM)
    assert response.stream is not None
    assert await anext(aiter(response.stream)) == b"a"
    await response.stream.aclose()
    assert server.closed == 1


async def test_closing_a_stream_from_another_task_wakes_its_reader() -> None:
    server = Endless()
    response = await InProcessTransport(server).send(STREAM)
    assert response.stream is not None
    chunks = aiter(response.stream)
    await anext(chunks)
    reader = asyncio.ensure_future(anext(chunks))
    await asyncio.sleep(0)
    await response.stream.aclose()
    with pytest.raises(Unreachable, match="closed"):
        await reader
    with pytest.raises(Unreachable, match="closed"):
        await anext(chunks)
    assert server.closed == 1


async def test_closing_the_transport_ends_open_streams_and_refuses_new_calls() -> None:
    server = Endless()
    transport = InProcessTransport(server)
    idle, busy = await transport.send(STREAM), await transport.send(STREAM)
    assert idle.stream is not None
    assert busy.stream is not None
    for one in (idle, busy):
        await anext(aiter(one.stream or _none()))
    reader = asyncio.ensure_future(anext(aiter(busy.stream)))
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


async def test_cancelling_a_reader_cancels_only_the_reader() -> None:
    server = Endless()
    response = await InProcessTransport(server).send(STREAM)
    assert response.stream is not None
    chunks = aiter(response.stream)
    await anext(chunks)
    reader = asyncio.ensure_future(anext(chunks))
    await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await response.stream.aclose()
    assert server.closed == 1


async def test_an_in_process_server_is_called_as_its_owner_or_as_a_given_peer() -> None:
    server = ApiServer()
    await server.start(listen=False)
    async with await Client.connect(server) as owner:
        assert (await owner.get(Namespace, "default")).name == "default"
    async with await Client.connect(server, peer=Peer("nobody")) as unprivileged:
        with pytest.raises((Forbidden, Unauthorized)):
            await unprivileged.get(Namespace, "default")
    await server.stop()


async def test_connecting_to_something_that_is_not_a_server_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot connect to"):
        await Client.connect(object())  # type: ignore[arg-type]  # the point
    async with open_client() as client:
        with pytest.raises(ConfigError, match="kubeconfig"):
            await Client.connect(ApiServer(), context="dev")
        assert with_settings(client, timeout=3).namespace == "default"


async def test_closing_a_client_with_other_settings_leaves_the_connections_open() -> None:
    async with open_client() as client:
        async with with_settings(client, manager="me") as copy:
            await copy.list(Website)
        assert len(await client.list(Website)) == 0


async def test_a_task_that_only_calls_does_not_starve_other_tasks() -> None:
    async with open_client() as client:

        async def request_forever() -> None:
            while True:
                await client.list(Namespace)

        lookup = asyncio.create_task(request_forever())
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):  # never raised if the calls starved the timer
            async with asyncio.timeout(0.001):
                await lookup
        assert lookup.cancelled()
