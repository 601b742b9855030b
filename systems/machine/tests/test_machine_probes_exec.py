"""A command says by its exit code whether a program is well."""

from levelset_machine.command import Command
from levelset_machine.probes import ExecCheck, SocketProber, Verdict
from levelset_machine.processes import Machine


async def run(*argv: str, seconds: float = 10.0) -> Verdict:
    async with Machine() as machine:
        command = Command(argv=argv, env={"PATH": "/usr/bin:/bin"})
        return await SocketProber(machine).probe(ExecCheck(command), timeout=seconds)


async def test_a_command_says_by_its_exit_code_how_things_are() -> None:
    assert (await run("true")).outcome == "Success"
    verdict = await run("sh", "-c", "echo the disk; echo is full >&2; exit 3")
    assert verdict.outcome == "Failure"
    assert "exit code 3: the disk is full" in verdict.reason


async def test_a_command_that_takes_too_long_is_a_failure_and_is_ended() -> None:
    assert await run("sleep", "60", seconds=0.1) == Verdict("Failure", "sleep did not end within 0.1 s")


async def test_a_command_that_is_not_there_is_a_failure_and_without_a_runner_none_can_be_run() -> None:
    assert (await run("no-such-program")).outcome == "Failure"
    check = ExecCheck(Command(argv=("true",), env={}))
    assert (await SocketProber().probe(check, timeout=1)).outcome == "Unknown"
