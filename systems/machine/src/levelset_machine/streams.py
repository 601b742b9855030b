"""Where a process that is about to be born reads from and writes to: pipes to logs, or files of its own."""

import os
import subprocess
from collections.abc import Sequence
from typing import Protocol

from levelset_machine.command import Command
from levelset_machine.logs import LogSink
from levelset_machine.pumping import Pump

__all__ = ["FileStreams", "PipeStreams", "Streams"]


class Streams(Protocol):
    """The three streams of one process, from before its birth to the moment when it has them."""

    @property
    def is_persistent(self) -> bool:
        """Whether they are of use when this program is gone."""
        ...

    def words(self, command: Command) -> Sequence[str]:
        """What is to be run."""
        ...

    def open(self) -> tuple[int, int, int]:
        """The descriptors of its input, its output and its errors."""
        ...

    def release(self) -> None:
        """Lets go of what only the process needs: it has it, or was not born."""
        ...

    def pump(self) -> Sequence[Pump]:
        """Begins to carry what it writes."""
        ...

    def close(self) -> None:
        """Lets go of everything, as no process was born; sinks stay the caller's."""
        ...


class PipeStreams:
    """Pipes, which this program carries to the logs line by line."""

    is_persistent = False

    def __init__(self, out: LogSink, err: LogSink | None) -> None:
        self._sinks = (out,) if err is None or err is out else (out, err)
        self._ours = list[int]()
        self._theirs = list[int]()

    def words(self, command: Command) -> Sequence[str]:
        """The command as it is."""
        return command.argv

    def open(self) -> tuple[int, int, int]:
        """Nothing to read, and a pipe for each log."""
        for _ in self._sinks:
            ours, theirs = os.pipe()
            self._ours.append(ours)
            self._theirs.append(theirs)
        return subprocess.DEVNULL, self._theirs[0], self._theirs[-1]

    def release(self) -> None:
        """Closes the ends that the process has."""
        while self._theirs:
            os.close(self._theirs.pop())

    def pump(self) -> tuple[Pump, ...]:
        """One for each pipe."""
        return tuple(Pump(end, sink) for end, sink in zip(self._ours, self._sinks, strict=True))

    def close(self) -> None:
        """Closes the pipes."""
        self.release()
        while self._ours:
            os.close(self._ours.pop())


class FileStreams:
    """The files of the logs themselves, which a process goes on to write when this program is gone."""

    is_persistent = True

    def __init__(self, out: LogSink, err: LogSink | None) -> None:
        self._sinks = (out,) if err is None or err is out else (out, err)

    def words(self, command: Command) -> Sequence[str]:
        """The command as it is."""
        return command.argv

    def open(self) -> tuple[int, int, int]:
        """Nothing to read, and the files."""
        files = [sink.raw() for sink in self._sinks]
        return subprocess.DEVNULL, files[0], files[-1]

    def release(self) -> None:
        """The files belong to the sinks."""

    def pump(self) -> tuple[Pump, ...]:
        """Only closes the sinks in time."""
        return tuple(Pump(None, sink) for sink in self._sinks)

    def close(self) -> None:
        """The files belong to the sinks."""
