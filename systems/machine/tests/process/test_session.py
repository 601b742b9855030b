"""Interactive processes, on pipes and on a terminal."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from levelset_machine import ERR, OUT, CannotStart, Machine, Session
from systems.machine.tests.support import command, python, shell


@pytest.fixture
async def machine() -> AsyncIterator[Machine]:
    async with Machine(guard=False, grace=0.0) as machine:
        yield machine


async def read_all(session: Session, stream: int) -> bytes:
    found = b""
    async with asyncio.timeout(15):
        while data := await session.read(stream):
            found += data
    return found


async def test_a_process_on_pipes_is_written_to_and_read(machine: Machine) -> None:
    session = Session(stdin=True, terminal=False)
    run = machine.start_session(session, shell("cat; echo err >&2; exit 3"))
    text = b"x" * 300_000  # more than a pipe holds
    writing = asyncio.create_task(session.write(text))
    reading = asyncio.create_task(read_all(session, OUT))
    await writing
    session.close_input()
    assert await reading == text
    assert await read_all(session, ERR) == b"err\n"
    assert (await run.wait()).code == 3
    session.close()
    await session.write(b"ignored")


async def test_without_input_stdin_is_empty(machine: Machine) -> None:
    session = Session(stdin=False, terminal=False)
    machine.start_session(session, shell("cat; echo done"))
    assert await read_all(session, OUT) == b"done\n"
    session.close()


async def test_a_terminal_has_a_size_that_changes(machine: Machine) -> None:
    script = "import os; print(os.isatty(0), os.tcgetpgrp(0) == os.getpid()); print(input(), os.get_terminal_size())"
    session = Session(stdin=True, terminal=True)
    machine.start_session(session, python(script))
    found = b""
    async with asyncio.timeout(60):
        while b"True True" not in found:
            found += await session.read(OUT)
        session.resize(columns=101, rows=33)
        await session.write(b"typed\n")
        while b"columns=101, lines=33" not in found:
            found += await session.read(OUT)
    session.close()


@pytest.mark.parametrize("terminal", [False, True])
async def test_a_missing_program_is_reported(machine: Machine, terminal: bool) -> None:
    with pytest.raises(CannotStart, match="no such program"):
        machine.start_session(Session(stdin=True, terminal=terminal), command("no-such-program"))
