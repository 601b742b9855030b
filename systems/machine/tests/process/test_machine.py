"""Machine: processes are started and watched to their end, and their output is in their logs."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from levelset_machine import CannotStart, Identity, LogStore, Machine, identity_of, is_alive
from levelset_machine.process.marker import MARKER
from systems.machine.tests.support import command, first_line, read, shell, wait_gone


@pytest.fixture
async def machine() -> AsyncIterator[Machine]:
    async with Machine(guard=False) as machine:
        yield machine


@pytest.fixture
def logs(tmp_path: Path) -> LogStore:
    return LogStore(tmp_path / "logs")


async def test_a_run_ends_with_its_exit_code_and_output(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell("echo out; echo err >&2; printf rest; exit 3"), out=logs.open("web"))
    assert (run.ended, identity_of(run.identity.pid)) == (None, run.identity)
    ended = await run.wait()
    assert (ended.code, ended.is_known, run.ended, machine.running) == (3, True, ended, [])
    assert abs(ended.at - datetime.now(UTC)) < timedelta(minutes=1)
    assert await read(logs, "web") == b"out\nerr\nrest"
    assert await run.wait() is ended


async def test_stderr_goes_to_its_own_log_if_there_is_one(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell("echo out; echo err >&2"), out=logs.open("out"), err=logs.open("err"))
    await run.wait()
    assert (await read(logs, "out"), await read(logs, "err")) == (b"out\n", b"err\n")


async def test_the_exit_code_of_a_signal_is_128_plus_its_number(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell("kill -9 $$"), out=logs.open("web"))
    assert (await run.wait()).code == 137


async def test_a_process_has_its_environment_and_the_marker(machine: Machine, logs: LogStore) -> None:
    run = machine.start(command("/usr/bin/env", A="1", **{MARKER: "another run"}), out=logs.open("web"))
    await run.wait()
    found = dict(line.split("=", 1) for line in (await read(logs, "web")).decode().splitlines())
    assert {**found, MARKER: ""} == {"PATH": os.environ["PATH"], "A": "1", MARKER: ""}
    assert found[MARKER] not in {"", "another run"}


async def test_a_process_starts_in_its_working_directory_with_an_empty_stdin(machine: Machine, logs: LogStore) -> None:
    run = machine.start(command("/bin/sh", "-c", "pwd; cat", cwd="/usr"), out=logs.open("web"))
    assert (await run.wait()).code == 0
    assert await read(logs, "web") == b"/usr\n"


async def test_the_output_of_a_process_is_followed_to_its_end(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"), out=logs.open("web"))
    found = await read(logs, "web", follow=True)
    assert found == b"".join(b"line %d\n" % number for number in range(20000))
    assert (await run.wait()).code == 0


async def test_children_that_hold_the_pipe_do_not_delay_the_end_of_the_run(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell("sleep 600 & echo $!"), out=logs.open("web"))
    assert (await run.wait()).code == 0
    child = identity_of(int(await first_line(logs, "web")))
    assert child is not None
    # The log ends although the pipe does not; stopping a run that has ended kills what it left running.
    assert await read(logs, "web", follow=True) == b"%d\n" % child.pid
    await machine.stop(run)
    assert not is_alive(child)


@pytest.mark.slow
async def test_a_thousand_processes_run_concurrently(machine: Machine) -> None:
    store = LogStore(None)
    runs = [machine.start(command("/bin/true"), out=store.open(str(number))) for number in range(1000)]
    codes = [ended.code for ended in await asyncio.gather(*(run.wait() for run in runs))]
    assert (codes, machine.running) == ([0] * 1000, [])


async def test_ended_runs_leave_no_open_descriptor(machine: Machine, logs: LogStore) -> None:
    before = await asyncio.to_thread(os.listdir, "/proc/self/fd")
    for number in range(5):
        run = machine.start(shell("echo hello"), out=logs.open(f"out{number}"), err=logs.open(f"err{number}"))
        await run.wait()
        assert await read(logs, f"out{number}", follow=True) == b"hello\n"
        assert await read(logs, f"err{number}", follow=True) == b""
    assert len(await asyncio.to_thread(os.listdir, "/proc/self/fd")) == len(before)


FILE_LIMIT = """
import asyncio, resource, os, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
from levelset_machine import CannotStart, Command, LogStore, Machine

