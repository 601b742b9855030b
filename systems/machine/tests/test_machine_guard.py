"""If a program is killed, its processes end all the same: a guard sees to it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from levelset_machine import Identity, LogStore, Machine, identity_of, is_alive
from levelset_machine.entries import MARKER
from levelset_machine.guarding import Register, end_all
from systems.machine.tests.machines import cat, command, first_line, python, shell, wait_gone, wait_until

MANAGER = '''
"""A program that starts processes, says which, and waits to be killed."""
import asyncio, os, sys
from levelset_machine import Command, LogOptions, LogStore, Machine

RUN_AWAY = "import os, time; os.fork() and os._exit(0); os.setsid(); print(os.getpid(), flush=True); time.sleep(600)"
COMMANDS = [
    ("/bin/sleep", "600"),
    ("/bin/sh", "-c", "trap '' TERM; sleep 600 & echo $!; while :; do sleep 0.01; done"),
    (sys.executable, "-c", RUN_AWAY),
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
        lasting = machine.start(
            Command(argv=("/bin/sleep", "600"), env=dict(os.environ)), out=logs.open("lasting"), persistent=True
        )
        print(lasting.identity.pid, *found, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
'''


@pytest.fixture
def logs() -> LogStore:
    return LogStore(None)


def born(words: bytes) -> list[Identity]:
    found = [identity_of(int(word)) for word in words.split()]
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


async def test_a_program_that_is_killed_leaves_nothing_but_what_shall_last(manager: asyncio.subprocess.Process) -> None:
    assert manager.stdout is not None
    lasting, *others = born(await manager.stdout.readline())
    try:
        manager.kill()
        await asyncio.gather(*(wait_gone(one) for one in others))
        assert [is_alive(one) for one in others] == [False] * 5
        assert is_alive(lasting)
    finally:
        os.kill(lasting.pid, signal.SIGKILL)


async def test_a_guard_is_started_with_the_first_process_and_leaves_with_the_machine(logs: LogStore) -> None:
    async with Machine() as machine:
        assert machine.guard is None
        machine.start(command("/bin/sleep", "600"), out=logs.open("web"))
        guard = machine.guard
        assert guard is not None
        assert is_alive(guard)
    assert identity_of(guard.pid) != guard


async def test_a_guard_that_is_killed_is_replaced_by_one_that_knows_as_much(logs: LogStore) -> None:
    async with Machine() as machine:
        # Without a marker, so that only who was told of it can know it.
        run = machine.start(shell("exec env -i sh -c 'echo ready; exec sleep 600'"), out=logs.open("web"))
        assert await first_line(logs, "web") == b"ready"
        first = machine.guard
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        await wait_until(lambda: machine.guard not in {None, first})
        second = machine.guard
        assert second is not None
        machine._guard._pipe.close(b"")  # type: ignore[union-attr]  # as if we were gone
        assert (await run.wait()).code == 143
        await wait_gone(second)


async def test_what_ran_away_from_a_run_that_has_ended_goes_with_the_machine(logs: LogStore) -> None:
    away = "import os, time; os.fork() and os._exit(0); os.setsid(); print(os.getpid(), flush=True); time.sleep(600)"
    async with Machine() as machine:
        run = machine.start(python(away), out=logs.open("web"))
        [child] = born(await first_line(logs, "web"))
        await run.wait()
        assert is_alive(child)
    assert not is_alive(child)


async def test_a_guard_is_in_nobodys_way(logs: LogStore) -> None:
    async with Machine() as machine:
        run = machine.start(command("/bin/true"), out=logs.open("web"))
        guard = machine.guard
        assert guard is not None
        assert os.getsid(guard.pid) == guard.pid
        await run.wait()
        assert machine.guard == guard


def test_the_guard_is_told_in_lines_however_they_are_cut() -> None:
    register = Register()
    for byte in b"+12 345\n+13 346\n-12\n-99\n":
        register.add(bytes([byte]))
    assert (register.roots, register.is_tidy) == ({13: 346}, False)
    register.add(b"bye\n")
    assert register.is_tidy


def test_what_carries_the_marker_ends_although_nobody_told_of_it() -> None:
    child, other = cat(**{MARKER: "token.1"}), cat(**{MARKER: "token2.1"})
    try:
        end_all({}, "token", rounds=1)
        assert (child.wait(timeout=15), other.poll()) == (-15, None)
    finally:
        for one in (child, other):
            one.kill()
            one.communicate()


def test_a_reused_number_is_not_ended() -> None:
    child = subprocess.Popen(["/bin/sleep", "600"])
    identity = identity_of(child.pid)
    assert identity is not None
    end_all({identity.pid: identity.started - 1}, "no such token", rounds=1)
    assert child.poll() is None
    end_all({identity.pid: identity.started}, "no such token", rounds=1)
    assert child.wait() == -15


def test_what_does_not_listen_is_killed_after_a_second() -> None:
    child = subprocess.Popen(shell("trap '' TERM; echo; while :; do sleep 0.01; done").argv, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    identity = identity_of(child.pid)
    assert identity is not None
    end_all({identity.pid: identity.started}, "no such token", rounds=1)
    child.communicate()
    assert child.returncode == -9
