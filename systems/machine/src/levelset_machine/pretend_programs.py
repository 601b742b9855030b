"""What a pretended program does, as a value; and one pretended run of it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from levelset_machine.command import Command
from levelset_machine.identity import Identity
from levelset_machine.logs import LogSink
from levelset_machine.runner import Ended

__all__ = ["PretendProgram", "PretendRun"]


@dataclass(frozen=True, kw_only=True)
class PretendProgram:
    """A script: what it prints, how long it runs, and what it answers when it is asked."""

    exits: tuple[int, ...] = ()
    """Its exit codes: of the first start, of the second, and so on, the last one for all others; none: it goes on."""
    after: float = 0.0
    """Seconds from its start to its exit."""
    prints: tuple[tuple[float, str], ...] = ()
    """Lines, and how many seconds after its start they come."""
    ready: bool = True
    ready_after: float = 0.0
    """Seconds from its start until it answers well."""
    hangs: bool = False
    """Whether it gives no answer at all."""
    answers: Mapping[str, int] = field(default_factory=dict[str, int])
    """HTTP statuses by path, for those that do not depend on `ready`."""
    ports: tuple[int, ...] | None = None
    """On which it can be asked; None for all."""
    ignores_term: bool = False
    stops_in: float = 0.0
    """Seconds from the signal to its end."""
    stop_code: int | None = None
    """What it exits with then; None for 128 and the signal's number."""
    unstoppable: bool = False

    def code(self, start: int) -> int | None:
        """What it exits with when it is started for the n-th time, counted from 0."""
        return self.exits[min(start, len(self.exits) - 1)] if self.exits else None


class PretendRun:
    """A run that only a PretendMachine knows of."""

    def __init__(
        self, identity: Identity, command: Command, program: PretendProgram, sinks: tuple[LogSink, ...], began: float
    ) -> None:
        self.identity = identity
        self.command = command
        self.program = program
        self.is_persistent = False
        self.is_ready: bool | None = None
        """Says whether it is ready, whatever its script says; None leaves that to the script."""
        self.signals = list[int]()
        """What it was sent."""
        self.sinks = sinks
        self._began = began
        self._ended: Ended | None = None
        self._waiting = set[asyncio.Future[Ended]]()

    def __repr__(self) -> str:
        return f"<pretended process {self.identity.pid}: {' '.join(self.command.argv)}>"

    @property
    def ended(self) -> Ended | None:
        """How it ended; None while it runs."""
        return self._ended

    async def wait(self) -> Ended:
        """Returns when it has ended."""
        if self._ended is not None:
            return self._ended
        waiter: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            return await waiter
        finally:
            self._waiting.discard(waiter)

    def is_ready_at(self, time: float) -> bool:
        """Whether it answers well at this time of the loop."""
        if self.is_ready is not None:
            return self.is_ready
        return self.program.ready and time >= self._began + self.program.ready_after

    def print(self, text: str) -> None:
        """Writes a line to its output."""
        if self._ended is None:
            self.sinks[0].write(f"{text}\n".encode(errors="surrogateescape"))

    def finish(self, ended: Ended) -> None:
        """It has ended; its logs end with it."""
        self._ended = ended
        for sink in self.sinks:
            sink.close()
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(ended)
        self._waiting.clear()
