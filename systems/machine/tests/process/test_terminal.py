"""A process on a terminal, and clients that see its output and type."""

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from levelset.errors import ConfigError
from levelset_machine import CannotStart, Machine, Terminal
from systems.machine.tests.support import command, python, shell


@pytest.fixture
async def machine() -> AsyncIterator[Machine]:
    async with Machine(guard=False, grace=0.0) as machine:
        yield machine


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    async with Terminal(tmp_path / "socket", columns=101, rows=33) as terminal:
        yield terminal


class TerminalClient:
    """A client that is connected to a terminal."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, terminal: Terminal) -> "TerminalClient":
        return cls(*await asyncio.open_unix_connection(terminal.path))

    async def read_until(self, text: bytes) -> bytes:
        async with asyncio.timeout(120):
            return await self._reader.readuntil(text)

    async def read_to_end(self) -> bytes:
        async with asyncio.timeout(120):
            rest = await self._reader.read()
        await self.disconnect()
        return rest

    def type(self, text: bytes) -> None:
        self._writer.write(text)

    async def disconnect(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def test_a_process_has_the_terminal_as_its_controlling_terminal(machine: Machine, terminal: Terminal) -> None:
    script = "import os; print(os.isatty(0), os.isatty(1), os.get_terminal_size(), os.tcgetpgrp(0) == os.getpid())"
    client = await TerminalClient.connect(terminal)
    run = machine.start_on(terminal, python(script))
    assert await client.read_to_end() == b"True True os.terminal_size(columns=101, lines=33) True\r\n"
    assert (await run.wait()).code == 0


async def test_input_reaches_the_process_and_is_echoed(machine: Machine, terminal: Terminal) -> None:
    client = await TerminalClient.connect(terminal)
    run = machine.start_on(terminal, shell("echo name?; read name; echo hello $name; exit 5"))
    await client.read_until(b"name?\r\n")
    client.type(b"world\n")
    assert await client.read_to_end() == b"world\r\nhello world\r\n"
    assert (await run.wait()).code == 5


async def test_a_later_client_gets_the_last_output(machine: Machine, terminal: Terminal) -> None:
    first = await TerminalClient.connect(terminal)
    machine.start_on(terminal, shell("echo one; read x; echo two"))
    await first.read_until(b"one\r\n")
    second = await TerminalClient.connect(terminal)
    assert await second.read_until(b"one\r\n") == b"one\r\n"
    first.type(b"\n")
    assert await first.read_to_end() == await second.read_to_end() == b"\r\ntwo\r\n"
    third = await TerminalClient.connect(terminal)
    assert await third.read_to_end() == b"one\r\n\r\ntwo\r\n"


async def test_a_client_that_disconnects_does_not_affect_the_others(machine: Machine, terminal: Terminal) -> None:
    first, second = await TerminalClient.connect(terminal), await TerminalClient.connect(terminal)
    machine.start_on(terminal, shell("echo one; read x; echo two"))
    await first.read_until(b"one\r\n")
    await first.disconnect()
    second.type(b"\n")
    assert (await second.read_to_end()).endswith(b"two\r\n")


async def test_a_typed_interrupt_reaches_the_process(machine: Machine, terminal: Terminal) -> None:
    client = await TerminalClient.connect(terminal)
    run = machine.start_on(terminal, shell("echo ready; exec sleep 600"))
    await client.read_until(b"ready\r\n")
    client.type(b"\x03")
    assert (await run.wait()).code == 130
    await client.read_to_end()


WAITS_FOR_A_SIZE = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
print("ready", flush=True)
signal.sigwait({signal.SIGWINCH})
print(os.get_terminal_size().columns)
"""


async def test_the_process_is_notified_of_a_resize(machine: Machine, terminal: Terminal) -> None:
    client = await TerminalClient.connect(terminal)
    machine.start_on(terminal, python(WAITS_FOR_A_SIZE))
    await client.read_until(b"ready\r\n")
    terminal.resize(columns=40, rows=10)
    assert await client.read_to_end() == b"40\r\n"


async def test_large_input_and_output_is_complete(machine: Machine, terminal: Terminal) -> None:
    client = await TerminalClient.connect(terminal)
    run = machine.start_on(terminal, shell("stty raw -echo; echo ready; exec head -c 300000"))
    await client.read_until(b"ready\n")
    client.type(b"0123456789" * 30000)
    assert await client.read_to_end() == b"0123456789" * 30000
    assert (await run.wait()).code == 0


async def test_a_missing_program_cannot_start(machine: Machine, terminal: Terminal) -> None:
    with pytest.raises(CannotStart, match="no such program on PATH"):
        machine.start_on(terminal, command("no-such-program"))
    with pytest.raises(CannotStart, match="no such file"):
        machine.start_on(terminal, command("/no/such/program"))
    with pytest.raises(CannotStart, match="chmod"):
        machine.start_on(terminal, command("./passwd", cwd="/etc"))


async def test_only_the_owner_may_connect_and_the_socket_is_removed_with_the_block(
    machine: Machine, tmp_path: Path
) -> None:
    path = tmp_path / "socket"
    async with Terminal(path) as terminal:
        assert stat.S_IMODE((await asyncio.to_thread(path.stat)).st_mode) == 0o600
        client = await TerminalClient.connect(terminal)
        machine.start_on(terminal, shell("echo ready; exec sleep 600"))
        await client.read_until(b"ready\r\n")
    assert await client.read_to_end() == b""
    assert not await asyncio.to_thread(path.exists)
    with pytest.raises(ConfigError, match="not open"):
        terminal.resize(columns=1, rows=1)
