"""A real server on a free port, and a client that sends exactly the given bytes."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from levelset.http import Handler, Response, Server
from levelset.http.certificate_authority import CertificateAuthority


class Client:
    """One connection, in raw bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def send_request(self, method: str = "GET", target: str = "/", *headers: str, body: bytes = b"") -> None:
        lines = [f"{method} {target} HTTP/1.1", "Host: test", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join([*lines, "", ""]).encode() + body)

    async def read_head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split(" ")[1]), {name.lower(): value for name, value in headers.items()}

    async def read_chunk(self) -> bytes:
        size = int(await self.reader.readline(), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def read(self) -> tuple[int, dict[str, str], bytes]:
        status, headers = await self.read_head()
        if headers.get("transfer-encoding") == "chunked":
            chunks: list[bytes] = []
            while chunk := await self.read_chunk():
                chunks.append(chunk)
            return status, headers, b"".join(chunks)
        return status, headers, await self.reader.readexactly(int(headers.get("content-length", 0)))

    async def read_to_end(self) -> bytes:
        return await self.reader.read()

    async def close(self) -> None:
        self.writer.close()


Serve = Callable[..., Awaitable[Server]]
Connect = Callable[..., Awaitable[Client]]
Until = Callable[[Callable[[], Any]], Awaitable[None]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts servers; stops them at the end, and checks that no task is left."""
    before = asyncio.all_tasks()
    servers: list[Server] = []

    async def start(handler: Handler = lambda request: Response(200, body=b"ok"), **options: Any) -> Server:
        server = Server(handler, **options)
        await server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.stop(within=0)
        assert server.connections == 0
    assert asyncio.all_tasks() <= before | {asyncio.current_task()}


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Opens connections; closes them at the end."""
    clients: list[Client] = []

    async def open_one(server: Server, tls: ssl.SSLContext | None = None) -> Client:
        name = "localhost" if tls else None
        client = Client(*await asyncio.open_connection("127.0.0.1", server.port, ssl=tls, server_hostname=name))
        clients.append(client)
        return client

    yield open_one
    for client in clients:
        client.writer.transport.abort()
        await asyncio.sleep(0)


@pytest.fixture
def until() -> Until:
    """Iterates the event loop until the condition holds; loopback sockets need no time, only iterations."""

    async def turn(condition: Callable[[], Any]) -> None:
        for _ in range(100_000):
            if condition():
                return
            await asyncio.sleep(0)
        raise AssertionError("it never became so")

    return turn


@pytest.fixture(scope="session")
def authority() -> CertificateAuthority:
    return CertificateAuthority.create("tests")
