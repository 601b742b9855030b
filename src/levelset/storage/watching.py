"""A watch as a position in a feed: it reads from the log when it is asked to, and nobody ever waits for it."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from levelset.errors import Expired
from levelset.storage.history import History
from levelset.storage.interface import Change

__all__ = ["LedgerWatch"]

_LARGEST_BATCH = 1_000


class LedgerWatch:
    """The watch of the backends that keep their history in memory; see `levelset.storage.Watch`."""

    __slots__ = ("_closed", "_feed", "_history", "_is_over", "_position", "_seen")

    def __init__(self, history: History, prefix: str, *, after: int, is_over: Callable[[], bool]) -> None:
        self._history = history
        self._feed, self._position = history.subscribe(prefix, after)
        self._seen = after
        self._is_over = is_over
        self._closed = False

    @property
    def revision(self) -> int:
        """Everything under the prefix up to this revision has been handed out."""
        feed = self._feed
        if not self._closed and self._position == feed.first + len(feed.changes):
            self._seen = self._history.revision
        return self._seen

    def batch_nowait(self) -> list[Change]:
        """The next changes, at most a thousand; empty if there are none yet. Raises `Expired`."""
        feed = self._feed
        if self._closed:
            return []
        start = self._position - feed.first
        if start < 0:
            text = f"changes under {feed.prefix!r} after revision {self._seen} are compacted; list again and watch anew"
            raise Expired(text)
        batch = feed.changes[start : start + _LARGEST_BATCH]
        if batch:
            self._position += len(batch)
            self._seen = batch[-1].revision
        return batch

    def call_when_ready(self, callback: Callable[[], None], /) -> None:
        """Calls back once, after the next change or at the end; see `NowaitWatch`."""
        if self in self._feed.waiting:
            raise RuntimeError(f"somebody waits for this watch of {self._feed.prefix!r} already; open a second watch")
        self._feed.waiting[self] = callback

    def close_nowait(self) -> None:
        """As `close`."""
        if self._closed:
            return
        self._closed = True
        call = self._feed.waiting.pop(self, None)
        self._history.feeds.release(self._feed)
        if call is not None:
            call()

    async def close(self) -> None:
        """Ends the watch and whoever waits for its next batch."""
        self.close_nowait()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Change]:
        while True:
            batch = self.batch_nowait()
            if batch:
                return batch
            if self._closed or self._is_over():
                raise StopAsyncIteration
            await self._wait_change()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close_nowait()

    async def _wait_change(self) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def resolve() -> None:
            if not ready.done():
                ready.set_result(None)

        self.call_when_ready(resolve)
        try:
            await ready
        finally:
            self._feed.waiting.pop(self, None)
