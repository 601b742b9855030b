import asyncio
import ssl

import pytest

from levelset.http import Limits, Request, Response
from levelset.http.certificate_authority import CertificateAuthority


@pytest.fixture(scope="module")
def server_tls(authority: CertificateAuthority) -> ssl.SSLContext:
    return authority.server_context(authority.issue_server(["localhost"], ["127.0.0.1"]))


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def client_tls(authority: CertificateAuthority, request: pytest.FixtureRequest) -> ssl.SSLContext:
    context = authority.client_context()
    context.maximum_version = request.param
    return context


def echo(request: Request) -> Response:
    return Response(200, body=request.body)


async def echo_later(request: Request) -> Response:
    await asyncio.sleep(0)
    return Response(200, body=request.body)


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


async def test_closing_sends_close_notify(serve, connect, server_tls, client_tls, until):
    big = b"x" * 3_000_000
    server = await serve(lambda request: Response(200, body=big), tls=server_tls)
    client = await connect(server, client_tls)
    client.send_request("GET", "/", "Connection: close")
    assert (await client.read_to_end()).endswith(big)
    await until(lambda: not server.connections)


async def test_a_disconnect_closes_the_transport(serve, connect, server_tls, client_tls, until):
    server = await serve(lambda request: Response(200, body=lambda sink: sink.write(b"x")), tls=server_tls)
    for leave in ("abort", "close"):
        client = await connect(server, client_tls)
        client.send_request()
        await client.read_head()
        assert server.connections == 1
        getattr(client.writer.transport, leave)()
        await until(lambda: not server.connections)


async def test_a_client_without_a_handshake_is_aborted(serve, connect, server_tls):
    server = await serve(tls=server_tls, limits=Limits(handshake_within=0.01))
    assert await (await connect(server)).read_to_end() == b""


async def test_a_client_without_close_notify_is_aborted(serve, connect, server_tls, client_tls, until):
    server = await serve(tls=server_tls, limits=Limits(linger_within=0.01))
    client = await connect(server, client_tls)
    client.send_request()
    await client.read()
    client.writer.transport.pause_reading()
    await server.stop()
    assert server.connections == 0


async def test_an_error_response_reaches_a_client_that_still_sends(serve, connect, server_tls, client_tls):
    server = await serve(tls=server_tls, limits=Limits(body_bytes=100))
    client = await connect(server, client_tls)
    client.send_request("POST", "/", body=b"x" * 300_000)
    assert (await client.read())[0] == 413


async def test_unencrypted_bytes_close_the_connection(serve, connect, server_tls, client_tls, until):
    server = await serve(tls=server_tls)
    client = await connect(server, client_tls)
    client.send_request()
    await client.read()
    # The socket itself, below TLS.
    client.writer.get_extra_info("socket")._sock.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    await until(lambda: not server.connections)


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
