"""A minimal HTTP client with which a server calls webhooks: posts JSON over TLS and reads the response.

No redirects, no proxies, no credentials. Responses are limited in size; timeouts are the caller's. A connection is
pooled for a moment after its response, for the next request to the same destination; after any irregularity it is
closed.
"""

import asyncio
import ssl
from collections import OrderedDict
from typing import Final, NamedTuple, cast

import httptools

from levelset.errors import Unreachable
from levelset.objects.lazy_pattern import Pattern

__all__ = ["Destination", "OutboundClient", "OutboundConnection", "PostResponse"]

_LARGEST_HEAD: Final = 64 * 1024
_FIRST_FINAL: Final = 200
_TIMEOUT: Final = Pattern(rb"timeout\s*=\s*(\d{1,6})")


class PostResponse(NamedTuple):
    """A complete response."""

    status: int
    body: bytes


class OutboundConnection(asyncio.Protocol):
    """One HTTP/1.1 connection, with at most one request in flight."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._response: _ResponseParser | None = None
        self._result: asyncio.Future[PostResponse] | None = None
        self._largest = 0
        self.is_reusable = True
        """Whether another request may be sent: the last response is complete, and the connection is open."""
        self.keep_alive: float | None = None
        """The timeout of the Keep-Alive header, in seconds, if the server sent one."""

    @classmethod
    async def connect(cls, address: str, port: int, *, tls: ssl.SSLContext, name: str) -> "OutboundConnection":
        """Connects to a server whose certificate is for `name`; raises Unreachable."""
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(cls, address, port, ssl=tls, server_hostname=name)
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(f"its certificate is not trusted: {error.verify_message}", is_sent=False) from error
        except OSError as error:
            raise Unreachable(_reason(error), is_sent=False) from error
        return connection

    async def send(self, request: bytes, *, largest: int) -> PostResponse:
        """Sends a request and returns the response; Unreachable if there is none, or it is larger than `largest`."""
        assert self._transport is not None  # connected
        assert self.is_reusable
        self.is_reusable, self._largest = False, largest
        self._response = _ResponseParser()
        self._result = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(request)
            return await self._result
        finally:
            self._result = self._response = None
            if not self.is_reusable:
                self.abort()  # without a graceful close: an unresponsive server must not hold us up

    def abort(self) -> None:
        """Ends the connection now."""
        self.is_reusable = False
        if self._transport is not None:
            self._transport.abort()

    # --- what the transport calls ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is established."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parses more of the response."""
        response = self._response
        if response is None or self._result is None or self._result.done():
            self.abort()  # no request is in flight
            return
        problem = response.feed(data, self._largest)
        if problem is not None:
            self._fail(Unreachable(problem))
        elif response.is_complete:
            self._complete(response)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the request in flight: successfully only if the response is one that ends with the connection."""
        self.is_reusable = False
        response = self._response
        if exc is None and response is not None and response.has_head and not response.has_length:
            self._complete(response)  # a response without a length ends with the connection
        elif isinstance(exc, OSError):
            self._fail(Unreachable(_reason(exc)))
        else:
            self._fail(Unreachable("it closed the connection before its response was complete"))

    def _complete(self, response: "_ResponseParser") -> None:
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        # A server that responds before it has read the whole request may never read the rest.
        self.is_reusable = response.allows_reuse and not unsent
        self.keep_alive = response.keep_alive
        if self._result is not None and not self._result.done():
            self._result.set_result(PostResponse(response.status, bytes(response.body)))

    def _fail(self, problem: Unreachable) -> None:
        self.is_reusable = False
        if self._result is not None and not self._result.done():
            self._result.set_exception(problem)


class _ResponseParser:
    """The response in flight: the part that has been parsed."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.status = 0
        self.keep_alive: float | None = None
        self.has_head = self.is_complete = self.has_length = self.allows_reuse = False
        self._received = 0
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes, largest: int) -> str | None:
        """Parses more bytes; returns what is wrong with them, None if nothing is."""
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return "it switched to another protocol than HTTP/1.1"
        except httptools.HttpParserError as error:
            if not self.is_complete:
                return f"its response is not HTTP: {error}"
            self.allows_reuse = False  # the response is valid, but followed by surplus bytes
        if self._received > largest + _LARGEST_HEAD or len(self.body) > largest:
            return f"its response is larger than {largest} bytes"
        if not self.has_head and self._received > _LARGEST_HEAD:
            return "the headers of its response are too long"
        return None

    # --- what the parser calls ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.allows_reuse = False

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"content-length" | b"transfer-encoding":
                self.has_length = True
            case b"keep-alive" if found := _TIMEOUT.search(value):
                self.keep_alive = float(found[1])
            case _:
                pass

    def on_headers_complete(self) -> None:
        self.has_head = True
        if not self.is_complete:
            self.status = self._parser.get_status_code()

    def on_body(self, piece: bytes) -> None:
        if not self.is_complete:
            self.body += piece

    def on_message_complete(self) -> None:
        # An interim response, such as 103 Early Hints, is followed by the final one.
        if not self.is_complete:
            self.is_complete = self.has_head = self.status >= _FIRST_FINAL
            self.allows_reuse = self.is_complete and self._parser.should_keep_alive()


