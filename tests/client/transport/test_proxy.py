"""Connections through an HTTP proxy."""

import asyncio
import ssl

import pytest

from levelset.client.config.config import Config
from levelset.client.transport.dialer import Dialer
from levelset.client.transport.proxy import Proxy, authority
from levelset.errors import ConfigError, Unreachable
from levelset.http import CertificateAuthority, Request, Response, Server
from tests.client.transport.raw_server import RawConnection, post, raw_server, read, send_call, transport_to

OPEN = b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n"


class Forwarder:
    """A proxy that opens the requested tunnels, and records the credentials."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.requested: list[tuple[str, str | None]] = []

    async def script(self, connection: RawConnection) -> None:
        first, headers, _ = await connection.request()
        self.requested.append((first, headers.get("Proxy-Authorization")))
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        connection.write(OPEN)
        ways = [asyncio.create_task(pump(*way)) for way in ((connection.reader, writer), (reader, connection.writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            writer.transport.abort()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


def echo(request: Request) -> Response:
    return Response(200, body=request.body or b"ok")


@pytest.fixture(scope="module")
def signer() -> CertificateAuthority:
    return CertificateAuthority.create("tests")


@pytest.fixture(scope="module")
def server_tls(signer: CertificateAuthority) -> ssl.SSLContext:
    return signer.server_context(signer.issue_server(["kube.example"]))


@pytest.fixture(scope="module")
def proxy_tls(signer: CertificateAuthority) -> ssl.SSLContext:
    return signer.server_context(signer.issue_server(["localhost"], ["127.0.0.1"]))


async def test_a_plain_server_is_reached_through_a_tunnel():
    async with Server(echo) as server:
        forwarder = Forwarder(server.port)
        async with (
            raw_server(forwarder.script) as proxy,
            transport_to("http://kube.example:8080", proxy=proxy.url) as transport,
        ):
            assert [(await send_call(transport)).body for _ in range(3)] == [b"ok"] * 3
            assert (await post(transport, b"x" * 1_000_000)).body == b"x" * 1_000_000
        assert forwarder.requested == [("CONNECT kube.example:8080 HTTP/1.1", None)]


async def test_tls_goes_through_the_tunnel_to_the_server(signer: CertificateAuthority, server_tls: ssl.SSLContext):
    def big(request: Request) -> Response:
        return Response(200, body=b"a" * 100_000)

    async with Server(big, tls=server_tls) as server:
        forwarder = Forwarder(server.port)
        async with raw_server(forwarder.script) as proxy:
            url = proxy.url.replace("//", "//us%40er:pass%3Aword@")
            async with transport_to("https://kube.example", ca=signer.certificate, proxy=url) as transport:
                response = await send_call(transport, is_stream=True)
                assert await read(response) == b"a" * 100_000
                assert transport._pool.idle == 1
        # us@er:pass:word
        assert forwarder.requested == [("CONNECT kube.example:443 HTTP/1.1", "Basic dXNAZXI6cGFzczp3b3Jk")]


async def test_the_certificate_behind_a_tunnel_is_verified(signer: CertificateAuthority, proxy_tls: ssl.SSLContext):
    async with (
        Server(echo, tls=proxy_tls) as server,
        raw_server(Forwarder(server.port).script) as proxy,
        transport_to("https://kube.example", ca=signer.certificate, proxy=proxy.url) as transport,
    ):
        with pytest.raises(Unreachable, match="https://kube.example has a certificate that is not trusted"):
            await send_call(transport)


async def test_the_connection_to_a_proxy_may_use_tls(signer, server_tls, proxy_tls):
    async with (
        Server(echo, tls=server_tls) as server,
        raw_server(Forwarder(server.port).script, ssl=proxy_tls) as proxy,
    ):
        url = f"https://127.0.0.1:{proxy.port}"
        async with transport_to("https://kube.example", ca=signer.certificate, proxy=url) as transport:
            with pytest.raises(Unreachable, match=f"The proxy {url} has a certificate that is not trusted"):
                await send_call(transport)
        config = Config(server="https://kube.example", ca=signer.certificate, proxy=url)
        dialer = Dialer(config)
        assert dialer._proxy_tls is not None
        (await dialer._proxy_tls.context()).load_verify_locations(cadata=signer.certificate.decode())
        async with transport_to(config.server, ca=config.ca, proxy=url) as transport:
            transport._pool._dial = dialer.dial
            assert (await send_call(transport)).body == b"ok"


REFUSALS = {
    "a login is needed": (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "requires a user and a password"),
    "not allowed": (b"HTTP/1.1 403 Forbidden\r\n\r\n", "did not open a tunnel to kube.example:443: 403 Forbidden"),
    "not there": (b"HTTP/1.0 502 Bad Gateway\r\nX: y\r\n\r\n<html>", "did not open a tunnel to kube.example:443: 502"),
    "garbage": (b"hello\r\n\r\n", "did not respond like an HTTP proxy"),
    "no number": (b"HTTP/1.1 yes\r\n\r\n", "did not respond like an HTTP proxy"),
    "nothing": (b"", "closed the connection before it responded"),
    "half a head": (b"HTTP/1.1 200 OK\r\n", "closed the connection before it responded"),
    "more than a head": (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200", "more than the head"),
    "no end of it": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, "more than the head"),
}


@pytest.mark.parametrize("name", sorted(REFUSALS))
async def test_a_proxy_that_opens_no_tunnel_is_reported(name: str):
    said, words = REFUSALS[name]

    async def script(connection: RawConnection) -> None:
        await connection.request()
        connection.write(said)

    async with (
        raw_server(script) as proxy,
        transport_to("https://kube.example", insecure=True, proxy=proxy.url) as transport,
    ):
        with pytest.raises(Unreachable, match=f"The proxy {proxy.url} .*{words}") as caught:
            await send_call(transport)
        assert not caught.value.is_sent


async def test_a_rejected_proxy_login_is_reported_without_the_password():
    async def script(connection: RawConnection) -> None:
        await connection.request()
        connection.write(b"HTTP/1.1 407 No\r\n\r\n")

    async with (
        raw_server(script) as proxy,
        transport_to("http://kube", proxy=proxy.url.replace("//", "//me:secret@")) as transport,
    ):
        with pytest.raises(Unreachable, match="rejected the user and password") as caught:
            await send_call(transport)
        assert "secret" not in str(caught.value)


async def test_an_unreachable_proxy_is_reported():
    async with raw_server(RawConnection.wait_gone) as proxy:
        pass
    async with transport_to("https://kube.example", insecure=True, proxy=proxy.url) as transport:
        with pytest.raises(Unreachable, match=f"The proxy {proxy.url} refuses connections"):
            await send_call(transport)


def test_a_socks_proxy_is_refused_at_once():
    with pytest.raises(ConfigError, match="socks5, which is not supported: use an http"):
        Dialer(Config(server="https://kube", proxy="socks5://localhost:1080"))


@pytest.mark.parametrize("url", ["", "localhost:3128", "ftp://x", "http://", "http://x:99999", "http://[::1"])
def test_an_invalid_proxy_url_is_refused(url: str):
    with pytest.raises(ConfigError, match="write http://HOST:PORT"):
        Proxy.parse(url)


def test_the_repr_of_a_proxy_hides_its_password():
    proxy = Proxy.parse("http://me:secret@[::1]:3128")
    assert (proxy.host, proxy.port, proxy.url) == ("::1", 3128, "http://[::1]:3128")
    assert "secret" not in repr(proxy)
    assert Proxy.parse("https://proxy").port == 443


def test_an_address_is_written_in_brackets():
    assert (authority("::1", 443), authority("kube", 80)) == ("[::1]:443", "kube:80")
