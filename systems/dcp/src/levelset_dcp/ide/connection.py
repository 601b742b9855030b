"""The connections to an IDE: a request and its response, and a WebSocket that is read."""

import asyncio
import base64
import hashlib
import os
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

import httptools

from levelset_dcp.ide.protocol import Answer, IdeEndpoint, IdeError

__all__ = ["IdeClient", "NotificationSocket"]

_LARGEST_BODY: Final = 1 << 20
_LARGEST_MESSAGE: Final = 1 << 22
_LARGEST_HEAD: Final = 64 * 1024
_CHUNK: Final = 65536
_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MORE, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_NORMAL_CLOSURE: Final = (1000).to_bytes(2, "big")


class IdeClient:
    """Sends requests to the endpoint of an IDE, each on a connection of its own."""

    def __init__(self, endpoint: IdeEndpoint, *, instance: str, timeout: float) -> None:
        self._endpoint = endpoint
        self._tls = endpoint.context()
        self._headers = {
            "Host": f"localhost:{endpoint.port}",
            "Authorization": f"Bearer {endpoint.token}",
            "Microsoft-Developer-DCP-Instance-ID": instance,
        }
        self.timeout = timeout
        """Seconds that a response may take."""
        self.version = ""
        """The version of the protocol that requests name, once it is known."""

    async def send(self, method: str, *path: str, body: bytes | None = None) -> Answer:
        """The response to a request; raises IdeError if there is none in time."""
        headers = {"Connection": "close"}
        if body is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        try:
            async with asyncio.timeout(self.timeout), self._connection() as (reader, writer):
                writer.write(self._head(method, path, headers) + (body or b""))
                await writer.drain()
                return await _read_answer(reader)
        except TimeoutError:
            raise IdeError(f"the IDE did not respond within {self.timeout:g} s") from None
        except (OSError, EOFError) as error:
            raise IdeError(_unreachable(error)) from error

    @asynccontextmanager
    async def notifications(self) -> AsyncGenerator["NotificationSocket", None]:
        """The WebSocket of the notifications of all sessions, for the length of a block; raises IdeError."""
        key = base64.b64encode(os.urandom(16))
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": key.decode(),
        }
        try:
            async with self._connection() as (reader, writer):
                async with asyncio.timeout(self.timeout):
                    writer.write(self._head("GET", ("run_session", "notify"), headers))
                    await _read_upgrade(reader, key)
                yield NotificationSocket(reader, writer)
        except TimeoutError:
            raise IdeError(f"the IDE did not respond within {self.timeout:g} s") from None
        except (OSError, EOFError) as error:
            raise IdeError(_unreachable(error)) from error

    def _head(self, method: str, path: tuple[str, ...], headers: Mapping[str, str]) -> bytes:
        query = f"?api-version={self.version}" if self.version else ""
        target = "/" + "/".join(quote(one, safe="") for one in path) + query
        lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in {**self._headers, **headers}.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
        reader, writer = await asyncio.open_connection(
            "localhost",
            self._endpoint.port,
            ssl=self._tls,
            server_hostname=None if self._tls is None else "localhost",
            limit=_LARGEST_HEAD,
        )
        try:
            yield reader, writer
        finally:
            writer.close()


def _unreachable(error: OSError | EOFError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the IDE is not the one of DEBUG_SESSION_SERVER_CERTIFICATE: {error.verify_message}"
    return f"the IDE cannot be reached: {str(error) or 'it has closed the connection'}"


class _Parser:
    """Collects one response; what httptools calls."""

    def __init__(self) -> None:
        self.headers = dict[str, str]()
        self.body = bytearray()
        self.is_complete = False
        self.parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, data: bytes) -> None:
        """A part of the body."""
        self.body += data

    def on_message_complete(self) -> None:
        """The end of the response; of a preliminary one, the response itself follows."""
        self.is_complete = self.parser.get_status_code() >= 200


async def _read_answer(reader: asyncio.StreamReader) -> Answer:
    found = _Parser()
    try:
        while not found.is_complete:
            data = await reader.read(_CHUNK)
            if not data:
                break
            found.parser.feed_data(data)
            if len(found.body) > _LARGEST_BODY:
                raise IdeError(f"the response of the IDE has more than {_LARGEST_BODY} bytes")
    except httptools.HttpParserError as error:
        raise IdeError(f"the response of the IDE is not HTTP: {error}") from error
    has_length = "content-length" in found.headers or "transfer-encoding" in found.headers
    if not found.is_complete and (not found.headers or has_length):
        raise EOFError("it has closed the connection before its response was complete")
    return Answer(found.parser.get_status_code(), found.headers, bytes(found.body))


async def _read_upgrade(reader: asyncio.StreamReader, key: bytes) -> None:
    """Reads the head of the response to a WebSocket handshake; raises IdeError if it was refused."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.LimitOverrunError as error:
        raise IdeError("the response of the IDE to the subscription is too large") from error
    first, *lines = head.split("\r\n")
    if first.split(" ")[1:2] != ["101"]:
        raise IdeError(f"the IDE refused the subscription to notifications: {first[:200]}")
    headers = {name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
    expected = base64.b64encode(hashlib.sha1(key + _MAGIC, usedforsecurity=False).digest()).decode()
    if headers.get("sec-websocket-accept") != expected:
        raise IdeError("the IDE did not accept the WebSocket")


class NotificationSocket:
    """A WebSocket (RFC 6455) of which the text messages are read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self, *, within: float | None) -> bytes | None:
        """The next text message; None when the IDE has closed the connection.

        Raises IdeError if there is nothing within so many seconds, not even a pong, or if the protocol is violated.
        """
        message, kind = bytearray(), _TEXT
        while True:
            try:
                async with asyncio.timeout(within):
                    opcode, payload, is_last = await self._read_frame()
            except asyncio.IncompleteReadError:
                return None
            except TimeoutError:
                raise IdeError("the IDE is silent, although it was pinged") from None
            if opcode == _CLOSE:
                return None
            if opcode == _PING:
                self._send(_PONG, payload)
            if opcode > _BINARY:
                continue
            kind = kind if opcode == _MORE else opcode
            message += payload
            if len(message) > _LARGEST_MESSAGE:
                raise IdeError(f"a notification of the IDE has more than {_LARGEST_MESSAGE} bytes")
            if is_last and kind == _TEXT:
                return bytes(message)
            if is_last:
                message.clear()

    def ping(self) -> None:
        """Asks for a sign of life."""
        self._send(_PING, b"")

    def close(self) -> None:
        """Says that we close the connection."""
        self._send(_CLOSE, _NORMAL_CLOSURE)

    async def _read_frame(self) -> tuple[int, bytes, bool]:
        first, second = await self._reader.readexactly(2)
        size = second & 0x7F
        if first & 0x70 or second & 0x80:
            raise IdeError("the IDE sent a frame that was not agreed on")
        if size >= 126:
            size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8), "big")
        if size > _LARGEST_MESSAGE:
            raise IdeError(f"a frame of the IDE has more than {_LARGEST_MESSAGE} bytes")
        return first & 0x0F, await self._reader.readexactly(size), bool(first & 0x80)

    def _send(self, opcode: int, data: bytes) -> None:
        """Sends a short frame, masked as clients must."""
        if self._writer.is_closing():
            return
        mask = os.urandom(4)
        masked = bytes(one ^ mask[index % 4] for index, one in enumerate(data[:125]))
        self._writer.write(bytes([0x80 | opcode, 0x80 | len(masked)]) + mask + masked)