def _reason(error: OSError) -> str:
    """The reason of a connection error: the message of the system, without errno."""
    text = error.strerror or str(error) or type(error).__name__
    return text[0].lower() + text[1:]


_IDLE: Final = 1.5
_MARGIN: Final = 1.0


class Destination(NamedTuple):
    """Where to post to: the address to connect to, the Host header, the path and the certificate name."""

    address: str
    port: int
    host: str
    """The Host header, with the port if it is not 443."""
    path: str
    """The path and the query."""
    name: str
    """The name that the server certificate must be for."""


_PoolKey = tuple[asyncio.AbstractEventLoop, str, int, str, ssl.SSLContext]


class OutboundClient:
    """Posts JSON over pooled connections.

    A request is never sent twice, since the first attempt may have taken effect. So a pooled connection must not be one
    that the server is about to close: it is pooled for `idle_within` seconds, less than common servers keep theirs, or
    less if the server says so. It is reused only for the same address, name and TLS context. At most `max_idle`
    connections are pooled, and `max_idle_per_host` for one destination.
    """

    def __init__(self, *, idle_within: float = _IDLE, max_idle: int = 64, max_idle_per_host: int = 16) -> None:
        self._idle_within = idle_within
        self._max_idle = max_idle
        self._max_idle_per_host = max_idle_per_host
        self._pooled: OrderedDict[OutboundConnection, tuple[_PoolKey, asyncio.TimerHandle]] = OrderedDict()
        self._generation = 0

    @property
    def idle_connections(self) -> int:
        """How many usable connections are pooled."""
        return sum(connection.is_reusable for connection in self._pooled)

    async def post(self, to: Destination, body: bytes, *, tls: ssl.SSLContext, largest: int) -> PostResponse:
        """Posts JSON and returns the response; Unreachable if there is none, or it is larger than `largest` bytes."""
        key: _PoolKey = (asyncio.get_running_loop(), to.address, to.port, to.name, tls)
        generation = self._generation
        connection = self._take(key) or await OutboundConnection.connect(to.address, to.port, tls=tls, name=to.name)
        posted = await connection.send(_head(to, len(body)) + body, largest=largest)
        self._put_back(key, connection, is_old=generation != self._generation)
        return posted

    def close(self) -> None:
        """Closes the pooled connections; those in use are closed after their responses."""
        self._generation += 1
        while self._pooled:
            self._drop(next(iter(self._pooled)))

    def _take(self, key: _PoolKey) -> OutboundConnection | None:
        """A usable pooled connection: the most recently used one, so that surplus ones expire."""
        for connection in [one for one, (other, _) in reversed(self._pooled.items()) if other == key]:
            _, timer = self._pooled.pop(connection)
            timer.cancel()
            if connection.is_reusable:
                return connection
            connection.abort()
        return None

    def _put_back(self, key: _PoolKey, connection: OutboundConnection, *, is_old: bool) -> None:
        seconds = (
            self._idle_within
            if connection.keep_alive is None
            else min(self._idle_within, connection.keep_alive - _MARGIN)
        )
        if not connection.is_reusable:
            return
        if is_old or seconds <= 0 or self._max_idle < 1:
            connection.abort()
            return
        self._pooled[connection] = key, key[0].call_later(seconds, self._drop, connection)
        same = [one for one, (other, _) in self._pooled.items() if other == key]
        if len(same) > self._max_idle_per_host:
            self._drop(same[0])
        elif len(self._pooled) > self._max_idle:
            self._drop(next(iter(self._pooled)))

    def _drop(self, connection: OutboundConnection) -> None:
        key, timer = self._pooled.pop(connection)
        timer.cancel()
        if not key[0].is_closed():  # a closed loop has closed its connections
            connection.abort()


def _head(to: Destination, size: int) -> bytes:
    lines = [
        f"POST {to.path} HTTP/1.1",
        f"Host: {to.host}",
        "Accept: application/json",
        "Content-Type: application/json",
        f"Content-Length: {size}",
        "User-Agent: levelset",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
