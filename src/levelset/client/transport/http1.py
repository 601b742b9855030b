"""One connection to a server: sends a request, reads its answer within limits, and then waits for the next one.

One call on a connection, and what has come of its answer so far; of a stream also the pieces of its body.

Answers that came whole in one piece, as most do: they are read at a glance, without the parser's many steps.

A body that comes piece by piece: asked for when somebody reads, and closed when nobody does any more.

Writes a request as the bytes that go over the wire; pure, and remembers the header lines it has written before.
"""

import asyncio
import re
import select
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, cast

import httptools
import msgspec

from levelset.client.transport.interface import Answer, Call, Pieces
from levelset.errors import ConfigError, TimedOut, Unreachable
from levelset.http.messages import Headers

__all__ = ["Connection", "Exchange", "Incoming", "LateHeaders", "Line", "Owner", "RequestWriter", "read_plain"]


class Line(Protocol):
    """The connection, as far as an exchange has to know it."""

    def pause(self) -> None:
        """Reads no more for the time being."""
        ...

    def resume(self) -> None:
        """Reads on."""
        ...

    def hang_up(self, exchange: "Exchange", /) -> None:
        """Ends the connection if it is still busy with this exchange."""
        ...


class Exchange(msgspec.Struct, eq=False):
    """A call, the future of its answer, and its body. For a stream it is the `Pieces` of the answer as well.

    The answer has to be there at `when`. The body of a stream is handed over in as large pieces as have arrived. Above
    `room` unread bytes the connection reads no more until somebody takes them.
    """

    call: Call
    answer: asyncio.Future[Answer]
    _line: Line
    _server: str
    _room: int
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
        # Not what is sent and what has come: that may be secret, and this ends up in logs.
        return f"<{type(self).__name__} of {self.words!r}>"

    # --- what the connection calls --------------------------------------------------------------------------------

    def open(self, status: int, headers: Headers) -> None:
        """The head of a stream is there."""
        self.is_streaming = True
        if not self.answer.done():
            self.answer.set_result(Answer(status=status, headers=headers, pieces=self))

    def advance(self, size: int) -> None:
        """Some more bytes of a stream have arrived."""
        self._unread += size
        if self._unread > self._room and not self._is_paused:
            self._is_paused = True
            self._line.pause()
        if self.parts:
            self._wake()

    def finish(self, status: int, headers: Headers) -> None:
        """The answer is complete."""
        self._is_done = True
        self._is_paused = False  # the connection may be another exchange's from now on
        if self.is_streaming:
            self._wake()
        elif not self.answer.done():
            self.answer.set_result(Answer(status=status, headers=headers, body=_joined(self.parts)))

    def fail(self, what: str, *, is_sent: bool = True) -> None:
        """There will be no answer, or no more of it; `what` goes on after the name of the server."""
        self._is_done = True
        self._is_paused = False
        error = Unreachable(f"{self.words}: {self._server} {what}", is_sent=is_sent)
        if self.is_streaming:
            self._error = error
            self._wake()
        elif not self.answer.done():
            self.answer.set_exception(error)

    def expire(self) -> None:
        """The answer is not there in time."""
        if not self.answer.done():
            what = f"did not answer within {self.call.timeout:g} seconds"
            self.answer.set_exception(TimedOut(f"{self.words}: {self._server} {what}"))

    @property
    def words(self) -> str:
        """The call as a person would say it."""
        return self.call.words or f"{self.call.method} {self.call.path}"

    # --- what the caller calls ------------------------------------------------------------------------------------

    def drop(self) -> None:
        """Nobody wants the answer any more: ends the connection unless the answer is complete."""
        self._is_done = True
        self._is_paused = False
        self.parts.clear()
        self._line.hang_up(self)
        self._wake()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """All that has arrived; waits if that is nothing."""
        while not self.parts:
            if self._error is not None:
                raise self._error
            if self._is_done:
                raise StopAsyncIteration
            await self._wait()
        parts, self.parts = self.parts, []
        self._unread = 0
        if self._is_paused:
            self._is_paused = False
            self._line.resume()
        return _joined(parts)

    async def aclose(self) -> None:
        """Ends the stream; the connection too, unless the body has come to its end. A reader that waits is ended."""
        self._error = None
        self.drop()

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise RuntimeError(f"{self.words}: two tasks read one stream; let one read and hand on what it got")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _joined(parts: list[bytes]) -> bytes:
    return parts[0] if len(parts) == 1 else b"".join(parts)


