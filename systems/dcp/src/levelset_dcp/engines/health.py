"""Remembers how an engine is, and looks again every few seconds, so that nobody has to wait for the answer."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Self

from levelset.aio import timing
from levelset_dcp.engines.models import EngineStatus

__all__ = ["PERIOD", "Health"]

PERIOD: Final = 5.0
"""Seconds between two looks."""


class Health:
    """How an engine is; inside of `async with` it is looked after in the background."""

    def __init__(self, look: Callable[[], Awaitable[EngineStatus]], *, period: float = PERIOD) -> None:
        self._look = look
        self._period = period
        self._last: EngineStatus | None = None
        self._at = 0.0
        self._looking: asyncio.Task[EngineStatus] | None = None
        self._keeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._keeper = asyncio.create_task(self._keep(), name="engine health")
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in (self._keeper, self._looking):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self._keeper = self._looking = None

    async def now(self) -> EngineStatus:
        """How it is now; those who ask at the same time share one look."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._take(), name="engine status")
        # Who is no longer interested does not spoil it for the others.
        return await asyncio.shield(self._looking)

    async def cached(self) -> EngineStatus:
        """How it was a few seconds ago at most; looks only if nobody has."""
        if self._last is not None and timing.now() - self._at < 2 * self._period:
            return self._last
        return await self.now()

    async def _take(self) -> EngineStatus:
        self._last = await self._look()
        self._at = timing.now()
        return self._last

    async def _keep(self) -> None:
        while True:
            await self.now()
            await timing.sleep(self._period)
