"""Follows what happens in the engine: whatever something has happened to is looked at again, once for many events."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from itertools import count
from typing import Any, Final

from levelset import Ref
from levelset.aio import Crash, Restart, Supervisor
from levelset_dcp.containers.world import Containers
from levelset_dcp.engines.models import EngineEvent

__all__ = ["Watching"]

_AGAIN: Final = 5.0

log = logging.getLogger(__name__)


class Watching:
    """Has `look` called with the IDs that `concerns` finds in an event; open only while `follow` is followed."""

    def __init__(
        self,
        world: Containers,
        *,
        name: str,
        concerns: Callable[[EngineEvent], Iterable[str]],
        look: Callable[[str], Awaitable[None]],
        listens: bool = True,
    ) -> None:
        self._world = world
        self._name = name
        self._concerns = concerns
        self._look_at = look
        self._listens = listens and world.engine is not None
        self._due: dict[str, bool] = {}
        self._numbers = count(1)
        self.tasks: Supervisor | None = None
        """Who owns the tasks that belong to the controller, while it runs."""

    @property
    def is_open(self) -> bool:
        """Whether somebody follows."""
        return self.tasks is not None

    async def follow(self) -> AsyncIterator[Ref[Any]]:
        """Opens for as long as it is followed; names nobody by itself."""
        async with Supervisor(name=self._name, on_crash=_judge, grace=0.0) as tasks:
            self.tasks = tasks
            try:
                if self._listens:
                    tasks.start("events", self._listen)
                await asyncio.Event().wait()  # until the controller stops
            finally:
                self.tasks = None
                self._due.clear()
        for _ in ():
            yield _

    def look_soon(self, what: str) -> None:
        """Has something looked at, once more if that is under way."""
        if self.tasks is None or self._due.get(what):
            return
        is_running = what in self._due
        self._due[what] = True
        if not is_running:
            self.tasks.start(f"look {next(self._numbers)} at {what}", partial(self._look, what))

    async def _listen(self) -> None:
        async for event in self._world.ready_engine.watch():
            for one in tuple(self._concerns(event)):
                self.look_soon(one)

    async def _look(self, what: str) -> None:
        try:
            while self._due.get(what):
                self._due[what] = False
                await self._look_at(what)
        finally:
            self._due.pop(what, None)


def _judge(crash: Crash) -> Restart:
    """Nobody is left alone because of a mistake: whoever fails is called again."""
    log.error("%s has failed and is tried again after %g s", crash.name, _AGAIN, exc_info=crash.error)
    return Restart(_AGAIN)
