"""gRPC calls to one server, over one HTTP/2 connection at a time on the event loop.

What the protocol needs is decided by `grpc_connection`; here are the socket, TLS of the standard library, the
deadlines, and the futures of the callers. A channel never sends a call twice.
"""

import asyncio
import ssl
from collections import deque
from typing import Final, NamedTuple, Protocol, cast

from levelset.storage.grpc.grpc_connection import (
    CallEnded,
    Closing,
    Event,
    GrpcConnection,
    Keepalive,
    KeepaliveStep,
    MessageArrived,
    Ready,
)
from levelset.storage.grpc.header_blocks import encode_block
from levelset.storage.grpc.http2_frames import ProtocolFailed

__all__ = ["ChannelTimes", "GrpcChannel", "GrpcStream", "RpcFailed", "format_address"]

_LONGEST_RETRY: Final = 1.0
_ACK_SECONDS: Final = 0.01  # how long the answer to a ping may wait for a request to go with
_PROTOCOL: Final = "h2"


class ChannelTimes(NamedTuple):
    """How many seconds a channel waits for its server."""

    connect: float = 2.0
    """For one attempt, with TLS and the server's settings."""
    ping: float = 10.0
    """Silence until a ping; etcd refuses them more often than every 5 s."""
    pong: float = 5.0
    retry: float = 0.1
    """After a failed attempt; after each further one twice as long, up to a second."""


_USUAL_TIMES: Final = ChannelTimes()


class RpcFailed(Exception):
    """A call has failed; `code` is the name of gRPC's code."""

    def __init__(self, code: str, reason: str, *, is_unprocessed: bool = False) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.is_unprocessed = is_unprocessed
        """The server has certainly not begun with it."""


class GrpcChannel:
    """Calls to one server; it connects when `connect` is called, and again after a failure."""

    def __init__(
        self, host: str, port: int, *, tls: ssl.SSLContext | None = None, times: ChannelTimes = _USUAL_TIMES
    ) -> None:
        if tls is not None:
            tls.set_alpn_protocols([_PROTOCOL])
        self._host = host
        self._port = port
        self._tls = tls
        self._times = times
        self.address = format_address(host, port)
        self._session: _Session | None = None
        """The connection for new calls."""
        self._sessions: set[_Session] = set()
        """All connections: those that the server is closing still have calls."""
        self._attempt: asyncio.Task[None] | None = None
        self._retry_at = 0.0
        self._retry = times.retry
        self.problem: str | None = None
        """Why the last attempt to connect has failed."""

    def is_ready(self) -> bool:
        """Whether there is a connection that accepts calls."""
        return self._session is not None and self._session.accepts_calls()

    def encode_head(self, path: str, metadata: tuple[tuple[str, str], ...]) -> bytes:
        """What the calls of a method begin with; to be encoded once."""
        scheme = "http" if self._tls is None else "https"
        return encode_block(
            (
                (":method", "POST"),
                (":scheme", scheme),
                (":path", path),
                (":authority", self.address),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "levelset"),
                *metadata,
            )
        )

    async def connect(self, *, within: float) -> bool:
        """Whether there is a connection in time; False at once while the last failure is recent."""
        if self.is_ready():
            return True
        if self._attempt is None or self._attempt.done():
            if asyncio.get_running_loop().time() < self._retry_at:
                return False
            self._attempt = asyncio.create_task(self._connect(), name=f"connection to {self.address}")
        await asyncio.wait({self._attempt}, timeout=within)
        return self.is_ready()

    async def call(self, head: bytes, message: bytes, *, within: float) -> bytes:
        """The response to one message; raises RpcFailed."""
        session = self._ready_session()
        if not session.can_open():
            within = await session.wait_free(within)
        call = session.call(head, message, within)
        try:
            return await call.result
        finally:
            call.timer.cancel()
            if not call.is_over:  # the caller was cancelled
                session.cancel(call.stream)

    def open(self, head: bytes) -> "GrpcStream":
        """A stream of messages in both directions; raises RpcFailed."""
        session = self._ready_session()
        if not session.can_open():
            raise RpcFailed("UNAVAILABLE", f"{self.address} accepts no more calls", is_unprocessed=True)
        return session.open(head)

    async def close(self) -> None:
        """Ends the connection and its calls."""
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.wait({self._attempt})
        await asyncio.gather(*(session.close() for session in self._sessions))

    def _ready_session(self) -> "_Session":
        session = self._session
        if session is None or not session.accepts_calls():
            raise RpcFailed("UNAVAILABLE", f"there is no connection to {self.address}", is_unprocessed=True)
        return session

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        session = _Session(loop, self._sessions, self._times)
        name = None if self._tls is None else self._host
        try:
            async with asyncio.timeout(self._times.connect):
                await loop.create_connection(
                    lambda: session, self._host, self._port, ssl=self._tls, server_hostname=name
                )
                await session.ready
        except (OSError, RpcFailed) as error:  # TimeoutError is one of OSError's
            session.abort()
            self.problem = str(error) or f"no answer within {self._times.connect:g} s"
            self._retry_at = loop.time() + self._retry
            self._retry = min(self._retry * 2, _LONGEST_RETRY)
        except BaseException:
            session.abort()
            raise
        else:
            self._session, self._retry, self.problem = session, self._times.retry, None
        finally:
            self._attempt = None


