"""One connection of a client: reads requests, asks the handler, sends the answers in order.

The sending side of a connection: never more than one piece in the transport's own buffer.

What all the connections of one server share: the application, the limits, one buffer, one clock.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any, Protocol, cast

from levelset.http.limits import Limits
from levelset.http.messages import Deferred, Handler, Peer, Push, Request, Response, Tunnel
from levelset.http.parser import KnownHeads, Phase, Reader, Turn
from levelset.http.response_writer import CONTINUE, Failure, HeadWriter, encode_head, has_no_body, to_status
from levelset.http.streaming import Flusher, StreamSink, pour

__all__ = ["Closable", "Connection", "Outlet", "Shared", "read_peer"]

_PIECE = 256 * 1024


class Outlet:
    """Writes to a transport piece by piece, as fast as the client reads.

    A transport copies what the socket does not take at once, and some copy all of it again with every further write.
    So big data is handed over in pieces, and the next piece only when the one before has left.
    """

    __slots__ = ("_is_closing", "_is_paused", "_on_drained", "_rest", "_transport", "is_full")

    def __init__(self, transport: asyncio.Transport, on_drained: Callable[[], None]) -> None:
        self._transport = transport
        self._on_drained = on_drained
        self._rest: deque[memoryview] = deque()
        self._is_paused = False
        self._is_closing = False
        self.is_full = False

    def open(self) -> None:
        """Begins to listen to the transport, which may call `pause` at once."""
        # High 1, low 0: be told as soon as one byte has to wait, and again when the last of them has left.
        self._transport.set_write_buffer_limits(high=1, low=0)

    @property
    def size(self) -> int:
        """The number of bytes that wait for the client."""
        return sum(map(len, self._rest)) + self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Sends `data` now or, in order, as soon as the client takes it; does nothing once closed."""
        # A transport that is closing still sends its own buffer, but must not be given more: on Python 3.12 and newer
        # it would wait for the socket with nobody to call, for ever and at full speed.
        transport = self._transport
        if self._is_closing or transport.is_closing():
            return
        if self._rest or len(data) > _PIECE:
            view = memoryview(data)
            self._rest.extend(view[start : start + _PIECE] for start in range(0, len(data), _PIECE))
            self._pump()
        else:
            transport.write(data)

    def pause(self) -> None:
        """The transport says that the client does not keep up."""
        self._is_paused = self.is_full = True

    def resume(self) -> None:
        """The transport says that everything has left."""
        self._is_paused = False
        self._pump()
        if not self.is_full:
            self._on_drained()

    def close(self) -> None:
        """Closes the connection after all that was written."""
        self._is_closing = True
        if not self._rest:
            self._transport.close()

    def abort(self) -> None:
        """Closes the connection now; what waits is lost."""
        self._is_closing = True
        self._rest.clear()
        self._transport.abort()

    def _pump(self) -> None:
        rest = self._rest
        if rest and self._transport.is_closing():
            rest.clear()
        while rest and not self._is_paused:
            self._transport.write(rest.popleft())
        self.is_full = self._is_paused or bool(rest)
        if self._is_closing and not rest:
            self._transport.close()


log = logging.getLogger(__name__)


class Closable(Protocol):
    """A connection, as far as the server has to know it."""

    deadline: float

    def expire(self) -> None:
        """The deadline has passed."""

    def wind_down(self) -> None:
        """The server stops: end what can end now."""

    def hurry(self) -> None:
        """The server stops: wait for the client no longer."""

    def abort(self) -> None:
        """The server stops: end now."""


