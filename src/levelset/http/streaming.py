"""Streamed response bodies: writes are batched to one send per client and loop iteration.

A watch event goes to a thousand clients as the same bytes. The cost is in the system calls, not in the bytes, so a
`StreamSink` collects what is written in one iteration of the loop; clients that got the same events since their last
flush, which is nearly all of them, share the framed bytes. `iterate` and `read_all` read a body in the same process.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Protocol

from levelset.errors import Unreachable
from levelset.http.messages import Push, Response
from levelset.http.response_writer import LAST_CHUNK, frame_chunk

__all__ = ["ByteWriter", "Chunks", "Flusher", "StreamSink", "iterate", "read_all", "write_stream"]

log = logging.getLogger(__name__)

_MAX_UNDRAINED = 64 * 1024
_SLICE = 100
"""Streams that are sent to in one turn of the loop: a send over TLS takes 35 us, and 5,000 would hold it for 170 ms."""


class ByteWriter(Protocol):
    """Where a sink sends its bytes: a connection, or a reader in the same process."""

    is_full: bool

    @property
    def size(self) -> int:
        """The number of bytes that are not sent yet."""
        ...

    def write(self, data: bytes, /) -> None:
        """Accepts bytes; may become full."""
        ...

    def abort(self) -> None:
        """Closes now."""
        ...


class Flusher:
    """Collects the sinks written to in this loop iteration, and flushes each of them once in the next ones."""

    __slots__ = ("_dirty", "_framed", "_loop", "_parts")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._dirty: list[StreamSink] = []
        self._parts: list[bytes] = []
        self._framed = b""

    def add(self, sink: "StreamSink") -> None:
        """Schedules a flush of `sink` after those that were added before."""
        if not self._dirty:
            self._loop.call_soon(self.flush)
        self._dirty.append(sink)

    def flush(self) -> None:
        """Flushes collected sinks, and later the others; one that fails is aborted and does not affect the others."""
        dirty, self._dirty = self._dirty[:_SLICE], self._dirty[_SLICE:]
        if self._dirty:
            self._loop.call_soon(self.flush)
        for sink in dirty:
            try:
                sink.flush()
            except Exception:
                log.exception("a stream was aborted: its data could not be sent")
                sink.abort()
        if not self._dirty:
            self._parts, self._framed = [], b""

    def frame(self, parts: list[bytes]) -> bytes:
        """One chunk of `parts`; encoded once for all consecutive sinks with the same parts."""
        # Comparing lists of identical objects costs nanoseconds per object, joining them a copy of every byte.
        if parts != self._parts:
            self._parts, self._framed = parts, frame_chunk(parts)
        return self._framed


class StreamSink:
    """The sink of one response on one connection; also the tunnel of an upgraded one (then not chunked)."""

    __slots__ = (
        "_closed_callbacks", "_flusher", "_hold", "_is_chunked", "_is_finished", "_on_finished", "_output", "_pending",
        "_received", "_waiters", "is_closed",
    )  # fmt: skip

    def __init__(self, flusher: Flusher, output: ByteWriter, on_finished: Callable[[], None], *, chunked: bool) -> None:
        self._flusher = flusher
        self._output = output
        self._on_finished = on_finished
        self._is_chunked = chunked
        self._is_finished = False
        self._pending: list[bytes] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._closed_callbacks: list[Callable[[], None]] = []
        self._received: Callable[[bytes], None] | None = None
        self._hold: Callable[[bool], None] | None = None
        self.is_closed = False

    @property
    def is_backed_up(self) -> bool:
        """Whether the client reads slower than the body is written."""
        return self._output.is_full

    @property
    def backlog(self) -> int:
        """The number of bytes that were written and not sent yet."""
        waiting = self._output.size if self._output.is_full else 0
        return waiting + sum(map(len, self._pending))

    def write(self, data: bytes, /) -> None:
        """Adds to the body; no effect once it has ended."""
        if self.is_closed:
            return
        if not self._pending and not self._output.is_full:
            self._flusher.add(self)
        self._pending.append(data)

    def close(self) -> None:
        """Ends the body after all that was written."""
        if self.is_closed:
            return
        if not self._pending and not self._output.is_full:
            self._flusher.add(self)
        self._end()

    def abort(self) -> None:
        """Aborts the connection, so that the client sees that the body is incomplete."""
        self.lose()
        self._output.abort()

    def when_closed(self, callback: Callable[[], None], /) -> None:
        """Calls `callback` once when the body ends; at once if it has ended."""
        if self.is_closed:
            callback()
        else:
            self._closed_callbacks.append(callback)

    def when_received(self, callback: Callable[[bytes], None], /) -> None:
        """Calls `callback` with all bytes received on an upgraded connection."""
        self._received = callback

    def when_held(self, callback: Callable[[bool], None]) -> None:
        """Calls `callback` when received bytes should wait, and when they should be passed on again."""
        self._hold = callback

    def hold(self) -> None:
        """Stops receiving: the client has to wait."""
        if self._hold is not None:
            self._hold(True)

    def release(self) -> None:
        """Receives again."""
        if self._hold is not None:
            self._hold(False)

    async def wait_drained(self) -> None:
        """Waits until all that was written is sent, or the body has ended."""
        if not self.is_closed and (self._pending or self._output.is_full):
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def receive(self, data: bytes) -> None:
        """Passes on bytes received on an upgraded connection."""
        if self._received is not None and data:
            self._received(data)

    def flush(self) -> None:
        """Sends what was collected; if the client reads too slowly, a later `flush` does it."""
        if self._output.is_full or self._is_finished:
            return
        parts = self._pending
        if parts:
            self._pending = []
            data = self._flusher.frame(parts) if self._is_chunked else b"".join(parts)
            if data:
                self._output.write(data)
        if self.is_closed:
            self._is_finished = True
            if self._is_chunked:
                self._output.write(LAST_CHUNK)
            self._on_finished()
        elif self._waiters and not self._output.is_full:
            self._wake()

    def lose(self) -> None:
        """Ends the body without sending more: the client is gone."""
        self._is_finished = True
        self._pending.clear()
        if not self.is_closed:
            self._end()

    def _end(self) -> None:
        self.is_closed = True
        self._wake()
        callbacks, self._closed_callbacks = self._closed_callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                log.exception("a when_closed callback of a stream failed")

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


async def write_stream(body: AsyncIterable[bytes], sink: StreamSink) -> None:
    """Writes an async iterable to a sink as fast as the client reads.

    If the iterable fails, the connection is aborted, so that the client does not take the body for complete. On
    cancellation (the server stops) the body ends regularly with what was written.
    """
    written = 0
    chunks: AsyncIterator[bytes] = aiter(body)
    try:
        async for chunk in chunks:
            sink.write(chunk)
            written += len(chunk)
            if written >= _MAX_UNDRAINED or sink.is_backed_up:
                written = 0
                await sink.wait_drained()
            if sink.is_closed:
                return
    except Exception:
        log.exception("a streamed body failed")
        sink.abort()
    finally:
        sink.close()
        # Otherwise an unfinished async generator would be closed much later, by the garbage collector.
        if (aclose := getattr(chunks, "aclose", None)) is not None:
            await aclose()


_MAX_BUFFERED = 256 * 1024


class Chunks(Protocol):
    """The chunks of a body; `aclose` ends it."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Itself."""
        ...

    def __anext__(self) -> Awaitable[bytes]:
        """The next chunk."""
        ...

    def aclose(self) -> Awaitable[object]:
        """Ends the body."""
        ...


