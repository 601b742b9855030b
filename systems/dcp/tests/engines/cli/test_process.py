"""A command line tool runs with limits, and is terminated when it is no longer needed."""

import asyncio
from pathlib import Path

import pytest

from levelset_dcp.engines import EngineRefused, EngineTimedOut, Incomplete, RuntimeNotHealthy
from levelset_dcp.engines.cli.arguments import Invocation
from levelset_dcp.engines.cli.process import Tool
from levelset_machine import identity_of, is_alive

SHELL = Tool("/bin/sh")


def script(text: str, *args: str) -> Invocation:
    return Invocation(("-c", text, "sh", *args))


async def is_gone(path: Path) -> None:
    pid = int(await asyncio.to_thread(path.read_text))
    for _ in range(200):
        found = await asyncio.to_thread(identity_of, pid)
        if found is None or not await asyncio.to_thread(is_alive, found):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{pid} is still there")


async def is_there(path: Path) -> None:
    for _ in range(500):
        if await asyncio.to_thread(lambda: path.exists() and path.read_text().endswith("\n")):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"there is no {path}")


async def test_stdout_and_stderr_are_separate() -> None:
    answer = await SHELL.run(script('echo "out $1"; echo err >&2', "x y"), operation="try")
    assert (answer.code, answer.out, answer.err) == (0, "out x y\n", "err\n")


async def test_stdin_is_passed_and_may_be_left_unread() -> None:
    big = b"x" * 1_000_000
    assert (await SHELL.run(script("wc -c"), operation="try", stdin=big)).out.strip() == "1000000"
    with pytest.raises(EngineRefused, match="too much"):
        await SHELL.run(script("echo Error: too much >&2; exit 2"), operation="try", stdin=big)


async def test_an_exit_code_raises_the_last_error_message() -> None:
    with pytest.raises(EngineRefused, match="^try: Error: it is full"):
        await SHELL.run(script("echo warning >&2; echo Error: it is full >&2; exit 3"), operation="try")
    with pytest.raises(EngineRefused, match="^try: .*exit code 7 without an error message"):
        await SHELL.run(script("exit 7"), operation="try")


async def test_the_tool_is_terminated_after_the_timeout(tmp_path: Path) -> None:
    with pytest.raises(EngineTimedOut, match=r"^try: .* within 0.5 s"):
        await SHELL.run(script(f"sleep 60 & echo $! >{tmp_path}/pid; wait"), operation="try", limit=0.5)
    await is_gone(tmp_path / "pid")


async def test_the_tool_is_terminated_on_cancellation(tmp_path: Path) -> None:
    what = script(f"sleep 60 & echo $! >{tmp_path}/pid; wait")
    task = asyncio.create_task(SHELL.run(what, operation="try"))
    await is_there(tmp_path / "pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await is_gone(tmp_path / "pid")


async def test_a_tool_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    what = script(f"trap '' TERM; echo $$ >{tmp_path}/pid; while :; do sleep 0.1; done")
    with pytest.raises(EngineTimedOut):
        await SHELL.run(what, operation="try", limit=0.3)
    await is_gone(tmp_path / "pid")


async def test_endless_output_is_rejected() -> None:
    with pytest.raises(Incomplete, match="more than"):
        await SHELL.run(script("yes"), operation="try")


@pytest.mark.parametrize("program", ["levelset-no-such-tool", "/etc", "/etc/passwd", "a\0b"])
async def test_a_program_that_cannot_be_run_means_an_unhealthy_engine(program: str) -> None:
    with pytest.raises(RuntimeNotHealthy):
        await Tool(program).run(Invocation(("--version",)), operation="try")


async def test_variables_of_an_invocation_are_added_to_those_of_the_tool() -> None:
    tool = Tool("/bin/sh", env={"ONE": "1"})
    what = Invocation(("-c", "echo $ONE $TWO"), {"TWO": "2"})
    assert (await tool.run(what, operation="try")).out == "1 2\n"
