"""Connections of the HTTP server: a `Connection` parses requests, calls the handler, and responds in order.

`WriteBuffer` is its sending side; `ServerContext` is what all connections of one server share. Requests are parsed in
`parser.py`, heads encoded in `response_writer.py`, streamed bodies written in `streaming.py`.
"""

import asyncio
import logging
import math
import os
import select
import socket
import sys
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any, Final, Protocol, cast

from levelset.http.body_budget import BodyBudget
from levelset.http.deferred_response import Deferred
from levelset.http.limits import Limits
from levelset.http.messages import Handler, HeadCheck, Peer, Pieces, Push, Request, Response, Tunnel
from levelset.http.parser import HeaderCache, ParsedRequest, Phase, RequestParser
from levelset.http.response_writer import CONTINUE, Failure, HeadWriter, encode_head, has_no_body, to_status
from levelset.http.streaming import Flusher, StreamSink, write_stream

__all__ = ["SECOND_CHECK", "Connection", "ServerConnection", "ServerContext", "WriteBuffer", "read_peer"]

_MAX_PIECE = 256 * 1024


class _ClosedTransport(asyncio.Transport):
    """Stands for the transport of a connection that has ended."""

    def is_closing(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Writes nothing."""

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        """Has ended already."""

    def close(self) -> None:
        """Has ended already."""


_CLOSED: Final = _ClosedTransport()
SECOND_CHECK: Final = 0.02
"""Seconds in which the loop continues to write after a client has read."""
_TCP_INFO_SENT: Final = 200
"""Where Linux has the number of sent bytes in its TCP_INFO, 64 bits wide; older kernels answer with less."""


class WriteBuffer:
    """Writes to a transport in pieces, as fast as the client reads.

    A transport copies what the socket does not accept at once, and some copy all of it again with every further write.
    So large data is passed on in pieces, and the next piece only when the one before is sent.
    """

    __slots__ = ("_is_closing", "_is_paused", "_on_drained", "_rest", "_resumed", "_transport", "is_full")

    def __init__(self, transport: asyncio.Transport, on_drained: Callable[[], None]) -> None:
        self._transport = transport
        self._on_drained = on_drained
        self._rest: deque[memoryview] = deque()
        self._is_paused = False
        self._is_closing = False
        self._resumed = 0
        self.is_full = False

    def open(self) -> None:
        """Sets the limits of the transport, which may call `pause` at once."""
        # High 1, low 0: `pause` as soon as one byte has to wait, `resume` when the last one is sent.
        self._transport.set_write_buffer_limits(high=1, low=0)

    @property
    def size(self) -> int:
        """The number of bytes that are not sent yet; asyncio's TLS does not count those that it has encrypted."""
        return sum(map(len, self._rest)) + self._transport.get_write_buffer_size()

    @property
    def progress(self) -> tuple[int, int]:
        """Becomes greater whenever the client reads: how often all was sent, and by how much less waits since then."""
        return self._resumed, -self.size

    @property
    def is_sent(self) -> bool:
        """Whether nothing waits for the client to read; also right for encrypted bytes, once the loop had a turn.

        Before that, the client may have read, and the transport not yet have continued to write: see `sent_bytes`.
        """
        if self.is_full:
            return False
        of_transport = self._transport.get_extra_info("socket")
        if of_transport is None or of_transport.fileno() < 0:
            return True  # closed
        # A transport that has bytes to send waits for the socket to become writable.
        poll = select.poll()
        poll.register(of_transport.fileno(), select.POLLOUT)
        return bool(poll.poll(0))

    @property
    def sent_bytes(self) -> int:
        """How much the kernel has sent on this connection, as far as it tells: 0 where it does not, or is closed."""
        of_transport = self._transport.get_extra_info("socket")
        if of_transport is None or not hasattr(socket, "TCP_INFO"):
            return 0
        try:
            with socket.socket(fileno=os.dup(of_transport.fileno())) as copied:  # uvloop's has no such option
                info = copied.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SENT + 8)
        except OSError:  # not TCP, or closed
            return 0
        return int.from_bytes(info[_TCP_INFO_SENT:], sys.byteorder)

    def write(self, data: bytes) -> None:
        """Sends `data` now or, in order, as soon as the client reads; no effect once closed."""
        # A closing transport still sends its own buffer, but must not get more: on Python 3.12 and newer it would wait
        # for the socket without a callback, in a busy loop.
        transport = self._transport
        if self._is_closing or transport.is_closing():
            return
        if self._rest or len(data) > _MAX_PIECE:
            view = memoryview(data)
            self._rest.extend(view[start : start + _MAX_PIECE] for start in range(0, len(data), _MAX_PIECE))
            self._pump()
        else:
            transport.write(data)

    def pause(self) -> None:
        """The transport reports that the client reads too slowly."""
        self._is_paused = self.is_full = True

    def resume(self) -> None:
        """The transport reports that everything is sent."""
        self._is_paused = False
        self._resumed += 1
        self._pump()
        if not self.is_full:
            self._on_drained()

    def close(self) -> None:
        """Closes the connection after all that was written."""
        self._is_closing = True
        self._pump()

    def abort(self) -> None:
        """Closes the connection now; unsent bytes are lost."""
        self._is_closing = True
        self._rest.clear()
        self._transport.abort()

    def detach(self) -> None:
        """The connection has ended: nothing more is written."""
        self._transport = _CLOSED

    def _pump(self) -> None:
        rest = self._rest
        if rest and self._transport.is_closing():
            rest.clear()
        while rest and not self._is_paused:
            self._transport.write(rest.popleft())
        self.is_full = self._is_paused or bool(rest)
        # asyncio's TLS transport cannot be aborted any more once it was closed twice.
        if self._is_closing and not self.is_full and not self._transport.is_closing():
            self._transport.close()


