"""Forwards a request to another HTTP/1.1 server, and streams its response to the client.

Hop-by-hop fields are not forwarded, and a connection is not reused. An upgrade to another protocol is not forwarded:
the server behind sees a plain request.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Iterable
from typing import Final, NamedTuple

import httptools

from levelset.errors import Unreachable
from levelset.http.messages import Response

__all__ = ["ForwardedRequest", "forward"]

_CONNECT_SECONDS: Final = 30.0
_PIECE: Final = 64 * 1024
_LARGEST_HEAD: Final = 64 * 1024
_FIRST_FINAL: Final = 200
_HOP_BY_HOP: Final = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade", "content-length"),
    }
)


class ForwardedRequest(NamedTuple):
    """A request as the server behind gets it; `target` is the path with the query, percent-encoded."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""

    def encode(self) -> bytes:
        """The bytes of the request, without hop-by-hop fields."""
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in _end_to_end(self.headers)]
        if self.body or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(self.body)}")
        return ("\r\n".join([*lines, "Connection: close"]) + "\r\n\r\n").encode("latin-1") + self.body


async def forward(request: ForwardedRequest, address: str, port: int, *, tls: ssl.SSLContext | None = None) -> Response:
    """The response of the server at the address; raises Unreachable if there is none.

    Its body is read as the client reads it, and the connection ends with it. Waiting for the response has no limit: it
    ends with either of the two connections.
    """
    exchange = await _Exchange.connect(address, port, tls)
    try:
        exchange.send(request.encode())
        await exchange.read_head()
    except BaseException:
        exchange.close()
        raise
    headers = tuple(_end_to_end(exchange.headers))
    if request.method == "HEAD" or exchange.is_complete:
        exchange.close()
        return Response(exchange.status, headers, b"" if request.method == "HEAD" else exchange.take())
    return Response(exchange.status, headers, exchange.body())


def _end_to_end(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP]


class _Exchange:
    """One request and its response over a connection of its own; the parser calls the methods `on_...`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.has_head = self.is_complete = self.has_length = False

    @classmethod
    async def connect(cls, address: str, port: int, tls: ssl.SSLContext | None) -> "_Exchange":
        """Connects; raises Unreachable with the reason."""
        where = f"dial tcp {f'[{address}]' if ':' in address else address}:{port}"
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return cls(*await asyncio.open_connection(address, port, ssl=tls))
        except TimeoutError as error:
            raise Unreachable(f"{where}: i/o timeout", is_sent=False) from error
        except OSError as error:
            text = error.strerror or str(error)
            raise Unreachable(f"{where}: connect: {text[:1].lower()}{text[1:]}", is_sent=False) from error

    def send(self, data: bytes) -> None:
        """Sends the request, without waiting: a server may respond before it has read all of it."""
        self._writer.write(data)

    async def read_head(self) -> None:
        """Reads up to the end of the headers of the final response."""
        received = 0
        while not self.has_head:
            received += await self._read()
            if received > _LARGEST_HEAD and not self.has_head:
                raise Unreachable("the headers of its response are too long")

    def take(self) -> bytes:
        """What has arrived of the body since the last call."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    async def body(self) -> AsyncGenerator[bytes, None]:
        """The pieces of the body as they arrive; raises Unreachable if the connection ends before it does."""
        try:
            while True:
                if data := self.take():
                    yield data
                if self.is_complete:
                    return
                await self._read()
        finally:
            self.close()

    def close(self) -> None:
        """Ends the connection."""
        self._writer.transport.abort()

    async def _read(self) -> int:
        try:
            data = await self._reader.read(_PIECE)
        except OSError as error:
            raise Unreachable(error.strerror or str(error)) from error
        if not data:
            if not self.has_head or self.has_length:
                raise Unreachable("EOF")
            self.is_complete = True  # a response without a length ends with the connection
            return 0
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.is_complete:
                raise Unreachable(f"malformed HTTP response: {error}") from error
        return len(data)

    # --- what the parser calls ------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field of the response, or of an interim one before it."""
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self.has_length = True
        self.headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """The head is complete; an interim response, such as 100 Continue, is followed by the final one."""
        self.status = self._parser.get_status_code()
        self.has_head = self.status >= _FIRST_FINAL
        if not self.has_head:
            self.headers.clear()
            self.has_length = False

    def on_body(self, piece: bytes) -> None:
        """A piece of the body, without its framing."""
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """The response is complete."""
        self.is_complete = self.has_head
