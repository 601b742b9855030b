"""A small WebSocket client for tests of the facade: JSON messages over a real connection."""

import asyncio
import json
from typing import Any, Self

__all__ = ["WebSocketClient"]

_KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class WebSocketClient:
    """One connection; every wait ends after 30 seconds."""

    def __init__(self, port: int, path: str, host: str = "127.0.0.1") -> None:
        self._port, self._path, self._host = port, path, host
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        lines = [f"GET {self._path} HTTP/1.1", "Host: a", "Connection: Upgrade", "Upgrade: websocket"]
        lines += ["Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {_KEY}", "", ""]
        self._writer.write("\r\n".join(lines).encode())
        head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 30)
        assert b" 101 " in head, head
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def send(self, message: Any) -> None:
        """Sends a JSON message, or a text as it is."""
        data = message.encode() if isinstance(message, str) else json.dumps(message).encode()
        assert len(data) < 126
        self._writer.write(bytes([0x81, 0x80 | len(data)]) + bytes(4) + data)
        await self._writer.drain()

    async def closed(self) -> int:
        """The code with which the server closes the connection; nothing else may come before."""
        async with asyncio.timeout(30):
            assert await self._reader.readexactly(2) == b"\x88\x02"
            return int.from_bytes(await self._reader.readexactly(2), "big")

    async def receive(self) -> Any:
        """The next message."""
        async with asyncio.timeout(30):
            _, size = await self._reader.readexactly(2)
            if size == 126:
                size = int.from_bytes(await self._reader.readexactly(2), "big")
            return json.loads(await self._reader.readexactly(size))
