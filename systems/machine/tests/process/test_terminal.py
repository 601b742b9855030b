"""A process on a terminal, and clients that see its output and type."""

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from levelset.errors import ConfigError
from levelset_machine import CannotStart, Machine, Terminal
from levelset_machine.process.terminal_frames import MAX_PAYLOAD, FrameType, encode_frame
from systems.machine.tests.support import command, python, shell
from systems.machine.tests.terminal_client import TerminalClient


@pytest.fixture
async def machine() -> AsyncIterator[Machine]:
    async with Machine(guard=False, grace=0.0) as machine:
        yield machine


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    async with Terminal(tmp_path / "socket", columns=101, rows=33) as terminal:
        yield terminal


async def test_a_process_has_the_terminal_as_its_controlling_terminal(machine: Machine, terminal: Terminal) -> None:
    script = "import os; print(os.isatty(0), os.isatty(1), os.get_terminal_size(), os.tcgetpgrp(0) == os.getpid())"
    client = await TerminalClient.connect(terminal.path)
    run = machine.start_on(terminal, python(script))
    assert await client.read_to_end() == b"True True os.terminal_size(columns=101, lines=33) True\r\n"
    assert (await run.wait()).code == 0


async def test_input_reaches_the_process_and_is_echoed(machine: Machine, terminal: Terminal) -> None:
    client = await TerminalClient.connect(terminal.path)
    run = machine.start_on(terminal, shell("echo name?; read name; echo hello $name; exit 5"))
    await client.read_until(b"name?\r\n")
    client.type(b"world\n")
    assert await client.read_to_end() == b"world\r\nhello world\r\n"
    assert (await run.wait()).code == 5


async def test_a_later_client_gets_the_last_output(machine: Machine, terminal: Terminal) -> None:
    first = await TerminalClient.connect(terminal.path)
    machine.start_on(terminal, shell("echo one; read x; echo two"))
    await first.read_until(b"one\r\n")
    second = await TerminalClient.connect(terminal.path)
    assert await second.read_until(b"one\r\n") == b"one\r\n"
    first.type(b"\n")
    assert await first.read_to_end() == await second.read_to_end() == b"\r\ntwo\r\n"
    third = await TerminalClient.connect(terminal.path)
    assert await third.read_to_end() == b"one\r\n\r\ntwo\r\n"


async def test_a_client_that_disconnects_does_not_affect_the_others(machine: Machine, terminal: Terminal) -> None:
    first, second = await TerminalClient.connect(terminal.path), await TerminalClient.connect(terminal.path)
    machine.start_on(terminal, shell("echo one; read x; echo two"))
    await first.read_until(b"one\r\n")
    await first.disconnect()
    second.type(b"\n")
    assert (await second.read_to_end()).endswith(b"two\r\n")


async def test_a_typed_interrupt_reaches_the_process(machine: Machine, terminal: Terminal) -> None:
    client = await TerminalClient.connect(terminal.path)
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
    client = await TerminalClient.connect(terminal.path)
    machine.start_on(terminal, python(WAITS_FOR_A_SIZE))
    await client.read_until(b"ready\r\n")
    terminal.resize(columns=40, rows=10)
    assert await client.read_to_end() == b"40\r\n"


async def test_a_client_sets_the_size(machine: Machine, terminal: Terminal) -> None:
    client = await TerminalClient.connect(terminal.path)
    machine.start_on(terminal, python(WAITS_FOR_A_SIZE))
    await client.read_until(b"ready\r\n")
    client.send(encode_frame(FrameType.RESIZE, b"short"))  # neither is a size
    client.resize(0, 70_000)
    client.send(encode_frame(FrameType.EXIT))  # not for a client to send
    client.resize(50, 12)
    assert await client.read_to_end() == b"50\r\n"
    assert (await late_client(terminal)).size == (50, 12)


async def late_client(terminal: Terminal) -> TerminalClient:
    client = await TerminalClient.connect(terminal.path)
    await client.read_to_end()
    return client


async def test_a_client_gets_the_size_the_screen_and_at_last_the_exit_code(
    machine: Machine, terminal: Terminal
) -> None:
    client = await TerminalClient.connect(terminal.path)
    await machine.start_on(terminal, shell("echo bye; exit 5")).wait()
    assert await client.read_to_end() == b"bye\r\n"
    assert (client.size, client.exit_code) == ((101, 33), 5)
    assert client.frames[:2] == [FrameType.HELLO, FrameType.STATE_SYNC]
    assert client.frames[-1] == FrameType.EXIT
    late = await TerminalClient.connect(terminal.path)
    assert await late.read_to_end() == b"bye\r\n"
    assert late.frames == [FrameType.HELLO, FrameType.STATE_SYNC, FrameType.EXIT]


async def test_a_frame_that_is_too_large_ends_the_connection_of_its_sender(
    machine: Machine, terminal: Terminal
) -> None:
    client = await TerminalClient.connect(terminal.path)
    machine.start_on(terminal, shell("echo ready; exec sleep 600"))
    await client.read_until(b"ready\r\n")
    client.send(bytes([FrameType.INPUT]) + (MAX_PAYLOAD + 1).to_bytes(4, "little"))
    assert await client.read_to_end() == b""
    assert client.exit_code is None


async def test_large_input_and_output_is_complete(machine: Machine, terminal: Terminal) -> None:
    client = await TerminalClient.connect(terminal.path)
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
        client = await TerminalClient.connect(terminal.path)
        machine.start_on(terminal, shell("echo ready; exec sleep 600"))
        await client.read_until(b"ready\r\n")
    assert await client.read_to_end() == b""
    assert not await asyncio.to_thread(path.exists)
    with pytest.raises(ConfigError, match="not open"):
        terminal.resize(columns=1, rows=1)
