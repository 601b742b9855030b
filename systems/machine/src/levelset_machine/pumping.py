"""Carries what a process writes from its pipe to its log."""

import asyncio
import os
from typing import Final

from levelset_machine.logs import LogSink

__all__ = ["Pump"]

_CHUNK: Final = 65536
_MOST_LEFT: Final = 1 << 20
"""The most that a pipe can hold."""


class Pump:
    """Reads one pipe for as long as somebody can write to it; the pipe and the sink are its own.

    A process that has ended may leave children behind who have the pipe. They are not cut off, which would kill them
    at their next word; but after `release` nobody listens any more.
    """

    def __init__(self, end: int | None, sink: LogSink) -> None:
        """Without a pipe there is only the sink to be closed in time."""
        self._loop = asyncio.get_running_loop()
        self._end = end
        self._sink = sink
        if end is not None:
            os.set_blocking(end, False)
            self._loop.add_reader(end, self._read)

    @property
    def is_over(self) -> bool:
        """Whether nobody can write any more, and all was read."""
        return self._end is None

    def drain(self) -> None:
        """Reads what is there now: when its process has ended, that is all that this one wrote."""
        left = _MOST_LEFT
        while left > 0 and (size := self._read()):
            left -= size
        if self.is_over:
            self.close()

    def release(self) -> None:
        """Ends the log here; whatever else comes is read and forgotten."""
        self._sink.close()

    def close(self) -> None:
        """Ends the log and the pipe; may be called again."""
        self._sink.close()
        if self._end is not None:
            self._loop.remove_reader(self._end)
            os.close(self._end)
            self._end = None

    def _read(self) -> int:
        """How much could be read at once; 0 if nothing is there, or nothing comes any more."""
        if self._end is None:
            return 0
        try:
            data = os.read(self._end, _CHUNK)
        except BlockingIOError:
            return 0
        except OSError:  # a terminal says so when the last process has left it
            data = b""
        if data:
            self._sink.write(data)
        else:
            self.close()
        return len(data)
