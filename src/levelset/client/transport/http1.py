"""HTTP/1.1 on the client side: one connection, the exchanges on it, and the bytes of requests and responses.

`Connection` sends one request at a time and reads its response within limits; `Exchange` is that request with what has
arrived of its response, and for a stream also its body. `RequestWriter` makes the bytes of a request.
`read_simple_response` reads a response that arrived in one piece, as most do, without the parser. `ResponseStream` is
the body of a streamed response for watches and logs. Pooling is in `pool.py`, timeouts in `deadlines.py`.
"""

import asyncio
import select
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, cast

import httptools
import msgspec

from levelset.client.transport.interface import BodyStream, Call, Response
from levelset.errors import ConfigError, TimedOut, Unreachable
from levelset.http.messages import Headers
from levelset.objects.lazy_pattern import Pattern

__all__ = [
    "Connection",
    "ConnectionControl",
    "ConnectionOwner",
    "Exchange",
    "LazyHeaders",
    "RequestWriter",
    "ResponseStream",
    "read_simple_response",
]


class ConnectionControl(Protocol):
    """The part of a connection that an exchange uses."""

    def pause(self) -> None:
        """Stops reading from the socket."""
        ...

    def resume(self) -> None:
        """Reads from the socket again."""
        ...

    def abort_exchange(self, exchange: "Exchange", /) -> None:
        """Ends the connection if it is still busy with this exchange."""
        ...


class Exchange(msgspec.Struct, eq=False):
    """A call, the future of its response, and its body. For a stream it is the `BodyStream` as well.

    The response is due at `when`. The body of a stream is handed over in chunks as large as have arrived. Above
    `_max_unread` unread bytes the connection stops reading until the reader takes them.
    """

    call: Call
    response: asyncio.Future[Response]
    _connection: ConnectionControl
    _server: str
    _max_unread: int
    is_reused: bool
    when: float = float("inf")
    received: int = 0
    is_streaming: bool = False
    parts: list[bytes] = []
    _unread: int = 0
    _is_paused: bool = False
    _is_done: bool = False
    _error: Unreachable | None = None
    _waiter: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        # Neither request nor response: they may be secret, and this ends up in logs.
        return f"<{type(self).__name__} of {self.words!r}>"

    # --- what the connection calls --------------------------------------------------------------------------------

    def open(self, status: int, headers: Headers) -> None:
        """The head of a stream has arrived."""
        self.is_streaming = True
        if not self.response.done():
            self.response.set_result(Response(status=status, headers=headers, stream=self))

    def advance(self, size: int) -> None:
        """Some more bytes of a stream have arrived."""
        self._unread += size
        if self._unread > self._max_unread and not self._is_paused:
            self._is_paused = True
            self._connection.pause()
        if self.parts and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def finish(self, status: int, headers: Headers) -> None:
        """The response is complete."""
        self._is_done = True
        self._is_paused = False  # the connection may serve another exchange from now on
        if self.is_streaming:
            self._wake()
        elif not self.response.done():
            self.response.set_result(Response(status=status, headers=headers, body=b"".join(self.parts)))

    def fail(self, what: str, *, is_sent: bool = True) -> None:
        """There will be no response, or no more of it; `what` continues the message after the name of the server."""
        self._is_done = True
        self._is_paused = False
        error = Unreachable(f"{self.words}: {self._server} {what}", is_sent=is_sent)
        if self.is_streaming:
            self._error = error
            self._wake()
        elif not self.response.done():
            self.response.set_exception(error)

    def expire(self) -> None:
        """The response has not arrived in time."""
        if not self.response.done():
            what = f"did not respond within {self.call.timeout:g} seconds"
            self.response.set_exception(TimedOut(f"{self.words}: {self._server} {what}"))

    @property
    def words(self) -> str:
        """The call, for messages."""
        return self.call.words or f"{self.call.method} {self.call.path}"

    # --- what the caller calls ------------------------------------------------------------------------------------

    def drop(self) -> None:
        """Gives up on the response: ends the connection unless the response is complete."""
        self._is_done = True
        self._is_paused = False
        self.parts.clear()
        self._connection.abort_exchange(self)
        self._wake()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """All bytes that have arrived; waits if there are none."""
        while not self.parts:
            if self._error is not None:
                raise self._error
            if self._is_done:
                raise StopAsyncIteration
            if self._waiter is not None:
                raise RuntimeError(
                    f"{self.words}: two tasks read one stream; read it in one task and pass the chunks on"
                )
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        parts, self.parts = self.parts, []
        self._unread = 0
        if self._is_paused:
            self._is_paused = False
            self._connection.resume()
        return b"".join(parts)

    async def aclose(self) -> None:
        """Ends the stream, and the connection unless the body is complete. A waiting reader sees the end."""
        self._error = None
        self.drop()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


