"""A terminal for a process, which is served on a Unix socket: whoever connects sees what is shown, and may type.

```python
async with Terminal(folder / "shell.sock") as terminal:
    run = machine.start_on(terminal, Command(argv=("bash",), env=env))
    await run.wait()
```

The bytes go over the socket as they are, in both directions. Who comes later is shown the last of what was shown.
"""

import asyncio
import errno
import fcntl
import os
import shutil
import struct
import termios
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from levelset.errors import ConfigError
from levelset_machine.command import Command
from levelset_machine.pumping import Pump
from levelset_machine.screens import Screen

__all__ = ["Terminal", "TerminalStreams"]

# To open a terminal makes it that of a session which has none; so a shell opens it before it becomes the program.
_ON_TERMINAL: Final = 'exec 0<>"$0" 1>&0 2>&0; exec "$@"'


class Terminal:
    """The terminal of one process; on leaving its block the viewers are sent away.

    Only the owner of the socket may connect. When the last process has left the terminal, all viewers have seen the
    end of what was shown, and their connections end.
    """

    def __init__(self, path: Path | str, *, columns: int = 80, rows: int = 24) -> None:
        self.path = Path(path)
        self._size = (rows, columns)
        self._screen: Screen | None = None
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._screen = Screen()
        self.resize(columns=self._size[1], rows=self._size[0])
        try:
            self._server = await asyncio.start_unix_server(self._screen.serve, self.path, start_serving=False)
            await asyncio.to_thread(self.path.chmod, 0o600)
            await self._server.start_serving()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    def resize(self, *, columns: int, rows: int) -> None:
        """Says how large the viewer's window is; the process is told."""
        fcntl.ioctl(self._opened().descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def streams(self) -> "TerminalStreams":
        """What a process is born with that uses this terminal: one process, once."""
        return TerminalStreams(self._opened())

    def _opened(self) -> Screen:
        if self._screen is None:
            raise ConfigError(f"the terminal {self.path} is not open; use it inside of its `async with` block")
        return self._screen

    async def _close(self) -> None:
        server, self._server = self._server, None
        screen, self._screen = self._screen, None
        if server is not None:
            server.close()
        if screen is not None:
            screen.close()
        if server is not None:
            await server.wait_closed()
            await asyncio.to_thread(self.path.unlink, missing_ok=True)


class TerminalStreams:
    """One terminal for input, output and errors."""

    is_persistent = False

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def words(self, command: Command) -> Sequence[str]:
        """A shell that makes the terminal that of the session, and then becomes the program; as it is looked for here.

        The shell could only say on the terminal that it does not find the program.
        """
        return ("/bin/sh", "-c", _ON_TERMINAL, self._screen.name, _find(command), *command.argv[1:])

    def open(self) -> tuple[int, int, int]:
        """The process's end of the terminal, three times."""
        end = self._screen.far_end
        return end, end, end

    def release(self) -> None:
        """Lets go of the process's end: when nobody has it any more, all was shown."""
        self._screen.release()

    def pump(self) -> tuple[Pump, ...]:
        """What is shown goes to the viewers, and into no log."""
        return ()

    def close(self) -> None:
        """The terminal is closed with its block."""


def _find(command: Command) -> str:
    """The path of the program; raises what the operating system would, if it were asked to start it."""
    program = command.program
    place = os.path.join(command.cwd or "", program) if "/" in program else program  # noqa: PTH118  (text in, text out)
    found = shutil.which(place, path=command.env.get("PATH", os.defpath))
    if found is not None:
        return found
    code = errno.EACCES if "/" in program and os.access(place, os.F_OK) else errno.ENOENT
    raise OSError(code, os.strerror(code), program)
