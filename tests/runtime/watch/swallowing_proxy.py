"""A real proxy that stays connected and swallows what the server sends."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

__all__ = ["SwallowingProxy"]

_END_OF_HEAD = b"\r\n\r\n"


class _Connection:
    """What is known of one connection: whether it carries a watch, and whether that was accepted."""

    def __init__(self) -> None:
        self.request = b""
        self.is_accepted = True

    def note_request(self, content: bytes) -> None:
        self.request, self.is_accepted = content.partition(b"\r\n")[0], False

    def carries_watch_of(self, plural: str) -> bool:
        return f"/{plural}?".encode() in self.request and b"watch=" in self.request


class SwallowingProxy:
    """Forwards connections; those that are open when `swallow` is called carry nothing to the client any more.

    From `silence` on watches of a resource are accepted and then carry nothing, until `release`.
    """

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._open: set[_Connection] = set()
        self._swallowed: set[_Connection] = set()
        self._silenced = ""

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str, None]:
        server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def swallow(self) -> None:
        self._swallowed |= self._open

    def silence(self, plural: str) -> None:
        self._silenced = plural

    def release(self) -> None:
        self._silenced = ""

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection()
        self._open.add(connection)
        upstream, to_upstream = await asyncio.open_connection(self._target.hostname, self._target.port)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send_requests(reader, to_upstream, connection))
            group.create_task(self._send_responses(upstream, writer, connection))

    async def _send_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: _Connection
    ) -> None:
        try:
            while content := await reader.read(65536):
                connection.note_request(content)
                writer.write(content)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _send_responses(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: _Connection
    ) -> None:
        try:
            while content := await reader.read(65536):
                writer.write(self._what_is_left(content, connection))
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    def _what_is_left(self, content: bytes, connection: _Connection) -> bytes:
        if connection in self._swallowed:
            return b""
        was_accepted, connection.is_accepted = connection.is_accepted, True
        if not self._silenced or not connection.carries_watch_of(self._silenced):
            return content
        head, end, _ = content.partition(_END_OF_HEAD)
        return b"" if was_accepted else head + end
