"""One watch request as an async stream of events, parsed by `watch_events.py`.

It ends when the server ends it. Resuming and relisting are in `levelset.runtime.watch`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

from levelset.client.transport.http1 import ResponseStream
from levelset.client.transport.interface import Response
from levelset.client.watch_events import EventReader, WatchEvent

__all__ = ["WatchStream"]

MAX_STEP: Final = 128 * 1024
"""Larger chunks are read in several steps: 100,000 objects may arrive at once, and other tasks need the loop."""


class WatchStream:
    """One watch, to be opened with `async with`: iterating yields lists of what the reader returns, one per chunk.

    Large chunks are split into several lists, and other tasks run in between. The iteration ends when the server ends
    the watch. Raises Unreachable if the connection breaks, BadObject for a line that is not an event, and on opening
    the ApiError of an error response.
    """

    __slots__ = ("_body", "_reader")

    def __init__(self, open_: Callable[[], Awaitable[Response]], reader: EventReader) -> None:
        self._body = ResponseStream(open_)
        self._reader = reader

    async def __aenter__(self) -> Self:
        await self._body.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[WatchEvent]:
        stream = self._body.stream or await self._body.open()
        reader = self._reader
        while True:
            if reader.is_more:
                await asyncio.sleep(0)
            else:
                try:
                    reader.take(await stream.__anext__())
                except StopAsyncIteration:
                    break
            events = reader.read(MAX_STEP)
            if events:
                return events
        events = reader.finish()
        if events:
            return events
        await self.aclose()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Ends the watch; may be called again."""
        self._reader.drop()
        await self._body.aclose()
