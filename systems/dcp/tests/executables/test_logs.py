"""The logs of Executables: before, during and after the run, and rejected requests."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from levelset import Ref, encode
from levelset.apiserver import LogRequest
from levelset.errors import BadRequest
from levelset.objects import decode_tree
from levelset.testing import Cluster
from levelset_dcp.executables import ExecutableHost, executable_logs, executables_controller
from levelset_dcp.kinds import Executable, Terminal
from levelset_machine import FakeMachine
from systems.dcp.tests.support.executables import exe, fake_executable_host, status

ONE = Ref(Executable, "one")


@pytest.fixture
def machine() -> FakeMachine:
    made = FakeMachine()
    made.program("web", prints=["hello", (2.0, "again"), (4.0, "bye")], stops_in=1.0)
    return made


@pytest.fixture
def host(machine: FakeMachine, tmp_path: Path) -> ExecutableHost:
    return fake_executable_host(machine, tmp_path)


async def log(cluster: Cluster, host: ExecutableHost, **query: str) -> AsyncIterator[bytes]:
    found = await cluster.get(ONE)
    return await executable_logs(host)(LogRequest("one", None, decode_tree(encode(found)), query))


async def whole(cluster: Cluster, host: ExecutableHost, **query: str) -> str:
    return b"".join([piece async for piece in await log(cluster, host, **query)]).decode()


async def test_logs_can_be_read_during_and_after_the_run(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe())
        await status(cluster)
        assert await whole(cluster, host) == "hello\n"
        await cluster.advance(5)
        machine.exit(machine.running[0], 0)
        await status(cluster)
        assert await whole(cluster, host) == "hello\nagain\nbye\n"
        assert await whole(cluster, host, tail="1", line_numbers="true") == "3 bye\n"
        assert await whole(cluster, host, skip="1", limit="1") == "again\n"
        assert (await whole(cluster, host, timestamps="true", limit="1")).endswith("Z hello\n")
        assert await whole(cluster, host, source="stderr") == ""


async def test_a_follower_gets_each_line_when_it_is_written(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe())
        await status(cluster)
        following = aiter(await log(cluster, host, follow="true", tail="1"))
        assert await anext(following) == b"hello\n"
        assert await anext(following) == b"again\n"
        assert await anext(following) == b"bye\n"
        machine.exit(machine.running[0], 0)
        assert await anext(following, None) is None


async def test_a_follower_waits_for_the_start(cluster: Cluster, host: ExecutableHost) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(start=False))
        await status(cluster)
        assert await whole(cluster, host) == ""
        following = aiter(await log(cluster, host, follow="true"))
        first = asyncio.ensure_future(anext(following))
        await cluster.advance(30)
        assert not first.done()
        await cluster.update((await cluster.get(ONE)).with_spec(start=True))
        assert await first == b"hello\n"


async def test_a_follower_does_not_miss_a_concurrent_start(cluster: Cluster, host: ExecutableHost) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(start=False))
        await status(cluster)
        following = aiter(await log(cluster, host, follow="true"))
        await cluster.update((await cluster.get(ONE)).with_spec(start=True))
        await cluster.settled()
        assert await anext(following) == b"hello\n"


@pytest.mark.parametrize("path", ["web", "missing"])
async def test_a_follower_of_a_workload_that_never_starts_gets_an_empty_log(
    path: str, cluster: Cluster, host: ExecutableHost
) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(path, start=False))
        await status(cluster)
        everything = asyncio.ensure_future(whole(cluster, host, follow="true"))
        await cluster.settled()
        if path == "web":
            await cluster.delete(ONE)
        else:
            await cluster.update((await cluster.get(ONE)).with_spec(start=True))
        assert await everything == ""


async def test_a_follower_gets_lines_that_are_written_during_deletion(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost
) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe())
        await status(cluster)
        following = asyncio.ensure_future(whole(cluster, host, follow="true"))
        await cluster.settled()
        await cluster.delete(ONE)
        await cluster.settled()
        machine.running[0].print("last words")
        with pytest.raises(BadRequest, match="being deleted"):
            await log(cluster, host)
        await cluster.until_gone(ONE)
        assert await following == "hello\nlast words\n"


async def test_the_system_log_exists_after_a_failed_start(cluster: Cluster, host: ExecutableHost) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe("missing"))
        await status(cluster)
        system_log = await whole(cluster, host, source="system")
        assert system_log.startswith("one is FailedToStart: ")
        assert "missing" in system_log


async def test_a_terminal_has_no_output_to_read(cluster: Cluster, host: ExecutableHost) -> None:
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(terminal=Terminal()))
        found = await status(cluster)
        assert found.state == "FailedToStart", "the fake machine has no terminals"
        assert "terminal" in found.message
        for source in ("stdout", "stderr"):
            with pytest.raises(BadRequest, match="runs on a terminal"):
                await log(cluster, host, source=source)
        assert "FailedToStart" in await whole(cluster, host, source="system")


REFUSED: list[dict[str, str]] = [
    {"source": "elsewhere"},
    {"limit": "0"},
    {"limit": "1", "follow": "true"},
    {"tail": "1000001"},
    {"tail": "1", "skip": "1"},
    {"tail": "-1"},
]


@pytest.mark.parametrize("query", REFUSED, ids=str)
async def test_an_invalid_log_query_is_rejected(query: dict[str, str], cluster: Cluster, host: ExecutableHost) -> None:
    await cluster.create(exe())
    with pytest.raises(BadRequest):
        await log(cluster, host, **query)


async def test_the_logs_of_a_persistent_program_survive_deletion(
    cluster: Cluster, machine: FakeMachine, host: ExecutableHost, tmp_path: Path
) -> None:
    more: Any = {"mode": "persistent"}
    async with cluster.running(executables_controller(host)):
        await cluster.create(exe(**more))
        await status(cluster)
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        await cluster.advance(3)
        await cluster.create(exe(**more))
        await status(cluster)
        assert await whole(cluster, host) == "hello\nagain\n"
        following = aiter(await log(cluster, host, follow="true", tail="0"))
        assert await anext(following) == b"bye\n"
        machine.exit(machine.running[0], 0)
        assert await anext(following, None) is None
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        assert not host.logs.has("one_out")