def format_address(host: str, port: int) -> str:
    """Host and port, as in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Receiver(Protocol):
    """What the events of a call are for."""

    def on_message(self, content: bytes, /) -> None: ...

    def on_end(self, failure: RpcFailed | None, /) -> None: ...


class _UnaryCall:
    """A call with one message in each direction."""

    __slots__ = ("_response", "is_over", "result", "stream", "timer")

    def __init__(self, stream: int, result: "asyncio.Future[bytes]", timer: asyncio.TimerHandle) -> None:
        self.stream = stream
        self.result = result
        self.timer = timer
        self.is_over = False
        self._response: bytes | None = None

    def on_message(self, content: bytes) -> None:
        self._response = content

    def on_end(self, failure: RpcFailed | None) -> None:
        self.is_over = True
        if self.result.done():
            return
        if failure is not None:
            self.result.set_exception(failure)
        elif self._response is None:
            self.result.set_exception(RpcFailed("INTERNAL", "the response has no message"))
        else:
            self.result.set_result(self._response)


class GrpcStream:
    """A call with any number of messages in each direction."""

    def __init__(self, session: "_Session", stream: int) -> None:
        self._session = session
        self._stream = stream
        self._messages: deque[bytes] = deque()  # bounded by the window of the call
        self._failure: RpcFailed | None = None
        self._reader: asyncio.Future[None] | None = None

    def send(self, message: bytes) -> None:
        """Sends a message; raises RpcFailed if the stream is over."""
        if self._failure is not None:
            raise self._failure
        self._session.send(self._stream, message)

    async def read(self) -> bytes:
        """The next message; raises RpcFailed when the stream is over. For one reader."""
        while not self._messages:
            if self._failure is not None:
                raise self._failure
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        message = self._messages.popleft()
        self._session.take(self._stream, message)
        return message

    def end(self, reason: str) -> None:
        """Ends the stream; its reader gets RpcFailed with the reason, and no more messages."""
        self._session.cancel(self._stream)
        self._messages.clear()
        self.on_end(RpcFailed("CANCELLED", reason))

    def on_message(self, content: bytes) -> None:
        """For the connection."""
        self._messages.append(content)
        self._wake()

    def on_end(self, failure: RpcFailed | None) -> None:
        """For the connection."""
        if self._failure is None:
            self._failure = failure or RpcFailed("UNKNOWN", "the server has ended the stream")
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class _Session(asyncio.Protocol):
    """One connection and its calls."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sessions: "set[_Session]", times: ChannelTimes) -> None:
        self._loop = loop
        self._times = times
        self._sessions = sessions
        self._connection = GrpcConnection()
        self.ready: asyncio.Future[None] = loop.create_future()
        self._lost: asyncio.Future[None] = loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, _Receiver] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()  # callers that wait until others are over
        self._is_flushing = False
        self._keepalive = Keepalive(loop.time(), idle=times.ping, patience=times.pong)
        self._keepalive_timer: asyncio.TimerHandle | None = None
        self._ack_timer: asyncio.TimerHandle | None = None

    def accepts_calls(self) -> bool:
        """Whether calls may be made, now or when others are over."""
        return self._connection.is_ready and not self._connection.is_closing

    def can_open(self) -> bool:
        """Whether one more call may be made now."""
        return self._connection.can_open()

    async def wait_free(self, within: float) -> float:
        """Waits until one more call may be made; returns the seconds that are left, or raises RpcFailed."""
        deadline = self._loop.time() + within
        while self.accepts_calls() and (left := deadline - self._loop.time()) > 0:
            if self.can_open():
                return left
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await asyncio.wait({waiter}, timeout=left)
            except asyncio.CancelledError:
                self._wake_waiter()  # it may have been this one's turn
                raise
            finally:
                waiter.cancel()
        raise RpcFailed("UNAVAILABLE", "the connection accepts no more calls", is_unprocessed=True)

    def call(self, head: bytes, message: bytes, within: float) -> _UnaryCall:
        """Starts a call."""
        loop, connection = self._loop, self._connection
        stream = connection.open(head, timeout=within)
        connection.send(stream, message, is_last=True)
        timer = loop.call_later(within, self._expire, stream)
        call = self._calls[stream] = _UnaryCall(stream, loop.create_future(), timer)
        self._flush_soon()
        return call

    def open(self, head: bytes) -> GrpcStream:
        """Opens a stream."""
        stream = self._connection.open(head)
        call = self._calls[stream] = GrpcStream(self, stream)
        self._flush_soon()
        return call

    def send(self, stream: int, message: bytes) -> None:
        """Sends a message on a stream."""
        self._connection.send(stream, message, is_last=False)
        self._flush_soon()

    def take(self, stream: int, message: bytes) -> None:
        """The reader of a stream has taken a message."""
        self._connection.take(stream, message)
        if self._connection.has_output():
            self._flush_soon()

    def cancel(self, stream: int) -> None:
        """Ends a call from this side."""
        if self._calls.pop(stream, None) is not None:
            self._connection.cancel(stream)
            self._flush_soon()
            self._on_free()

    def abort(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()
        if not self.ready.cancel() and not self.ready.cancelled():
            self.ready.exception()  # retrieved, or asyncio would log it

    async def close(self) -> None:
        """Ends the connection, and waits for that."""
        if self._transport is not None:
            self._transport.close()
            await asyncio.wait({self._lost}, timeout=self._times.connect)
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio.Protocol."""
        self._sessions.add(self)
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != _PROTOCOL:
            self._fail("the server does not speak HTTP/2")
            return
        self._flush()
        self._keepalive_timer = self._loop.call_later(self._times.ping, self._keep_alive)

    def data_received(self, data: bytes) -> None:
        """As asyncio.Protocol."""
        self._keepalive.on_data(self._loop.time())
        try:
            for event in self._connection.receive(data):
                self._handle(event)
        except ProtocolFailed as failure:
            self._connection.give_up(failure)
            self._flush()
            self._fail(f"the server has broken the protocol of gRPC: {failure.reason}")
            return
        if self._connection.has_output():
            self._flush()
        elif self._ack_timer is None and self._connection.has_acks():
            self._ack_timer = self._loop.call_later(_ACK_SECONDS, self._send_acks)

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio.Protocol."""
        self._sessions.discard(self)
        for timer in (self._keepalive_timer, self._ack_timer):
            if timer is not None:
                timer.cancel()
        if not self._lost.done():
            self._lost.set_result(None)
        self._fail(f"the connection is lost ({exc})" if exc else "the connection is lost")

    def _handle(self, event: Event) -> None:
        match event:
            case MessageArrived(stream, content):
                call = self._calls.get(stream)
                if call is not None:
                    call.on_message(content)
            case CallEnded():
                self._on_end(event)
            case Ready():
                if not self.ready.done():
                    self.ready.set_result(None)
            case Closing():
                self._on_free()

    def _on_end(self, event: CallEnded) -> None:
        call = self._calls.pop(event.stream, None)
        if call is None:
            return
        if event.code == "OK":
            call.on_end(None)
        else:
            call.on_end(RpcFailed(event.code, event.reason, is_unprocessed=event.is_unprocessed))
        self._on_free()

    def _on_free(self) -> None:
        """A call is over, or no more are accepted."""
        if not self._connection.is_closing:
            self._wake_waiter()
            return
        while self._waiters:
            self._wake_waiter()
        if not self._calls and self._transport is not None:
            self._transport.close()

    def _wake_waiter(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _fail(self, reason: str) -> None:
        """The connection is over: what has become of its calls is not known."""
        self._connection.lose()
        if not self.ready.done():
            self.ready.set_exception(RpcFailed("UNAVAILABLE", reason, is_unprocessed=True))
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.on_end(RpcFailed("UNAVAILABLE", reason))
        self._on_free()

    def _expire(self, stream: int) -> None:
        call = self._calls.get(stream)
        if call is not None:
            self.cancel(stream)
            call.on_end(RpcFailed("DEADLINE_EXCEEDED", "there was no answer in time"))

    def _keep_alive(self) -> None:
        step, delay = self._keepalive.step(self._loop.time(), has_calls=bool(self._calls))
        if step is KeepaliveStep.GIVE_UP:
            self._fail(f"the server does not answer pings for {self._times.pong:g} s")
            self.abort()
            return
        if step is KeepaliveStep.PING:
            self._connection.ping()
            self._flush()
        self._keepalive_timer = self._loop.call_later(delay, self._keep_alive)

    def _send_acks(self) -> None:
        self._ack_timer = None
        self._flush()

    def _flush_soon(self) -> None:
        """All calls of one iteration of the event loop go out in one write."""
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        # Never waits for the socket: the server's windows bound what is sent.
        if self._transport is not None and (out := self._connection.output()):
            self._transport.write(out)
