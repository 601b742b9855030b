"""The standard streams of a process: pipes that are pumped into logs, or the log files themselves."""

import asyncio
import os
import subprocess
from collections.abc import Sequence
from typing import Final, Protocol

from levelset_machine.logs import LogSink
from levelset_machine.process.command import Command

__all__ = ["FileStreams", "PipeStreams", "Pump", "Streams"]

_CHUNK: Final = 65536
_PIPE_CAPACITY: Final = 1 << 20
"""The most bytes that a pipe can hold."""


class Pump:
    """Copies one pipe into a log until its last writer has closed it; owns the pipe and the sink.

    Children of a process that has ended may still hold its pipe. Closing it would kill them with SIGPIPE at their next
    write, so after `release` the pipe is still read, and the data discarded.
    """

    def __init__(self, end: int | None, sink: LogSink) -> None:
        """Without a pipe it only closes the sink."""
        self._loop = asyncio.get_running_loop()
        self._end = end
        self._sink = sink
        if end is not None:
            os.set_blocking(end, False)
            self._loop.add_reader(end, self._read)

    @property
    def is_over(self) -> bool:
        """Whether all writers have closed the pipe, and it was read to its end."""
        return self._end is None

    def drain(self) -> None:
        """Reads what is in the pipe now: after the exit of its process, that is the rest of its output."""
        left = _PIPE_CAPACITY
        while left > 0 and (size := self._read()):
            left -= size
        if self.is_over:
            self.close()

    def release(self) -> None:
        """Closes the log; what is written to the pipe from now on is read and discarded."""
        self._sink.close()

    def close(self) -> None:
        """Closes the log and the pipe; idempotent."""
        self._sink.close()
        if self._end is not None:
            self._loop.remove_reader(self._end)
            os.close(self._end)
            self._end = None

    def _read(self) -> int:
        """Reads once without blocking; returns the number of bytes, 0 if the pipe is empty or at its end."""
        if self._end is None:
            return 0
        try:
            data = os.read(self._end, _CHUNK)
        except BlockingIOError:
            return 0
        except OSError:  # EIO of a terminal: the last process has closed it
            data = b""
        if data:
            self._sink.write(data)
        else:
            self.close()
        return len(data)


class Streams(Protocol):
    """The three standard streams of one process, from before its start until it has them."""

    @property
    def is_persistent(self) -> bool:
        """Whether they still work when this program has exited."""
        ...

    def words(self, command: Command) -> Sequence[str]:
        """The argv to execute."""
        ...

    def open(self) -> tuple[int, int, int]:
        """The descriptors of stdin, stdout and stderr."""
        ...

    def release(self) -> None:
        """Closes the descriptors that only the process needs, once it was started or could not be."""
        ...

    def pump(self) -> Sequence[Pump]:
        """Begins to copy the output into the logs."""
        ...

    def close(self) -> None:
        """Closes everything when no process was started; the sinks stay the caller's."""
        ...


class PipeStreams:
    """Pipes, which this program copies into the logs line by line."""

    is_persistent = False

    def __init__(self, out: LogSink, err: LogSink | None) -> None:
        self._sinks = (out,) if err is None or err is out else (out, err)
        self._ours = list[int]()
        self._theirs = list[int]()

    def words(self, command: Command) -> Sequence[str]:
        """The command's own argv."""
        return command.argv

    def open(self) -> tuple[int, int, int]:
        """An empty stdin, and one pipe for each log."""
        for _ in self._sinks:
            ours, theirs = os.pipe()
            self._ours.append(ours)
            self._theirs.append(theirs)
        return subprocess.DEVNULL, self._theirs[0], self._theirs[-1]

    def release(self) -> None:
        """Closes the writing ends."""
        while self._theirs:
            os.close(self._theirs.pop())

    def pump(self) -> tuple[Pump, ...]:
        """One pump for each pipe."""
        return tuple(Pump(end, sink) for end, sink in zip(self._ours, self._sinks, strict=True))

    def close(self) -> None:
        """Closes the pipes."""
        self.release()
        while self._ours:
            os.close(self._ours.pop())


class FileStreams:
    """The log files themselves, to which a process still writes when this program has exited."""

    is_persistent = True

    def __init__(self, out: LogSink, err: LogSink | None) -> None:
        self._sinks = (out,) if err is None or err is out else (out, err)

    def words(self, command: Command) -> Sequence[str]:
        """The command's own argv."""
        return command.argv

    def open(self) -> tuple[int, int, int]:
        """An empty stdin, and the files."""
        files = [sink.raw() for sink in self._sinks]
        return subprocess.DEVNULL, files[0], files[-1]

    def release(self) -> None:
        """Does nothing: the files belong to the sinks."""

    def pump(self) -> tuple[Pump, ...]:
        """Pumps that only close the sinks when the process has ended."""
        return tuple(Pump(None, sink) for sink in self._sinks)

    def close(self) -> None:
        """Does nothing: the files belong to the sinks."""