# Not all that HTTP allows: whatever looks unusual is for the parser to judge. Of the fields whose names begin with C,
# P, T or U some say where the answer ends or whether the connection stays: of those, only two are known to be harmless.
# A Warning is rare, and looked for in every answer: so that it need not be, W is for the parser too.
_HEADER_NAME_BYTES: Final = (
    rb"(?:[ABD-OQ-SVX-Zabd-oq-svx-z][0-9A-Za-z-]*+|Cache-Control|Content-Type|cache-control|content-type)"
)
_NEVER: Final = frozenset("puw")
_FIELDS: Final = rb"(?:%b: [!-~][ -~]*+\r\n)*+" % _HEADER_NAME_BYTES
_FRAMING_LINE: Final = rb"(?:[Cc]ontent-[Ll]ength: ([0-9]{1,10})|[Tt]ransfer-[Ee]ncoding: chunked)\r\n"
_HEAD: Final = re.compile(rb"HTTP/1\.1 ([2-5][0-9][0-9]) [ -~]*+\r\n%b%b%b\r\n" % (_FIELDS, _FRAMING_LINE, _FIELDS))
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,7})\r\n")
_LAST: Final = b"\r\n0\r\n\r\n"
# Without those that are not the answer yet (1xx), and those that have no body whatever they say (204, 304).
_STATUS: Final = {b"%d" % status: status for status in range(200, 600) if status not in {204, 304}}


