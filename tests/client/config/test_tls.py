"""Trusted authorities, client certificates, and their rotation."""

import asyncio
import ssl
from pathlib import Path
from typing import cast

import pytest

from levelset.client.config.config import Config
from levelset.client.config.credentials import Anonymous, ClientCertificate
from levelset.client.config.tls import ClientTls
from levelset.client.transport.pool import PoolLimits
from levelset.errors import ConfigError, Unreachable
from levelset.http import CertificateAuthority, Identity, Peer, Request, Response, Server
from tests.client.transport.raw_server import RawConnection, loop_until, raw_server, send_call, transport_to


class Place:
    """An authority, and the certificates that it has signed."""

    def __init__(self, name: str) -> None:
        self.authority = CertificateAuthority.create(name)
        self.ca = self.authority.certificate
        self.here = self.context(["localhost"], ["127.0.0.1"])
        self.named = self.context(["kube.example"], [])
        self.addressed = self.context(["other.example"], ["10.0.0.1"])
        self.eve = self.authority.issue_client("eve", ["people"])
        self.bob = self.authority.issue_client("bob")

    def context(self, names: list[str], addresses: list[str]) -> ssl.SSLContext:
        return self.authority.server_context(self.authority.issue_server(names, addresses))


@pytest.fixture(scope="module")
def place() -> Place:
    return Place("tests")


@pytest.fixture(scope="module")
def elsewhere() -> Place:
    return Place("strangers")


def ok(request: Request) -> Response:
    return Response(200, body=b"ok")


def common_name(request: Request) -> Response:
    peer = request.peer
    return Response(200, body=b"nobody" if peer is None else peer.common_name.encode())


async def test_a_server_of_the_configured_authority_is_trusted(place: Place):
    async with Server(ok, tls=place.here) as server, transport_to(server.url, ca=place.ca) as transport:
        assert [(await send_call(transport)).body for _ in range(3)] == [b"ok"] * 3
        assert transport._pool.size == 1


async def test_a_server_of_another_authority_is_not(place: Place, elsewhere: Place):
    async with Server(ok, tls=elsewhere.here) as server, transport_to(server.url, ca=place.ca) as transport:
        with pytest.raises(Unreachable, match=f"{server.url} has a certificate that is not trusted") as caught:
            await send_call(transport)
        assert not caught.value.is_sent


async def test_without_an_authority_the_systems_authorities_are_used(place: Place):
    async with Server(ok, tls=place.here) as server, transport_to(server.url) as transport:
        with pytest.raises(Unreachable, match="not trusted"):
            await send_call(transport)
    context = await ClientTls(Config(server="https://kube")).context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


async def test_insecure_trusts_every_server(elsewhere: Place):
    async with Server(ok, tls=elsewhere.named) as server, transport_to(server.url, insecure=True) as transport:
        assert (await send_call(transport)).body == b"ok"


async def test_a_server_without_tls_is_reported():
    async def script(connection: RawConnection) -> None:
        connection.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await connection.wait_gone()

    async with (
        raw_server(script) as server,
        transport_to(f"https://127.0.0.1:{server.port}", insecure=True) as transport,
    ):
        with pytest.raises(Unreachable, match="failed the TLS handshake") as caught:
            await send_call(transport)
        assert not caught.value.is_sent


async def test_a_server_that_closes_during_the_handshake_is_reported():
    async def script(connection: RawConnection) -> None:
        await connection.reader.read(100)

    async with (
        raw_server(script) as server,
        transport_to(f"https://127.0.0.1:{server.port}", insecure=True) as transport,
    ):
        with pytest.raises(Unreachable, match="cannot be reached|failed the TLS handshake") as caught:
            await send_call(transport)
        assert not caught.value.is_sent


# --- tls-server-name --------------------------------------------------------------------------------------------------


def requested_names(context: ssl.SSLContext) -> list[str | None]:
    """The SNI names of the clients, in order."""
    names: list[str | None] = []
    context.sni_callback = lambda _sock, name, _context: names.append(name)
    return names


async def test_a_tls_server_name_is_sent_as_sni_and_verified(place: Place):
    names = requested_names(place.named)
    async with Server(ok, tls=place.named) as server:
        async with transport_to(server.url, ca=place.ca, tls_server_name="kube.example") as transport:
            assert (await send_call(transport)).status == 200
        assert names == ["kube.example"]
        async with transport_to(server.url, ca=place.ca, tls_server_name="cube.example") as transport:
            with pytest.raises(Unreachable, match="tls-server-name"):
                await send_call(transport)


async def test_a_tls_server_name_that_is_an_address_is_verified_and_not_sent(place: Place):
    names = requested_names(place.addressed)
    async with Server(ok, tls=place.addressed) as server:
        async with transport_to(server.url, ca=place.ca, tls_server_name="10.0.0.1") as transport:
            assert (await send_call(transport)).status == 200
        assert names == [None]
        async with transport_to(server.url, ca=place.ca, tls_server_name="10.0.0.2") as transport:
            with pytest.raises(Unreachable, match="10.0.0.2"):
                await send_call(transport)


async def test_without_a_tls_server_name_the_host_is_verified(place: Place):
    async with Server(ok, tls=place.named) as server, transport_to(server.url, ca=place.ca) as transport:
        with pytest.raises(Unreachable, match="127.0.0.1"):
            await send_call(transport)
    async with (
        Server(ok, tls=place.here) as server,
        transport_to(f"https://localhost:{server.port}", ca=place.ca) as transport,
    ):
        assert (await send_call(transport)).status == 200


