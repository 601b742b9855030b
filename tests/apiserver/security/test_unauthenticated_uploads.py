"""Clients without credentials cannot fill the memory: their bodies are refused before they are read."""

import asyncio
import contextlib
import gc
import ssl
from asyncio import sslproto

import pytest

from levelset.apiserver import ApiServer
from levelset.apiserver.authn.users import User
from levelset.http import Headers, Request, Response
from tests.apiserver.support.server_process import ServerProcess, server_process

PATH = "/api/v1/namespaces/default/configmaps"
BODY = b"x" * (3_000_000 - 1)
MEGABYTE = 1_000_000


async def connect(server: ServerProcess) -> asyncio.StreamWriter:
    """A connection, at the second attempt if a busy machine had no time for the handshake, which the server limits."""
    while True:
        with contextlib.suppress(ConnectionError):
            return (await server.connect())[1]


async def upload(server: ServerProcess, *, held: bool) -> asyncio.StreamWriter | None:
    """Sends nearly all of a body without credentials, then aborts; or keeps the connection, and what was not read."""
    writer = await connect(server)
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY) + 1}\r\n\r\n".encode())
    writer.write(BODY[:65536] if held else BODY)
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(0.05):
            await writer.drain()
    if held:
        return writer
    writer.transport.abort()
    return None


async def attack(server: ServerProcess, *, aborted: int, held: int, at_once: int) -> int:
    """How many bytes of memory the server gains, at most, while and after these uploads."""
    for _ in range(20):
        await upload(server, held=False)
    before = most = await server.resident_bytes()
    for _ in range(aborted // at_once):
        await asyncio.gather(*(upload(server, held=False) for _ in range(at_once)))
        most = max(most, await server.resident_bytes())
    writers = [await upload(server, held=True) for _ in range(held)]
    most = max(most, await server.resident_bytes())
    for writer in writers:
        if writer is not None:
            writer.transport.abort()
    return most - before


@pytest.mark.slow
async def test_uploads_without_credentials_take_no_memory():
    async with server_process("--no-tls") as server:
        assert await attack(server, aborted=60, held=40, at_once=20) < 20 * MEGABYTE


async def test_a_tls_connection_that_has_ended_leaves_nothing_to_the_garbage_collector():
    async with ApiServer() as server:
        assert server.ca is not None
        trust = ssl.create_default_context(cadata=server.ca.decode())
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                _, writer = await asyncio.open_connection("localhost", int(server.url.rpartition(":")[2]), ssl=trust)
                writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n".encode())
                writer.transport.abort()
                del writer
            async with asyncio.timeout(120):
                while _tls_protocols_of_servers():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        finally:
            gc.enable()


def _tls_protocols_of_servers() -> int:
    return sum(isinstance(one, sslproto.SSLProtocol) and one._server_side for one in gc.get_objects())


@pytest.mark.robustness
@pytest.mark.timeout(900)
async def test_ten_thousand_aborted_and_a_thousand_held_uploads_take_at_most_50_megabytes():
    async with server_process("--no-tls") as server:
        assert await attack(server, aborted=10_000, held=1_000, at_once=20) < 50 * MEGABYTE


@pytest.mark.robustness
@pytest.mark.timeout(900)
async def test_over_tls_a_thousand_aborted_and_a_hundred_held_uploads_take_at_most_50_megabytes():
    # Fewer, since encrypting takes the client minutes; and asyncio has a buffer of 256 KiB for each open connection.
    async with server_process() as server:
        assert await attack(server, aborted=1_000, held=100, at_once=20) < 50 * MEGABYTE


async def refused(server: ApiServer, request: Request) -> int:
    outcome = server._app.check_head(request)
    return outcome.status if isinstance(outcome, Response) else 200


def post(path: str, token: str = "", method: str = "POST") -> Request:
    return Request(method, path, headers=Headers({"Authorization": f"Bearer {token}"} if token else {}))


async def test_a_head_without_credentials_is_refused_and_one_of_the_owner_is_not():
    async with ApiServer(token="owner", tls=False) as server:
        assert await refused(server, post(PATH)) == 401
        assert await refused(server, post(PATH, "wrong")) == 401
        assert await refused(server, post(PATH, "owner")) == 200


async def test_a_head_of_a_user_without_the_permission_is_refused():
    async with ApiServer(token="owner", tls=False, rbac=True, tokens={"eve": User("eve")}) as server:
        assert await refused(server, post(PATH, "eve")) == 403
        assert await refused(server, post("/compact", "eve")) == 403
        assert await refused(server, post(PATH)) == 403
        assert await refused(server, post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "owner")) == 200


@pytest.mark.parametrize("path", ["/healthz", "/version", "/readyz/x"])
async def test_a_public_path_takes_no_large_body_without_credentials(path: str):
    async with ApiServer(token="owner", tls=False) as server:
        assert await refused(server, post(path)) == 413
        assert await refused(server, post(path, "owner")) == 200


async def test_a_refusal_has_an_audit_id_and_the_status_of_kubernetes():
    async with ApiServer(token="owner", tls=False) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n".encode())
        text = (await reader.read()).decode()
        writer.close()
    assert text.startswith("HTTP/1.1 401 Unauthorized\r\nCache-Control: no-cache, private\r\n")
    assert '"reason":"Unauthorized"' in text
    assert "Audit-Id: " in text
    assert "Connection: close" in text
