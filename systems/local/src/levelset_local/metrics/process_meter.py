"""Measures what containers and the machine use: processor time between two measurements, and memory."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from msgspec import Struct, field

from levelset.aio import timing
from levelset_machine import MachineUsage, SessionUsage, read_machine_usage, read_session_usage

__all__ = ["ContainerKey", "ContainerUsage", "CpuUsage", "MachineLoad", "Measurement", "ProcessMeter"]

ContainerKey = tuple[str, str]
"""The uid of a Pod, and the name of one of its containers."""
CpuUsage = Callable[[], Awaitable[Mapping[str, float]]]
"""Returns the cores that Pods use, by uid; a Pod that was not measured twice is left out."""
ReadSessions = Callable[[Collection[int]], Mapping[int, SessionUsage]]
_LEAST_SECONDS: Final = 5.0
"""The shortest time between two measurements; within it the last result is returned."""


class ContainerUsage(Struct, frozen=True):
    """What a container uses."""

    cores: float
    memory: int
    window: float
    """The seconds over which the cores were measured."""
    is_first: bool
    """Whether that is the time since its start, because it was not measured before."""


class MachineLoad(Struct, frozen=True):
    """What everything on the machine uses."""

    cores: float
    memory: int
    window: float


class Measurement(Struct, frozen=True):
    """The result of a measurement."""

    containers: Mapping[ContainerKey, ContainerUsage] = field(default_factory=dict[ContainerKey, ContainerUsage])
    machine: MachineLoad | None = None
    """None until the machine was measured twice."""


class ProcessMeter:
    """Measures on request; `find_processes` returns the pids of containers, each the leader of a session."""

    def __init__(
        self,
        find_processes: Callable[[], Mapping[int, ContainerKey]],
        *,
        read_sessions: ReadSessions = read_session_usage,
        read_machine: Callable[[], MachineUsage | None] = read_machine_usage,
    ) -> None:
        self._find_processes = find_processes
        self._read_sessions = read_sessions
        self._read_machine = read_machine
        self._sessions: Mapping[int, SessionUsage] = {}
        self._machine: MachineUsage | None = None
        self._at: float | None = None
        self._result = Measurement()
        self._lock = asyncio.Lock()

    async def measure(self) -> Measurement:
        """The usage since the measurement before, which is at least five seconds ago; new containers are added."""
        async with self._lock:
            if self._at is None or timing.now() - self._at >= _LEAST_SECONDS:
                await self._measure()
            else:
                await self._add_new()
        return self._result

    async def cores_by_pod(self) -> Mapping[str, float]:
        """The cores that Pods use, by uid; a Pod that was not measured twice is left out. A `CpuUsage`."""
        found: dict[str, float] = {}
        for (uid, _), used in (await self.measure()).containers.items():
            if not used.is_first:
                found[uid] = found.get(uid, 0.0) + used.cores
        return found

    async def _measure(self) -> None:
        processes = self._find_processes()
        sessions, machine = await asyncio.to_thread(self._read, processes.keys())
        now = timing.now()
        passed = 0.0 if self._at is None else now - self._at
        containers = {
            key: _container_usage(sessions[pid], self._sessions.get(pid) if passed else None, passed)
            for pid, key in processes.items()
            if pid in sessions
        }
        load = None
        if machine is not None and self._machine is not None and passed:
            cores = max(0.0, machine.cpu_seconds - self._machine.cpu_seconds) / passed
            load = MachineLoad(cores, machine.memory, passed)
        self._sessions, self._machine, self._at = sessions, machine, now
        self._result = Measurement(containers, load)

    async def _add_new(self) -> None:
        """Adds containers that have started since the last measurement; the next one compares with that, too."""
        known = self._result.containers
        new = {pid: key for pid, key in self._find_processes().items() if key not in known}
        if new:
            sessions = await asyncio.to_thread(self._read_sessions, new.keys())
            added = {new[pid]: _container_usage(one, None, 0.0) for pid, one in sessions.items()}
            self._result = Measurement({**known, **added}, self._result.machine)

    def _read(self, pids: Collection[int]) -> tuple[Mapping[int, SessionUsage], MachineUsage | None]:
        return self._read_sessions(pids), self._read_machine()


def _container_usage(now: SessionUsage, before: SessionUsage | None, passed: float) -> ContainerUsage:
    if before is None:
        cores = now.cpu_seconds / now.seconds if now.seconds > 0 else 0.0
        return ContainerUsage(cores, now.memory, now.seconds, is_first=True)
    cores = max(0.0, now.cpu_seconds - before.cpu_seconds) / passed
    return ContainerUsage(cores, now.memory, passed, is_first=False)
