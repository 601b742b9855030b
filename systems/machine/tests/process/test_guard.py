"""The guard process: when a manager is killed, its processes end."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from levelset_machine import Identity, LogStore, Machine, identity_of, is_alive
from levelset_machine.process.guard_main import Register, end_all
from levelset_machine.process.marker import MARKER
from systems.machine.tests.support import cat, command, first_line, python, shell, wait_gone, wait_until

MANAGER = '''
"""A program that starts processes, prints their pids, and waits to be killed."""
import asyncio, os, sys
from levelset_machine import Command, LogOptions, LogStore, Machine

DAEMON = "import os, time; os.fork() and os._exit(0); os.setsid(); print(os.getpid(), flush=True); time.sleep(600)"
COMMANDS = [
    ("/bin/sleep", "600"),
    ("/bin/sh", "-c", "trap '' TERM; sleep 600 & echo $!; while :; do sleep 0.01; done"),
    (sys.executable, "-c", DAEMON),
]

async def main():
    logs = LogStore(sys.argv[1])
    async with Machine() as machine:
        runs = [
            machine.start(Command(argv=argv, env=dict(os.environ)), out=logs.open(str(number)))
            for number, argv in enumerate(COMMANDS)
        ]
        found = [machine.guard.pid, *(run.identity.pid for run in runs[:2])]
        for key in ("1", "2"):
            async for chunk in logs.read(key, LogOptions(follow=True)):
                found.append(int(chunk.split()[0]))
                break
        persistent = machine.start(
            Command(argv=("/bin/sleep", "600"), env=dict(os.environ)), out=logs.open("persistent"), persistent=True
        )
        print(persistent.identity.pid, *found, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
'''


@pytest.fixture
def logs() -> LogStore:
    return LogStore(None)


def identities(pids: bytes) -> list[Identity]:
    found = [identity_of(int(pid)) for pid in pids.split()]
    assert None not in found
    return [one for one in found if one is not None]


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", MANAGER, str(tmp_path / "logs"), env=env, stdout=subprocess.PIPE
    )
    yield program
    if program.returncode is None:
        program.kill()
    await program.communicate()


async def test_a_killed_manager_leaves_only_persistent_processes(manager: asyncio.subprocess.Process) -> None:
    assert manager.stdout is not None
    persistent, *others = identities(await manager.stdout.readline())
    try:
        manager.kill()
        await asyncio.gather(*(wait_gone(one) for one in others))
        assert [is_alive(one) for one in others] == [False] * 5
        assert is_alive(persistent)
    finally:
        os.kill(persistent.pid, signal.SIGKILL)


async def test_the_guard_starts_with_the_first_process_and_exits_with_the_machine(logs: LogStore) -> None:
    async with Machine() as machine:
        assert machine.guard is None
        machine.start(command("/bin/sleep", "600"), out=logs.open("web"))
        guard = machine.guard
        assert guard is not None
        assert is_alive(guard)
    assert identity_of(guard.pid) != guard


async def test_a_killed_guard_is_replaced_and_knows_the_same_processes(logs: LogStore) -> None:
    async with Machine() as machine:
        # Without a marker: only a guard to which it was reported can find it.
        run = machine.start(shell("exec env -i sh -c 'echo ready; exec sleep 600'"), out=logs.open("web"))
        assert await first_line(logs, "web") == b"ready"
        first = machine.guard
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        await wait_until(lambda: machine.guard not in {None, first})
        second = machine.guard
        assert second is not None
        machine._guard._pipe.close(b"")  # type: ignore[union-attr]  # as if this program had exited
        assert (await run.wait()).code == 143
        await wait_gone(second)


async def test_a_daemonized_child_of_an_ended_run_ends_with_the_machine(logs: LogStore) -> None:
    daemon = "import os, time; os.fork() and os._exit(0); os.setsid(); print(os.getpid(), flush=True); time.sleep(600)"
    async with Machine() as machine:
        run = machine.start(python(daemon), out=logs.open("web"))
        [child] = identities(await first_line(logs, "web"))
        await run.wait()
        assert is_alive(child)
    assert not is_alive(child)


async def test_the_guard_has_its_own_session_and_outlives_a_run(logs: LogStore) -> None:
    async with Machine() as machine:
        run = machine.start(command("/bin/true"), out=logs.open("web"))
        guard = machine.guard
        assert guard is not None
        assert os.getsid(guard.pid) == guard.pid
        await run.wait()
        assert machine.guard == guard


def test_the_register_parses_lines_wherever_the_data_is_cut() -> None:
    register = Register()
    for byte in b"+12 345\n+13 346\n-12\n-99\n":
        register.add(bytes([byte]))
    assert (register.roots, register.is_tidy) == ({13: 346}, False)
    register.add(b"bye\n")
    assert register.is_tidy


def test_an_unreported_process_with_the_marker_is_ended() -> None:
    child, other = cat(**{MARKER: "token.1"}), cat(**{MARKER: "token2.1"})
    try:
        end_all({}, "token", rounds=1)
        assert (child.wait(timeout=120), other.poll()) == (-15, None)
    finally:
        for one in (child, other):
            one.kill()
            one.communicate()


def test_a_process_with_a_reused_pid_is_not_ended() -> None:
    child = subprocess.Popen(["/bin/sleep", "600"])
    identity = identity_of(child.pid)
    assert identity is not None
    end_all({identity.pid: identity.started - 1}, "no such token", rounds=1)
    assert child.poll() is None
    end_all({identity.pid: identity.started}, "no such token", rounds=1)
    assert child.wait() == -15


def test_a_process_that_ignores_sigterm_is_killed_after_a_second() -> None:
    child = subprocess.Popen(shell("trap '' TERM; echo; while :; do sleep 0.01; done").argv, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    identity = identity_of(child.pid)
    assert identity is not None
    end_all({identity.pid: identity.started}, "no such token", rounds=1)
    child.communicate()
    assert child.returncode == -9