class LateHeaders(Headers):
    """The header fields of a head that was found to be plain; they are read when somebody asks for one."""

    __slots__ = ("_head",)

    def __init__(self, head: bytes) -> None:
        self._head = head

    def find(self, name: str) -> str | None:
        """The value of a field, or None if it was not sent; `name` must be in lower case."""
        return None if name[:1] in _NEVER else self._values.get(name)

    def __getattr__(self, name: str) -> Any:
        """Reads the head when what the fields are kept in is needed for the first time."""
        if name not in {"_repeated", "_values"}:
            raise AttributeError(name, name=name, obj=self)
        self._values = {}
        self._repeated = None
        for line in self._head.decode("ascii").split("\r\n")[1:-2]:
            field, _, value = line.partition(": ")
            self.add(field.lower(), value.strip(" "))
        return getattr(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return Headers, (tuple(self),)  # a copy is not late any more


def read_plain(data: memoryview, size: int, most: int) -> Answer | None:
    """The answer that the first `size` bytes are, with a body of at most `most`; None leaves them to the parser.

    The pattern takes only what the parser reads in the same way: every line ends as it should, one field says where the
    body ends, and none says that the connection ends with it. So there is one reading of where the answer ends, and
    that has to be the end of the data.
    """
    head = _HEAD.match(data, 0, size)
    if head is None:
        return None
    code, length = head.groups()
    status, start = _STATUS.get(code), head.end()
    if length is None:
        body = _only_chunk(data, start, size)
    else:
        body = data[start:size].tobytes() if length == b"%d" % (size - start) and size - start <= most else None
    if status is None or body is None:
        return None
    return Answer(status=status, headers=LateHeaders(head.group()), body=body)


def _only_chunk(data: memoryview, start: int, size: int) -> bytes | None:
    """The body that is one chunk: so a server sends what it had ready at once, but did not count before."""
    line = _CHUNK.match(data, start, size)
    if line is None:
        return None
    start, end = line.end(), size - len(_LAST)
    is_whole = int(line[1], 16) == end - start > 0 and data[end:size].tobytes() == _LAST
    return data[start:end].tobytes() if is_whole else None


_KEEPALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPALIVE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_UNKNOWN: Final = "; what was asked may have been done or not: look before you ask again"


class Owner(Protocol):
    """The pool, as far as a connection has to know it."""

    buffer: memoryview
    head_bytes: int
    body_bytes: int

    def give(self, connection: "Connection", /) -> None:
        """The connection is free for another call."""
        ...

    def forget(self, connection: "Connection", /) -> None:
        """The connection is closed."""
        ...


class Connection(asyncio.BufferedProtocol):
    """One connection. It is idle, or busy with one exchange; bytes that come while it is idle end it."""

    __slots__ = (
        "_exchange", "_headers", "_is_complete", "_keeps", "_overhead", "_owner", "_parser", "_poll", "_problem",
        "_status", "_transport", "generation", "idle_since", "served",
    )  # fmt: skip

    _transport: asyncio.Transport
    _poll: select.poll

    def __init__(self, owner: Owner, generation: int = 0) -> None:
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
        """Forgets what the parser told: an idle connection remembers nothing of the answers before."""
        self._status = 0
        self._overhead = 0
        self._is_complete = False
        self._keeps = False

    # --- what the pool and the caller call ------------------------------------------------------------------------

    @property
    def exchange(self) -> Exchange | None:
        """What it is busy with."""
        return self._exchange

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it, as far as the event loop knows."""
        return self._parser is not None and not self._transport.is_closing()

    def is_alive(self) -> bool:
        """Whether an idle connection can be used: the server has neither closed it nor said anything unasked."""
        # The loop may not have looked at the socket since; asking the system is cheap.
        return self._parser is not None and not self._transport.is_closing() and not self._poll.poll(0)

    def ask(self, request: bytes, exchange: Exchange) -> None:
        """Sends a request, whose answer goes to `exchange`."""
        assert self._exchange is None, "a connection is busy with one exchange at most"
        self.served += 1
        self._exchange = exchange
        self._transport.write(request)

    def hang_up(self, exchange: Exchange, /) -> None:
        """Ends the connection if it is still busy with this exchange."""
        if self._exchange is exchange:
            self._exchange = None
            self._transport.abort()

    def close(self) -> None:
        """Ends an idle connection politely."""
        self._transport.close()

    def abort(self) -> None:
        """Ends the connection now, without the ceremony of TLS."""
        self._transport.abort()

    def abandon(self, why: str) -> None:
        """Ends the connection now if it is busy: its exchange fails, and `why` goes on after the server's name."""
        if self._exchange is not None:
            self._break(why)

    def pause(self) -> None:
        """Reads no more for the time being."""
        self._transport.pause_reading()

    def resume(self) -> None:
        """Reads on."""
        self._transport.resume_reading()

    # --- what the transport calls ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The server is there, with TLS if that was wanted."""
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
        """All connections share one buffer: its bytes are parsed before anybody reads again."""
        return self._owner.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came in."""
        exchange = self._exchange
        if exchange is None or self._parser is None:
            # Nobody asked: most often 408, a server's way to say that it closes an idle connection.
            self._transport.abort()
            return
        call, owner = exchange.call, self._owner
        if not exchange.received and not call.is_stream and call.method != "HEAD":
            answer = read_plain(owner.buffer, nbytes, owner.body_bytes)
            if answer is not None:
                # That is all of it, and nothing in it says that the connection ends.
                exchange.received = nbytes
                self._exchange = None
                if not exchange.answer.done():
                    exchange.answer.set_result(answer)
                if self._transport.get_write_buffer_size():
                    self._transport.abort()  # as in `_finish`
                else:
                    owner.give(self)
                return
        self._parse(exchange, self._parser, owner.buffer[:nbytes])

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, by whomever."""
        exchange, self._exchange = self._exchange, None
        # The parser would otherwise keep this object alive in a circle.
        self._parser = None
        self._owner.forget(self)
        if exchange is None:
            return
        if exc is None and self._status and _ends_with_connection(self._headers):
            exchange.finish(self._status, self._headers)
        else:
            exchange.fail(_lost_words(exchange, exc))

    # --- what the parser calls ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The parser saw the first byte of an answer."""
        if self._is_complete:
            # An answer to nothing, behind ours: whatever it is, it must not be taken for the next one.
            raise ValueError("surplus")
        self._headers = Headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser saw a header, or after the body a trailer: those are left out."""
        if not self._status:
            self._headers.add(
                _NAMES.get(name) or name.lower().decode("latin-1"), value.rstrip(b" \t").decode("latin-1")
            )

    def on_headers_complete(self) -> None:
        """The parser saw the empty line; a status below 200 is not the answer yet."""
        exchange, parser = self._exchange, self._parser
        assert exchange is not None
        assert parser is not None
        status = parser.get_status_code()
        if status < 200:
            if status == 101:
                self._refuse("wants to speak another protocol than HTTP, which nobody asked for")
            return
        self._status = status
        self._overhead = 0
        if int(self._headers.find("content-length") or 0) > self._owner.body_bytes:
            self._refuse_body()
        if exchange.call.method == "HEAD":
            # The parser would wait for the body whose length is told.
            self._is_complete = True
            raise ValueError("the end of an answer to HEAD")
        if exchange.call.is_stream and status < 300:
            exchange.open(status, self._headers)

    def on_body(self, body: bytes) -> None:
        """The parser saw a part of the body."""
        exchange = self._exchange
        assert exchange is not None
        exchange.parts.append(body)

    def on_message_complete(self) -> None:
        """The parser saw the end of an answer."""
        assert self._parser is not None
        if self._status:
            self._is_complete = True
            self._keeps = self._parser.should_keep_alive()

    # --- the answer, step by step ---------------------------------------------------------------------------------

    def _parse(self, exchange: Exchange, parser: httptools.HttpResponseParser, data: memoryview) -> None:
        exchange.received += len(data)
        try:
            parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._keeps = False
            if not self._is_complete:
                self._break(self._problem or f"answered with something that is not HTTP: {error}" + _UNKNOWN)
                return
        if self._is_complete:
            self._finish(exchange)
        else:
            self._advance(exchange, len(data))

    def _advance(self, exchange: Exchange, size: int) -> None:
        """The answer goes on: keeps its head, and what is neither head nor body, within limits."""
        if not self._status or not exchange.parts:
            self._overhead += size
            if self._overhead > self._owner.head_bytes:
                self._break(f"sent more than {self._owner.head_bytes} bytes of headers; is it an API server?")
                return
        else:
            self._overhead = 0
        if exchange.is_streaming:
            exchange.advance(size)
        elif exchange.received > self._owner.body_bytes:
            self._break(self._too_much())

    def _finish(self, exchange: Exchange) -> None:
        self._exchange = None
        if self._status == 408 and exchange.is_reused and not self._keeps:
            # It was sent before our request arrived: the server closes a connection that was idle for too long.
            exchange.fail("closed an idle connection just then; ask again", is_sent=False)
        else:
            exchange.finish(self._status, self._headers)
        if self._transport.get_write_buffer_size():
            # A request that is still being sent will hardly be read by a server that has answered already.
            self._transport.abort()
        elif self._keeps and not self._transport.is_closing():
            if exchange.is_streaming:
                self._transport.resume_reading()
            self._clear()
            self._owner.give(self)
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
        return f"answered with more than {self._owner.body_bytes} bytes; ask for pages (limit) or for a stream"


def _ends_with_connection(headers: Headers) -> bool:
    """Whether the body has no other end than that of the connection."""
    coding = headers.get("transfer-encoding")
    return headers.get("content-length") is None and (coding is None or not coding.lower().endswith("chunked"))


def _lost_words(exchange: Exchange, exc: Exception | None) -> str:
    if isinstance(exc, ssl.SSLError):
        how = f"ended the connection over TLS ({exc.reason or exc}); was the client's certificate refused"
        return f"{how}?" if not exchange.received else f"ended the connection over TLS ({exc.reason or exc})"
    how = "closed the connection" if exc is None else f"broke the connection ({exc})"
    if exchange.is_streaming:
        return f"{how} in the middle of a stream, after {exchange.received} bytes"
    if exchange.received:
        return f"{how} in the middle of its answer, after {exchange.received} bytes{_UNKNOWN}"
    return f"{how} before it answered{_UNKNOWN}"


_NAMES: Final = {
    name.encode("latin-1"): name.lower()
    for name in (
        "Audit-Id", "Cache-Control", "Connection", "Content-Length", "Content-Type", "Date", "Retry-After",
        "Transfer-Encoding", "Warning", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid",
    )
}  # fmt: skip


class Incoming:
    """The pieces of the answer to one call, for one reader; the call is made by `open`, or by the first reading."""

    __slots__ = ("_ask", "_pieces", "stream")

    def __init__(self, ask: Callable[[], Awaitable[Answer]]) -> None:
        self._ask = ask
        self._pieces: Pieces | None = None
        self.stream: AsyncIterator[bytes] | None = None
        """The pieces, once the call has been made."""

    async def open(self) -> AsyncIterator[bytes]:
        """The pieces; the call is made if it is not made yet. Raises what the server refuses with."""
        if self.stream is None:
            answer = await self._ask()
            self._pieces = answer.pieces
            self.stream = _once(answer.body) if answer.pieces is None else aiter(answer.pieces)
        return self.stream

    async def aclose(self) -> None:
        """Ends the body; may be repeated."""
        pieces, self._pieces = self._pieces, None
        if pieces is not None:
            await pieces.aclose()


async def _once(body: bytes) -> AsyncIterator[bytes]:
    if body:
        yield body


_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_WITH_BODY: Final = frozenset({"PATCH", "POST", "PUT"})
_FRAMING_HEADERS: Final = frozenset(
    {"connection", "content-length", "expect", "host", "te", "transfer-encoding", "upgrade"}
)
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")
_REMEMBERED: Final = 256

_Items = tuple[tuple[str, str], ...]


class RequestWriter:
    """Writes requests to one server.

    `host` is the value of the Host header, `path` stands before every path, and `fixed` are header fields for every
    request, which those of a call replace.
    """

    __slots__ = ("_fixed", "_host", "_known", "_path")

    def __init__(self, host: str, *, path: str = "", fixed: Sequence[tuple[str, str]] = ()) -> None:
        self._host = host
        self._path = path
        self._fixed = tuple(fixed)
        self._known: dict[tuple[_Items, _Items], str] = {}

    def write(self, call: Call, credentials: Mapping[str, str]) -> bytes:
        """The whole request; ConfigError for what would break the message."""
        target = f"{self._path}{call.path}?{call.query}" if call.query else self._path + call.path
        is_clean = target.isascii() and target.isprintable() and " " not in target
        if call.method not in _METHODS or not is_clean or target[:1] != "/":
            raise ConfigError(f"{call.method} {target[:200]!r} cannot be sent: its path is not percent-encoded.")
        key = tuple(credentials.items()), tuple(call.headers.items())
        lines = self._known.get(key)
        if lines is None:
            lines = self._remember(key)
        if not call.body and call.method not in _WITH_BODY:
            return f"{call.method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")
        head = f"{call.method} {target} HTTP/1.1\r\n{lines}Content-Length: {len(call.body)}\r\n\r\n"
        return head.encode("latin-1") + call.body

    def _remember(self, key: tuple[_Items, _Items]) -> str:
        lines = _write_lines(self._host, self._fixed, *key)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[key] = lines
        return lines


def _write_lines(host: str, fixed: _Items, credentials: _Items, own: _Items) -> str:
    """The header lines; a field of the call replaces a credential, and both replace a fixed one."""
    said = {name.lower() for name, _ in own}
    kept = [field for field in credentials if field[0].lower() not in said]
    said.update(name.lower() for name, _ in kept)
    first = [field for field in fixed if field[0].lower() not in said]
    return "".join(_check(("Host", host), *[_own(field) for field in (*first, *kept, *own)]))


def _own(field: tuple[str, str]) -> tuple[str, str]:
    if field[0].lower() in _FRAMING_HEADERS:
        raise ConfigError(f"The header {field[0]} is the transport's own: leave it out.")
    return field


def _check(*fields: tuple[str, str]) -> Iterable[str]:
    for name, value in fields:
        if _HEADER_NAME.fullmatch(name) is None:
            raise ConfigError(f"{name[:200]!r} is not the name of a header.")
        if _VALUE.fullmatch(value) is None:
            # The value may be a secret.
            raise ConfigError(f"The header {name} cannot be sent: there is a line break or another such letter in it.")
        yield f"{name}: {value}\r\n"
