"""The terminal of a program: a socket that others connect to, or one of theirs that it is shown on."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from levelset_dcp.kinds import Terminal as Wanted
from levelset_machine import Command, Run, Terminal

__all__ = ["TerminalRunner", "open_terminal"]

_CHUNK: Final = 65536


@runtime_checkable
class TerminalRunner(Protocol):
    """A runner that can start a program on a terminal."""

    def start_on(self, terminal: Terminal, command: Command) -> Run:
        """Starts a program that reads from a terminal and writes to it; raises CannotStart."""
        ...


async def open_terminal(wanted: Wanted, folder: Path, uid: str, closing: AsyncExitStack) -> tuple[Terminal, str]:
    """A terminal, and the socket that leads to it; OSError if there can be none. It is closed with `closing`."""
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    own = folder / f"{uid[:13]}.tty"  # short: the name of a socket may have about a hundred letters
    path = wanted.uds_path if wanted.socket_mode == "listen" and wanted.uds_path else own
    terminal = Terminal(path, columns=wanted.cols or 80, rows=wanted.rows or 24)
    await closing.enter_async_context(terminal)
    if wanted.socket_mode == "connect" and wanted.uds_path:
        await closing.enter_async_context(_joined(str(terminal.path), wanted.uds_path))
        return terminal, wanted.uds_path
    return terminal, str(terminal.path)


@asynccontextmanager
async def _joined(ours: str, theirs: str) -> AsyncGenerator[None, None]:
    """Carries bytes between two sockets for the length of a block, in both directions."""
    async with AsyncExitStack() as stack:
        ends: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        for path in (theirs, ours):
            reader, writer = await asyncio.open_unix_connection(path)
            stack.callback(writer.close)
            ends.append((reader, writer))
        (from_them, to_them), (from_us, to_us) = ends
        tasks = [asyncio.create_task(_carry(from_them, to_us)), asyncio.create_task(_carry(from_us, to_them))]
        try:
            yield
        finally:
            # What the program has shown last is on its way; who does not take it is not waited for.
            await asyncio.wait(tasks[1:], timeout=1.0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except ConnectionError:
        return  # one of them has left, and the other sees that
