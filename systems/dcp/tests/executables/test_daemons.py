"""Executables whose programs fork away: deleting the object, or killing the session, ends every process."""

import asyncio
import gc
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from levelset import Client, Ref, open_local
from levelset.runtime.manager import LocalSystem
from levelset_dcp.executables.supervisor import SupervisedRun
from levelset_dcp.kinds import Executable
from levelset_dcp.system import Options, dcp_system
from levelset_machine import Identity, LogSink, identity_of, is_alive
from levelset_machine.process.process_run import ProcessRun
from levelset_machine.process.table import Entry, read_table
from systems.dcp.tests.support.executables import exe
from systems.dcp.tests.support.sessions import WITHIN, running_session, until_state, wait_for_exit

ONE = Ref(Executable, "one")

DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
os.wait()
time.sleep(600)
"""

FORK_BOMB = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def grow(depth, children=14):
    "Has as many children as it may, each of which has its own, and replaces every one that ends."
    for _ in range(children):
        fork(depth)
    if depth == 2:
        print("grown", flush=True)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(600)
        fork(depth)
def fork(depth):
    if os.fork() == 0:
        os.setsid()
        grow(depth - 1) if depth > 1 else time.sleep(600)
grow(2)
"""
"""A tree of 211 processes."""


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[LocalSystem]:
    async with open_local(dcp_system(Options(folder=tmp_path / "s", grace=0.1))) as opened:
        yield opened


async def first_line(client: Client, name: str = "one") -> str:
    async with asyncio.timeout(WITHIN), client.logs(Ref(Executable, name), follow=True) as lines:
        async for line in lines:
            return line
    raise AssertionError(f"{name} printed nothing")


async def daemon_of(client: Client) -> Identity:
    found = identity_of(int(await first_line(client)))
    assert found is not None
    return found


def python(script: str, name: str = "one") -> Executable:
    return exe(sys.executable, name, args=("-I", "-S", "-c", script))


async def test_deleting_an_executable_ends_its_daemon(local: LocalSystem) -> None:
    await local.client.create(python(DAEMON))
    await until_state(local.client, "one", "Running")
    daemon = await daemon_of(local.client)
    await local.client.delete(ONE)
    await local.client.wait_gone(ONE, within=WITHIN)
    assert not is_alive(daemon)


async def test_a_session_that_is_killed_leaves_no_daemon(tmp_path: Path) -> None:
    async with running_session(tmp_path) as session:
        await session.client.create(python(DAEMON))
        await until_state(session.client, "one", "Running")
        daemon = await daemon_of(session.client)
        session.process.kill()
        await wait_for_exit(daemon, within=WITHIN)


async def test_deleting_a_program_that_replaces_every_process_that_is_killed_ends_all_of_them(
    local: LocalSystem,
) -> None:
    await local.client.create(python(FORK_BOMB))
    await until_state(local.client, "one", "Running")
    assert re.match("grown", await first_line(local.client))
    marker = next(one.marker for one in await table() if one.parent == os.getpid() and one.marker)
    await local.client.delete(ONE)
    await local.client.wait_gone(ONE, within=WITHIN)
    assert [one for one in await table() if one.marker == marker and one.is_alive] == []


async def table() -> list[Entry]:
    return await asyncio.to_thread(read_table, markers=True)


async def test_executables_that_were_deleted_leave_no_descriptor_process_or_object() -> None:
    names = [f"program-{one}" for one in range(int(os.environ.get("LEVELSET_TEST_EXECUTABLES", "40")))]
    async with open_local(dcp_system(Options(grace=0.1))) as local:
        await start_and_delete(local.client, ["first"])  # the guard and the connections, which stay
        before = await open_descriptors()
        await start_and_delete(local.client, names)
        await wait_until_equal(open_descriptors, before)
        assert [one for one in await table() if one.parent == os.getpid() and one.marker] == []
        gc.collect()
        left = [type(one).__name__ for one in gc.get_objects() if isinstance(one, ProcessRun | SupervisedRun | LogSink)]
        assert left == []


async def start_and_delete(client: Client, names: list[str]) -> None:
    await asyncio.gather(*(client.create(exe("/bin/sleep", name, args=("600",))) for name in names))
    for name in names:
        await until_state(client, name, "Running")
    await asyncio.gather(*(client.delete(Ref(Executable, name)) for name in names))
    for name in names:
        await client.wait_gone(Ref(Executable, name), within=WITHIN)


async def open_descriptors() -> int:
    return len(await asyncio.to_thread(os.listdir, "/proc/self/fd"))


async def wait_until_equal(read: Callable[[], Awaitable[int]], value: int) -> None:
    """Waits: the last streams of a client are closed shortly after their end."""
    async with asyncio.timeout(WITHIN):
        while await read() > value:  # noqa: ASYNC110  (the count has no event)
            await asyncio.sleep(0.01)