# --- client certificates ----------------------------------------------------------------------------------------------


def showing(identity: Identity) -> ClientCertificate:
    return ClientCertificate(identity.certificate, identity.key)


async def test_a_client_certificate_authenticates_the_client(place: Place):
    async with Server(common_name, tls=place.here) as server:
        async with transport_to(server.url, ca=place.ca, credentials=showing(place.eve)) as transport:
            assert (await send_call(transport)).body == b"eve"
        async with transport_to(server.url, ca=place.ca) as transport:
            assert (await send_call(transport)).body == b"nobody"


async def test_a_client_certificate_that_the_server_rejects_is_reported(place: Place, elsewhere: Place):
    async with (
        Server(common_name, tls=place.here) as server,
        transport_to(server.url, ca=place.ca, credentials=showing(elsewhere.eve)) as transport,
    ):
        with pytest.raises(Unreachable, match="TLS|connection"):
            await send_call(transport)


class Changing(Anonymous):
    """Presents the next certificate after a rejection."""

    def __init__(self, *identities: Identity) -> None:
        self.identities = list(identities)

    async def certificate(self) -> Identity | None:
        return self.identities[0]

    def reject(self, refused: object = None) -> bool:
        del self.identities[0]
        return True


async def test_a_refused_certificate_is_replaced_over_a_new_connection(place: Place):
    def only_bob(request: Request) -> Response:
        return Response(200 if request.peer == Peer("bob") else 401)

    async with (
        Server(only_bob, tls=place.here) as server,
        transport_to(server.url, ca=place.ca, credentials=Changing(place.eve, place.bob)) as transport,
    ):
        assert (await send_call(transport)).status == 200
        await loop_until(lambda: transport._pool.size == 1)


async def test_a_certificate_and_key_that_do_not_match_are_reported(place: Place):
    mixed = ClientCertificate(place.eve.certificate, place.bob.key)
    async with transport_to("https://127.0.0.1:1", ca=place.ca, credentials=mixed) as transport:
        with pytest.raises(ConfigError, match="certificate and its key"):
            await send_call(transport)


async def test_an_encrypted_key_is_refused_instead_of_prompting_on_the_terminal(place: Place):
    locked = ClientCertificate(place.eve.certificate, b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    with pytest.raises(ConfigError, match="encrypted"):
        await ClientTls(Config(server="https://kube", credentials=locked)).context()


# --- files that change ------------------------------------------------------------------------------------------------


async def put(path: Path, data: bytes) -> None:
    await asyncio.to_thread(path.write_bytes, data)


async def test_an_authority_that_is_rotated_is_trusted_from_the_next_connection_on(place, elsewhere, tmp_path):
    file = tmp_path / "ca.crt"
    await put(file, elsewhere.ca)
    async with Server(ok, tls=place.here) as server, transport_to(server.url, ca_file=file) as transport:
        with pytest.raises(Unreachable, match="not trusted"):
            await send_call(transport)
        await put(file, elsewhere.ca + place.ca)
        assert (await send_call(transport)).body == b"ok"


@pytest.mark.parametrize("damage", ["gone", "empty", "half"])
async def test_a_damaged_file_leaves_the_last_authority_in_use(place, tmp_path, damage, caplog):
    file = tmp_path / "ca.crt"
    await put(file, place.ca)
    tls = ClientTls(Config(server="https://kube", ca_file=file))
    first = await tls.context()
    assert await tls.context() is first
    if damage == "gone":
        await asyncio.to_thread(file.unlink)
    else:
        await put(file, b"" if damage == "empty" else place.ca[:200])
    assert await tls.context() is first
    assert "keeping the last ones" in caplog.text
    await put(file, place.ca + b"\n")
    assert await tls.context() is not first


@pytest.mark.parametrize("content", [None, b"", b"garbage", "\N{SNOWMAN}".encode()])
async def test_an_authority_that_was_never_readable_is_reported(tmp_path, content):
    file = tmp_path / "ca.crt"
    if content is not None:
        await put(file, content)
    async with transport_to("https://127.0.0.1:1", ca_file=file) as transport:
        with pytest.raises(ConfigError, match="certificate authority of https://127.0.0.1:1") as caught:
            await send_call(transport)
        assert str(file) in str(caught.value)


async def test_an_authority_in_the_configuration_must_be_pem():
    with pytest.raises(ConfigError, match="certificate-authority-data"):
        await ClientTls(Config(server="https://kube", ca=b"nothing")).context()


async def test_many_connections_share_one_context(place: Place, tmp_path):
    file = tmp_path / "ca.crt"
    await put(file, place.ca)
    for config in (Config(server="https://kube", ca=place.ca), Config(server="https://kube", ca_file=file)):
        tls = ClientTls(config)
        assert len({id(one) for one in await asyncio.gather(*[tls.context() for _ in range(10)])}) == 1


async def test_an_authority_need_not_be_the_root_of_its_chain(place: Place):
    context = await ClientTls(Config(server="https://kube", ca=place.ca)).context()
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN


async def test_a_server_without_close_notify_does_not_block_closing(place: Place):
    async def script(connection: RawConnection) -> None:
        await connection.request()
        connection.respond()
        cast("asyncio.Transport", connection.writer.transport).pause_reading()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            connection.writer.transport.abort()

    async with raw_server(script, ssl=place.here) as server:
        url = f"https://127.0.0.1:{server.port}"
        async with transport_to(url, ca=place.ca, limits=PoolLimits(close_within=0.01)) as transport:
            assert (await send_call(transport)).body == b"ok"
