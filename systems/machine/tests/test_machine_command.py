"""What cannot be started is told in words: which program, why, and what to do."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from levelset_machine import CannotStart, Command, LogStore, Machine
from systems.machine.tests.machines import command


@pytest.fixture
async def machine() -> AsyncIterator[Machine]:
    async with Machine(guard=False) as machine:
        yield machine


def script(folder: Path, text: str, *, mode: int = 0o755) -> str:
    file = folder / "program"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def why_not(machine: Machine, command: Command) -> str:
    sink = LogStore(None).open("log")
    with pytest.raises(CannotStart) as refused:
        machine.start(command, out=sink)
    assert not sink.is_closed
    assert machine.running == []
    return str(refused.value)


async def test_a_program_that_is_not_on_the_path_says_where_was_looked(machine: Machine) -> None:
    words = why_not(machine, Command(argv=("no-such-program",), env={"PATH": "/nowhere:/bin"}))
    assert words == (
        "cannot start 'no-such-program': there is no such program on PATH (/nowhere:/bin); "
        "install it, or give its whole path"
    )


async def test_a_file_that_is_not_there_is_told(machine: Machine) -> None:
    assert "there is no such file" in why_not(machine, command("/no/such/program"))


async def test_a_missing_folder_is_told_from_a_missing_program(machine: Machine) -> None:
    assert "its folder '/no/such' does not exist" in why_not(machine, command("/bin/true", cwd="/no/such"))
    assert "its folder '/bin/true' is a file" in why_not(machine, command("/bin/true", cwd="/bin/true"))


@pytest.fixture
def not_executable(tmp_path: Path) -> str:
    return script(tmp_path, "#!/bin/sh\n", mode=0o644)


async def test_a_file_that_is_not_executable_is_told(machine: Machine, not_executable: str) -> None:
    assert "chmod +x" in why_not(machine, command(not_executable))


@pytest.fixture
def no_interpreter(tmp_path: Path) -> str:
    return script(tmp_path, "#!/no/such/interpreter\n")


async def test_a_script_without_its_interpreter_is_told(machine: Machine, no_interpreter: str) -> None:
    assert "the interpreter that its first line names" in why_not(machine, command(no_interpreter))


@pytest.fixture
def no_program(tmp_path: Path) -> str:
    return script(tmp_path, "neither script nor program")


async def test_a_file_that_is_no_program_is_told(machine: Machine, no_program: str) -> None:
    assert "needs a first line such as `#!/bin/sh`" in why_not(machine, command(no_program))


async def test_an_empty_command_and_odd_words_are_told(machine: Machine) -> None:
    assert "the command is empty" in why_not(machine, command())
    assert "zero byte" in why_not(machine, command("/bin/true", "a\0b"))
    assert "zero byte" in why_not(machine, command("/bin/true", "\ud800"))
    assert "cannot start" in why_not(machine, command("/bin/true", **{"A=B": "1"}))


async def test_too_many_words_are_told(machine: Machine) -> None:
    assert "pass a file instead" in why_not(machine, command("/bin/true", "x" * 3_000_000))


async def test_after_a_refusal_no_descriptor_is_left_open(machine: Machine) -> None:
    before = os.dup(0)
    os.close(before)
    why_not(machine, command("/no/such/program"))
    after = os.dup(0)
    os.close(after)
    assert after == before
