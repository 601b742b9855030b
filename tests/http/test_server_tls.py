import asyncio
import os
import socket
import ssl
from contextlib import asynccontextmanager, suppress
from itertools import count

import pytest
import uvloop

from levelset.http import Limits, Peer, Request, Response
from levelset.http.certificate_authority import CertificateAuthority, load_identity
from levelset.http.connection import SECOND_CHECK


@pytest.fixture(params=[asyncio.DefaultEventLoopPolicy, uvloop.EventLoopPolicy], ids=["asyncio", "uvloop"])
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    """Every test of this file runs on both event loops: each has a TLS of its own."""
    policy: asyncio.AbstractEventLoopPolicy = request.param()
    return policy


@pytest.fixture(scope="module")
def server_tls(authority: CertificateAuthority) -> ssl.SSLContext:
    return authority.server_context(authority.issue_server(["localhost"], ["127.0.0.1"]))


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def client_tls(authority: CertificateAuthority, request: pytest.FixtureRequest) -> ssl.SSLContext:
    context = authority.client_context()
    context.maximum_version = request.param
    return context


@pytest.fixture(scope="module")
def eve_tls(authority: CertificateAuthority) -> ssl.SSLContext:
    return authority.client_context(authority.issue_client("eve", ["system:masters", "people"]))


@pytest.fixture(scope="module")
def stranger_tls(authority: CertificateAuthority) -> ssl.SSLContext:
    context = authority.client_context()
    load_identity(context, CertificateAuthority.create("strangers").issue_client("eve", ["system:masters"]))
    return context


def echo(request: Request) -> Response:
    return Response(200, body=request.body)


async def echo_later(request: Request) -> Response:
    await asyncio.sleep(0)
    return Response(200, body=request.body)


class PeerRecorder:
    def __init__(self) -> None:
        self.peers: list[Peer | None] = []

    def handle(self, request: Request) -> Response:
        self.peers.append(request.peer)
        return Response(200, body=request.body)


async def test_a_client_without_a_certificate_has_no_peer(serve, connect, server_tls, client_tls):
    recorder = PeerRecorder()
    server = await serve(recorder.handle, tls=server_tls)
    assert server.url == f"https://127.0.0.1:{server.port}"
    client = await connect(server, client_tls)
    client.send_request("POST", "/", body=b"hello")
    assert (await client.read())[2] == b"hello"
    assert recorder.peers == [None]


async def test_a_client_certificate_identifies_the_peer(serve, connect, server_tls, eve_tls):
    recorder = PeerRecorder()
    client = await connect(await serve(recorder.handle, tls=server_tls), eve_tls)
    client.send_request()
    await client.read()
    assert recorder.peers == [Peer("eve", ("system:masters", "people"))]


async def test_a_certificate_of_another_authority_is_refused(serve, connect, server_tls, stranger_tls):
    recorder = PeerRecorder()
    server = await serve(recorder.handle, tls=server_tls)

    async def get() -> None:
        client = await connect(server, stranger_tls)
        client.send_request()
        await client.read()

    with pytest.raises((OSError, EOFError)):
        await get()
    assert recorder.peers == []


@pytest.mark.parametrize("handler", [echo, echo_later])
async def test_requests_in_one_record_get_responses_in_order(serve, connect, server_tls, client_tls, handler):
    client = await connect(await serve(handler, tls=server_tls), client_tls)
    bodies = [b"%d" % number * (number * 100 + 1) for number in range(50)]
    for body in bodies:
        client.send_request("POST", "/", body=body)
    assert [(await client.read())[2] for _ in bodies] == bodies


async def test_a_large_body_is_received_completely(serve, connect, server_tls, client_tls):
    client = await connect(await serve(echo, tls=server_tls), client_tls)
    body = b"0123456789" * 200_000
    client.send_request("POST", "/", body=body)
    assert (await client.read())[2] == body


async def test_a_large_body_and_a_stream_work_over_tls(serve, connect, server_tls, client_tls):
    big = b"0123456789" * 500_000

    def handle(request: Request) -> Response:
        def push(sink):
            sink.write(b"a" * 100_000)
            sink.write(b"b")
            sink.close()

        return Response(200, body=push if request.path == "/stream" else big)

    client = await connect(await serve(handle, tls=server_tls), client_tls)
    client.send_request()
    client.send_request("GET", "/stream")
    assert (await client.read())[2] == big
    assert (await client.read())[2] == b"a" * 100_000 + b"b"


async def test_a_slow_reader_gets_everything(serve, connect, server_tls, client_tls):
    big = b"y" * 5_000_000
    client = await connect(await serve(lambda request: Response(200, body=big), tls=server_tls), client_tls)
    client.writer.transport.pause_reading()
    client.send_request()
    client.send_request()
    for _ in range(50):
        await asyncio.sleep(0)
    client.writer.transport.resume_reading()
    assert [(await client.read())[2] for _ in range(2)] == [big, big]


