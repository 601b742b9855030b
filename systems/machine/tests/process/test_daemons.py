"""Daemons: a process that forks twice, leaves its session and clears its environment still ends with its run."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from levelset_machine import Identity, LogStore, Machine, identity_of, is_alive
from systems.machine.tests.support import first_line, python, wait_gone, wait_until

DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        for descriptor in range(3):
            os.close(descriptor)
        os.chdir("/")
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
os.wait()
"""
STAYS = DAEMON + "time.sleep(600)"

MANAGER = f'''
"""A program that starts a daemon, prints its pid and those of its run and its guard, and waits to be killed."""
import asyncio, os, sys
from levelset_machine import Command, LogOptions, LogStore, Machine

async def main():
    logs = LogStore(sys.argv[1])
    async with Machine() as machine:
        run = machine.start(Command(argv=(sys.executable, "-I", "-S", "-c", {STAYS!r}), env={{}}), out=logs.open("web"))
        async for chunk in logs.read("web", LogOptions(follow=True)):
            print(int(chunk.split()[0]), run.identity.pid, machine.guard.pid, flush=True)
            break
        await asyncio.sleep(600)

asyncio.run(main())
'''


@pytest.fixture
def logs() -> LogStore:
    return LogStore(None)


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "TMPDIR": str(tmp_path)}
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", MANAGER, str(tmp_path / "logs"), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    yield program
    if program.returncode is None:
        program.kill()
    await program.communicate()


async def daemon_of(logs: LogStore, key: str = "web") -> Identity:
    """The daemon whose pid is the first line of a log, after it has executed its program."""
    pid = int(await first_line(logs, key))
    await wait_until(lambda: proc_file(pid, "comm") == b"sleep\n")
    found = identity_of(pid)
    assert found is not None
    return found


async def started_by(manager: asyncio.subprocess.Process) -> list[Identity]:
    assert manager.stdout is not None
    found = [identity_of(int(pid)) for pid in (await manager.stdout.readline()).split()]
    assert None not in found
    return [one for one in found if one is not None]


@pytest.mark.parametrize("script", [DAEMON, STAYS], ids=["whose program ended", "whose program goes on"])
async def test_a_daemon_without_environment_ends_when_its_run_is_stopped(logs: LogStore, script: str) -> None:
    async with Machine(guard=False) as machine:
        run = machine.start(python(script), out=logs.open("web"))
        daemon = await daemon_of(logs)
        if script == DAEMON:
            await run.wait()
        await machine.stop(run)
        assert not is_alive(daemon)


async def test_a_daemon_of_another_run_is_not_affected(logs: LogStore) -> None:
    async with Machine(guard=False) as machine:
        runs = [machine.start(python(STAYS), out=logs.open(key)) for key in ("one", "other")]
        one, other = [await daemon_of(logs, key) for key in ("one", "other")]
        await machine.stop(runs[0])
        assert (is_alive(one), is_alive(other)) == (False, True)
        await machine.stop(runs[1])
        assert not is_alive(other)


async def test_a_daemon_of_an_ended_run_ends_with_the_machine(logs: LogStore) -> None:
    async with Machine() as machine:
        run = machine.start(python(DAEMON), out=logs.open("web"))
        daemon = await daemon_of(logs)
        await run.wait()
        assert is_alive(daemon)
    assert not is_alive(daemon)


async def test_a_killed_manager_leaves_no_daemon(manager: asyncio.subprocess.Process) -> None:
    found = await started_by(manager)
    manager.kill()
    await asyncio.gather(*(wait_gone(one) for one in found))


async def test_a_guard_that_was_killed_first_is_replaced_by_one_that_ends_the_daemon(
    manager: asyncio.subprocess.Process,
) -> None:
    daemon, run, guard = await started_by(manager)
    os.kill(guard.pid, signal.SIGKILL)
    assert manager.stderr is not None
    assert b"guard process was killed" in await manager.stderr.readline()
    await wait_until(lambda: guards_of(manager.pid, but=guard.pid))
    manager.kill()
    await asyncio.gather(wait_gone(daemon), wait_gone(run))


def guards_of(pid: int, *, but: int) -> bool:
    """Whether a process has a guard process as its child, other than the given one."""
    children = [int(child) for child in proc_file(pid, f"task/{pid}/children").split()]
    return any(b"guard_main" in proc_file(child, "cmdline") for child in children if child != but)


def proc_file(pid: int, name: str) -> bytes:
    descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(descriptor, 65536)
    finally:
        os.close(descriptor)


async def test_what_a_manager_and_its_guard_left_that_were_killed_together_is_ended_by_the_next_machine(
    manager: asyncio.subprocess.Process,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    daemon, run, guard = await started_by(manager)
    # A stopped manager cannot start another guard before it is killed.
    for pid in (manager.pid, guard.pid):
        os.kill(pid, signal.SIGSTOP)
    os.kill(guard.pid, signal.SIGKILL)
    manager.kill()
    await asyncio.gather(manager.wait(), wait_gone(guard))
    assert is_alive(daemon)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with Machine():
        assert not is_alive(daemon)
        assert not is_alive(run)
    [record] = [one for one in caplog.records if "killed with its guard" in one.message]
    assert (record.__dict__["count"], f"{daemon.pid} sleep" in record.__dict__["processes"]) == (2, True)
    assert not await asyncio.to_thread(lambda: [*tmp_path.glob("levelset-machines-*/*")])


async def test_the_guard_reports_what_it_ended(manager: asyncio.subprocess.Process) -> None:
    daemon, run, _ = await started_by(manager)
    manager.kill()
    assert manager.stderr is not None
    line = (await manager.stderr.readline()).decode()
    assert line.startswith("levelset guard: ended 2 processes that a killed session had left running: ")
    assert (f"{daemon.pid} sleep" in line, f"{run.pid} python" in line) == (True, True)


async def test_stopping_a_run_reports_how_many_processes_it_left(
    logs: LogStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with Machine(guard=False) as machine:
        run = machine.start(python(DAEMON), out=logs.open("web"))
        await daemon_of(logs)
        await run.wait()
        await machine.stop(run)
    [record] = [one for one in caplog.records if one.message == "killed processes that a program left"]
    assert (record.__dict__["program"], record.__dict__["count"]) == (run.identity.pid, 1)


async def test_a_daemon_of_a_persistent_process_ends_when_a_later_machine_stops_it(tmp_path: Path) -> None:
    files = LogStore(tmp_path)
    async with Machine() as first:
        identity = first.start(python(STAYS), out=files.open("web"), persistent=True).identity
        daemon = await daemon_of(files)
    assert (is_alive(identity), is_alive(daemon)) == (True, True)
    async with Machine() as second:
        run = second.adopt(identity)
        assert run is not None
        await second.stop(run)
    assert (is_alive(identity), is_alive(daemon)) == (False, False)