async def main():
    logs, refused = LogStore(None), []
    async with Machine() as machine:
        for number in range(60):
            try:
                machine.start(Command(argv=("/bin/sleep", "600"), env={}), out=logs.open(str(number)))
            except CannotStart as error:
                refused.append(str(error))
        print(len(machine.running) + len(refused), set(refused))

asyncio.run(main())
"""


async def test_at_the_limit_of_open_files_further_starts_fail_with_the_reason() -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    program = await asyncio.create_subprocess_exec(sys.executable, "-c", FILE_LIMIT, stdout=subprocess.PIPE, env=env)
    printed, _ = await program.communicate()
    message = "cannot start '/bin/sleep': too many open files; raise the limit (`ulimit -n`), or run fewer"
    assert (program.returncode, printed.decode().startswith(f'60 {{"{message}')) == (0, True)


async def test_cancelling_a_wait_does_not_affect_the_run(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell("read never; sleep 600"), out=logs.open("web"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await run.wait()
    assert run.ended is None or run.ended.code == 0
    await machine.stop(run)


async def test_leaving_the_block_stops_all_runs_and_prevents_further_starts() -> None:
    store = LogStore(None)
    async with Machine(guard=False) as machine:
        runs = [machine.start(command("/bin/sleep", "600"), out=store.open(str(number))) for number in range(3)]
    assert [run.ended and run.ended.code for run in runs] == [143] * 3
    with pytest.raises(CannotStart, match="being stopped"):
        machine.start(command("/bin/true"), out=store.open("late"))


async def test_a_persistent_process_outlives_its_machine_and_is_adopted(logs: LogStore) -> None:
    async with Machine() as first:
        script = "echo one; trap 'echo two; exit 5' TERM; while :; do sleep 0.01; done"
        identity = first.start(shell(script), out=logs.open("web"), persistent=True).identity
        assert await first_line(logs, "web") == b"one"
        assert first.guard is None
    assert is_alive(identity)
    async with Machine() as second:
        sink = logs.open("web")
        run = second.adopt(identity)
        assert run is not None
        assert second.adopt(identity) is run
        await second.stop(run)
        sink.close()
        assert run.ended is not None
        assert not run.ended.is_known or run.ended.code == 5
    assert await read(logs, "web", follow=True) == b"one\ntwo\n"


async def test_a_persistent_process_has_no_marker(logs: LogStore) -> None:
    async with Machine() as machine:
        run = machine.start(shell(f"echo ${MARKER}", **{MARKER: "x"}), out=logs.open("web"), persistent=True)
        assert (await run.wait()).code == 0
    assert await read(logs, "web", follow=True) == b"\n"


async def test_a_process_that_has_exited_is_not_adopted(machine: Machine) -> None:
    me = identity_of(os.getpid())
    assert me is not None
    assert machine.adopt(Identity(me.pid, me.started + 1)) is None
    assert machine.adopt(Identity(2**22 + 1, 1)) is None


async def test_the_end_of_an_adopted_process_is_noticed(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell("sleep 600 & echo $!; wait"), out=logs.open("web"))
    child = identity_of(int(await first_line(logs, "web")))
    assert child is not None
    adopted = machine.adopt(child)
    assert adopted is not None
    os.kill(child.pid, signal.SIGKILL)
    assert (await adopted.wait()).is_known is False
    await wait_gone(run.identity)


async def test_without_pidfds_the_end_of_a_process_is_noticed_by_polling(
    machine: Machine, logs: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    run = machine.start(shell("exit 4"), out=logs.open("web"))
    assert (await run.wait()).code == 4
    slow = machine.start(command("/bin/sleep", "600"), out=logs.open("slow"))
    await machine.stop(slow)
    assert (await slow.wait()).code == 143


async def test_a_process_receives_a_sigint_that_this_program_ignores(machine: Machine, logs: LogStore) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run = machine.start(shell("kill -INT $$; sleep 600"), out=logs.open("web"))
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert (await run.wait()).code == 128 + signal.SIGINT
