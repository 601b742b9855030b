"""Everything outside of the API that containers need: the engine, who asks them, and where things are kept."""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from levelset_dcp.engines.errors import RuntimeNotHealthy
from levelset_dcp.engines.interface import Engine
from levelset_dcp.executables.waiting import Waiting
from levelset_dcp.records.memory import MemoryRecords
from levelset_dcp.records.records import Records
from levelset_machine import Command, Identity, LogStore, Prober, Runner, identity_of

__all__ = ["NO_ENGINE", "Containers"]

NO_ENGINE: Final = "there is no container engine on this machine; install Docker or Podman, start it, and start anew"


def _now() -> datetime:
    return datetime.now(UTC)


def _self() -> Identity:
    return identity_of(os.getpid()) or Identity(os.getpid(), 0)


@dataclass(eq=False, kw_only=True)
class Containers:
    """The world of containers; all of it can be exchanged, so that a test needs no engine."""

    engine: Engine | None
    """Who runs them; without one everything waits, and says so."""
    prober: Prober
    logs: LogStore
    records: Records = field(default_factory=MemoryRecords)
    """What is remembered of containers and networks that outlive a session."""
    now: Callable[[], datetime] = _now
    ambient: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The variables of programs that ask whether a container is healthy."""
    creator: Identity = field(default_factory=_self)
    """Who makes them: what a dead one has made for its session is removed."""
    grace: float = 10.0
    """Seconds that a container has to end by itself when it is stopped."""
    runner: Runner | None = None
    """Who starts the processes that look after containers when the session is gone; without one there are none."""
    waiting: Waiting = field(default_factory=Waiting)
    """Who wants to be told that a container has started."""
    ids: dict[str, str] = field(default_factory=dict[str, str])
    """The containers that were started, by the uids of their objects."""
    harvested: asyncio.Event | None = None
    """Set when what dead sessions have left is gone; persistent networks wait for that. None: nobody harvests."""

    def guard(self, command: Command, key: str) -> None:
        """Starts a process that outlives the session; what it says is in the log of this key. Raises CannotStart."""
        if self.runner is None:
            return
        self.logs.remove(key)
        sink = self.logs.open(key)
        try:
            self.runner.start(command, out=sink, persistent=True)
        except BaseException:
            sink.close()
            raise

    @property
    def ready_engine(self) -> Engine:
        """The engine; RuntimeNotHealthy if there is none."""
        if self.engine is None:
            raise RuntimeNotHealthy(NO_ENGINE)
        return self.engine

    async def healthy_engine(self) -> Engine:
        """The engine, if it can be asked for something; RuntimeNotHealthy, with what to do, if not."""
        engine = self.ready_engine
        status = await engine.check_status(cached=True)
        if not status.is_healthy:
            raise RuntimeNotHealthy(status.message or f"{engine.name} does not answer; start it")
        return engine

    def started(self, uid: str, container_id: str) -> None:
        """A container has begun to write: whoever waits for that is told."""
        self.ids[uid] = container_id
        self.waiting.started(uid)

    def gone(self, uid: str) -> None:
        """It is gone, or has failed to start."""
        self.ids.pop(uid, None)
        self.waiting.gone(uid)

    def close(self) -> None:
        """Lets those go who wait for logs; containers are the engine's."""
        self.waiting.close()
