"""The orphan cleanup removes the engine objects of killed sessions, and nothing else."""

import asyncio
import os
from contextlib import aclosing

from levelset import ObjectMeta, open_local
from levelset.testing import virtual
from levelset_dcp.containers.orphan_cleanup import OrphanReport, clean_orphans
from levelset_dcp.engines import InMemoryEngine, Mount, NewContainer, NewNetwork
from levelset_dcp.kinds import Container, ContainerSpec
from levelset_dcp.names import labels_of
from levelset_dcp.records import MemoryRecords
from levelset_dcp.system import Options, dcp_system
from levelset_machine import Identity, identity_of

DEAD = Identity(os.getpid(), 1)
ALIVE = identity_of(os.getpid()) or DEAD
OWNER = Container(metadata=ObjectMeta(name="one", uid="u"), spec=ContainerSpec(image="x"))


async def make(
    engine: InMemoryEngine, name: str, creator: Identity, *, is_persistent: bool = False, starts: bool = True
) -> None:
    labels = labels_of(OWNER, creator, is_persistent=is_persistent)
    container = await engine.create_container(NewContainer(image="x", name=name, labels=labels))
    await engine.create_network(NewNetwork(name=f"net-{name}", labels=labels))
    await engine.create_volume(f"data-{name}", labels=labels)
    if starts:
        await engine.start_container(container)


async def names(engine: InMemoryEngine) -> tuple[list[str], list[str]]:
    containers = sorted(one.name for one in await engine.list_containers())
    networks = sorted(one.name for one in await engine.list_networks())
    return containers, [one for one in networks if one.startswith("net-")]


@virtual
async def test_running_containers_and_empty_networks_of_dead_sessions_are_removed() -> None:
    engine, records = InMemoryEngine(), MemoryRecords()
    await make(engine, "dead", DEAD)
    await make(engine, "alive", ALIVE)
    await make(engine, "persistent", DEAD, is_persistent=True)
    await make(engine, "ended", DEAD, starts=False)
    await engine.create_container(NewContainer(image="x", name="theirs"))
    await engine.connect("net-ended", "ended")
    built_in = len(await engine.list_networks())
    await engine.create_volume("theirs")
    assert await clean_orphans(engine, records) == OrphanReport(("dead",), ("net-dead",), ("data-dead", "data-ended"))
    assert await names(engine) == (
        ["alive", "ended", "persistent", "theirs"],
        ["net-alive", "net-ended", "net-persistent"],
    )
    assert len(await engine.list_networks()) == built_in - 1
    assert [one.name for one in await engine.list_volumes()] == ["data-alive", "data-persistent", "theirs"]
    assert records.leases == set()


@virtual
async def test_a_volume_that_a_container_mounts_is_not_removed() -> None:
    engine = InMemoryEngine()
    await make(engine, "dead", DEAD)
    mount = Mount(type="volume", source="data-dead", target="/data")
    await engine.create_container(NewContainer(image="x", name="theirs", mounts=(mount,)))
    assert (await clean_orphans(engine, MemoryRecords())).volumes == ()
    assert [one.name for one in await engine.list_volumes()] == ["data-dead"]


@virtual
async def test_the_orphan_cleanup_needs_its_lease() -> None:
    engine = InMemoryEngine()
    await make(engine, "dead", DEAD)
    assert await clean_orphans(engine, MemoryRecords(taken=frozenset({"orphan-cleanup"}))) == OrphanReport()
    assert (await names(engine))[0] == ["dead"]


async def removed_network(engine: InMemoryEngine) -> None:
    """Returns when a network was removed."""
    async with aclosing(engine.watch()) as events:
        async for one in events:
            if one.kind == "network":
                return


async def test_dcp_starts_with_the_orphan_cleanup() -> None:
    engine = InMemoryEngine()
    await make(engine, "dead", DEAD)
    await make(engine, "alive", ALIVE)
    gone = asyncio.ensure_future(removed_network(engine))
    async with open_local(dcp_system(Options(engine=engine))), asyncio.timeout(120):
        await gone
    assert await names(engine) == (["alive"], ["net-alive"])


async def test_an_engine_that_is_started_later_is_cleaned_then() -> None:
    engine = InMemoryEngine()
    await make(engine, "dead", DEAD)
    engine.set_health(False)
    async with open_local(dcp_system(Options(engine=engine))), asyncio.timeout(120):
        await asyncio.sleep(0.1)
        engine.set_health(True)
        await removed_network(engine)
        assert await names(engine) == ([], [])