log = logging.getLogger(__name__)


class ServerConnection(Protocol):
    """The part of a connection that the server uses."""

    deadline: float

    def expire(self) -> None:
        """The deadline has passed."""

    def drain(self) -> None:
        """The server stops: finish gracefully."""

    def hurry(self) -> None:
        """The server stops: do not wait for the client any longer."""

    def abort(self) -> None:
        """The server stops: close now."""


class ServerContext:
    """What all connections of one server share: handler, limits, caches, one read buffer, and the coarse clock."""

    __slots__ = (
        "_emptied",
        "_on_error",
        "_tasks",
        "bodies",
        "buffer",
        "connections",
        "flusher",
        "handler",
        "head_check",
        "header_cache",
        "heads",
        "is_stopping",
        "limits",
        "now",
        "phase_timeouts",
    )  # fmt: skip

    def __init__(
        self,
        handler: Handler,
        *,
        limits: Limits,
        on_error: Callable[[Failure], Response],
        loop: asyncio.AbstractEventLoop,
        head_check: HeadCheck | None = None,
    ) -> None:
        self.handler = handler
        self.head_check = head_check
        self.bodies = BodyBudget(limits)
        self.limits = limits
        self.heads = HeadWriter()
        self.header_cache = HeaderCache(limits)
        self.flusher = Flusher(loop)
        self.buffer = memoryview(bytearray(64 * 1024))
        self.connections: set[ServerConnection] = set()
        # Read with every request, so it is the time of the last sweep and not the real clock.
        self.now = loop.time()
        self.is_stopping = False
        self.phase_timeouts = {
            Phase.IDLE: limits.idle_within,
            Phase.HEAD: limits.head_within,
            Phase.BODY: limits.body_within,
        }
        self._on_error = on_error
        self._tasks: set[asyncio.Future[Any]] = set()
        self._emptied: asyncio.Future[None] | None = None

    def error_response(self, failure: Failure) -> Response:
        """The response to a failure, from `on_error`; a plain Status if that fails too."""
        try:
            response = self._on_error(failure)
            encode_head(response.status, response.headers)
            if isinstance(response.body, bytes) and response.status >= 200:
                return response
            log.error("on_error must return a final response with a body of bytes")
        except Exception:
            log.exception("on_error failed")
        return to_status(failure)

    def check_head(self, request: Request) -> Response | str:
        """The result of the head check; a check that fails refuses the request."""
        if self.head_check is None:
            return ""
        try:
            return self.head_check(request)
        except Exception as error:
            log.exception("head check failed", extra={"method": request.method, "path": request.path})
            return self.error_response(Failure(500, _INTERNAL, request, error))

    def own(self, task: asyncio.Future[Any]) -> None:
        """Tracks a task until it has ended, so that `stop` leaves none behind."""
        self._tasks.add(task)
        task.add_done_callback(self.release)

    def hold(self, task: asyncio.Future[Any]) -> None:
        """As `own`, for a caller that sees the end itself and then calls `release`."""
        self._tasks.add(task)

    def release(self, task: asyncio.Future[Any]) -> None:
        """Stops tracking a task that has ended."""
        self._tasks.discard(task)
        self._notify_if_empty()

    def remove(self, connection: ServerConnection) -> None:
        """Removes a connection that is closed."""
        self.connections.discard(connection)
        self._notify_if_empty()

    def sweep(self, now: float) -> None:
        """Sets the clock, and expires the connections whose deadline has passed."""
        self.now = now
        for connection in [one for one in self.connections if one.deadline <= now]:
            connection.expire()

    def hurry(self) -> None:
        """Closes the connections that wait for the rest of a request."""
        for connection in tuple(self.connections):
            connection.hurry()

    async def wait_empty(self) -> None:
        """Waits until no connection and no task is left."""
        if self.connections or self._tasks:
            self._emptied = asyncio.get_running_loop().create_future()
            await self._emptied

    def abort_all(self) -> None:
        """Aborts all connections, and cancels their tasks."""
        for connection in tuple(self.connections):
            connection.abort()
        for task in tuple(self._tasks):
            task.cancel()

    def _notify_if_empty(self) -> None:
        waiter = self._emptied
        if waiter is not None and not waiter.done() and not self.connections and not self._tasks:
            waiter.set_result(None)


