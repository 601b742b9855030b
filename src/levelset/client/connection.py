"""One connection to a server: sends a request, reads its answer within limits, and then waits for the next one."""

import asyncio
import select
import socket
import ssl
from contextlib import suppress
from typing import Final, Protocol, cast

import httptools

from levelset.client.exchange import Exchange
from levelset.client.plain import read_plain
from levelset.web.messages import Headers

__all__ = ["Connection", "Owner"]

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