class Shared:
    """The common ground of the connections of one server."""

    __slots__ = (
        "_emptied", "_on_error", "_tasks", "buffer", "connections", "flusher", "handler", "heads", "is_stopping",
        "known", "limits", "now", "patience",
    )  # fmt: skip

    def __init__(
        self,
        handler: Handler,
        *,
        limits: Limits,
        on_error: Callable[[Failure], Response],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.heads = HeadWriter()
        self.known = KnownHeads(limits)
        self.flusher = Flusher(loop)
        self.buffer = memoryview(bytearray(64 * 1024))
        self.connections: set[Closable] = set()
        # Read with every request, so it is not the real clock but the time of the last sweep.
        self.now = loop.time()
        self.is_stopping = False
        self.patience = {
            Phase.IDLE: limits.idle_within,
            Phase.HEAD: limits.head_within,
            Phase.BODY: limits.body_within,
        }
        self._on_error = on_error
        self._tasks: set[asyncio.Future[Any]] = set()
        self._emptied: asyncio.Future[None] | None = None

    def tell(self, failure: Failure) -> Response:
        """The answer to a failure; if the application's own words fail too, those of Kubernetes."""
        try:
            response = self._on_error(failure)
            encode_head(response.status, response.headers)
            if isinstance(response.body, bytes) and response.status >= 200:
                return response
            log.error("on_error must give a final response with a body of bytes")
        except Exception:
            log.exception("on_error failed")
        return to_status(failure)

    def own(self, task: asyncio.Future[Any]) -> None:
        """Remembers a task until it has ended, so that `stop` leaves none behind."""
        self._tasks.add(task)
        task.add_done_callback(self.release)

    def hold(self, task: asyncio.Future[Any]) -> None:
        """As `own`, for a caller that is told of the end anyway: it calls `release` then."""
        self._tasks.add(task)

    def release(self, task: asyncio.Future[Any]) -> None:
        """Forgets a task that has ended."""
        self._tasks.discard(task)
        self._look_whether_empty()

    def leave(self, connection: Closable) -> None:
        """A connection is closed."""
        self.connections.discard(connection)
        self._look_whether_empty()

    def sweep(self, now: float) -> None:
        """Sets the clock, and expires every connection whose deadline has passed."""
        self.now = now
        for connection in [one for one in self.connections if one.deadline <= now]:
            connection.expire()

    def hurry(self) -> None:
        """Has every connection end that waits for more from its client."""
        for connection in tuple(self.connections):
            connection.hurry()

    async def wait_empty(self) -> None:
        """Waits until no connection and no task is left."""
        if self.connections or self._tasks:
            self._emptied = asyncio.get_running_loop().create_future()
            await self._emptied

    def cut(self) -> None:
        """Cuts every connection, and cancels what still runs."""
        for connection in tuple(self.connections):
            connection.abort()
        for task in tuple(self._tasks):
            task.cancel()

    def _look_whether_empty(self) -> None:
        waiter = self._emptied
        if waiter is not None and not waiter.done() and not self.connections and not self._tasks:
            waiter.set_result(None)


_IDLE = Phase.IDLE
_KEEP = b"Connection: keep-alive\r\n"
_CLOSE = b"Connection: close\r\n"
_CHUNKED = b"Transfer-Encoding: chunked\r\n"
_INTERNAL = "The server could not answer the request because of an internal error; its log tells more."


class Connection(asyncio.BufferedProtocol):
    """One connection. At most one request is being answered (`_turn`); those behind it wait in the reader."""

    __slots__ = (
        "_is_lingering", "_is_reading", "_is_tunnel", "_keeps", "_outlet", "_phase", "_reader", "_shared", "_sink",
        "_stalled_at", "_task", "_transport", "_turn", "deadline",
    )  # fmt: skip

    _transport: asyncio.Transport
    _outlet: Outlet
    _reader: Reader

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._turn: Turn | None = None
        self._keeps = False
        self._task: asyncio.Future[Any] | None = None
        self._sink: StreamSink | None = None
        self._phase: Phase | None = None
        self._is_reading = True
        self._is_lingering = False
        self._is_tunnel = False
        self._stalled_at = 0
        self.deadline = math.inf

    # --- what the transport calls ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        shared = self._shared
        self._transport = cast("asyncio.Transport", transport)
        self._reader = Reader(shared.limits, read_peer(transport), shared.known)
        self._outlet = Outlet(self._transport, self._drained)
        self._outlet.open()
        is_crowded = len(shared.connections) >= shared.limits.connections
        shared.connections.add(self)
        if shared.is_stopping:
            self._outlet.close()
        elif is_crowded:
            self._refuse(Failure(503, "The server has no room for another connection; try again later."))
        else:
            self.deadline = shared.now + shared.limits.head_within

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the signature is asyncio's
        """All connections share one buffer: its bytes are parsed before anybody reads again."""
        return self._shared.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came in."""
        if self._is_lingering:
            return
        data = self._shared.buffer[:nbytes]
        if self._is_tunnel:
            self._receive(bytes(data))
        else:
            self._reader.feed(data)
            self._proceed()

    def eof_received(self) -> bool:
        """The client will say no more. Unless it is still taking an answer that is complete, it counts as gone."""
        if self._turn is not None or not self._outlet.is_full:
            return False
        self._reader.close()
        self._outlet.close()
        # True keeps the transport open for the rest of the answer; over TLS there is no such half-open state.
        return self._transport.get_extra_info("sslcontext") is None

    def pause_writing(self) -> None:
        """The client does not keep up."""
        self._outlet.pause()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._outlet.resume()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature is asyncio's
        """The connection is closed, by whomever: nobody waits for the answer any more."""
        self._reader.close()
        if self._sink is not None:
            self._sink.lose()
        if self._task is not None:
            self._task.cancel()
        self._shared.leave(self)

    # --- what the server calls ------------------------------------------------------------------------------------

    def wind_down(self) -> None:
        """Ends a stream properly, closes an idle connection; a request that is under way gets its answer first."""
        if self._sink is not None:
            self._sink.close()
            if self._task is not None:
                self._task.cancel()
        elif self._is_idle():
            self._outlet.close()

    def hurry(self) -> None:
        """Cuts a client that has sent half a request, or was refused and does not leave; nobody answers it now."""
        if self._is_lingering or (self._turn is None and not self._reader.ready and not self._outlet.is_full):
            self._outlet.abort()

    def expire(self) -> None:
        """The deadline has passed."""
        limits = self._shared.limits
        if self._is_lingering:
            self._outlet.abort()
        elif self._outlet.is_full:
            size, before = self._outlet.size, self._stalled_at
            self._stalled_at = size
            if 0 < before <= size:
                self._outlet.abort()
            self.deadline = self._shared.now + limits.stall_within
        elif self._reader.phase is Phase.IDLE:
            self._outlet.close()
        else:
            self._refuse(Failure(408, "The request did not arrive in time."))

    def abort(self) -> None:
        """Cuts the connection and whatever runs for it."""
        self._outlet.abort()

    # --- answering ------------------------------------------------------------------------------------------------

    def _proceed(self) -> None:
        """Answers what is ready, in order, one at a time; then decides what to wait for."""
        reader = self._reader
        ready = reader.ready
        while ready and self._turn is None and not self._outlet.is_full:
            self._answer(ready.popleft())
        wants_reading = not ready and not reader.is_holding
        if wants_reading is not self._is_reading and not self._transport.is_closing():
            self._is_reading = wants_reading
            if wants_reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
        if self._turn is not None:
            return
        if reader.continue_due and not ready:
            reader.continue_due = False
            self._outlet.write(CONTINUE)
        if reader.phase is not self._phase and not self._is_lingering:
            self._phase = reader.phase
            shared = self._shared
            if self._outlet.is_full:
                self.deadline = shared.now + shared.limits.stall_within
            elif reader.phase is _IDLE:  # after all answers but few: an enum takes long to be found in a map
                self.deadline = shared.now + shared.limits.idle_within
            else:
                self.deadline = shared.now + shared.patience[reader.phase]

    def _answer(self, turn: Turn) -> None:
        self._turn = turn
        request = turn.request
        if request is None:
            self._refuse(turn.failure or Failure(400, "The request is malformed."))
            return
        try:
            result = self._shared.handler(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer and the log the rest
            result = self._fail(request, error)
        if isinstance(result, Response):
            self._respond(turn, request, result)
        else:
            self._wait_for(result)

    def _wait_for(self, result: Awaitable[Response]) -> None:
        self.deadline = math.inf
        if isinstance(result, Deferred):
            self._task = result
            self._shared.hold(result)
            result.when_settled(self._answered)
            return
        try:
            task = asyncio.ensure_future(result)
        except TypeError as error:
            turn = self._turn
            assert turn is not None
            assert turn.request is not None
            self._respond(turn, turn.request, self._fail(turn.request, error))
            return
        self._task = task
        self._shared.hold(task)
        task.add_done_callback(self._answered)

    def _answered(self, task: "asyncio.Future[Response]") -> None:
        turn = self._turn
        self._task = None
        self._shared.release(task)
        if task.cancelled():
            error: BaseException | None = asyncio.CancelledError("the handler was cancelled")
        else:
            error = task.exception()
        if turn is None or turn.request is None:
            return
        if self._transport.is_closing():
            if error is not None and not task.cancelled():
                self._fail(turn.request, error)
            return
        response = task.result() if error is None else self._fail(turn.request, error)
        self._respond(turn, turn.request, response)
        self._proceed()

    def _respond(self, turn: Turn, request: Request, response: Response) -> None:
        """Sends the head and the body, or begins to; a response that cannot be sent becomes a 500."""
        self._keeps = turn.keep_alive and not (self._shared.is_stopping and not self._reader.ready)
        try:
            body = response.body
            if turn.is_upgrade:
                if response.upgrade is not None:
                    self._upgrade(response, response.upgrade)
                    return
                self._reader.release()
            status = response.status
            if status < 200:
                raise ValueError(f"{status} is no answer to a request that asked for no upgrade")
            if isinstance(body, bytes):
                is_plain = len(body) < 65536 and self._keeps and not turn.is_old
                if is_plain and status not in {204, 304} and request.method != "HEAD":
                    # As `_send` and `_finish` have it, without a call to each: nearly all answers are such.
                    framing = b"Content-Length: %d\r\n" % len(body)
                    self._outlet.write(self._shared.heads.write(status, response.headers, framing, body))
                    self._turn = self._phase = None
                    self._stalled_at = 0
                    return
                self._send(turn, request, response, body)
            else:
                self._stream(turn, request, response, body)
        except Exception as error:  # noqa: BLE001 - as above
            failure = self._fail(request, error)
            if self._sink is not None:
                self._sink.abort()
            elif isinstance(failure.body, bytes):
                self._send(turn, request, failure, failure.body)

    def _send(self, turn: Turn, request: Request, response: Response, body: bytes) -> None:
        status, size = response.status, len(body)
        framing = b"" if status in {204, 304} else b"Content-Length: %d\r\n" % size
        if not self._keeps or turn.is_old:
            framing += self._connection_line(turn)
        head = self._shared.heads.write(status, response.headers, framing)
        if has_no_body(request.method, status):
            self._outlet.write(head)
        elif size < 65536:
            self._outlet.write(head + body)
        else:
            self._outlet.write(head)
            self._outlet.write(body)
        self._finish()

    def _stream(self, turn: Turn, request: Request, response: Response, body: AsyncIterable[bytes] | Push) -> None:
        framing = b"" if turn.is_old else _CHUNKED
        self._keeps = self._keeps and not turn.is_old
        head = self._shared.heads.write(response.status, response.headers, framing + self._connection_line(turn))
        if has_no_body(request.method, response.status):
            self._outlet.write(head)
            self._finish()
            return
        self.deadline = math.inf
        self._outlet.write(head)
        sink = StreamSink(self._shared.flusher, self._outlet, self._stream_ended, chunked=not turn.is_old)
        self._sink = sink
        if callable(body):
            body(sink)
        else:
            self._task = asyncio.get_running_loop().create_task(pour(body, sink))
            self._shared.own(self._task)
        if self._shared.is_stopping:
            self.wind_down()

    def _upgrade(self, response: Response, take_over: Callable[[Tunnel], None]) -> None:
        self.deadline = math.inf
        self._keeps = False
        self._outlet.write(self._shared.heads.write(101, response.headers, b""))
        self._sink = sink = StreamSink(self._shared.flusher, self._outlet, self._stream_ended, chunked=False)
        self._is_tunnel = True
        rest = self._reader.take_rest()
        take_over(sink)
        self._receive(rest)

    def _receive(self, data: bytes) -> None:
        if self._sink is None:
            return
        try:
            self._sink.receive(data)
        except Exception:
            log.exception("an upgraded connection was cut because what it received could not be handled")
            self._sink.abort()

    def _stream_ended(self) -> None:
        self._sink = None
        self._task = None
        self._keeps = self._keeps and not self._shared.is_stopping
        self._finish()
        self._proceed()

    def _finish(self) -> None:
        """The answer is on its way: make room for the next turn, or close."""
        self._turn = None
        self._phase = None
        if not self._keeps:
            self._reader.close()
            self._outlet.close()
        self._stalled_at = 0

    def _refuse(self, failure: Failure) -> None:
        """Answers what is no request, and closes in a way that lets the client read the answer."""
        self._keeps = False
        self._reader.close()
        response = self._shared.tell(failure)
        assert isinstance(response.body, bytes)
        framing = b"Content-Length: %d\r\nConnection: close\r\n" % len(response.body)
        self._outlet.write(self._shared.heads.write(failure.status, response.headers, framing) + response.body)
        # Closing with unread bytes resets the connection, and the client would never see why. So read on, and forget.
        self._is_lingering = True
        self._turn = None
        self.deadline = self._shared.now + self._shared.limits.linger_within
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _fail(self, request: Request, error: BaseException) -> Response:
        log.error("a handler failed", exc_info=error, extra={"method": request.method, "path": request.path})
        return self._shared.tell(Failure(500, _INTERNAL, request, error))

    def _drained(self) -> None:
        if self._sink is not None:
            self._sink.flush()
        else:
            self._phase = None
            self._proceed()

    def _is_idle(self) -> bool:
        reader = self._reader
        return self._turn is None and not reader.ready and reader.phase is Phase.IDLE

    def _connection_line(self, turn: Turn) -> bytes:
        if not self._keeps:
            return _CLOSE
        return _KEEP if turn.is_old else b""


def read_peer(transport: asyncio.BaseTransport) -> Peer | None:
    """Who the client's verified certificate says it is; None without one."""
    certificate = transport.get_extra_info("peercert")
    if not certificate:
        return None
    fields = [pair for names in certificate.get("subject", ()) for pair in names]
    name = next((value for key, value in fields if key == "commonName"), "")
    return Peer(name, tuple(value for key, value in fields if key == "organizationName"))
