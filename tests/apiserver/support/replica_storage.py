"""Storages of several servers on one, as those in etcd are: each reads from a mirror that may be behind."""

import asyncio
from collections import deque

from levelset.storage import Change, Conditions, Item, MemoryStorage
from levelset.storage.history import Limits
from levelset.storage.mvcc import MvccReads

__all__ = ["ReplicaStorage"]


class ReplicaStorage(MvccReads):
    """A mirror of a storage in memory: it sees what others write with a `delay`, or only when it asks (infinity)."""

    def __init__(self, central: MemoryStorage, *, delay: float = 0.0) -> None:
        super().__init__(items=central.list_nowait("").items, compacted=central.revision, limits=Limits(changes=10_000))
        self.delay = delay
        self._central = central
        self._waiting: deque[Change] = deque()
        self._end = central.listen(self._arrive)

    async def wait_current(self) -> int:
        await asyncio.sleep(0)
        self.deliver()
        return self._central.revision

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        change = await self.transact(key, value, expected=expected, conditions=Conditions())
        assert change.after is not None
        return change.after

    async def delete(self, key: str, *, expected: int | None) -> Change:
        return await self.transact(key, None, expected=expected, conditions=Conditions())

    async def transact(self, key: str, value: bytes | None, *, expected: int | None, conditions: Conditions) -> Change:
        await asyncio.sleep(0)  # the way there
        try:
            return await self._central.transact(key, value, expected=expected, conditions=conditions)
        finally:
            self.deliver()

    async def compact(self, revision: int) -> None:
        await self._central.compact(revision)

    async def close(self) -> None:
        self._end()
        await super().close()

    def deliver(self) -> None:
        """Shows all that was written."""
        while self._waiting:
            self._mvcc.commit(self._waiting.popleft())

    def _arrive(self, change: Change) -> None:
        self._waiting.append(change)
        if self.delay != float("inf"):
            asyncio.get_running_loop().call_later(self.delay, self.deliver)