def iterate(body: bytes | AsyncIterable[bytes] | Push) -> Chunks:
    """The chunks of a body as they are produced; what is pushed in one loop iteration is one chunk.

    A slow reader backs up a pushed body as a slow client would. Raises Unreachable if the producer aborts it.
    """
    if isinstance(body, bytes) or not callable(body):
        return _iterate(body)
    return _PushedChunks(body)


async def _iterate(body: bytes | AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    if isinstance(body, bytes):
        if body:
            yield body
        return
    chunks: AsyncIterator[bytes] = aiter(body)
    try:
        async for chunk in chunks:
            yield chunk
    finally:
        if (aclose := getattr(chunks, "aclose", None)) is not None:
            await aclose()


async def read_all(response: Response) -> bytes:
    """The whole body; for a stream that ends."""
    if isinstance(response.body, bytes):
        return response.body
    return b"".join([chunk async for chunk in iterate(response.body)])


class _PushedChunks:
    """The chunks of a pushed body, which begins when the first is read.

    A class, because generators around generators cost a watch in process more than the events.
    """

    __slots__ = ("_buffer", "_has_ended", "_push", "_sink")

    def __init__(self, push: Push) -> None:
        self._push = push
        self._buffer = _Buffer()
        self._sink: StreamSink | None = None
        self._has_ended = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._has_ended:
            raise StopAsyncIteration
        buffer, sink = self._buffer, self._sink
        try:
            if sink is None:
                flusher = Flusher(asyncio.get_running_loop())
                self._sink = StreamSink(flusher, buffer, buffer.end, chunked=False)
                self._push(self._sink)
            elif not buffer.is_full:
                sink.flush()
            data = await buffer.take()
        except BaseException:
            await self.aclose()
            raise
        if data is None:
            await self.aclose()
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        self._has_ended = True
        if self._sink is not None:
            self._sink.lose()


class _Buffer:
    """The ByteWriter of a reader in the same process: buffers what was written until it is taken."""

    __slots__ = ("_chunks", "_has_ended", "_is_aborted", "_waiter", "is_full", "size")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._has_ended = False
        self._is_aborted = False
        self.size = 0
        self.is_full = False

    def write(self, data: bytes, /) -> None:
        self._chunks.append(data)
        self.size += len(data)
        self.is_full = self.size >= _MAX_BUFFERED
        self._wake()

    def end(self) -> None:
        self._has_ended = True
        self._wake()

    def abort(self) -> None:
        self._is_aborted = True
        self.end()

    async def take(self) -> bytes | None:
        while not self._chunks and not self._has_ended:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._is_aborted:
            raise Unreachable("The server aborted the stream before its end: send the request again.")
        if not self._chunks:
            return None
        chunks, self._chunks = self._chunks, []
        self.size = 0
        self.is_full = False
        return b"".join(chunks)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
