"""The half of a storage that never waits: reads and watches, answered from a ledger in memory."""

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from levelset.storage.history import Limits
from levelset.storage.interface import Change, Item, Page
from levelset.storage.ledger import Ledger
from levelset.storage.watching import LedgerWatch

__all__ = ["LedgerReads"]


class LedgerReads:
    """What memory and SQLite have in common; a subclass adds how to write and how to close.

    The async reads answer without waiting; the `_nowait` ones are the same without the coroutine.
    """

    def __init__(
        self, *, items: Iterable[Item] = (), changes: Iterable[Change] = (), compacted: int = 0, limits: Limits
    ) -> None:
        self._ledger = Ledger(items=items, changes=changes, compacted=compacted, limits=limits, ring=self._ring)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def revision(self) -> int:
        """The newest revision that reads see."""
        return self._ledger.history.revision

    @property
    def compacted(self) -> int:
        """The newest revision whose change is forgotten."""
        return self._ledger.history.compacted

    async def get(self, key: str, *, revision: int | None = None) -> Item | None:
        """As `Storage.get`."""
        return self._ledger.get(key, revision)

    async def list(
        self, prefix: str, *, limit: int | None = None, after: str | None = None, revision: int | None = None
    ) -> Page:
        """As `Storage.list`."""
        return self._ledger.page(prefix, limit=limit, after=after, revision=revision)

    async def count(self, prefix: str, *, revision: int | None = None) -> int:
        """As `Storage.count`."""
        return self._ledger.count(prefix, revision)

    def get_nowait(self, key: str, *, revision: int | None = None) -> Item | None:
        """As `get`, at once."""
        return self._ledger.items.get(key) if revision is None else self._ledger.get(key, revision)

    def list_nowait(
        self, prefix: str, *, limit: int | None = None, after: str | None = None, revision: int | None = None
    ) -> Page:
        """As `list`, at once."""
        return self._ledger.page(prefix, limit=limit, after=after, revision=revision)

    def count_nowait(self, prefix: str, *, revision: int | None = None) -> int:
        """As `count`, at once."""
        return self._ledger.count(prefix, revision)

    def watch(self, prefix: str, *, after: int) -> LedgerWatch:
        """As `Storage.watch`; raises `Expired` and `FutureRevision` from this call. Needs a running loop."""
        self._loop = asyncio.get_running_loop()
        return LedgerWatch(self._ledger.history, prefix, after=after, is_over=self._is_closed)

    async def close(self) -> None:
        """Ends all watches."""
        self._closed = True
        for call in self._ledger.history.feeds.take_all():
            call()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        await self.close()

    def _is_closed(self) -> bool:
        return self._closed

    def _ring(self) -> None:
        """Wakes the waiting watchers after this turn of the loop: once, however many writes the turn makes."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        for call in self._ledger.history.feeds.take_due():
            call()
