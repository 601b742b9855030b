"""Caches the status of an engine, and polls it in the background."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Self

from levelset.aio import timing
from levelset_dcp.engines.models import EngineStatus

__all__ = ["PERIOD", "StatusCache"]

PERIOD: Final = 5.0
"""Seconds between two checks."""


class StatusCache:
    """The cached status of an engine; inside `async with` it is polled in the background."""

    def __init__(self, check: Callable[[], Awaitable[EngineStatus]], *, period: float = PERIOD) -> None:
        self._check = check
        self._period = period
        self._last: EngineStatus | None = None
        self._at = 0.0
        self._checking: asyncio.Task[EngineStatus] | None = None
        self._poller: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._poller = asyncio.create_task(self._poll(), name="engine health")
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in (self._poller, self._checking):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self._poller = self._checking = None

    async def now(self) -> EngineStatus:
        """The current status; concurrent callers share one check."""
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._refresh(), name="engine status")
        # A cancelled caller must not cancel the check of the others.
        return await asyncio.shield(self._checking)

    async def cached(self) -> EngineStatus:
        """The status of the last check; checks now if that is older than two periods."""
        if self._last is not None and timing.now() - self._at < 2 * self._period:
            return self._last
        return await self.now()

    async def _refresh(self) -> EngineStatus:
        self._last = await self._check()
        self._at = timing.now()
        return self._last

    async def _poll(self) -> None:
        await self.cached()  # who chose this engine among others has checked it just before
        while True:
            await timing.sleep(self._period)
            await self.now()
