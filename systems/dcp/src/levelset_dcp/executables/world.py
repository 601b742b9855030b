"""Everything outside of the API that Executables need: who runs them, who asks them, and where things are kept."""

import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from levelset_dcp.environment import Effective
from levelset_dcp.executables.waiting import Waiting
from levelset_dcp.records.memory import MemoryRecords
from levelset_dcp.records.records import Records
from levelset_machine import LogStore, Prober, Run, Runner, free_port

__all__ = ["Executables", "Started", "allocate"]


def allocate(address: str, is_udp: bool) -> int:
    """A free port of this machine."""
    return free_port(address, udp=is_udp)


@dataclass(frozen=True, slots=True)
class Started:
    """A run, when it began, and what is to be closed when it has ended: its terminal, and its logs if it was found."""

    run: Run
    at: datetime
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)
    effective: Effective | None = None
    """What the program got."""
    socket: str = ""
    """What leads to its terminal."""


@dataclass(eq=False, kw_only=True)
class Executables:
    """The world of Executables; all of it can be exchanged, so that a test needs no process."""

    runner: Runner
    prober: Prober
    logs: LogStore
    folder: Path
    """Below it are the certificates and the sockets of terminals."""
    lasting: LogStore | None = None
    """Where the logs of persistent programs are; with the others unless given."""
    records: Records = field(default_factory=MemoryRecords)
    """What is remembered of programs that outlive a session."""
    ports: Callable[[str, bool], int] = allocate
    """Gives a free port for an address, of UDP if so; it may block."""
    ambient: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The variables that programs inherit."""
    grace: float = 6.0
    """Seconds that a program has to end by itself when it is stopped."""
    runs: dict[str, Started] = field(default_factory=dict[str, Started])
    """What was started, by the uid of its object: a controller that is started anew goes on with it."""
    given: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """The ports that programs were given for the Services that they produce, by the uid of the object."""
    waiting: Waiting = field(default_factory=Waiting)
    """Who wants to be told that a program has started."""

    async def close(self) -> None:
        """Lets go of terminals and of logs; programs are the runner's."""
        self.waiting.close()
        for started in tuple(self.runs.values()):
            await started.closing.aclose()
