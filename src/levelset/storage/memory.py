"""The in-memory storage backend, which is the default; its contents are lost when the process ends."""

import time
from collections.abc import Callable, Sequence

from levelset.errors import ServerFailed
from levelset.storage.history import Limits
from levelset.storage.interface import Change, Conditions, Item
from levelset.storage.mvcc import MvccReads, plan_conditions, plan_write

__all__ = ["MemoryStorage"]


class MemoryStorage(MvccReads):
    """A `Storage` that never waits: its `_nowait` methods do all the work.

    Revisions begin after `after`, as if all up to there had been compacted. Pass a number that grows from one process
    to the next, so that clients that resume with a revision of an earlier process get `Expired` and relist instead of
    waiting. The history that watches resume from has at most `history_changes` changes, `history_bytes` bytes of
    superseded values, and changes of the last `history_age` seconds of `clock` (None: no limit). `changes` is the whole
    history of another storage, of which this one is a copy then.

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
        changes: Sequence[Change] = (),
    ) -> None:
        limits = Limits(changes=history_changes, bytes=history_bytes, age=history_age)
        newest = {one.key: one.after for one in changes}
        items = [one for one in newest.values() if one is not None]
        super().__init__(items=items, changes=changes, compacted=after, limits=limits)
        self._clock = clock if history_age is not None else None

    def put_nowait(self, key: str, value: bytes, *, expected: int | None) -> Item:
        """As `put`, synchronously."""
        after = self._write(key, value, expected).after
        assert after is not None  # a put's change always has one
        return after

    def delete_nowait(self, key: str, *, expected: int | None) -> Change:
        """As `delete`, synchronously."""
        return self._write(key, None, expected)

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        """As `Storage.put`."""
        after = self._write(key, value, expected).after
        assert after is not None  # as above
        return after

    async def delete(self, key: str, *, expected: int | None) -> Change:
        """As `Storage.delete`."""
        return self._write(key, None, expected)

    async def transact(self, key: str, value: bytes | None, *, expected: int | None, conditions: Conditions) -> Change:
        """As `TransactionalStorage.transact`."""
        return self._write(key, value, expected, conditions)

    async def compact(self, revision: int) -> None:
        """As `Storage.compact`."""
        self._mvcc.history.compact(revision)

    def _write(
        self, key: str, value: bytes | None, expected: int | None, conditions: Conditions | None = None
    ) -> Change:
        if self._closed:
            raise ServerFailed(f"the storage is closed: {key!r} was not written")
        store = self._mvcc
        change = plan_write(store.items.get(key), key, value, expected, store.history.revision)
        if conditions is not None:
            for one in plan_conditions(conditions, store.items.get, store.history.revision):
                store.commit(one)
        store.commit(change)
        if self._clock is not None:
            store.history.forget_older(self._clock())
        return change
