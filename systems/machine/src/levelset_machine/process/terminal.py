"""A pseudo-terminal for a process, served on a Unix socket: clients see its output and may type.

```python
async with Terminal(folder / "shell.sock") as terminal:
    run = machine.start_on(terminal, Command(argv=("bash",), env=env))
    await run.wait()
```

Clients speak the frames of `terminal_frames`: a new one gets the size and the last 64 KiB of the output, then all
further output, and the exit code at the end; it may send input, and the size of its window.
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
from levelset_machine.process.command import Command
from levelset_machine.process.streams import Pump
from levelset_machine.process.terminal_frames import (
    BadFrame,
    FrameReader,
    FrameType,
    encode_frame,
    exit_frame,
    hello_frame,
    parse_size,
)

__all__ = ["Terminal", "TerminalStreams", "terminal_words"]

# A session leader that opens a terminal gets it as its controlling one: a shell does so, then execs the program.
_ON_TERMINAL: Final = 'exec 0<>"$0" 1>&0 2>&0; exec "$@"'
_SCROLLBACK: Final = 65536
_MAX_BACKLOG: Final = 1 << 20
"""How many unsent bytes a client may have; a slower one is disconnected, because the process must not wait for it."""
_CHUNK: Final = 65536
_EXIT_SECONDS: Final = 3.0
"""How long clients wait for the exit code when no process uses the terminal any more, as upstream."""


class Terminal:
    """The terminal of one process; on leaving its block the clients are disconnected.

    Only the owner of the socket may connect. When the last process has closed the terminal and the exit code is known,
    the clients get the rest of the output and the exit code, and their connections end.
    """

    def __init__(self, path: Path | str, *, columns: int = 80, rows: int = 24) -> None:
        self.path = Path(path)
        self._size = (columns, rows)
        self._screen: _Screen | None = None
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._screen = _Screen()
        self._screen.resize(*self._size)
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
        """Sets the size of the terminal; the process gets SIGWINCH."""
        self._opened().resize(columns, rows)

    def exited(self, code: int) -> None:
        """Says with which exit code the process has ended; ignored if the terminal is closed."""
        if self._screen is not None:
            self._screen.exited(code)

    def streams(self) -> "TerminalStreams":
        """The standard streams for the one process that uses this terminal."""
        return TerminalStreams(self._opened())

    def _opened(self) -> "_Screen":
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
    """One terminal for stdin, stdout and stderr."""

    is_persistent = False

    def __init__(self, screen: "_Screen") -> None:
        self._screen = screen

    def words(self, command: Command) -> Sequence[str]:
        """A shell that takes the terminal as its controlling terminal, then execs the program."""
        return terminal_words(self._screen.name, command)

    def open(self) -> tuple[int, int, int]:
        """The process's end of the terminal, three times."""
        end = self._screen.far_end
        return end, end, end

    def release(self) -> None:
        """Closes our copy of the process's end, so that the terminal ends with the last process on it."""
        self._screen.release()

    def pump(self) -> tuple[Pump, ...]:
        """No pumps: the output goes to the clients, not into a log."""
        return ()

    def close(self) -> None:
        """Does nothing: the terminal is closed with its block."""


def terminal_words(name: str, command: Command) -> Sequence[str]:
    """The argv of a shell that takes the terminal of this name as its controlling one, then execs the program.

    The program is looked up here, because the shell could report a missing one on the terminal only.
    """
    return ("/bin/sh", "-c", _ON_TERMINAL, name, _find(command), *command.argv[1:])


