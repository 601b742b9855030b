"""What Executables need from the machine: process runner, prober, log stores, records and ports."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from levelset_dcp.ide import IdeRunner, RunSession
from levelset_dcp.records.interface import Records
from levelset_dcp.records.memory import MemoryRecords
from levelset_dcp.workloads.environment import Effective
from levelset_machine import LogStore, Prober, Run, Runner, free_port

__all__ = ["ExecutableHost", "StartWaiters", "StartedRun", "allocate_port"]

_REMEMBERED: Final = 1000


class StartWaiters:
    """Log requests that wait for the start of a workload, by the UID of its object."""

    def __init__(self) -> None:
        self._waiters: dict[str, set[asyncio.Future[bool]]] = {}
        self._gone: deque[str] = deque(maxlen=_REMEMBERED)

    async def wait(self, uid: str) -> bool:
        """Waits until the workload starts (True), or until it is certain that it never will (False)."""
        if uid in self._gone:
            return False
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        others = self._waiters.setdefault(uid, set())
        others.add(waiter)
        try:
            return await waiter
        finally:
            others.discard(waiter)
            if not others and self._waiters.get(uid) is others:
                del self._waiters[uid]

    def started(self, uid: str) -> None:
        """The workload has started, and its log exists."""
        self._wake(uid, has_started=True)

    def gone(self, uid: str) -> None:
        """The workload was deleted, or has failed to start."""
        self._gone.append(uid)
        self._wake(uid, has_started=False)

    def close(self) -> None:
        """Ends all waiting requests."""
        for uid in tuple(self._waiters):
            self._wake(uid, has_started=False)

    def _wake(self, uid: str, *, has_started: bool) -> None:
        for waiter in self._waiters.get(uid, ()):
            if not waiter.done():
                waiter.set_result(has_started)


def allocate_port(address: str, is_udp: bool) -> int:
    """Allocates a free port of this machine."""
    return free_port(address, udp=is_udp)


class StartedRun(Struct, frozen=True):
    """A run with its start time, and the resources to close after its exit: terminal, and logs if it was adopted."""

    run: Run | RunSession
    """A process, or a run session in an IDE."""
    at: datetime
    closing: AsyncExitStack = msgspec.field(default_factory=AsyncExitStack)
    effective: Effective | None = None
    """The environment and arguments of the program."""
    socket: str = ""
    """The path of the socket of its terminal."""


class ExecutableHost(msgspec.Struct, eq=False, kw_only=True):
    """Everything outside of the API that Executables need; tests replace parts of it."""

    runner: Runner
    ide: IdeRunner | str = "no IDE: DEBUG_SESSION_PORT and DEBUG_SESSION_TOKEN are not set"
    """What runs Executables of type IDE, or why there is none."""
    prober: Prober
    logs: LogStore
    folder: Path
    """The directory of certificates and terminal sockets."""
    persistent_logs: LogStore | None = None
    """The logs of persistent programs; `logs` unless given."""
    records: Records = msgspec.field(default_factory=MemoryRecords)
    """The records of programs that outlive a session."""
    ports: Callable[[str, bool], int] = allocate_port
    """Allocates a free port for an address, of UDP if the flag is set; may block."""
    ambient: Mapping[str, str] = msgspec.field(default_factory=lambda: dict(os.environ))
    """The variables that programs inherit."""
    grace: float = 6.0
    """Seconds that a program has to exit after SIGTERM before it is killed."""
    runs: dict[str, StartedRun] = msgspec.field(default_factory=dict[str, StartedRun])
    """The runs by the UIDs of their objects: a restarted controller resumes them."""
    allocated_ports: dict[str, dict[str, int]] = msgspec.field(default_factory=dict[str, dict[str, int]])
    """The ports that were allocated for the Services of programs, by the UIDs of their objects."""
    start_waiters: StartWaiters = msgspec.field(default_factory=StartWaiters)
    """Log requests that wait for the start of a program."""

    async def close(self) -> None:
        """Closes terminals and logs; processes belong to the runner."""
        self.start_waiters.close()
        for started in tuple(self.runs.values()):
            await started.closing.aclose()
