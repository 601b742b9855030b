"""Streams response bodies: many small writes to many clients leave as one write per client and tick of the loop.

A watch event goes to a thousand clients as the same bytes. What costs is not the bytes but each single call to the
kernel, so sinks gather what is written to them in one tick; and clients that got the same events since their last
flush, which is nearly all of them, share the framed bytes too.

Reads a response's body in the same process, whichever of its three forms it has.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import aclosing
from typing import Protocol

from levelset.errors import Unreachable
from levelset.http.messages import Push, Response
from levelset.http.response_writer import LAST_CHUNK, frame_chunk

__all__ = ["Drain", "Flusher", "StreamSink", "iterate", "pour", "read_all"]

log = logging.getLogger(__name__)

_BREATH = 64 * 1024


class Drain(Protocol):
    """Where the bytes of a sink leave: a connection, or a reader in the same process."""

    is_full: bool

    @property
    def size(self) -> int:
        """The number of bytes that wait to be taken."""
        ...

    def write(self, data: bytes, /) -> None:
        """Takes bytes; may become full by them."""
        ...

    def abort(self) -> None:
        """Ends now."""
        ...


class Flusher:
    """Remembers the sinks that were written to in this tick, and flushes each of them once in the next."""

    __slots__ = ("_dirty", "_framed", "_loop", "_parts")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._dirty: list[StreamSink] = []
        self._parts: list[bytes] = []
        self._framed = b""

    def add(self, sink: "StreamSink") -> None:
        """Has `sink` flushed in the next tick."""
        if not self._dirty:
            self._loop.call_soon(self.flush)
        self._dirty.append(sink)

    def flush(self) -> None:
        """Flushes every sink that has something to send; one that fails is cut and disturbs no other."""
        dirty, self._dirty = self._dirty, []
        for sink in dirty:
            try:
                sink.flush()
            except Exception:
                log.exception("a stream was cut because its data could not be sent")
                sink.abort()
        self._parts, self._framed = [], b""

    def frame(self, parts: list[bytes]) -> bytes:
        """One chunk of `parts`; made once for all sinks that got the same parts one after the other."""
        # Comparing lists of the very same objects costs a few nanoseconds each, joining them a copy of every byte.
        if parts != self._parts:
            self._parts, self._framed = parts, frame_chunk(parts)
        return self._framed


class StreamSink:
    """The sink of one response on one connection; also the tunnel of an upgraded one (then without chunks)."""

    __slots__ = (
        "_closed_callbacks", "_flusher", "_is_chunked", "_is_finished", "_on_finished", "_outlet", "_pending",
        "_received", "_waiters", "is_closed",
    )  # fmt: skip

    def __init__(self, flusher: Flusher, outlet: Drain, on_finished: Callable[[], None], *, chunked: bool) -> None:
        self._flusher = flusher
        self._outlet = outlet
        self._on_finished = on_finished
        self._is_chunked = chunked
        self._is_finished = False
        self._pending: list[bytes] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._closed_callbacks: list[Callable[[], None]] = []
        self._received: Callable[[bytes], None] | None = None
        self.is_closed = False

    @property
    def is_backed_up(self) -> bool:
        """Whether the client does not take its bytes as fast as they come."""
        return self._outlet.is_full

    @property
    def backlog(self) -> int:
        """The number of bytes that were written here and have not left yet."""
        waiting = self._outlet.size if self._outlet.is_full else 0
        return waiting + sum(map(len, self._pending))

    def write(self, data: bytes, /) -> None:
        """Adds to the body; does nothing once it has ended."""
        if self.is_closed:
            return
        if not self._pending and not self._outlet.is_full:
            self._flusher.add(self)
        self._pending.append(data)

    def close(self) -> None:
        """Ends the body properly, after all that was written."""
        if self.is_closed:
            return
        if not self._pending and not self._outlet.is_full:
            self._flusher.add(self)
        self._end()

    def abort(self) -> None:
        """Cuts the connection, so that the client sees that the body is not complete."""
        self.lose()
        self._outlet.abort()

    def when_closed(self, callback: Callable[[], None], /) -> None:
        """Has `callback` called once when the body ends; at once if it has already."""
        if self.is_closed:
            callback()
        else:
            self._closed_callbacks.append(callback)

    def when_received(self, callback: Callable[[bytes], None], /) -> None:
        """Has `callback` called with every piece that comes in on an upgraded connection."""
        self._received = callback

    async def wait_drained(self) -> None:
        """Waits until all that was written has left, or the body has ended."""
        if not self.is_closed and (self._pending or self._outlet.is_full):
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def receive(self, data: bytes) -> None:
        """Hands over what came in on an upgraded connection."""
        if self._received is not None and data:
            self._received(data)

    def flush(self) -> None:
        """Sends what was gathered, unless the client does not keep up: then `flush` comes again when it does."""
        if self._outlet.is_full or self._is_finished:
            return
        parts = self._pending
        if parts:
            self._pending = []
            data = self._flusher.frame(parts) if self._is_chunked else b"".join(parts)
            if data:
                self._outlet.write(data)
        if self.is_closed:
            self._is_finished = True
            if self._is_chunked:
                self._outlet.write(LAST_CHUNK)
            self._on_finished()
        elif self._waiters and not self._outlet.is_full:
            self._wake()

    def lose(self) -> None:
        """Ends the body without sending anything more: the client is gone."""
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
                log.exception("a callback for the end of a stream failed")

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


async def pour(body: AsyncIterable[bytes], sink: StreamSink) -> None:
    """Sends an async iterable as fast as the client reads it.

    If it fails, the connection is cut, so that nobody takes half a body for a whole one. Cancellation (the server
    stops) ends the body properly: the client gets all that was there.
    """
    written = 0
    try:
        async for piece in body:
            sink.write(piece)
            written += len(piece)
            if written >= _BREATH or sink.is_backed_up:
                written = 0
                await sink.wait_drained()
            if sink.is_closed:
                return
    except Exception:
        log.exception("a streamed body failed")
        sink.abort()
    finally:
        sink.close()
        # An async generator that is left before its end would be closed much later, by the garbage collector.
        if (aclose := getattr(body, "aclose", None)) is not None:
            await aclose()


_ENOUGH = 256 * 1024


async def iterate(body: bytes | AsyncIterable[bytes] | Push) -> AsyncGenerator[bytes, None]:
    """The pieces of a body as they come; what is pushed in one tick of the loop comes as one piece.

    A slow reader backs a pushed body up as a slow client would. Closing the generator ends the body. Raises
    Unreachable if the producer cuts it.
    """
    if isinstance(body, bytes):
        if body:
            yield body
    elif callable(body):
        async with aclosing(_take(body)) as pieces:
            async for piece in pieces:
                yield piece
    else:
        try:
            async for piece in body:
                yield piece
        finally:
            if (aclose := getattr(body, "aclose", None)) is not None:
                await aclose()


async def read_all(response: Response) -> bytes:
    """The whole body; for a stream that ends."""
    if isinstance(response.body, bytes):
        return response.body
    return b"".join([piece async for piece in iterate(response.body)])


async def _take(push: Push) -> AsyncGenerator[bytes, None]:
    mailbox = _Mailbox()
    sink = StreamSink(Flusher(asyncio.get_running_loop()), mailbox, mailbox.end, chunked=False)
    try:
        push(sink)
        while (data := await mailbox.take()) is not None:
            yield data
            if not mailbox.is_full:
                sink.flush()
    finally:
        sink.lose()


class _Mailbox:
    """Holds what was written until it is taken."""

    __slots__ = ("_has_ended", "_is_cut", "_pieces", "_waiter", "is_full", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._has_ended = False
        self._is_cut = False
        self.size = 0
        self.is_full = False

    def write(self, data: bytes, /) -> None:
        self._pieces.append(data)
        self.size += len(data)
        self.is_full = self.size >= _ENOUGH
        self._wake()

    def end(self) -> None:
        self._has_ended = True
        self._wake()

    def abort(self) -> None:
        self._is_cut = True
        self.end()

    async def take(self) -> bytes | None:
        while not self._pieces and not self._has_ended:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._is_cut:
            raise Unreachable("The stream was cut by the server before its end: ask again.")
        if not self._pieces:
            return None
        pieces, self._pieces = self._pieces, []
        self.size = 0
        self.is_full = False
        return b"".join(pieces)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
