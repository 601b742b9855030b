"""Loopback servers that send exactly the bytes of a script, and transports to them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from levelset.client.config.config import Config
from levelset.client.transport.interface import Call, Response
from levelset.client.transport.pool import PoolLimits
from levelset.client.transport.sockets import SocketTransport

__all__ = [
    "RawConnection",
    "RawServer",
    "Script",
    "listen",
    "loop_until",
    "post",
    "raw_server",
    "read",
    "send_call",
    "transport_to",
]


class RawConnection:
    """One connection, as the server sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self.reader = reader
        self.writer = writer
        self.number = number

    async def request(self) -> tuple[str, dict[str, str], bytes]:
        """The next request: its first line, its headers, its body."""
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines if line)
        return first, headers, await self.reader.readexactly(int(headers.get("Content-Length", 0)))

    def write(self, *data: bytes) -> None:
        self.writer.write(b"".join(data))

    def respond(self, body: bytes = b"ok", status: str = "200 OK", *headers: str) -> None:
        lines = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers))
        self.write(lines.encode(), b"\r\n", body)

    async def wait_gone(self) -> None:
        """Waits until the client has closed the connection."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


Script = Callable[[RawConnection], Awaitable[Any]]


class RawServer:
    """The address of a raw server, and how many connections it has accepted."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.connections = 0


@asynccontextmanager
async def raw_server(script: Script, **options: Any) -> AsyncIterator[RawServer]:
    """A server that runs `script` for each connection, and then closes it."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        server.connections += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await script(RawConnection(reader, writer, server.connections))
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, **options)
    server = RawServer(listening.sockets[0].getsockname()[1])
    try:
        yield server
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def transport_to(url: str, *, limits: PoolLimits | None = None, **config: Any) -> AsyncIterator[SocketTransport]:
    """A transport that is closed at the end; then no connection may be left."""
    transport = SocketTransport(Config(server=url, **config), limits=limits)
    try:
        yield transport
    finally:
        await transport.aclose()
        assert transport._pool.size == 0


@asynccontextmanager
async def listen(script: Script, *, limits: PoolLimits | None = None, **config: Any) -> AsyncIterator[SocketTransport]:
    """A transport to a raw server; nothing may be left running at the end."""
    before = asyncio.all_tasks()
    async with raw_server(script) as server, transport_to(server.url, limits=limits, **config) as transport:
        yield transport
    assert asyncio.all_tasks() <= before


async def send_call(transport: SocketTransport, path: str = "/api", **call: Any) -> Response:
    return await transport.send(Call(**{"method": "GET", "path": path, **call}))


async def post(transport: SocketTransport, body: bytes = b"{}", **call: Any) -> Response:
    return await send_call(transport, **{"method": "POST", "body": body, **call})


async def read(response: Response) -> bytes:
    """The whole body of a stream."""
    assert response.stream is not None
    return b"".join([chunk async for chunk in response.stream])


async def loop_until(condition: Callable[[], Any]) -> None:
    """Iterates the event loop until the condition holds; loopback sockets need no time, only iterations."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition never held")
