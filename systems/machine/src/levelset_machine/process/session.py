"""The standard streams of an interactive process: pipes, or a pseudo-terminal, that the caller reads and writes.

```python
session = Session(stdin=True, terminal=False)
run = machine.start_session(session, Command(argv=("cat",), env=env))
await session.write(b"hello")
session.close_input()
print(await session.read(OUT))
```
"""

import asyncio
import contextlib
import fcntl
import os
import struct
import subprocess
import termios
from collections.abc import Sequence
from typing import Final

from levelset_machine.process.command import Command
from levelset_machine.process.streams import Pump
from levelset_machine.process.terminal import terminal_words

__all__ = ["ERR", "OUT", "Session"]

OUT: Final = 1
ERR: Final = 2
_CHUNK: Final = 32 * 1024


class Session:
    """The streams of one process; `close` them when it has ended, and its output was read."""

    is_persistent = False

    def __init__(self, *, stdin: bool, terminal: bool) -> None:
        self._has_input = stdin
        self._is_terminal = terminal
        self._theirs = list[int]()
        self._ends = dict[int, int]()
        self._input: int | None = None
        self._name = ""

    def words(self, command: Command) -> Sequence[str]:
        """The command's own argv; on a terminal, a shell that takes the terminal and then execs it."""
        return terminal_words(self._name, command) if self._is_terminal else command.argv

    def open(self) -> tuple[int, int, int]:
        """The process's ends of the pipes, or its end of the terminal three times."""
        if self._is_terminal:
            end = self._theirs[0]
            return end, end, end
        stdin = subprocess.DEVNULL
        if self._has_input:
            theirs, ours = os.pipe()
            self._theirs.append(theirs)
            self._input, stdin = ours, theirs
            os.set_blocking(ours, False)
        made = [self._make_output(stream) for stream in (OUT, ERR)]
        return stdin, made[0], made[1]

    def prepare(self) -> None:
        """Opens the terminal, whose name is part of the command."""
        if self._is_terminal:
            ours, theirs = os.openpty()
            self._name = os.ttyname(theirs)
            self._theirs.append(theirs)
            self._ends[OUT] = ours
            self._input = os.dup(ours)
            os.set_blocking(ours, False)

    def release(self) -> None:
        """Closes the process's ends, so that reading ends with the last process that has them."""
        while self._theirs:
            os.close(self._theirs.pop())

    def pump(self) -> tuple[Pump, ...]:
        """No pumps: the caller reads the output."""
        return ()

    def close(self) -> None:
        """Closes everything; idempotent. A process on the terminal gets SIGHUP."""
        self.release()
        self.close_input()
        loop = asyncio.get_running_loop()
        for end in self._ends.values():
            loop.remove_reader(end)
            os.close(end)
        self._ends.clear()

    async def read(self, stream: int) -> bytes:
        """The next output of OUT or ERR; empty at its end. A terminal has all output in OUT."""
        while (end := self._ends.get(stream)) is not None:
            try:
                return os.read(end, _CHUNK)
            except BlockingIOError:
                await _wait(end, for_reading=True)
            except OSError:  # EIO: the last process has closed the terminal
                return b""
        return b""

    async def write(self, data: bytes) -> None:
        """Writes to stdin; what a process that has ended does not read is discarded."""
        view = memoryview(data)
        while view and self._input is not None:
            try:
                view = view[os.write(self._input, view) :]
            except BlockingIOError:
                await _wait(self._input, for_reading=False)
            except OSError:
                self.close_input()

    def close_input(self) -> None:
        """Ends stdin; on a terminal there is no end but what is typed. Idempotent."""
        if self._input is not None:
            asyncio.get_running_loop().remove_writer(self._input)
            os.close(self._input)
            self._input = None

    def resize(self, *, columns: int, rows: int) -> None:
        """Sets the size of the terminal; the process gets SIGWINCH."""
        end = self._ends.get(OUT)
        if self._is_terminal and end is not None:
            with contextlib.suppress(OSError):
                fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _make_output(self, stream: int) -> int:
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        self._ends[stream] = ours
        self._theirs.append(theirs)
        return theirs


async def _wait(end: int, *, for_reading: bool) -> None:
    """Waits until a descriptor can be read or written."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    (loop.add_reader if for_reading else loop.add_writer)(end, wake)
    try:
        await ready
    finally:
        (loop.remove_reader if for_reading else loop.remove_writer)(end)
