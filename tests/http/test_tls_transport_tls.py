import asyncio
import ssl
from contextlib import suppress

import pytest

from levelset.http import Peer, Request, Response
from levelset.http.certificate_authority import Authority, load_identity


@pytest.fixture(scope="module")
def server_tls(authority: Authority) -> ssl.SSLContext:
    return authority.server_context(authority.issue_server(["localhost"], ["127.0.0.1"]))


@pytest.fixture(scope="module")
def client_tls(authority: Authority) -> ssl.SSLContext:
    return authority.client_context()


@pytest.fixture(scope="module")
def eve_tls(authority: Authority) -> ssl.SSLContext:
    return authority.client_context(authority.issue_client("eve", ["system:masters", "people"]))


@pytest.fixture(scope="module")
def stranger_tls(authority: Authority) -> ssl.SSLContext:
    context = authority.client_context()
    load_identity(context, Authority.create("strangers").issue_client("eve", ["system:masters"]))
    return context


class Who:
    def __init__(self) -> None:
        self.peers: list[Peer | None] = []

    def handle(self, request: Request) -> Response:
        self.peers.append(request.peer)
        return Response(200, body=request.body)


async def test_a_client_without_a_certificate_is_nobody(serve, connect, server_tls, client_tls):
    who = Who()
    server = await serve(who.handle, tls=server_tls)
    assert server.url == f"https://127.0.0.1:{server.port}"
    client = await connect(server, client_tls)
    client.ask("POST", "/", body=b"hello")
    assert (await client.read())[2] == b"hello"
    assert who.peers == [None]


async def test_a_client_certificate_says_who_asks(serve, connect, server_tls, eve_tls):
    who = Who()
    client = await connect(await serve(who.handle, tls=server_tls), eve_tls)
    client.ask()
    await client.read()
    assert who.peers == [Peer("eve", ("system:masters", "people"))]


async def test_a_certificate_of_another_authority_is_refused(serve, connect, server_tls, stranger_tls):
    who = Who()
    server = await serve(who.handle, tls=server_tls)

    async def ask() -> None:
        client = await connect(server, stranger_tls)
        client.ask()
        await client.read()

    with pytest.raises((OSError, EOFError)):
        await ask()
    assert who.peers == []


async def test_a_big_body_and_a_stream_pass_through_tls(serve, connect, server_tls, client_tls):
    big = b"0123456789" * 500_000

    def handle(request: Request) -> Response:
        def push(sink):
            sink.write(b"a" * 100_000)
            sink.write(b"b")
            sink.close()

        return Response(200, body=push if request.path == "/stream" else big)

    client = await connect(await serve(handle, tls=server_tls), client_tls)
    client.ask()
    client.ask("GET", "/stream")
    assert (await client.read())[2] == big
    assert (await client.read())[2] == b"a" * 100_000 + b"b"


async def test_stopping_ends_streams_over_tls(serve, connect, server_tls, client_tls):
    server = await serve(lambda request: Response(200, body=lambda sink: sink.write(b"x")), tls=server_tls)
    client = await connect(server, client_tls)
    client.ask()
    await client.read_head()
    assert await client.read_chunk() == b"x"
    await server.stop()
    assert await client.read_to_end() == b"0\r\n\r\n"


async def test_plain_bytes_on_a_tls_port_leave_the_server_alive(serve, connect, server_tls, client_tls):
    server = await serve(tls=server_tls)
    plain = await connect(server)
    plain.ask()
    with suppress(ConnectionError):
        assert not (await plain.read_to_end()).startswith(b"HTTP")
    client = await connect(server, client_tls)
    client.ask()
    assert (await client.read())[0] == 200


@pytest.fixture
def own_tls(authority: Authority) -> ssl.SSLContext:
    return authority.server_context(authority.issue_server(["localhost"]))


async def test_a_renewed_certificate_is_used_without_a_restart(serve, connect, authority, own_tls, client_tls):
    server = await serve(tls=own_tls)
    serials: list[object] = []
    for _ in range(2):
        client = await connect(server, client_tls)
        serials.append(client.writer.get_extra_info("peercert")["serialNumber"])
        await asyncio.to_thread(load_identity, own_tls, authority.issue_server(["localhost"]))
    assert serials[0] != serials[1]
