import asyncio
import ssl
from contextlib import suppress

import pytest

from levelset.http import Peer, Request, Response
from levelset.http.certificate_authority import CertificateAuthority, load_identity


@pytest.fixture(scope="module")
def server_tls(authority: CertificateAuthority) -> ssl.SSLContext:
    return authority.server_context(authority.issue_server(["localhost"], ["127.0.0.1"]))


@pytest.fixture(scope="module")
def client_tls(authority: CertificateAuthority) -> ssl.SSLContext:
    return authority.client_context()


@pytest.fixture(scope="module")
def eve_tls(authority: CertificateAuthority) -> ssl.SSLContext:
    return authority.client_context(authority.issue_client("eve", ["system:masters", "people"]))


@pytest.fixture(scope="module")
def stranger_tls(authority: CertificateAuthority) -> ssl.SSLContext:
    context = authority.client_context()
    load_identity(context, CertificateAuthority.create("strangers").issue_client("eve", ["system:masters"]))
    return context


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


async def test_stopping_ends_streams_over_tls(serve, connect, server_tls, client_tls):
    server = await serve(lambda request: Response(200, body=lambda sink: sink.write(b"x")), tls=server_tls)
    client = await connect(server, client_tls)
    client.send_request()
    await client.read_head()
    assert await client.read_chunk() == b"x"
    await server.stop()
    assert await client.read_to_end() == b"0\r\n\r\n"


async def test_plain_bytes_on_a_tls_port_do_not_stop_the_server(serve, connect, server_tls, client_tls):
    server = await serve(tls=server_tls)
    plain = await connect(server)
    plain.send_request()
    with suppress(ConnectionError):
        assert not (await plain.read_to_end()).startswith(b"HTTP")
    client = await connect(server, client_tls)
    client.send_request()
    assert (await client.read())[0] == 200


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
