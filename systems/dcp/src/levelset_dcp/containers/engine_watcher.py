"""Watches engine events, and inspects the affected objects: once for a burst of events."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from itertools import count
from typing import Any, Final

from levelset import Ref, Retry
from levelset.aio import Crash, Restart, Supervisor
from levelset_dcp.containers.host import ContainerHost
from levelset_dcp.engines.models import EngineEvent

__all__ = ["EngineWatcher"]

_RETRY_DELAY: Final = 5.0

log = logging.getLogger(__name__)


class EngineWatcher:
    """Calls `inspect` with the IDs that `affected` finds in an event; open while `open_source` is iterated."""

    def __init__(
        self,
        host: ContainerHost,
        *,
        name: str,
        affected: Callable[[EngineEvent], Iterable[str]],
        inspect: Callable[[str], Awaitable[None]],
        watches_events: bool = True,
    ) -> None:
        self._host = host
        self._name = name
        self._affected = affected
        self._inspect_one = inspect
        self._watches_events = watches_events and host.engine is not None
        self._due: dict[str, bool] = {}
        self._numbers = count(1)
        self.tasks: Supervisor | None = None
        """The supervisor of tasks that end with the controller; None unless it is open."""

    @property
    def is_open(self) -> bool:
        """Whether events are watched."""
        return self.tasks is not None

    def require_open(self, ref: Ref[Any]) -> None:
        """Raises Retry, so that no object is reconciled before its events are watched."""
        if not self.is_open:
            raise Retry(f"{ref}: the engine watcher has not started yet", seconds=0.5)

    async def open_source(self) -> AsyncIterator[Ref[Any]]:
        """A controller source that yields nothing: the watcher is open while it is iterated."""
        async with Supervisor(name=self._name, on_crash=_restart_crashed, grace=0.0) as tasks:
            self.tasks = tasks
            try:
                if self._watches_events:
                    tasks.start("events", self._listen)
                await asyncio.Event().wait()  # until the controller stops
            finally:
                self.tasks = None
                self._due.clear()
        for _ in ():
            yield _

    def inspect_soon(self, key: str) -> None:
        """Schedules an inspection; if one is running, another one follows."""
        if self.tasks is None or self._due.get(key):
            return
        is_running = key in self._due
        self._due[key] = True
        if not is_running:
            self.tasks.start(f"inspect {next(self._numbers)} {key}", partial(self._run_inspections, key))

    async def _listen(self) -> None:
        async for event in self._host.ready_engine.watch():
            for one in tuple(self._affected(event)):
                self.inspect_soon(one)

    async def _run_inspections(self, key: str) -> None:
        try:
            while self._due.get(key):
                self._due[key] = False
                await self._inspect_one(key)
        finally:
            self._due.pop(key, None)


def _restart_crashed(crash: Crash) -> Restart:
    """Restarts a crashed task after a delay."""
    log.error("task %s crashed and restarts after %g s", crash.name, _RETRY_DELAY, exc_info=crash.error)
    return Restart(_RETRY_DELAY)
