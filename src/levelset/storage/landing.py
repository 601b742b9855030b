"""Writes that go into a file together, and those who wait for it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from levelset.errors import ServerFailed
from levelset.storage.interface import Change

__all__ = ["Group"]


class Group:
    """The changes of one commit, and whom to tell of it.

    It has no bound of its own: each waiting writer adds one change.
    """

    __slots__ = ("_watching", "changes", "compacted", "landings", "swept")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.landings: list[tuple[asyncio.Future[Any], object]] = []
        self._watching: list[asyncio.Future[None]] = []
        self.compacted = 0
        self.swept = 0

    async def wait_over(self) -> None:
        """Waits until the group has landed, well or not."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watching.append(over)
        await over

    def when_over(self, callback: Callable[[], None]) -> None:
        """Has `callback` called in the turn of the loop after the group has landed, well or not."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        over.add_done_callback(lambda _: callback())
        self._watching.append(over)

    def finish(self, error: BaseException | None, path: Path) -> None:
        """Tells everybody."""
        for landing, outcome in self.landings:
            if landing.done():
                continue
            if error is None:
                landing.set_result(outcome)
            else:
                landing.set_exception(_failure(path, error))
        for over in self._watching:
            if not over.done():
                over.set_result(None)


def _failure(path: Path, error: BaseException) -> ServerFailed:
    failure = ServerFailed(f"{path} could not be written: {error}; nothing was changed, free some space or try again")
    failure.__cause__ = error
    return failure
