"""Servers on loopback that say exactly what a test tells them to, and transports that talk to them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from levelset.client.config.config import Config
from levelset.client.transport.interface import Answer, Call
from levelset.client.transport.pool import PoolLimits
from levelset.client.transport.sockets import SocketTransport

__all__ = ["Caller", "RawServer", "Talk", "ask", "listen", "post", "raw_server", "read", "transport_to", "turn_until"]


class Caller:
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

    def say(self, *data: bytes) -> None:
        self.writer.write(b"".join(data))

    def answer(self, body: bytes = b"ok", status: str = "200 OK", *headers: str) -> None:
        lines = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers))
        self.say(lines.encode(), b"\r\n", body)

    async def wait_gone(self) -> None:
        """Waits until the client has closed the connection."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


Talk = Callable[[Caller], Awaitable[Any]]


class RawServer:
    """Where it is, and how many connections it was asked for."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.connections = 0


@asynccontextmanager
async def raw_server(talk: Talk, **options: Any) -> AsyncIterator[RawServer]:
    """A server that does for each connection what `talk` says, and then closes it."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        server.connections += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await talk(Caller(reader, writer, server.connections))
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
    """A transport, closed at the end; then no connection is left."""
    transport = SocketTransport(Config(server=url, **config), limits=limits)
    try:
        yield transport
    finally:
        await transport.aclose()
        assert transport._pool.size == 0


@asynccontextmanager
async def listen(talk: Talk, *, limits: PoolLimits | None = None, **config: Any) -> AsyncIterator[SocketTransport]:
    """A transport to a raw server; nothing may be left running at the end."""
    before = asyncio.all_tasks()
    async with raw_server(talk) as server, transport_to(server.url, limits=limits, **config) as transport:
        yield transport
    assert asyncio.all_tasks() <= before


async def ask(transport: SocketTransport, path: str = "/api", **call: Any) -> Answer:
    return await transport.send(Call(**{"method": "GET", "path": path, **call}))


async def post(transport: SocketTransport, body: bytes = b"{}", **call: Any) -> Answer:
    return await ask(transport, **{"method": "POST", "body": body, **call})


async def read(answer: Answer) -> bytes:
    """The whole body of a stream."""
    assert answer.pieces is not None
    return b"".join([piece async for piece in answer.pieces])


async def turn_until(condition: Callable[[], Any]) -> None:
    """Lets the loop turn until something is so; loopback sockets need no time, only turns."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never became so")
