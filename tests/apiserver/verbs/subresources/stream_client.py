"""A client of streaming subresources in raw bytes: WebSocket messages, and SPDY/3.1 streams, over a real connection."""

import asyncio
import struct
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from levelset.http.spdy import _DICTIONARY  # pyright: ignore[reportPrivateUsage]  # the constant of the protocol

__all__ = ["SocketClient", "SpdyClient", "open_socket", "open_spdy", "upgrade"]

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
MASK = b"\x01\x02\x03\x04"


class Upgraded:
    """A connection after its upgrade."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: dict[str, str]) -> None:
        self.reader, self.writer, self.head = reader, writer, head


@asynccontextmanager
async def upgrade(
    url: str, path: str, *headers: str, method: str = "GET", token: str = "owner"
) -> AsyncGenerator[tuple[int, Upgraded], None]:
    """Sends a request for an upgrade; yields the status and the connection."""
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    lines = [f"{method} {path} HTTP/1.1", "Host: test", f"Authorization: Bearer {token}", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    try:
        async with asyncio.timeout(20):
            text = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        head = {name.lower(): value for name, value in (line.split(": ", 1) for line in text[1:] if line)}
        yield int(text[0].split(" ")[1]), Upgraded(reader, writer, head)
    finally:
        writer.close()


class SocketClient:
    """Binary messages of a WebSocket."""

    def __init__(self, connection: Upgraded) -> None:
        self._reader, self._writer = connection.reader, connection.writer
        self.head = connection.head
        self.protocol = connection.head.get("sec-websocket-protocol")

    def send(self, data: bytes) -> None:
        """Sends one message."""
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack(">H", len(data))
        masked = bytes(byte ^ MASK[i % 4] for i, byte in enumerate(data))
        self._writer.write(b"\x82" + size + MASK + masked)

    async def read(self) -> bytes | None:
        """The next message; None after the end."""
        async with asyncio.timeout(20):
            first, size = await self._reader.readexactly(2)
            if size == 126:
                (size,) = struct.unpack(">H", await self._reader.readexactly(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", await self._reader.readexactly(8))
            data = await self._reader.readexactly(size)
        return None if first == 0x88 else data

    async def read_channels(self) -> dict[int, bytes]:
        """All that comes until the end, by channel."""
        found: dict[int, bytes] = {}
        while (message := await self.read()) is not None:
            found[message[0]] = found.get(message[0], b"") + message[1:]
        return found


class SpdyClient:
    """Streams of SPDY/3.1; `write` sends raw bytes, which a WebSocket may carry."""

    def __init__(self, connection: Upgraded | None = None, *, socket: SocketClient | None = None) -> None:
        self._connection, self._socket = connection, socket
        self._received = b""
        self._next = 1
        self._deflate = zlib.compressobj(zdict=_DICTIONARY)

    def open(self, fin: bool = False, **headers: str) -> int:
        """Opens a stream."""
        number, self._next = self._next, self._next + 2
        block = len(headers).to_bytes(4, "big")
        for name, value in headers.items():
            for text in (name.encode(), value.encode()):
                block += len(text).to_bytes(4, "big") + text
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        payload = number.to_bytes(4, "big") + bytes(6) + packed
        self.write(b"\x80\x03\x00\x01" + bytes([fin]) + len(payload).to_bytes(3, "big") + payload)
        return number

    def send(self, number: int, data: bytes, *, fin: bool = False) -> None:
        """Sends data of a stream."""
        self.write(number.to_bytes(4, "big") + bytes([fin]) + len(data).to_bytes(3, "big") + data)

    def write(self, data: bytes) -> None:
        """Sends raw bytes."""
        if self._socket is not None:
            self._socket.send(data)
        elif self._connection is not None:
            self._connection.writer.write(data)

    async def read_until_finished(self, *numbers: int) -> dict[int, bytes]:
        """The data of all streams, until these are finished."""
        found: dict[int, bytes] = {}
        left = set(numbers)
        while left:
            head = await self._take(8)
            payload = await self._take(int.from_bytes(head[5:8], "big"))
            if head[0] & 0x80:
                continue
            number = int.from_bytes(head[:4], "big")
            found[number] = found.get(number, b"") + payload
            if head[4] & 1:
                left.discard(number)
        return found

    async def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            more: bytes | None
            if self._socket is not None:
                more = await self._socket.read()
            else:
                assert self._connection is not None
                async with asyncio.timeout(20):
                    more = await self._connection.reader.read(65536)
            assert more, "the connection has ended"
            self._received += more
        data, self._received = self._received[:size], self._received[size:]
        return data


@asynccontextmanager
async def open_socket(url: str, path: str, *protocols: str, **options: Any) -> AsyncGenerator[SocketClient, None]:
    """An open WebSocket."""
    headers = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {KEY}"]
    if protocols:
        headers.append(f"Sec-WebSocket-Protocol: {', '.join(protocols)}")
    async with upgrade(url, path, *headers, **options) as (status, connection):
        assert status == 101, status
        yield SocketClient(connection)


@asynccontextmanager
async def open_spdy(url: str, path: str, protocol: str) -> AsyncGenerator[SpdyClient, None]:
    """An open SPDY session."""
    headers = ["Connection: Upgrade", "Upgrade: SPDY/3.1", f"X-Stream-Protocol-Version: {protocol}"]
    async with upgrade(url, path, *headers, "Content-Length: 0", method="POST") as (status, connection):
        assert status == 101, status
        assert connection.head["x-stream-protocol-version"] == protocol
        yield SpdyClient(connection)