async def test_a_stream_that_is_not_read_is_backed_up(serve, connect, server_tls, client_tls):
    sinks = []
    server = await serve(lambda request: Response(200, body=sinks.append), tls=server_tls)
    client = await connect(server, client_tls)
    client.send_request()
    await client.read_head()
    client.writer.transport.pause_reading()
    written = 0
    while not sinks[0].is_backed_up:
        sinks[0].write(b"x" * 1_000_000)
        written += 1_000_000
        await asyncio.sleep(0)
    assert 0 < sinks[0].backlog <= written
    await server.stop(within=0)
    assert sinks[0].is_closed


async def test_a_client_that_reads_nothing_is_aborted(serve, connect, server_tls, client_tls, until):
    server = await serve(lambda request: Response(200, body=b"x" * 20_000_000), tls=server_tls)
    client = await connect(server, client_tls)
    client.writer.transport.pause_reading()
    client.send_request()
    await until(lambda: any(one._output.is_full for one in server._context.connections))
    for seconds in count(100, 100):
        server.sweep(asyncio.get_running_loop().time() + seconds)
        await asyncio.sleep(0)
        if not server.connections:
            break


async def test_closing_sends_close_notify_after_the_response(serve, connect, server_tls, client_tls, until):
    big = b"x" * 3_000_000
    server = await serve(lambda request: Response(200, body=big), tls=server_tls)
    client = await connect(server, client_tls)
    client.send_request("GET", "/", "Connection: close")
    assert (await client.read_to_end()).endswith(big)
    await until(lambda: not server.connections)


