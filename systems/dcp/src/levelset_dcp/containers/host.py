"""What containers need from the machine: engine, prober, log store, records and guard processes."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from levelset_dcp.containers.terminals import ContainerTerminals
from levelset_dcp.engines.errors import RuntimeNotHealthy
from levelset_dcp.engines.interface import Engine
from levelset_dcp.executables.host import StartWaiters
from levelset_dcp.records.interface import Records
from levelset_dcp.records.memory import MemoryRecords
from levelset_machine import Command, Identity, LogStore, Prober, Runner, identity_of

__all__ = ["NO_ENGINE", "ContainerHost", "container_guard", "session_guard"]

NO_ENGINE: Final = "there is no container engine on this machine; install Docker or Podman, start it, and restart"
_MODULE: Final = "levelset_dcp.containers.guard_process"
_PASSED_VARIABLES: Final = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "XDG_RUNTIME_DIR")


def _now() -> datetime:
    return datetime.now(UTC)


def _self() -> Identity:
    return identity_of(os.getpid()) or Identity(os.getpid(), 0)


class ContainerHost(msgspec.Struct, eq=False, kw_only=True):
    """Everything outside of the API that containers need; tests replace parts of it."""

    engine: Engine | None
    """The engine that runs containers; without one, objects stay RuntimeUnhealthy."""
    prober: Prober
    logs: LogStore
    records: Records = msgspec.field(default_factory=MemoryRecords)
    """The records of containers and networks that outlive a session."""
    now: Callable[[], datetime] = _now
    ambient: Mapping[str, str] = msgspec.field(default_factory=lambda: dict(os.environ))
    """The environment of executable probes and guard processes."""
    creator: Identity = msgspec.field(default_factory=_self)
    """The identity of this process, for the labels of engine objects: orphans of dead processes are removed."""
    grace: float = 10.0
    """Seconds that a container has to exit after a stop before it is killed."""
    runner: Runner | None = None
    """Starts guard processes, which outlive the session; without a runner there are none."""
    terminals: ContainerTerminals | None = None
    """The terminals of containers; without them, a container with a terminal does not start."""
    session_guard: Command | None = None
    """Removes what a killed session has left; started before the engine is first used, which is never on most days."""
    start_waiters: StartWaiters = msgspec.field(default_factory=StartWaiters)
    """Log requests that wait for the start of a container."""
    ids: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """The IDs of the containers that were started, by the UIDs of their objects."""
    orphans_cleaned: asyncio.Event | None = None
    """Set after the orphan cleanup, which persistent networks wait for; None if there is no orphan cleanup."""

    def guard(self, command: Command, key: str) -> None:
        """Starts a guard process that outlives the session and logs under `key`. Raises CannotStart."""
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
        """The engine; raises RuntimeNotHealthy if there is none."""
        if self.engine is None:
            raise RuntimeNotHealthy(NO_ENGINE)
        return self.engine

    async def healthy_engine(self) -> Engine:
        """The engine, if it is healthy; raises RuntimeNotHealthy, with the next step, otherwise."""
        engine = self.ready_engine
        status = await engine.check_status(cached=True)
        if not status.is_healthy:
            raise RuntimeNotHealthy(status.message or f"{engine.name} does not answer; start it")
        if self.session_guard is not None:
            command, self.session_guard = self.session_guard, None
            self.guard(command, "containers_guard")
        return engine

    def started(self, uid: str, container_id: str) -> None:
        """Records a started container, and wakes the log requests that wait for it."""
        self.ids[uid] = container_id
        self.start_waiters.started(uid)

    def gone(self, uid: str) -> None:
        """Forgets a container that was removed or failed to start, and ends the log requests that wait for it."""
        self.ids.pop(uid, None)
        self.start_waiters.gone(uid)

    async def close(self) -> None:
        """Ends all waiting log requests and terminals; containers belong to the engine and keep running."""
        self.start_waiters.close()
        if self.terminals is not None:
            await self.terminals.close_all()


def container_guard(engine: str, container_id: str, pid: int, at: datetime, ambient: Mapping[str, str]) -> Command:
    """The command of a guard process that stops a container when the process `pid`, started `at`, exits."""
    return _command(ambient, "container", engine, container_id, str(pid), str(at.timestamp()))


def session_guard(engine: str, creator: Identity, ambient: Mapping[str, str]) -> Command:
    """The command of a guard process that removes the engine objects of a killed session."""
    return _command(ambient, "session", engine, str(creator.pid), str(creator.started))


def _command(ambient: Mapping[str, str], *arguments: str) -> Command:
    env = {name: ambient[name] for name in _PASSED_VARIABLES if name in ambient}
    env |= {name: value for name, value in ambient.items() if name.startswith(("CONTAINERS_", "DOCKER_"))}
    env["PYTHONPATH"] = os.pathsep.join(one for one in sys.path if one)
    return Command(argv=(sys.executable, "-m", _MODULE, *arguments), env=env)
