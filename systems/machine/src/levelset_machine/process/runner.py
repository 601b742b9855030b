"""The interface between code that needs processes and what runs them: a Machine, or a FakeMachine in tests."""

import signal as signals
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from levelset.errors import LevelsetError
from levelset_machine.logs import LogSink
from levelset_machine.process.command import Command
from levelset_machine.process.table import read_entry

__all__ = ["Ended", "Identity", "Run", "Runner", "StopFailed", "identity_of", "is_alive"]


class Identity(Struct, frozen=True):
    """Identifies one process: pids are reused, but not with the same start time."""

    pid: int
    started: int
    """Its start time, in clock ticks since boot."""


def identity_of(pid: int) -> Identity | None:
    """The process that has this pid now; None if there is none. A zombie still has its pid."""
    entry = read_entry(pid)
    return None if entry is None else Identity(entry.pid, entry.started)


def is_alive(identity: Identity) -> bool:
    """Whether this process still runs; a zombie does not."""
    entry = read_entry(identity.pid)
    return entry is not None and entry.started == identity.started and entry.is_alive


class Ended(Struct, frozen=True):
    """How and when a run ended."""

    code: int
    """The exit code, 0 to 255; 128+N if signal N ended it."""
    at: datetime
    """In UTC."""
    is_known: bool = True
    """Whether `code` is the real exit code: only the parent of a process learns it, so not of an adopted one."""


class StopFailed(LevelsetError):
    """Processes of a run are alive although they were killed; `left` identifies them."""

    def __init__(self, message: str, left: tuple[Identity, ...] = ()) -> None:
        super().__init__(message)
        self.left = left


class Run(Protocol):
    """One process that was started, until it ends."""

    @property
    def identity(self) -> Identity:
        """Which process it is."""
        ...

    @property
    def ended(self) -> Ended | None:
        """How it ended; None while it runs."""
        ...

    async def wait(self) -> Ended:
        """Returns when it has ended and its output is in its log. Cancelling this does not affect the process."""
        ...


class Runner(Protocol):
    """Runs processes."""

    def start(self, command: Command, *, out: LogSink, err: LogSink | None = None, persistent: bool = False) -> Run:
        """Starts a process. Synchronous, so that no cancellation can lose a process that was just started.

        Its stdout goes to `out`, its stderr to `err`, or to `out` as well if that is None. The run owns the sinks from
        then on: it closes them when the output has ended. A `persistent` process outlives this program.

        Raises CannotStart if nothing was started; the caller then still owns the sinks.
        """
        ...

    async def stop(self, run: Run, *, grace: float = 6.0, signal: int = signals.SIGTERM) -> None:
        """Ends a run and all that it has started: sends `signal` to the process, and kills after `grace` seconds.

        Returns when nothing is left. Raises StopFailed if something survives. What a run that has ended has left
        running is killed.
        """
        ...

    def adopt(self, identity: Identity) -> Run | None:
        """The run of a process that an earlier program has started; None if it is gone. The caller owns its sinks."""
        ...

    def now(self) -> datetime:
        """The clock that `Ended.at` is read from, in UTC."""
        ...
