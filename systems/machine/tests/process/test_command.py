"""CannotStart names the program, the reason and the remedy."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from levelset_machine import CannotStart, Command, LogStore, Machine
from systems.machine.tests.support import command


@pytest.fixture
async def machine() -> AsyncIterator[Machine]:
    async with Machine(guard=False) as machine:
        yield machine


def script(folder: Path, text: str, *, mode: int = 0o755) -> str:
    file = folder / "program"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def start_error(machine: Machine, command: Command) -> str:
    sink = LogStore(None).open("log")
    with pytest.raises(CannotStart) as refused:
        machine.start(command, out=sink)
    assert not sink.is_closed
    assert machine.running == []
    return str(refused.value)


async def test_a_program_that_is_not_on_path_is_reported_with_path(machine: Machine) -> None:
    message = start_error(machine, Command(argv=("no-such-program",), env={"PATH": "/nowhere:/bin"}))
    assert message == (
        "cannot start 'no-such-program': there is no such program on PATH (/nowhere:/bin); "
        "install it, or give its whole path"
    )


async def test_a_missing_file_is_reported(machine: Machine) -> None:
    assert "there is no such file" in start_error(machine, command("/no/such/program"))


async def test_a_missing_working_directory_is_distinguished_from_a_missing_program(machine: Machine) -> None:
    assert "its working directory '/no/such' does not exist" in start_error(
        machine, command("/bin/true", cwd="/no/such")
    )
    assert "its working directory '/bin/true' is a file" in start_error(machine, command("/bin/true", cwd="/bin/true"))


@pytest.fixture
def not_executable(tmp_path: Path) -> str:
    return script(tmp_path, "#!/bin/sh\n", mode=0o644)


async def test_a_file_that_is_not_executable_is_reported(machine: Machine, not_executable: str) -> None:
    assert "chmod +x" in start_error(machine, command(not_executable))


@pytest.fixture
def no_interpreter(tmp_path: Path) -> str:
    return script(tmp_path, "#!/no/such/interpreter\n")


async def test_a_script_with_a_missing_interpreter_is_reported(machine: Machine, no_interpreter: str) -> None:
    assert "the interpreter that its first line names" in start_error(machine, command(no_interpreter))


@pytest.fixture
def no_program(tmp_path: Path) -> str:
    return script(tmp_path, "neither script nor program")


async def test_a_file_that_is_not_a_program_is_reported(machine: Machine, no_program: str) -> None:
    assert "needs a first line such as `#!/bin/sh`" in start_error(machine, command(no_program))


async def test_an_empty_command_and_invalid_arguments_are_reported(machine: Machine) -> None:
    assert "the command is empty" in start_error(machine, command())
    assert "zero byte" in start_error(machine, command("/bin/true", "a\0b"))
    assert "zero byte" in start_error(machine, command("/bin/true", "\ud800"))
    assert "cannot start" in start_error(machine, command("/bin/true", **{"A=B": "1"}))


async def test_too_large_arguments_are_reported(machine: Machine) -> None:
    assert "pass a file instead" in start_error(machine, command("/bin/true", "x" * 3_000_000))


async def test_a_failed_start_leaves_no_open_descriptor(machine: Machine) -> None:
    before = os.dup(0)
    os.close(before)
    start_error(machine, command("/no/such/program"))
    after = os.dup(0)
    os.close(after)
    assert after == before
