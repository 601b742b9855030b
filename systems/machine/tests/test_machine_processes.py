"""Processes are started, watched to their end, and what they write is in their logs."""

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
from levelset_machine.entries import MARKER
from systems.machine.tests.machines import command, first_line, read, shell, wait_gone


@pytest.fixture
async def machine() -> AsyncIterator[Machine]:
    async with Machine(guard=False) as machine:
        yield machine


@pytest.fixture
def logs(tmp_path: Path) -> LogStore:
    return LogStore(tmp_path / "logs")


async def test_a_process_ends_with_its_code_and_what_it_wrote(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell("echo out; echo err >&2; printf rest; exit 3"), out=logs.open("web"))
    assert (run.ended, identity_of(run.identity.pid)) == (None, run.identity)
    ended = await run.wait()
    assert (ended.code, ended.is_known, run.ended, machine.running) == (3, True, ended, [])
    assert abs(ended.at - datetime.now(UTC)) < timedelta(minutes=1)
    assert await read(logs, "web") == b"out\nerr\nrest"
    assert await run.wait() is ended


async def test_errors_go_to_a_log_of_their_own_if_there_is_one(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell("echo out; echo err >&2"), out=logs.open("out"), err=logs.open("err"))
    await run.wait()
    assert (await read(logs, "out"), await read(logs, "err")) == (b"out\n", b"err\n")


async def test_a_signal_that_ends_a_process_is_told_as_a_shell_does(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell("kill -9 $$"), out=logs.open("web"))
    assert (await run.wait()).code == 137


async def test_a_process_has_the_environment_it_was_given_and_the_marker(machine: Machine, logs: LogStore) -> None:
    run = machine.start(command("/usr/bin/env", A="1", **{MARKER: "somebody else's"}), out=logs.open("web"))
    await run.wait()
    found = dict(line.split("=", 1) for line in (await read(logs, "web")).decode().splitlines())
    assert {**found, MARKER: ""} == {"PATH": os.environ["PATH"], "A": "1", MARKER: ""}
    assert found[MARKER] not in {"", "somebody else's"}


async def test_a_process_starts_in_its_folder_with_nothing_to_read(machine: Machine, logs: LogStore) -> None:
    run = machine.start(command("/bin/sh", "-c", "pwd; cat", cwd="/usr"), out=logs.open("web"))
    assert (await run.wait()).code == 0
    assert await read(logs, "web") == b"/usr\n"


async def test_what_a_process_writes_is_followed_to_its_end(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"), out=logs.open("web"))
    found = await read(logs, "web", follow=True)
    assert found == b"".join(b"line %d\n" % number for number in range(20000))
    assert (await run.wait()).code == 0


async def test_children_that_keep_the_pipe_do_not_keep_the_run(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell("sleep 600 & echo $!"), out=logs.open("web"))
    assert (await run.wait()).code == 0
    child = identity_of(int(await first_line(logs, "web")))
    assert child is not None
    # The log ends although the pipe does not; and stopping a run that has ended takes what it left behind.
    assert await read(logs, "web", follow=True) == b"%d\n" % child.pid
    await machine.stop(run)
    assert not is_alive(child)


@pytest.mark.slow
async def test_a_thousand_processes_at_once_are_fine(machine: Machine) -> None:
    store = LogStore(None)
    runs = [machine.start(command("/bin/true"), out=store.open(str(number))) for number in range(1000)]
    codes = [ended.code for ended in await asyncio.gather(*(run.wait() for run in runs))]
    assert (codes, machine.running) == ([0] * 1000, [])


async def test_of_runs_that_have_ended_no_descriptor_is_left(machine: Machine, logs: LogStore) -> None:
    before = await asyncio.to_thread(os.listdir, "/proc/self/fd")
    for number in range(5):
        run = machine.start(shell("echo hello"), out=logs.open(f"out{number}"), err=logs.open(f"err{number}"))
        await run.wait()
        assert await read(logs, f"out{number}", follow=True) == b"hello\n"
        assert await read(logs, f"err{number}", follow=True) == b""
    assert len(await asyncio.to_thread(os.listdir, "/proc/self/fd")) == len(before)


FULL = """
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


async def test_when_no_more_files_can_be_opened_the_rest_is_refused_in_words() -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    program = await asyncio.create_subprocess_exec(sys.executable, "-c", FULL, stdout=subprocess.PIPE, env=env)
    printed, _ = await program.communicate()
    words = "cannot start '/bin/sleep': too many files are open here; raise the limit (`ulimit -n`), or run fewer"
    assert (program.returncode, printed.decode().startswith(f'60 {{"{words}')) == (0, True)


async def test_waiting_may_be_given_up_without_harm(machine: Machine, logs: LogStore) -> None:
    run = machine.start(shell("read never; sleep 600"), out=logs.open("web"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await run.wait()
    assert run.ended is None or run.ended.code == 0
    await machine.stop(run)


async def test_leaving_the_block_stops_everything_and_then_nothing_starts() -> None:
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


async def test_a_process_that_is_gone_is_not_adopted(machine: Machine) -> None:
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


async def test_without_descriptors_for_processes_their_end_is_noticed_too(
    machine: Machine, logs: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    run = machine.start(shell("exit 4"), out=logs.open("web"))
    assert (await run.wait()).code == 4
    slow = machine.start(command("/bin/sleep", "600"), out=logs.open("slow"))
    await machine.stop(slow)
    assert (await slow.wait()).code == 143


async def test_a_process_heeds_an_interrupt_that_this_program_ignores(machine: Machine, logs: LogStore) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run = machine.start(shell("kill -INT $$; sleep 600"), out=logs.open("web"))
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert (await run.wait()).code == 128 + signal.SIGINT