_IDLE = Phase.IDLE
_BODY = Phase.BODY
_KEEP_ALIVE = b"Connection: keep-alive\r\n"
_CLOSE = b"Connection: close\r\n"
_CHUNKED = b"Transfer-Encoding: chunked\r\n"
_TOO_MANY_BODIES = "Too many request bodies are being received; try again later."
_INTERNAL = "The server could not handle the request because of an internal error; see its log."


class Connection(asyncio.BufferedProtocol):
    """One connection. At most one request is in progress (`_current`); pipelined ones wait in the parser."""

    __slots__ = (
        "_context",
        "_current",
        "_is_held",
        "_is_lingering",
        "_is_reading",
        "_is_tunnel",
        "_keep_alive",
        "_lingered_at",
        "_output",
        "_parser",
        "_phase",
        "_sink",
        "_stalled_at",
        "_task",
        "_transport",
        "deadline",
    )  # fmt: skip

    _transport: asyncio.Transport
    _output: WriteBuffer
    _parser: RequestParser

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._current: ParsedRequest | None = None
        self._keep_alive = False
        self._task: asyncio.Future[Any] | None = None
        self._sink: StreamSink | None = None
        self._phase: Phase | None = None
        self._is_reading = True
        self._is_lingering = False
        self._lingered_at: int | None = None
        self._is_tunnel = False
        self._is_held = False
        self._stalled_at: tuple[int, int] | None = None
        self.deadline = math.inf

    # --- what the transport calls ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        context = self._context
        self._transport = cast("asyncio.Transport", transport)
        self._parser = RequestParser(context.limits, read_peer(transport), context.header_cache)
        self._output = WriteBuffer(self._transport, self._drained)
        self._output.open()
        is_full = len(context.connections) >= context.limits.connections
        context.connections.add(self)
        if context.is_stopping:
            self._close()
        elif is_full:
            self._refuse(Failure(503, "The server has too many connections; try again later."))
        else:
            self.deadline = context.now + context.limits.head_within

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the signature is asyncio's
        """The buffer that all connections share: its bytes are parsed before the next read."""
        return self._context.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have arrived in the buffer."""
        if self._is_lingering:
            return
        data = self._context.buffer[:nbytes]
        if self._is_tunnel:
            self._receive(bytes(data))
        else:
            self._parser.feed(data)
            if self._parser.phase is _BODY:
                self._admit_body()
            self._proceed()

    def eof_received(self) -> bool:
        """The client has closed its side: it counts as gone, unless it is still reading a complete response."""
        if self._current is not None or not self._output.is_full:
            return False
        self._close()
        # True keeps the transport open for the rest of the response; TLS has no half-open state.
        return self._transport.get_extra_info("sslcontext") is None

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self._output.pause()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._output.resume()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature is asyncio's
        """The connection is closed, by either side: cancels the handler."""
        self._parser.close()
        if self._current is not None and self._current.charge is not None:
            self._current.charge.release()
        if self._sink is not None:
            self._sink.lose()
        if self._task is not None:
            self._task.cancel()
        else:
            self._current = None  # a running handler still needs its request
        # Transport, connection and output refer to each other: without this, a body and the buffers of TLS
        # (256 KiB) would stay until the garbage collector finds them.
        self._transport = _CLOSED
        self._output.detach()
        self._context.remove(self)

    # --- what the server calls ------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Ends a stream, closes an idle connection; a request in progress gets its response first."""
        if self._sink is not None:
            self._sink.close()
            if self._task is not None:
                self._task.cancel()
        elif self._is_idle():
            self._close()

    def hurry(self) -> None:
        """Aborts a client that has sent a part of a request, or that has its last response and does not close."""
        is_waiting = self._is_lingering or (self._current is None and not self._parser.ready)
        if is_waiting and self._output.is_sent:
            asyncio.get_running_loop().call_later(SECOND_CHECK, self._abort_sent, self._output.sent_bytes)

    def expire(self) -> None:
        """The deadline has passed."""
        limits, output = self._context.limits, self._output
        if output.is_full:
            progress, before = output.progress, self._stalled_at
            self._stalled_at = progress
            if before is not None and progress <= before:
                output.abort()
            self.deadline = self._context.now + limits.stall_within
        elif self._sink is not None:  # the next piece of a body is being made
            self._stalled_at = None
            self.deadline = self._context.now + limits.stall_within
        elif self._is_lingering and output.is_sent:
            seen, self._lingered_at = self._lingered_at, output.sent_bytes
            self._abort_sent(seen)
        elif self._is_lingering:
            output.close()  # if it was not before; asyncio's shutdown timeout ends it if the client reads nothing
            self.deadline = self._context.now + limits.linger_within
        elif self._parser.phase is Phase.IDLE:
            self._close()
        else:
            self._refuse(Failure(408, "The request did not arrive in time."))

    def _abort_sent(self, before: int | None) -> None:
        """Aborts if no more was sent since some turns of the loop, although it could be: then there is no more."""
        if self._output.is_sent and self._output.sent_bytes == before:
            self._output.abort()

    def abort(self) -> None:
        """Aborts the connection and its handler."""
        self._output.abort()

    # --- receiving a body -----------------------------------------------------------------------------------------

    def _admit_body(self) -> None:
        """Decides about the body that is arriving: by the head of its request when it begins, then by its size."""
        parser, context = self._parser, self._context
        if parser.charge is None:
            client = context.check_head(parser.head())
            if isinstance(client, Response):
                parser.refuse(client)
                return
            parser.charge = context.bodies.open(client or self._address())
        if not parser.charge.grow(parser.body_size):
            parser.refuse(context.error_response(Failure(429, _TOO_MANY_BODIES, parser.head())))

    def _address(self) -> str:
        name: tuple[str, int] | str | None = self._transport.get_extra_info("peername")
        return name[0] if isinstance(name, tuple) else name or ""

    # --- responding -----------------------------------------------------------------------------------------------

    def _proceed(self) -> None:
        """Handles the parsed requests in order, one at a time; then sets reading and the deadline."""
        parser = self._parser
        ready = parser.ready
        while ready and self._current is None and not self._output.is_full:
            self._handle(ready.popleft())
        wants_reading = not ready and not parser.is_holding and not self._is_held
        if wants_reading is not self._is_reading and not self._transport.is_closing():
            self._is_reading = wants_reading
            if wants_reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
        if self._current is not None:
            return
        if parser.continue_due and not ready:
            parser.continue_due = False
            self._output.write(CONTINUE)
        if parser.phase is not self._phase and not self._is_lingering:
            self._phase = parser.phase
            context = self._context
            if self._output.is_full:
                self.deadline = context.now + context.limits.stall_within
            elif parser.phase is _IDLE:  # the usual case: an enum is slow to look up in a dict
                self.deadline = context.now + context.limits.idle_within
            else:
                self.deadline = context.now + context.phase_timeouts[parser.phase]

    def _handle(self, parsed: ParsedRequest) -> None:
        self._current = parsed
        request = parsed.request
        if request is None:
            self._refuse(parsed.refusal or parsed.failure or Failure(400, "The request is malformed."))
            return
        try:
            result = self._context.handler(request)
        except Exception as error:  # noqa: BLE001 - the client gets a response, and the log the error
            result = self._fail(request, error)
        if isinstance(result, Response):
            self._respond(parsed, request, result)
        else:
            self._wait_for(result)

    def _wait_for(self, result: Awaitable[Response]) -> None:
        self.deadline = math.inf
        if isinstance(result, Deferred):
            self._task = result
            self._context.hold(result)
            result.when_settled(self._handled)
            return
        try:
            task = asyncio.ensure_future(result)
        except TypeError as error:
            parsed = self._current
            assert parsed is not None
            assert parsed.request is not None
            self._respond(parsed, parsed.request, self._fail(parsed.request, error))
            return
        self._task = task
        self._context.hold(task)
        task.add_done_callback(self._handled)

    def _handled(self, task: "asyncio.Future[Response]") -> None:
        parsed = self._current
        self._task = None
        self._context.release(task)
        if task.cancelled():
            error: BaseException | None = asyncio.CancelledError("the handler was cancelled")
        else:
            error = task.exception()
        if parsed is None or parsed.request is None:
            return
        if self._transport.is_closing():
            if error is not None and not task.cancelled():
                self._fail(parsed.request, error)
            return
        response = task.result() if error is None else self._fail(parsed.request, error)
        self._respond(parsed, parsed.request, response)
        self._proceed()

    def _respond(self, parsed: ParsedRequest, request: Request, response: Response) -> None:
        """Sends the head and the body, or starts to; a response that cannot be sent becomes a 500."""
        self._keep_alive = parsed.keep_alive and not (self._context.is_stopping and not self._parser.ready)
        try:
            body = response.body
            if parsed.is_upgrade:
                if response.upgrade is not None:
                    self._upgrade(response, response.upgrade)
                    return
                self._parser.release()
            status = response.status
            if status < 200:
                raise ValueError(f"{status} is not a final response, and the request asked for no upgrade")
            if isinstance(body, bytes):
                is_plain = len(body) < 65536 and self._keep_alive and not parsed.is_old
                if is_plain and status not in {204, 304} and request.method != "HEAD":
                    # `_send` and `_finish`, inlined: nearly all responses are of this form.
                    framing = b"Content-Length: %d\r\n" % len(body)
                    self._output.write(self._context.heads.write(status, response.headers, framing, body))
                    self._current = self._phase = None
                    if parsed.charge is not None:
                        parsed.charge.release()
                    self._stalled_at = None
                    return
                self._send(parsed, request, response, body)
            else:
                self._stream(parsed, request, response, body)
        except Exception as error:  # noqa: BLE001 - as above
            failure = self._fail(request, error)
            if self._sink is not None:
                self._sink.abort()
            elif isinstance(failure.body, bytes):
                self._send(parsed, request, failure, failure.body)

    def _send(self, parsed: ParsedRequest, request: Request, response: Response, body: bytes) -> None:
        status, size = response.status, len(body)
        framing = b"" if status in {204, 304} else b"Content-Length: %d\r\n" % size
        if not self._keep_alive or parsed.is_old:
            framing += self._connection_line(parsed)
        head = self._context.heads.write(status, response.headers, framing)
        if has_no_body(request.method, status):
            self._output.write(head)
        elif size < 65536:
            self._output.write(head + body)
        else:
            self._output.write(head)
            self._output.write(body)
        self._finish()

    def _stream(
        self, parsed: ParsedRequest, request: Request, response: Response, body: AsyncIterable[bytes] | Push
    ) -> None:
        framing = b"" if parsed.is_old else _CHUNKED
        self._keep_alive = self._keep_alive and not parsed.is_old
        head = self._context.heads.write(response.status, response.headers, framing + self._connection_line(parsed))
        if has_no_body(request.method, response.status):
            self._output.write(head)
            self._finish()
            return
        is_finite = isinstance(body, Pieces)
        self.deadline = self._context.now + self._context.limits.stall_within if is_finite else math.inf
        self._output.write(head)
        sink = StreamSink(self._context.flusher, self._output, self._stream_ended, chunked=not parsed.is_old)
        self._sink = sink
        if callable(body):
            body(sink)
        else:
            self._task = asyncio.get_running_loop().create_task(write_stream(body, sink))
            self._context.own(self._task)
        if self._context.is_stopping:
            self.drain()

    def _upgrade(self, response: Response, take_over: Callable[[Tunnel], None]) -> None:
        self.deadline = math.inf
        self._keep_alive = False
        self._output.write(self._context.heads.write(101, response.headers, b""))
        self._sink = sink = StreamSink(self._context.flusher, self._output, self._stream_ended, chunked=False)
        sink.when_held(self._hold)
        self._is_tunnel = True
        rest = self._parser.take_rest()
        take_over(sink)
        self._receive(rest)

    def _hold(self, is_held: bool) -> None:
        """Stops or resumes reading from an upgraded connection."""
        self._is_held = is_held
        if self._is_tunnel and not self._is_lingering:
            self._proceed()

    def _receive(self, data: bytes) -> None:
        if self._sink is None:
            return
        try:
            self._sink.receive(data)
        except Exception:
            log.exception("an upgraded connection was aborted: handling received bytes failed")
            self._sink.abort()

    def _stream_ended(self) -> None:
        self._sink = None
        self._task = None
        self._keep_alive = self._keep_alive and not self._context.is_stopping
        self._finish()
        self._proceed()

    def _finish(self) -> None:
        """The response is sent: prepares for the next request, or closes."""
        if self._current is not None and self._current.charge is not None:
            self._current.charge.release()
        self._current = None
        self._phase = None
        if not self._keep_alive:
            self._close()
        self._stalled_at = None

    def _close(self) -> None:
        """Closes after all that was written; what the client still sends is discarded."""
        self._parser.close()
        self._is_lingering = True  # first: asyncio's TLS transport passes on what it has received while it closes
        self.deadline = self._context.now + self._context.limits.linger_within
        if not self._is_reading and not self._transport.is_closing():
            # TLS fails, and with it the response, if received bytes are unread at the end.
            self._is_reading = True
            self._transport.resume_reading()
        self._output.close()

    def _refuse(self, reason: Failure | Response) -> None:
        """Sends an error response to a request that is not read to its end, and closes so that it can be read."""
        self._keep_alive = False
        self._parser.close()
        response = reason if isinstance(reason, Response) else self._context.error_response(reason)
        status = response.status if isinstance(reason, Response) else reason.status
        body = response.body if isinstance(response.body, bytes) else b""
        framing = b"Content-Length: %d\r\nConnection: close\r\n" % len(body)
        self._output.write(self._context.heads.write(status, response.headers, framing) + body)
        # Closing with unread bytes resets the connection, and the client would lose the response. So read and discard.
        self._is_lingering = True
        self._current = None
        self.deadline = self._context.now + self._context.limits.linger_within
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _fail(self, request: Request, error: BaseException) -> Response:
        log.error("handler failed", exc_info=error, extra={"method": request.method, "path": request.path})
        return self._context.error_response(Failure(500, _INTERNAL, request, error))

    def _drained(self) -> None:
        if self._sink is not None:
            self._sink.flush()
        else:
            self._phase = None
            self._proceed()

    def _is_idle(self) -> bool:
        parser = self._parser
        return self._current is None and not parser.ready and parser.phase is Phase.IDLE

    def _connection_line(self, parsed: ParsedRequest) -> bytes:
        if not self._keep_alive:
            return _CLOSE
        return _KEEP_ALIVE if parsed.is_old else b""


def read_peer(transport: asyncio.BaseTransport) -> Peer | None:
    """The identity in the client's verified certificate; None without one."""
    certificate = transport.get_extra_info("peercert")
    if not certificate:
        return None
    fields = [pair for names in certificate.get("subject", ()) for pair in names]
    name = next((value for key, value in fields if key == "commonName"), "")
    return Peer(name, tuple(value for key, value in fields if key == "organizationName"))
