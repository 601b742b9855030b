"""The in-memory storage backend, which is the default; its contents are lost when the process ends."""

import time
from collections.abc import Callable

from levelset.errors import ServerFailed
from levelset.storage.history import Limits
from levelset.storage.interface import Change, Item
from levelset.storage.mvcc import MvccReads, planned_delete, planned_put

__all__ = ["MemoryStorage"]


class MemoryStorage(MvccReads):
    """A `Storage` that never waits: its `_nowait` methods do all the work.

    Revisions begin after `after`, as if all up to there had been compacted. Pass a number that grows from one process
    to the next, so that clients that resume with a revision of an earlier process get `Expired` and relist instead of
    waiting.

    ```python
    async with MemoryStorage() as storage:
        made = await storage.put("/registry/core/pods/default/a", b"{}", expected=0)
    ```
    """

    def __init__(
        self,
        *,
        after: int = 0,
        history_changes: int = 100_000,
        history_bytes: int = 64 * 1024 * 1024,
        history_age: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = Limits(changes=history_changes, bytes=history_bytes, age=history_age)
        super().__init__(compacted=after, limits=limits)
        self._clock = clock if history_age is not None else None

    def put_nowait(self, key: str, value: bytes, *, expected: int | None) -> Item:
        """As `put`, synchronously."""
        ledger = self._mvcc
        if not self._closed and self._clock is None:
            return ledger.put(key, value, expected)
        revision = ledger.history.revision + 1
        change = planned_put(ledger.items.get(key), key, value, expected=expected, revision=revision)
        self._commit(change)
        assert change.after is not None  # a put's change always has one
        return change.after

    def delete_nowait(self, key: str, *, expected: int | None) -> Change:
        """As `delete`, synchronously."""
        ledger = self._mvcc
        revision = ledger.history.revision + 1
        change = planned_delete(ledger.items.get(key), key, expected=expected, revision=revision)
        self._commit(change)
        return change

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        """As `Storage.put`."""
        return self.put_nowait(key, value, expected=expected)

    async def delete(self, key: str, *, expected: int | None) -> Change:
        """As `Storage.delete`."""
        return self.delete_nowait(key, expected=expected)

    async def compact(self, revision: int) -> None:
        """As `Storage.compact`."""
        self._mvcc.history.compact(revision)

    def _commit(self, change: Change) -> None:
        if self._closed:
            raise ServerFailed(f"the storage is closed: {change.key!r} was not written")
        self._mvcc.commit(change)
        if self._clock is not None:
            self._mvcc.history.forget_older(self._clock())
