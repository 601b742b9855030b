"""An API server inside the test: everything in memory, a clock of its own, and chance that repeats itself."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from levelset.apiserver.preloading import wait_data
from levelset.apiserver.served import Served
from levelset.apiserver.server import ApiServer
from levelset.apiserver.world import Tree
from levelset.storage import MemoryStorage

__all__ = ["START", "Inside", "clock_from"]

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""What time of day it is when a test begins."""


class Inside:
    """A server and its storage, from `start` until `stop`."""

    def __init__(self, *, seed: int, now: Callable[[], datetime], storage: MemoryStorage | None = None) -> None:
        self.storage = MemoryStorage() if storage is None else storage
        random = Random(seed)  # noqa: S311 -- it has to be the same each time
        self.server = ApiServer(self.storage, tls=False, token="of-a-test", now=now, random=random)  # noqa: S106
        self.times: dict[int, float] = {}
        """When each revision was written, on the loop's clock."""
        self.server.world.listeners.append(self._note)

    async def start(self) -> None:
        """Brings the server to life; there is no socket."""
        await wait_data()
        await self.server.start(listen=False)

    async def stop(self) -> None:
        """Ends it."""
        await self.server.stop()
        await self.storage.close()

    def _note(self, _: Served, _before: Tree | None, _after: Tree | None) -> None:
        self.times[self.storage.revision] = asyncio.get_running_loop().time()


def clock_from(start: datetime) -> Callable[[], datetime]:
    """The time of day, which goes on from `start` as the event loop's clock does."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    return lambda: start + timedelta(seconds=loop.time() - began)
