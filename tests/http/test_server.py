import asyncio
from collections.abc import AsyncIterator

import pytest

from levelset.errors import ConfigError
from levelset.http import Limits, Request, Response, Server, Sink
from levelset.http.parser import Phase


def ok(request: Request) -> Response:
    return Response(200, body=b"ok")


async def test_a_server_is_reached_on_the_loopback_interface_and_any_free_port():
    async with Server(ok) as server:
        assert server.port > 0
        assert server.url == f"http://127.0.0.1:{server.port}"
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", server.port)


def test_the_url_can_be_typed_whatever_the_server_listens_on():
    assert Server(ok, host="::1", port=80).url == "http://[::1]:80"
    assert Server(ok, host="0.0.0.0", port=80).url == "http://127.0.0.1:80"


async def test_a_port_in_use_is_a_config_error(serve):
    server = await serve()
    with pytest.raises(ConfigError, match=f"Port {server.port} on 127.0.0.1 is in use"):
        await serve(port=server.port)


@pytest.mark.parametrize(
    ("host", "port", "words"),
    [
        ("127.0.0.1", 70_000, "not a port"),
        ("127.0.0.1", -1, "not a port"),
        ("192.0.2.1", 0, "not an address of this machine"),
    ],
)
async def test_an_address_that_cannot_be_used_is_a_config_error(host: str, port: int, words: str, serve):
    with pytest.raises(ConfigError, match=words):
        await serve(host=host, port=port)


async def test_a_server_that_was_stopped_can_be_started_again_on_its_port(serve, connect):
    server = await serve()
    port = server.port
    for _ in range(2):
        client = await connect(server)
        client.send_request()
        assert (await client.read())[0] == 200
        await server.stop()
        await server.start()
        assert server.port == port


async def test_a_server_is_started_only_once(serve):
    server = await serve()
    with pytest.raises(ConfigError, match="running already"):
        await server.start()


async def test_stopping_closes_idle_connections(serve, connect):
    server = await serve()
    client = await connect(server)
    client.send_request()
    await client.read()
    await server.stop()
    assert await client.read_to_end() == b""
    await server.stop()


async def test_stopping_lets_a_request_finish(serve, connect, until):
    gate, started = asyncio.Event(), asyncio.Event()

    async def handle(request: Request) -> Response:
        started.set()
        await gate.wait()
        return Response(200, body=b"finished")

    server = await serve(handle)
    client = await connect(server)
    client.send_request()
    await started.wait()
    stopping = asyncio.ensure_future(server.stop())
    await asyncio.sleep(0)
    gate.set()
    status, headers, body = await client.read()
    assert (status, headers["connection"], body) == (200, "close", b"finished")
    await stopping


async def test_stopping_lets_a_partial_request_complete(serve, connect, until):
    server = await serve(lambda request: Response(200, body=request.body))
    client = await connect(server)
    client.send_request("POST", "/", "Content-Length: 5")
    (connection,) = server._context.connections
    await until(lambda: connection._phase and connection._phase.name == "BODY")
    stopping = asyncio.ensure_future(server.stop())
    await asyncio.sleep(0)
    client.send(b"hello")
    assert (await client.read())[2] == b"hello"
    await stopping


async def test_stopping_ends_pushed_streams_regularly(serve, connect):
    ended: list[Sink] = []

    def push(sink: Sink) -> None:
        sink.write(b"event\n")
        sink.when_closed(lambda: ended.append(sink))

    server = await serve(lambda request: Response(200, body=push))
    clients = [await connect(server) for _ in range(5)]
    for client in clients:
        client.send_request()
        await client.read_head()
    await server.stop()
    for client in clients:
        assert await client.read_to_end() == b"6\r\nevent\n\r\n0\r\n\r\n"
    assert len(ended) == 5


async def test_stopping_ends_iterators_regularly(serve, connect):
    closed: list[bool] = []

    async def body() -> AsyncIterator[bytes]:
        try:
            yield b"event\n"
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    server = await serve(lambda request: Response(200, body=body()))
    client = await connect(server)
    client.send_request()
    await client.read_head()
    assert await client.read_chunk() == b"event\n"
    await server.stop()
    assert await client.read_to_end() == b"0\r\n\r\n"
    assert closed == [True]


async def test_a_request_that_does_not_finish_in_time_is_aborted(serve, connect, until):
    cancelled: list[bool] = []
    started = asyncio.Event()

    async def handle(request: Request) -> Response:
        try:
            started.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return Response()

    server = await serve(handle)
    client = await connect(server)
    client.send_request()
    await started.wait()
    await server.stop(within=0)
    assert cancelled == [True]
    assert server.connections == 0


async def test_a_stalled_stream_does_not_block_the_stop(serve, connect):
    sinks: list[Sink] = []
    server = await serve(lambda request: Response(200, body=sinks.append))
    client = await connect(server)
    client.send_request()
    await client.read_head()
    client.writer.transport.pause_reading()
    while not sinks[0].is_backed_up:
        sinks[0].write(b"x" * 1_000_000)
        await asyncio.sleep(0)
    await server.stop(within=0)
    assert sinks[0].is_closed


async def test_a_stream_that_begins_while_the_server_stops_ends_at_once(serve, connect):
    gate, started = asyncio.Event(), asyncio.Event()
    sinks: list[Sink] = []

    async def handle(request: Request) -> Response:
        started.set()
        await gate.wait()
        return Response(200, body=sinks.append)

    server = await serve(handle)
    client = await connect(server)
    client.send_request()
    await started.wait()
    stopping = asyncio.ensure_future(server.stop())
    await asyncio.sleep(0)
    gate.set()
    assert (await client.read())[2] == b""
    await stopping
    assert sinks[0].is_closed


HALVES = {
    "a line": b"GET / HT",
    "a head": b"POST / HTTP/1.1\r\nHost: test\r\n",
    "a body": b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 11\r\n\r\nhalf",
    "a refusal": b"nonsense\r\n\r\n",
}


def is_in_the_middle(server):
    return any(one._parser.phase is not Phase.IDLE or one._is_lingering for one in server._context.connections)


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES.keys())
async def test_a_client_that_stopped_sending_does_not_block_the_stop(serve, connect, until, half):
    server = await serve(limits=Limits(finish_within=0.01))
    client = await connect(server)
    client.send(half)
    await until(lambda: is_in_the_middle(server))
    async with asyncio.timeout(30):
        await server.stop(within=60)
    assert server.connections == 0


async def test_a_request_that_is_still_arriving_has_finish_within_seconds(serve, connect, until):
    server = await serve(lambda request: Response(200, body=request.body), limits=Limits(finish_within=60))
    client = await connect(server)
    client.send(HALVES["a body"])
    await until(lambda: is_in_the_middle(server))
    stopping = asyncio.ensure_future(server.stop(within=60))
    await asyncio.sleep(0)
    client.send(b" a word")
    assert (await client.read())[::2] == (200, b"half a word")
    await stopping