# Less than HTTP allows: anything unusual is left to the parser. Some fields whose names begin with C, P, T or U decide
# where the response ends or whether the connection stays open; of those only two are known to be harmless. Warning is
# rare but checked in every response: as W is left to the parser, a simple response never has one.
_HEADER_NAME_BYTES: Final = (
    rb"(?:[ABD-OQ-SVX-Zabd-oq-svx-z][0-9A-Za-z-]*+|Cache-Control|Content-Type|cache-control|content-type)"
)
_NEVER_SIMPLE: Final = frozenset("puw")
_FIELDS: Final = rb"(?:%b: [!-~][ -~]*+\r\n)*+" % _HEADER_NAME_BYTES
_FRAMING_LINE: Final = rb"(?:[Cc]ontent-[Ll]ength: ([0-9]{1,10})|[Tt]ransfer-[Ee]ncoding: chunked)\r\n"
_HEAD: Final = Pattern(rb"HTTP/1\.1 ([2-5][0-9][0-9]) [ -~]*+\r\n%b%b%b\r\n" % (_FIELDS, _FRAMING_LINE, _FIELDS))
_CHUNK: Final = Pattern(rb"([0-9A-Fa-f]{1,7})\r\n")
_LAST: Final = b"\r\n0\r\n\r\n"
# Without interim responses (1xx), and those that never have a body (204, 304).
_STATUS: Final = {b"%d" % status: status for status in range(200, 600) if status not in {204, 304}}


