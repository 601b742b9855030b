"""The terminal of a workload, on a unix socket that it listens on or connects to."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from levelset_dcp.kinds import Terminal as TerminalSettings
from levelset_machine import Command, Run, Terminal

__all__ = ["TerminalRunner", "open_terminal"]

_CHUNK: Final = 65536


@runtime_checkable
class TerminalRunner(Protocol):
    """A runner that can start programs on a terminal."""

    def start_on(self, terminal: Terminal, command: Command) -> Run:
        """Starts a program on a terminal; raises CannotStart."""
        ...


async def open_terminal(
    settings: TerminalSettings, folder: Path, uid: str, closing: AsyncExitStack
) -> tuple[Terminal, str]:
    """Opens a terminal; returns it with the path of its socket. Raises OSError. Closed with `closing`."""
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    own = folder / f"{uid[:13]}.tty"  # short: the path of a unix socket has at most about 100 characters
    path = settings.uds_path if settings.socket_mode == "listen" and settings.uds_path else own
    terminal = Terminal(path, columns=settings.cols or 80, rows=settings.rows or 24)
    await closing.enter_async_context(terminal)
    if settings.socket_mode == "connect" and settings.uds_path:
        await closing.enter_async_context(_forwarding(str(terminal.path), settings.uds_path))
        return terminal, settings.uds_path
    return terminal, str(terminal.path)


@asynccontextmanager
async def _forwarding(local: str, remote: str) -> AsyncGenerator[None, None]:
    """Forwards bytes between two sockets, in both directions, for the length of a block."""
    async with AsyncExitStack() as stack:
        ends: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        for path in (remote, local):
            reader, writer = await asyncio.open_unix_connection(path)
            stack.callback(writer.close)
            ends.append((reader, writer))
        (from_them, to_them), (from_us, to_us) = ends
        tasks = [asyncio.create_task(_forward(from_them, to_us)), asyncio.create_task(_forward(from_us, to_them))]
        try:
            yield
        finally:
            # Flushes the last output of the program; a client that does not read it is not waited for.
            await asyncio.wait(tasks[1:], timeout=1.0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except ConnectionError:
        return  # one side has disconnected, and its peer sees the end