def open_socket(port: int, tls: ssl.SSLContext) -> ssl.SSLSocket:
    """A client that receives only on demand, with a small buffer."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    plain.connect(("127.0.0.1", port))
    return tls.wrap_socket(plain, server_hostname="localhost")


def body_of_size(request: Request) -> Response:
    return Response(200, body=b"x" * int(request.segments[0]))


@asynccontextmanager
async def last_response(server, tls, until, size):
    """A client that has not read its last response, of this size, and the connection, which is closing."""
    with await asyncio.to_thread(open_socket, server.port, tls) as client:
        await until(lambda: server.connections)
        (connection,) = server._context.connections
        with socket.socket(fileno=os.dup(connection._transport.get_extra_info("socket").fileno())) as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
        await asyncio.to_thread(client.sendall, b"GET /%d HTTP/1.0\r\n\r\n" % size)
        await until(lambda: connection._is_lingering)
        yield client, connection
    await until(lambda: not server.connections)
    server.sweep(asyncio.get_running_loop().time())


async def read_rest(client: ssl.SSLSocket) -> int:
    """How many bytes come until the end."""
    received = 0
    while data := await asyncio.to_thread(client.recv, 1_000_000):
        received += len(data)
    return received


async def test_the_last_response_waits_for_a_client_that_reads_late(serve, server_tls, client_tls, until):
    """A connection that is closing is not aborted while encrypted bytes wait, which the transport does not count."""
    server = await serve(body_of_size, tls=server_tls)
    for size in range(20_000, 8_000_000, 40_000):  # until the kernel does not take all of it
        async with last_response(server, client_tls, until, size) as (client, connection):
            is_hidden = not connection._output.is_full and not connection._output.is_sent
            server.sweep(asyncio.get_running_loop().time() + 30)
            await asyncio.sleep(0)
            assert await read_rest(client) > size
        if is_hidden:
            return
    raise AssertionError("no response was large enough")


@pytest.mark.parametrize(
    "check",
    [lambda server: server.sweep(asyncio.get_running_loop().time() + 30), lambda server: server._context.hurry()],
    ids=["swept", "stopping"],
)
async def test_the_last_response_waits_while_a_client_reads_that_the_loop_has_not_seen(
    serve, server_tls, client_tls, until, file_access, check
):
    """The socket is writable again, but the transport has not continued to write: bytes wait although none seem to."""
    server, hidden = await serve(body_of_size, tls=server_tls), 0
    for size in range(20_000, 300_000, 40_000):  # the kernel takes all of the first, and not of the last
        async with last_response(server, client_tls, until, size) as (client, connection):
            output, received = connection._output, 0
            hidden += (is_hidden := not output.is_full and not output.is_sent)
            for _ in range(3):
                while is_hidden and not output.is_sent:  # read by this thread: the event loop does not run meanwhile
                    received += len(client.recv(16_384))
                check(server)
                await asyncio.sleep(1.5 * SECOND_CHECK)
            assert received + await read_rest(client) > size
    assert hidden


async def test_a_request_behind_the_last_one_is_not_handled(serve, connect, server_tls, client_tls):
    recorder = PeerRecorder()
    client = await connect(await serve(recorder.handle, tls=server_tls), client_tls)
    last = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    client.send(last + b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 3)
    assert (await client.read())[0] == 200
    assert await client.read_to_end() == b""
    assert len(recorder.peers) == 1


async def test_a_disconnect_closes_the_connection(serve, connect, server_tls, client_tls, until):
    server = await serve(lambda request: Response(200, body=lambda sink: sink.write(b"x")), tls=server_tls)
    for leave in ("abort", "close"):
        client = await connect(server, client_tls)
        client.send_request()
        await client.read_head()
        assert server.connections == 1
        getattr(client.writer.transport, leave)()
        await until(lambda: not server.connections)


async def test_a_disconnect_cancels_the_handler(serve, connect, server_tls, client_tls, until):
    started, ended = asyncio.Event(), asyncio.Event()

    async def handle(request: Request) -> Response:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return Response(200)

    client = await connect(await serve(handle, tls=server_tls), client_tls)
    client.send_request()
    await started.wait()
    client.writer.close()
    await ended.wait()


async def test_a_client_without_a_handshake_is_aborted(serve, connect, server_tls):
    server = await serve(tls=server_tls, limits=Limits(handshake_within=0.01))
    with suppress(ConnectionError):
        assert await (await connect(server)).read_to_end() == b""


async def test_a_client_without_close_notify_is_aborted(serve, connect, server_tls, client_tls, until):
    server = await serve(tls=server_tls)
    client = await connect(server, client_tls)
    client.send_request("GET", "/", "Connection: close")
    await client.read()
    client.writer.transport.pause_reading()
    assert server.connections == 1
    later = asyncio.get_running_loop().time() + server._limits.linger_within + server._limits.every
    server.sweep(later)
    await asyncio.sleep(0)
    assert server.connections == 1  # what seems to be sent may only just have become possible to send
    server.sweep(later + server._limits.every)
    await until(lambda: not server.connections)


@pytest.mark.parametrize("header", ["Connection: close", "Connection: keep-alive"])
async def test_stopping_does_not_wait_for_a_client_without_close_notify(serve, connect, server_tls, client_tls, header):
    server = await serve(tls=server_tls, limits=Limits(finish_within=0.01))
    client = await connect(server, client_tls)
    client.send_request("GET", "/", header)
    await client.read()
    client.writer.transport.pause_reading()
    await server.stop(within=15)
    assert server.connections == 0


async def test_a_connection_that_waits_for_close_notify_can_be_aborted(serve, connect, server_tls, client_tls):
    server = await serve(tls=server_tls)
    client = await connect(server, client_tls)
    client.send_request("GET", "/", "Connection: close")
    await client.read()
    client.writer.transport.pause_reading()
    await server.stop(within=0)
    assert server.connections == 0


async def test_stopping_ends_streams_over_tls(serve, connect, server_tls, client_tls):
    server = await serve(lambda request: Response(200, body=lambda sink: sink.write(b"x")), tls=server_tls)
    client = await connect(server, client_tls)
    client.send_request()
    await client.read_head()
    assert await client.read_chunk() == b"x"
    await server.stop()
    assert await client.read_to_end() == b"0\r\n\r\n"


async def test_an_error_response_reaches_a_client_that_still_sends(serve, connect, server_tls, client_tls):
    server = await serve(tls=server_tls, limits=Limits(body_bytes=100))
    client = await connect(server, client_tls)
    client.send_request("POST", "/", body=b"x" * 300_000)
    assert (await client.read())[0] == 413


async def test_a_connection_beyond_the_limit_gets_503(serve, connect, server_tls, client_tls):
    server = await serve(tls=server_tls, limits=Limits(connections=1))
    first, second = [await connect(server, client_tls) for _ in range(2)]
    first.send_request()
    assert (await first.read())[0] == 200
    assert (await second.read())[0] == 503


async def test_plain_bytes_on_a_tls_port_do_not_stop_the_server(serve, connect, server_tls, client_tls):
    server = await serve(tls=server_tls)
    plain = await connect(server)
    plain.send_request()
    with suppress(ConnectionError):
        assert not (await plain.read_to_end()).startswith(b"HTTP")
    client = await connect(server, client_tls)
    client.send_request()
    assert (await client.read())[0] == 200


async def test_unencrypted_bytes_close_the_connection(serve, connect, server_tls, client_tls, until):
    server = await serve(tls=server_tls)
    client = await connect(server, client_tls)
    client.send_request()
    await client.read()
    with socket.socket(fileno=os.dup(client.writer.get_extra_info("socket").fileno())) as below:
        await asyncio.to_thread(below.send, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    await until(lambda: not server.connections)


@pytest.fixture
def own_tls(authority: CertificateAuthority) -> ssl.SSLContext:
    return authority.server_context(authority.issue_server(["localhost"]))


async def test_a_renewed_certificate_is_used_without_a_restart(serve, connect, authority, own_tls, client_tls):
    server = await serve(tls=own_tls)
    serials: list[object] = []
    for _ in range(2):
        client = await connect(server, client_tls)
        serials.append(client.writer.get_extra_info("peercert")["serialNumber"])
        await asyncio.to_thread(load_identity, own_tls, authority.issue_server(["localhost"]))
    assert serials[0] != serials[1]
