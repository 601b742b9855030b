"""A process on a terminal, and those who look at it and type."""

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from levelset.errors import ConfigError
from levelset_machine import CannotStart, Machine, Terminal
from systems.machine.tests.machines import command, python, shell


@pytest.fixture
async def machine() -> AsyncIterator[Machine]:
    async with Machine(guard=False, grace=0.0) as machine:
        yield machine


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    async with Terminal(tmp_path / "socket", columns=101, rows=33) as terminal:
        yield terminal


class Viewer:
    """Somebody who looks at a terminal."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def come(cls, terminal: Terminal) -> "Viewer":
        return cls(*await asyncio.open_unix_connection(terminal.path))

    async def see(self, text: bytes) -> bytes:
        async with asyncio.timeout(15):
            return await self._reader.readuntil(text)

    async def see_the_end(self) -> bytes:
        async with asyncio.timeout(15):
            shown = await self._reader.read()
        await self.leave()
        return shown

    def type(self, text: bytes) -> None:
        self._writer.write(text)

    async def leave(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def test_a_process_is_on_a_terminal_of_its_own(machine: Machine, terminal: Terminal) -> None:
    script = "import os; print(os.isatty(0), os.isatty(1), os.get_terminal_size(), os.tcgetpgrp(0) == os.getpid())"
    viewer = await Viewer.come(terminal)
    run = machine.start_on(terminal, python(script))
    assert await viewer.see_the_end() == b"True True os.terminal_size(columns=101, lines=33) True\r\n"
    assert (await run.wait()).code == 0


async def test_what_is_typed_is_read_and_shown(machine: Machine, terminal: Terminal) -> None:
    viewer = await Viewer.come(terminal)
    run = machine.start_on(terminal, shell("echo name?; read name; echo hello $name; exit 5"))
    await viewer.see(b"name?\r\n")
    viewer.type(b"world\n")
    assert await viewer.see_the_end() == b"world\r\nhello world\r\n"
    assert (await run.wait()).code == 5


async def test_who_comes_later_is_shown_the_last_of_it(machine: Machine, terminal: Terminal) -> None:
    first = await Viewer.come(terminal)
    machine.start_on(terminal, shell("echo one; read x; echo two"))
    await first.see(b"one\r\n")
    second = await Viewer.come(terminal)
    assert await second.see(b"one\r\n") == b"one\r\n"
    first.type(b"\n")
    assert await first.see_the_end() == await second.see_the_end() == b"\r\ntwo\r\n"
    third = await Viewer.come(terminal)
    assert await third.see_the_end() == b"one\r\n\r\ntwo\r\n"


async def test_a_viewer_who_leaves_disturbs_nobody(machine: Machine, terminal: Terminal) -> None:
    first, second = await Viewer.come(terminal), await Viewer.come(terminal)
    machine.start_on(terminal, shell("echo one; read x; echo two"))
    await first.see(b"one\r\n")
    await first.leave()
    second.type(b"\n")
    assert (await second.see_the_end()).endswith(b"two\r\n")


async def test_an_interrupt_that_is_typed_reaches_the_process(machine: Machine, terminal: Terminal) -> None:
    viewer = await Viewer.come(terminal)
    run = machine.start_on(terminal, shell("echo ready; exec sleep 600"))
    await viewer.see(b"ready\r\n")
    viewer.type(b"\x03")
    assert (await run.wait()).code == 130
    await viewer.see_the_end()


WAITS_FOR_A_SIZE = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
print("ready", flush=True)
signal.sigwait({signal.SIGWINCH})
print(os.get_terminal_size().columns)
"""


async def test_a_new_size_is_told_to_the_process(machine: Machine, terminal: Terminal) -> None:
    viewer = await Viewer.come(terminal)
    machine.start_on(terminal, python(WAITS_FOR_A_SIZE))
    await viewer.see(b"ready\r\n")
    terminal.resize(columns=40, rows=10)
    assert await viewer.see_the_end() == b"40\r\n"


async def test_much_is_typed_and_much_is_shown(machine: Machine, terminal: Terminal) -> None:
    viewer = await Viewer.come(terminal)
    run = machine.start_on(terminal, shell("stty raw -echo; echo ready; exec head -c 300000"))
    await viewer.see(b"ready\n")
    viewer.type(b"0123456789" * 30000)
    assert await viewer.see_the_end() == b"0123456789" * 30000
    assert (await run.wait()).code == 0


async def test_a_program_that_is_not_there_cannot_start(machine: Machine, terminal: Terminal) -> None:
    with pytest.raises(CannotStart, match="no such program on PATH"):
        machine.start_on(terminal, command("no-such-program"))
    with pytest.raises(CannotStart, match="no such file"):
        machine.start_on(terminal, command("/no/such/program"))
    with pytest.raises(CannotStart, match="chmod"):
        machine.start_on(terminal, command("./passwd", cwd="/etc"))


async def test_only_its_owner_may_connect_and_the_socket_goes_with_the_block(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with Terminal(path) as terminal:
        assert stat.S_IMODE((await asyncio.to_thread(path.stat)).st_mode) == 0o600
        viewer = await Viewer.come(terminal)
        machine.start_on(terminal, shell("echo ready; exec sleep 600"))
        await viewer.see(b"ready\r\n")
    assert await viewer.see_the_end() == b""
    assert not await asyncio.to_thread(path.exists)
    with pytest.raises(ConfigError, match="not open"):
        terminal.resize(columns=1, rows=1)
