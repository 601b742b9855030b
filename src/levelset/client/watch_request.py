"""One watch request as an async stream of events, parsed by `watch_events.py`.

It ends when the server ends it. Resuming and relisting are in `levelset.runtime.watch`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self

from levelset.client.transport.http1 import ResponseStream
from levelset.client.transport.interface import Response
from levelset.client.watch_events import EventReader, WatchEvent

__all__ = ["WatchStream"]


class WatchStream:
    """One watch, to be opened with `async with`: iterating yields lists of events, one per chunk.

    The iteration ends when the server ends the watch. Raises Unreachable if the connection breaks, BadObject for a line
    that is not an event, and on opening the ApiError of an error response. A caller that cannot afford a coroutine per
    chunk feeds the `chunks` to the `reader` itself.
    """

    __slots__ = ("_body", "chunks", "reader")

    chunks: AsyncIterator[bytes]
    """The body of the response, once it is open."""

    def __init__(self, open_: Callable[[], Awaitable[Response]], reader: EventReader) -> None:
        self._body = ResponseStream(open_)
        self.reader = reader

    async def __aenter__(self) -> Self:
        self.chunks = await self._body.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[WatchEvent]:
        events: list[WatchEvent] = []
        chunks = self._body.stream or await self._body.open()
        while not events:
            try:
                events = self.reader.feed(await chunks.__anext__())
            except StopAsyncIteration:
                events = self.reader.finish()
                if not events:
                    await self.aclose()
                    raise
        return events

    async def aclose(self) -> None:
        """Ends the watch; may be called again."""
        await self._body.aclose()