class _Screen:
    """The manager's end of a pseudo-terminal, and the clients that are connected to it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.descriptor, self.far_end = os.openpty()
        self.name = os.ttyname(self.far_end)
        self._is_released = False
        self._last = bytearray()
        self._clients = set[asyncio.StreamWriter]()
        self._size = (0, 0)
        self._code: int | None = None
        self._is_silent = False
        """Whether the last process has closed the terminal."""
        self._waiting: asyncio.TimerHandle | None = None
        self._over = asyncio.Event()
        self._typing = asyncio.Lock()
        self._waiter: asyncio.Future[None] | None = None
        os.set_blocking(self.descriptor, False)
        self._loop.add_reader(self.descriptor, self._read)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one client until the terminal ends: sends it the output, and types its input."""
        writer.write(hello_frame(*self._size) + encode_frame(FrameType.STATE_SYNC, bytes(self._last)))
        if self._over.is_set():
            self._send_exit(writer)
        self._clients.add(writer)
        frames = FrameReader()
        try:
            while not self._over.is_set() and (data := await reader.read(_CHUNK)):
                for kind, payload in frames.add(data):
                    await self._handle(kind, payload)
            # A client that has closed its sending side still gets the output.
            await self._over.wait()
        except (ConnectionError, BadFrame):
            pass
        finally:
            self._clients.discard(writer)
            writer.close()

    async def _handle(self, kind: int, payload: bytes) -> None:
        """Handles a frame of a client; other types, and sizes that are none, are ignored."""
        if kind == FrameType.INPUT:
            await self._type(payload)
        elif kind == FrameType.RESIZE and not self._over.is_set() and (size := parse_size(payload)) is not None:
            self.resize(*size)

    def resize(self, columns: int, rows: int) -> None:
        """Sets the size of the terminal."""
        self._size = (columns, rows)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def exited(self, code: int) -> None:
        """The process has ended with this exit code; others may still use the terminal."""
        self._code = code
        if self._is_silent:
            self._end()

    def release(self) -> None:
        """Closes our copy of the far end."""
        if not self._is_released:
            self._is_released = True
            os.close(self.far_end)

    def close(self) -> None:
        """Sends what is left, disconnects the clients and closes the terminal; its processes get SIGHUP."""
        self.release()
        while not self._over.is_set() and not self._is_silent and self._read():
            pass
        self._end()
        os.close(self.descriptor)

    def _end(self) -> None:
        """Disconnects the clients. Keeps our end open: closing it would kill a process that is about to exit."""
        if self._over.is_set():
            return
        self._over.set()
        self._loop.remove_reader(self.descriptor)
        self._loop.remove_writer(self.descriptor)
        if self._waiting is not None:
            self._waiting.cancel()
        self._wake()
        for client in self._clients:
            self._send_exit(client)
            client.close()

    def _send_exit(self, client: asyncio.StreamWriter) -> None:
        """Sends the exit code, if it is known."""
        if self._code is not None and not client.is_closing():
            client.write(exit_frame(self._code))

    def _read(self) -> bool:
        """Reads output, and sends it to the clients; returns whether there was some."""
        try:
            data = os.read(self.descriptor, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # EIO: the last process has closed the terminal
            data = b""
        if not data:
            self._fall_silent()
            return False
        self._last += data
        del self._last[:-_SCROLLBACK]
        frame = encode_frame(FrameType.OUTPUT, data)
        for client in list(self._clients):
            self._show(client, frame)
        return True

    def _fall_silent(self) -> None:
        """No output follows: the clients still wait for the exit code, but not for ever."""
        self._is_silent = True
        self._loop.remove_reader(self.descriptor)
        if self._code is not None:
            self._end()
        elif self._waiting is None:
            self._waiting = self._loop.call_later(_EXIT_SECONDS, self._end)

    def _show(self, client: asyncio.StreamWriter, frame: bytes) -> None:
        if client.transport.get_write_buffer_size() > _MAX_BACKLOG:
            client.transport.abort()
        elif not client.is_closing():
            client.write(frame)

    async def _type(self, data: bytes) -> None:
        """Types for one client at a time; waits while the process does not read."""
        async with self._typing:
            while data and not self._over.is_set():
                try:
                    data = data[os.write(self.descriptor, data) :]
                except BlockingIOError:
                    await self._writable()
                except OSError:  # no process is left that could read it
                    return

    async def _writable(self) -> None:
        """Returns when the terminal takes input again, or has ended."""
        waiter = self._waiter = self._loop.create_future()
        self._loop.add_writer(self.descriptor, self._wake)
        try:
            await waiter
        finally:
            if not self._over.is_set():
                self._loop.remove_writer(self.descriptor)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _find(command: Command) -> str:
    """The path of the program; raises the OSError that executing it would raise."""
    program = command.program
    path = os.path.join(command.cwd or "", program) if "/" in program else program  # noqa: PTH118  (text in, text out)
    found = shutil.which(path, path=command.env.get("PATH", os.defpath))
    if found is not None:
        return found
    code = errno.EACCES if "/" in program and os.access(path, os.F_OK) else errno.ENOENT
    raise OSError(code, os.strerror(code), program)
