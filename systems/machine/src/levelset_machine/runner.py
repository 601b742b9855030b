"""The seam between who wants processes and who runs them: real ones, or pretended ones in tests."""

import signal as signals
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from levelset.errors import LevelsetError
from levelset_machine.command import Command
from levelset_machine.identity import Identity
from levelset_machine.logs import LogSink

__all__ = ["Ended", "Run", "Runner", "StopFailed"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How and when a run ended."""

    code: int
    """0 to 255; 128+N if signal N ended it."""
    at: datetime
    """In UTC."""
    is_known: bool = True
    """Whether `code` is what the process said: only its parent learns that, so of an adopted one nobody knows."""


class StopFailed(LevelsetError):
    """Something of a run is alive although it was killed; `left` says what."""

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
        """Returns when it has ended and all that it wrote is in its log. Cancelling this leaves the process alone."""
        ...


class Runner(Protocol):
    """Runs processes."""

    def start(self, command: Command, *, out: LogSink, err: LogSink | None = None, persistent: bool = False) -> Run:
        """Starts a process; there is no `await` between its birth and the caller's knowledge of it.

        Its output goes to `out`, its errors to `err`, or to `out` as well if that is None. The sinks are the run's from
        then on: it closes them when the output has ended. A `persistent` process outlives this program.

        Raises CannotStart if nothing was started; the sinks are the caller's then.
        """
        ...

    async def stop(self, run: Run, *, grace: float = 6.0, signal: int = signals.SIGTERM) -> None:
        """Ends a run and all that it has started: asks the process first, and kills after `grace` seconds.

        Returns when nothing is left. Raises StopFailed if something survives. A run that has ended is cleaned up after.
        """
        ...

    def adopt(self, identity: Identity) -> Run | None:
        """A process that an earlier program has started; None if it is gone. Its sinks stay with the caller."""
        ...

    def now(self) -> datetime:
        """The time that runs end at, in UTC."""
        ...
