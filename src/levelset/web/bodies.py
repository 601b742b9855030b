"""Reads a response's body in the same process, whichever of its three forms it has."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing

from levelset.errors import Unreachable
from levelset.web.messages import Push, Response
from levelset.web.sinks import Flusher, StreamSink

__all__ = ["iterate", "read_all"]

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
