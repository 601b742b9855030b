"""What is shown of what programs write: while they run, before, and after; and what is refused."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from levelset import BadRequest, Ref, encode
from levelset.apiserver import Asked
from levelset.objects import decode_tree
from levelset.testing import Cluster
from levelset_dcp.executables import Executables as World
from levelset_dcp.executables import executable_logs, executables_controller
from levelset_dcp.kinds import Executable, Terminal
from levelset_machine import PretendMachine as Pretend
from systems.dcp.tests.programs import exe, pretend_world, status

ONE = Ref(Executable, "one")


@pytest.fixture
def pretend() -> Pretend:
    made = Pretend()
    made.program("web", prints=["hello", (2.0, "again"), (4.0, "bye")], stops_in=1.0)
    return made


@pytest.fixture
def world(pretend: Pretend, tmp_path: Path) -> World:
    return pretend_world(pretend, tmp_path)


async def log(cluster: Cluster, world: World, **query: str) -> AsyncIterator[bytes]:
    found = await cluster.get(ONE)
    return await executable_logs(world)(Asked("one", None, decode_tree(encode(found)), query))


async def whole(cluster: Cluster, world: World, **query: str) -> str:
    return b"".join([piece async for piece in await log(cluster, world, **query)]).decode()


async def test_logs_can_be_read_while_it_runs_and_after(cluster: Cluster, pretend: Pretend, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe())
        await status(cluster)
        assert await whole(cluster, world) == "hello\n"
        await cluster.advance(5)
        pretend.exit(pretend.running[0], 0)
        await status(cluster)
        assert await whole(cluster, world) == "hello\nagain\nbye\n"
        assert await whole(cluster, world, tail="1", line_numbers="true") == "3 bye\n"
        assert await whole(cluster, world, skip="1", limit="1") == "again\n"
        assert (await whole(cluster, world, timestamps="true", limit="1")).endswith("Z hello\n")
        assert await whole(cluster, world, source="stderr") == ""


async def test_who_follows_gets_each_line_as_it_comes(cluster: Cluster, pretend: Pretend, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe())
        await status(cluster)
        following = aiter(await log(cluster, world, follow="true", tail="1"))
        assert await anext(following) == b"hello\n"
        assert await anext(following) == b"again\n"
        assert await anext(following) == b"bye\n"
        pretend.exit(pretend.running[0], 0)
        assert await anext(following, None) is None


async def test_who_follows_what_has_not_started_waits_for_it(cluster: Cluster, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(start=False))
        await status(cluster)
        assert await whole(cluster, world) == ""
        following = aiter(await log(cluster, world, follow="true"))
        first = asyncio.ensure_future(anext(following))
        await cluster.advance(30)
        assert not first.done()
        await cluster.update((await cluster.get(ONE)).with_spec(start=True))
        assert await first == b"hello\n"


async def test_a_start_between_the_request_and_its_answer_is_not_missed(cluster: Cluster, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(start=False))
        await status(cluster)
        following = aiter(await log(cluster, world, follow="true"))
        await cluster.update((await cluster.get(ONE)).with_spec(start=True))
        await cluster.settled()
        assert await anext(following) == b"hello\n"


@pytest.mark.parametrize("path", ["web", "missing"])
async def test_who_follows_what_never_starts_is_not_kept_waiting(path: str, cluster: Cluster, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(path, start=False))
        await status(cluster)
        everything = asyncio.ensure_future(whole(cluster, world, follow="true"))
        await cluster.settled()
        if path == "web":
            await cluster.delete(ONE)
        else:
            await cluster.update((await cluster.get(ONE)).with_spec(start=True))
        assert await everything == ""


async def test_what_it_says_while_it_is_deleted_is_not_lost(cluster: Cluster, pretend: Pretend, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe())
        await status(cluster)
        following = asyncio.ensure_future(whole(cluster, world, follow="true"))
        await cluster.settled()
        await cluster.delete(ONE)
        await cluster.settled()
        pretend.running[0].print("last words")
        with pytest.raises(BadRequest, match="being deleted"):
            await log(cluster, world)
        await cluster.until_gone(ONE)
        assert await following == "hello\nlast words\n"


async def test_what_was_said_of_it_is_there_also_if_it_never_started(cluster: Cluster, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe("missing"))
        await status(cluster)
        said = await whole(cluster, world, source="system")
        assert said.startswith("one is FailedToStart: ")
        assert "missing" in said


async def test_a_terminal_has_no_output_to_read(cluster: Cluster, world: World) -> None:
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(terminal=Terminal()))
        found = await status(cluster)
        assert found.state == "FailedToStart", "the pretended machine has no terminals"
        assert "terminal" in found.message
        for source in ("stdout", "stderr"):
            with pytest.raises(BadRequest, match="runs on a terminal"):
                await log(cluster, world, source=source)
        assert "FailedToStart" in await whole(cluster, world, source="system")


REFUSED: list[dict[str, str]] = [
    {"source": "elsewhere"},
    {"limit": "0"},
    {"limit": "1", "follow": "true"},
    {"tail": "1000001"},
    {"tail": "1", "skip": "1"},
    {"tail": "-1"},
]


@pytest.mark.parametrize("query", REFUSED, ids=str)
async def test_what_makes_no_sense_is_refused(query: dict[str, str], cluster: Cluster, world: World) -> None:
    await cluster.create(exe())
    with pytest.raises(BadRequest):
        await log(cluster, world, **query)


async def test_the_logs_of_a_persistent_program_stay_with_it(
    cluster: Cluster, pretend: Pretend, world: World, tmp_path: Path
) -> None:
    more: Any = {"mode": "persistent"}
    async with cluster.running(executables_controller(world)):
        await cluster.create(exe(**more))
        await status(cluster)
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        await cluster.advance(3)
        await cluster.create(exe(**more))
        await status(cluster)
        assert await whole(cluster, world) == "hello\nagain\n"
        following = aiter(await log(cluster, world, follow="true", tail="0"))
        assert await anext(following) == b"bye\n"
        pretend.exit(pretend.running[0], 0)
        assert await anext(following, None) is None
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        assert not world.logs.has("one_out")