class LazyHeaders(Headers):
    """The header fields of a simple response, parsed on first access: most are never read."""

    __slots__ = ("_head",)

    def __init__(self, head: bytes) -> None:
        self._head = head

    def find(self, name: str) -> str | None:
        """The value of a field, or None if it was not sent; `name` must be in lower case."""
        return None if name[:1] in _NEVER_SIMPLE else self._values.get(name)

    def __getattr__(self, name: str) -> Any:
        """Parses the head when the values are needed for the first time."""
        if name not in {"_repeated", "_values"}:
            raise AttributeError(name, name=name, obj=self)
        self._values = {}
        self._repeated = None
        for line in self._head.decode("ascii").split("\r\n")[1:-2]:
            field, _, value = line.partition(": ")
            self.add(field.lower(), value.strip(" "))
        return getattr(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return Headers, (tuple(self),)  # a copy is plain Headers


def read_simple_response(data: memoryview, size: int, max_body: int) -> Response | None:
    """Reads the first `size` bytes as one response with a body of at most `max_body` bytes; None: use the parser.

    The pattern accepts only what the parser reads in the same way: all line ends are regular, exactly one field says
    where the body ends, and none says that the connection closes. So the end of the response is unambiguous, and it has
    to be the end of the data.
    """
    head = _HEAD.match(data, 0, size)
    if head is None:
        return None
    code, length = head.groups()
    status, start = _STATUS.get(code), head.end()
    if length is None:
        body = _only_chunk(data, start, size)
    else:
        body = data[start:size].tobytes() if length == b"%d" % (size - start) and size - start <= max_body else None
    if status is None or body is None:
        return None
    return Response(status=status, headers=LazyHeaders(head.group()), body=body)


def _only_chunk(data: memoryview, start: int, size: int) -> bytes | None:
    """A chunked body of a single chunk, which servers send when they did not compute the length beforehand."""
    line = _CHUNK.match(data, start, size)
    if line is None:
        return None
    start, end = line.end(), size - len(_LAST)
    is_whole = int(line[1], 16) == end - start > 0 and data[end:size].tobytes() == _LAST
    return data[start:end].tobytes() if is_whole else None


_KEEPALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPALIVE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_UNKNOWN_OUTCOME: Final = "; the request may have taken effect: read the object before sending it again"


class ConnectionOwner(Protocol):
    """The part of the pool that a connection uses."""

    buffer: memoryview
    head_bytes: int
    body_bytes: int

    def put_back(self, connection: "Connection", /) -> None:
        """Takes back a connection that is free for another call."""
        ...

    def remove(self, connection: "Connection", /) -> None:
        """Removes a connection that is closed."""
        ...


class Connection(asyncio.BufferedProtocol):
    """One connection: idle, or busy with one exchange. Bytes that arrive while it is idle close it."""

    __slots__ = (
        "_exchange", "_headers", "_is_complete", "_keep_alive", "_overhead", "_owner", "_parser", "_poll", "_problem",
        "_status", "_transport", "generation", "idle_since", "served",
    )  # fmt: skip

    _transport: asyncio.Transport
    _poll: select.poll

    def __init__(self, owner: ConnectionOwner, generation: int = 0) -> None:
        self.generation = generation
        self.idle_since = 0.0
        self.served = 0
        self._owner = owner
        self._exchange: Exchange | None = None
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._problem = ""
        self._headers = Headers()
        self._clear()

    def _clear(self) -> None:
        """Resets the parser state: an idle connection keeps nothing of earlier responses."""
        self._status = 0
        self._overhead = 0
        self._is_complete = False
        self._keep_alive = False

    # --- what the pool and the caller call ------------------------------------------------------------------------

    @property
    def exchange(self) -> Exchange | None:
        """The exchange in flight; None if the connection is idle."""
        return self._exchange

    @property
    def is_open(self) -> bool:
        """Whether it is open, according to the event loop, which may not have polled the socket yet."""
        return self._parser is not None and not self._transport.is_closing()

    def is_alive(self) -> bool:
        """Whether an idle connection is usable: the server has neither closed it nor sent anything."""
        # The event loop may not have polled the socket since; polling it here is cheap.
        return self._parser is not None and not self._transport.is_closing() and not self._poll.poll(0)

    def send(self, request: bytes, exchange: Exchange) -> None:
        """Sends a request, whose response goes to `exchange`."""
        assert self._exchange is None, "a connection has one exchange at a time"
        self.served += 1
        self._exchange = exchange
        self._transport.write(request)

    def abort_exchange(self, exchange: Exchange, /) -> None:
        """Ends the connection if it is still busy with this exchange."""
        if self._exchange is exchange:
            self._exchange = None
            self._transport.abort()

    def close(self) -> None:
        """Closes an idle connection gracefully."""
        self._transport.close()

    def abort(self) -> None:
        """Closes the connection now, without the TLS shutdown."""
        self._transport.abort()

    def abandon(self, why: str) -> None:
        """Closes the connection now if it is busy; `why` continues the message of its exchange's error."""
        if self._exchange is not None:
            self._break(why)

    def pause(self) -> None:
        """Stops reading from the socket."""
        self._transport.pause_reading()

    def resume(self) -> None:
        """Reads from the socket again."""
        self._transport.resume_reading()

    # --- what the transport calls ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is established, including TLS."""
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        self._poll = select.poll()
        self._poll.register(sock.fileno(), select.POLLIN)
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE.items():
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the signature is asyncio's
        """The buffer that all connections share: its bytes are parsed before the next read."""
        return self._owner.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have arrived in the buffer."""
        exchange = self._exchange
        if exchange is None or self._parser is None:
            # No request is open: most often a 408, with which a server closes an idle connection.
            self._transport.abort()
            return
        call, owner = exchange.call, self._owner
        if not exchange.received and not call.is_stream and call.method != "HEAD":
            response = read_simple_response(owner.buffer, nbytes, owner.body_bytes)
            if response is not None:
                # The response is complete, and nothing in it closes the connection.
                exchange.received = nbytes
                self._exchange = None
                if not exchange.response.done():
                    exchange.response.set_result(response)
                if self._transport.get_write_buffer_size():
                    self._transport.abort()  # as in `_finish`
                else:
                    owner.put_back(self)
                return
        self._parse(exchange, self._parser, owner.buffer[:nbytes])

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, by either side."""
        exchange, self._exchange = self._exchange, None
        # The parser references this object: break the cycle.
        self._parser = None
        self._owner.remove(self)
        if exchange is None:
            return
        if exc is None and self._status and _ends_with_connection(self._headers):
            exchange.finish(self._status, self._headers)
        else:
            exchange.fail(_lost_message(exchange, exc))

    # --- what the parser calls ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The parser saw the first byte of a response."""
        if self._is_complete:
            # A surplus response behind ours must not be taken for the response to the next request.
            raise ValueError("surplus")
        self._headers = Headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser saw a header, or after the body a trailer: trailers are ignored."""
        if not self._status:
            self._headers.add(
                _NAMES.get(name) or name.lower().decode("latin-1"), value.rstrip(b" \t").decode("latin-1")
            )

    def on_headers_complete(self) -> None:
        """The parser saw the end of the headers; a status below 200 is an interim response."""
        exchange, parser = self._exchange, self._parser
        assert exchange is not None
        assert parser is not None
        status = parser.get_status_code()
        if status < 200:
            if status == 101:
                self._refuse("switched to another protocol, which was not requested")
            return
        self._status = status
        self._overhead = 0
        if int(self._headers.find("content-length") or 0) > self._owner.body_bytes:
            self._refuse_body()
        if exchange.call.method == "HEAD":
            # The parser would wait for a body of the announced length.
            self._is_complete = True
            raise ValueError("end of a response to HEAD")
        if exchange.call.is_stream and status < 300:
            exchange.open(status, self._headers)

    def on_body(self, body: bytes) -> None:
        """The parser saw a part of the body."""
        exchange = self._exchange
        assert exchange is not None
        exchange.parts.append(body)

    def on_message_complete(self) -> None:
        """The parser saw the end of a response."""
        assert self._parser is not None
        if self._status:
            self._is_complete = True
            self._keep_alive = self._parser.should_keep_alive()

    # --- the response, step by step -------------------------------------------------------------------------------

    def _parse(self, exchange: Exchange, parser: httptools.HttpResponseParser, data: memoryview) -> None:
        exchange.received += len(data)
        try:
            parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._keep_alive = False
            if not self._is_complete:
                self._break(self._problem or f"sent a response that is not HTTP: {error}" + _UNKNOWN_OUTCOME)
                return
        if self._is_complete:
            self._finish(exchange)
            return
        # More of the response has arrived: enforce the limits of its head, framing and body.
        if self._status and exchange.parts:
            self._overhead = 0
        else:
            self._overhead += len(data)
            if self._overhead > self._owner.head_bytes:
                self._break(f"sent more than {self._owner.head_bytes} bytes of headers; is it an API server?")
                return
        if exchange.is_streaming:
            exchange.advance(len(data))
        elif exchange.received > self._owner.body_bytes:
            self._break(self._too_much())

    def _finish(self, exchange: Exchange) -> None:
        self._exchange = None
        if self._status == 408 and exchange.is_reused and not self._keep_alive:
            # Sent before our request arrived: the server closes a connection that was idle for too long.
            exchange.fail("closed the idle connection; send the request again", is_sent=False)
        else:
            exchange.finish(self._status, self._headers)
        if self._transport.get_write_buffer_size():
            # The request is not fully sent, and a server that has responded already may not read the rest.
            self._transport.abort()
        elif self._keep_alive and not self._transport.is_closing():
            if exchange.is_streaming:
                self._transport.resume_reading()
            self._clear()
            self._owner.put_back(self)
        else:
            self._transport.close()

    def _break(self, what: str) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.fail(what)
        self._transport.abort()

    def _refuse(self, what: str) -> None:
        self._problem = what
        raise ValueError(what)

    def _refuse_body(self) -> None:
        self._refuse(self._too_much())

    def _too_much(self) -> str:
        return f"sent a response of more than {self._owner.body_bytes} bytes; list in pages (limit), or use a stream"


def _ends_with_connection(headers: Headers) -> bool:
    """Whether the body ends with the connection."""
    coding = headers.get("transfer-encoding")
    return headers.get("content-length") is None and (coding is None or not coding.lower().endswith("chunked"))


def _lost_message(exchange: Exchange, exc: Exception | None) -> str:
    if isinstance(exc, ssl.SSLError):
        how = f"ended the connection over TLS ({exc.reason or exc}); was the client's certificate refused"
        return f"{how}?" if not exchange.received else f"ended the connection over TLS ({exc.reason or exc})"
    how = "closed the connection" if exc is None else f"broke the connection ({exc})"
    if exchange.is_streaming:
        return f"{how} in the middle of a stream, after {exchange.received} bytes"
    if exchange.received:
        return f"{how} in the middle of its response, after {exchange.received} bytes{_UNKNOWN_OUTCOME}"
    return f"{how} before it responded{_UNKNOWN_OUTCOME}"


_NAMES: Final = {
    name.encode("latin-1"): name.lower()
    for name in (
        "Audit-Id", "Cache-Control", "Connection", "Content-Length", "Content-Type", "Date", "Retry-After",
        "Transfer-Encoding", "Warning", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid",
    )
}  # fmt: skip


class ResponseStream:
    """The body of the response to one call, for one reader; `open` sends the call."""

    __slots__ = ("_body", "_send", "stream")

    def __init__(self, send: Callable[[], Awaitable[Response]]) -> None:
        self._send = send
        self._body: BodyStream | None = None
        self.stream: AsyncIterator[bytes] | None = None
        """The chunks, once the call has been sent."""

    async def open(self) -> AsyncIterator[bytes]:
        """The chunks; sends the call if it was not sent yet. Raises the ApiError of an error response."""
        if self.stream is None:
            response = await self._send()
            self._body = response.stream
            self.stream = _once(response.body) if response.stream is None else aiter(response.stream)
        return self.stream

    async def aclose(self) -> None:
        """Ends the body; may be called again."""
        body, self._body = self._body, None
        if body is not None:
            await body.aclose()


async def _once(body: bytes) -> AsyncIterator[bytes]:
    if body:
        yield body


_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_WITH_BODY: Final = frozenset({"PATCH", "POST", "PUT"})
_FRAMING_HEADERS: Final = frozenset(
    {"connection", "content-length", "expect", "host", "te", "transfer-encoding", "upgrade"}
)
_HEADER_NAME: Final = Pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET: Final = Pattern(r"/[!-~]*")
_VALUE: Final = Pattern(r"[\t -~\x80-\xff]*")
_MAX_CACHED: Final = 256

_Items = tuple[tuple[str, str], ...]


class RequestWriter:
    """Makes the bytes of requests to one server, and caches the header lines it has made.

    `host` is the value of the Host header, `path` a prefix of every path, and `fixed` are header fields of every
    request, which those of a call replace.
    """

    __slots__ = ("_cached_lines", "_fixed", "_host", "_path")

    def __init__(self, host: str, *, path: str = "", fixed: Sequence[tuple[str, str]] = ()) -> None:
        self._host = host
        self._path = path
        self._fixed = tuple(fixed)
        self._cached_lines: dict[tuple[_Items, _Items], str] = {}

    def write(self, call: Call, credentials: Mapping[str, str]) -> bytes:
        """The bytes of a request; ConfigError for a path or header that would break the message."""
        method, query, body = call.method, call.query, call.body
        target = f"{self._path}{call.path}?{query}" if query else self._path + call.path
        if method not in _METHODS or _TARGET.fullmatch(target) is None:
            raise ConfigError(f"{method} {target[:200]!r} cannot be sent: the path is not percent-encoded.")
        key = tuple(credentials.items()), tuple(call.headers.items())
        lines = self._cached_lines.get(key)
        if lines is None:
            lines = self._add_lines(key)
        if not body and method not in _WITH_BODY:
            return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")
        head = f"{method} {target} HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
        return head.encode("latin-1") + body

    def _add_lines(self, key: tuple[_Items, _Items]) -> str:
        lines = _write_lines(self._host, self._fixed, *key)
        if len(self._cached_lines) >= _MAX_CACHED:
            self._cached_lines.clear()
        self._cached_lines[key] = lines
        return lines


def _write_lines(host: str, fixed: _Items, credentials: _Items, own: _Items) -> str:
    """The header lines; fields of the call replace those of the credentials, and both replace fixed ones."""
    names = {name.lower() for name, _ in own}
    credential_fields = [field for field in credentials if field[0].lower() not in names]
    names.update(name.lower() for name, _ in credential_fields)
    first = [field for field in fixed if field[0].lower() not in names]
    return "".join(_check(("Host", host), *[_checked_field(field) for field in (*first, *credential_fields, *own)]))


def _checked_field(field: tuple[str, str]) -> tuple[str, str]:
    if field[0].lower() in _FRAMING_HEADERS:
        raise ConfigError(f"The header {field[0]} is set by the transport: leave it out.")
    return field


def _check(*fields: tuple[str, str]) -> Iterable[str]:
    for name, value in fields:
        if _HEADER_NAME.fullmatch(name) is None:
            raise ConfigError(f"{name[:200]!r} is not the name of a header.")
        if _VALUE.fullmatch(value) is None:
            # The value may be a secret.
            raise ConfigError(f"The header {name} cannot be sent: its value has a line break or control character.")
        yield f"{name}: {value}\r\n"
