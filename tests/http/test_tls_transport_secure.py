import asyncio
import ssl

import pytest

from levelset.http import Limits, Request, Response
from levelset.http.certificate_authority import Authority


@pytest.fixture(scope="module")
def server_tls(authority: Authority) -> ssl.SSLContext:
    return authority.server_context(authority.issue_server(["localhost"], ["127.0.0.1"]))


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def client_tls(authority: Authority, request: pytest.FixtureRequest) -> ssl.SSLContext:
    context = authority.client_context()
    context.maximum_version = request.param
    return context


def echo(request: Request) -> Response:
    return Response(200, body=request.body)


async def echo_later(request: Request) -> Response:
    await asyncio.sleep(0)
    return Response(200, body=request.body)


@pytest.mark.parametrize("handler", [echo, echo_later])
async def test_requests_that_come_at_once_are_answered_in_order(serve, connect, server_tls, client_tls, handler):
    client = await connect(await serve(handler, tls=server_tls), client_tls)
    bodies = [b"%d" % number * (number * 100 + 1) for number in range(50)]
    for body in bodies:
        client.ask("POST", "/", body=body)
    assert [(await client.read())[2] for _ in bodies] == bodies


async def test_a_big_body_comes_in_whole(serve, connect, server_tls, client_tls):
    client = await connect(await serve(echo, tls=server_tls), client_tls)
    body = b"0123456789" * 200_000
    client.ask("POST", "/", body=body)
    assert (await client.read())[2] == body


async def test_a_connection_that_is_to_be_closed_ends_properly(serve, connect, server_tls, client_tls, until):
    big = b"x" * 3_000_000
    server = await serve(lambda request: Response(200, body=big), tls=server_tls)
    client = await connect(server, client_tls)
    client.ask("GET", "/", "Connection: close")
    assert (await client.read_to_end()).endswith(big)
    await until(lambda: not server.connections)


async def test_a_client_that_leaves_is_let_go(serve, connect, server_tls, client_tls, until):
    server = await serve(lambda request: Response(200, body=lambda sink: sink.write(b"x")), tls=server_tls)
    for leave in ("abort", "close"):
        client = await connect(server, client_tls)
        client.ask()
        await client.read_head()
        assert server.connections == 1
        getattr(client.writer.transport, leave)()
        await until(lambda: not server.connections)


async def test_a_client_that_never_shakes_hands_is_cut(serve, connect, server_tls):
    server = await serve(tls=server_tls, limits=Limits(handshake_within=0.01))
    assert await (await connect(server)).read_to_end() == b""


async def test_a_client_that_does_not_answer_the_end_is_cut(serve, connect, server_tls, client_tls, until):
    server = await serve(tls=server_tls, limits=Limits(linger_within=0.01))
    client = await connect(server, client_tls)
    client.ask()
    await client.read()
    client.writer.transport.pause_reading()
    await server.stop()
    assert server.connections == 0


async def test_a_refusal_reaches_a_client_that_goes_on_sending(serve, connect, server_tls, client_tls):
    server = await serve(tls=server_tls, limits=Limits(body_bytes=100))
    client = await connect(server, client_tls)
    client.ask("POST", "/", body=b"x" * 300_000)
    assert (await client.read())[0] == 413


async def test_bytes_that_are_not_sealed_end_the_connection(serve, connect, server_tls, client_tls, until):
    server = await serve(tls=server_tls)
    client = await connect(server, client_tls)
    client.ask()
    await client.read()
    # The socket itself, below TLS.
    client.writer.get_extra_info("socket")._sock.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    await until(lambda: not server.connections)


async def test_a_slow_reader_gets_everything(serve, connect, server_tls, client_tls):
    big = b"y" * 5_000_000
    client = await connect(await serve(lambda request: Response(200, body=big), tls=server_tls), client_tls)
    client.writer.transport.pause_reading()
    client.ask()
    client.ask()
    for _ in range(50):
        await asyncio.sleep(0)
    client.writer.transport.resume_reading()
    assert [(await client.read())[2] for _ in range(2)] == [big, big]
