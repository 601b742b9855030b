"""Failpoints of the server: before and after the write of the storage, and in the listeners that are notified.

Together they lie between every two steps of a write: the object is read and decided upon, stored, made visible, the
listeners are notified, and the client gets its response. At each one there may be a delay, in which other requests go
on, or an error.
"""

import asyncio
import random
from typing import Any

from levelset.apiserver import ApiServer
from levelset.errors import ServerFailed
from levelset.storage import Change, Item, MemoryStorage, SqliteStorage

__all__ = ["FailpointMemory", "FailpointSqlite", "Failpoints"]


class Failpoints:
    """Decides what happens at each point, by a seed; counts what it did in `hits`."""

    def __init__(self, seed: object, *, errors: float = 0.05, delays: float = 0.5, longest: float = 0.02) -> None:
        self._dice = random.Random(f"failpoints {seed}")
        self._errors = errors
        self._delays = delays
        self._longest = longest
        self.hits: dict[str, int] = {}
        self.is_armed = False

    async def reach(self, point: str) -> None:
        """Waits, raises, or does nothing."""
        if not self.is_armed:
            return
        if self._dice.random() < self._delays:
            self._count(f"delay {point}")
            await asyncio.sleep(self._dice.random() * self._longest)
        self.reach_nowait(point)

    def reach_nowait(self, point: str) -> None:
        """Raises, or does nothing."""
        if self.is_armed and self._dice.random() < self._errors:
            self._count(f"error {point}")
            raise ServerFailed(f"an error {point}, injected")

    def listen_to(self, server: ApiServer) -> None:
        """Adds a point to the notification of listeners, which comes after the commit."""

        def listener(*_: Any) -> None:
            self.reach_nowait("in a listener")

        server.state.listeners.insert(0, listener)

    def _count(self, what: str) -> None:
        self.hits[what] = self.hits.get(what, 0) + 1


class FailpointMemory(MemoryStorage):
    """A storage in memory with failpoints around its writes."""

    failpoints: Failpoints

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        await self.failpoints.reach("before a put")
        item = await super().put(key, value, expected=expected)
        await self.failpoints.reach("after a put")
        return item

    async def delete(self, key: str, *, expected: int | None) -> Change:
        await self.failpoints.reach("before a delete")
        change = await super().delete(key, expected=expected)
        await self.failpoints.reach("after a delete")
        return change


class FailpointSqlite(SqliteStorage):
    """A storage in a file with failpoints around its writes."""

    failpoints: Failpoints

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        await self.failpoints.reach("before a put")
        item = await super().put(key, value, expected=expected)
        await self.failpoints.reach("after a put")
        return item

    async def delete(self, key: str, *, expected: int | None) -> Change:
        await self.failpoints.reach("before a delete")
        change = await super().delete(key, expected=expected)
        await self.failpoints.reach("after a delete")
        return change
