"""Containers that outlive a session, are found, or are only removed; and a controller that is started anew."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from levelset import MergePatch, Ref
from levelset.testing import Cluster
from levelset_dcp.containers import Containers, containers_controller
from levelset_dcp.containers.labels import KEY, UID, labels_of
from levelset_dcp.containers.resolving import judge
from levelset_dcp.engines import ContainerInfo, InMemoryEngine, NewContainer
from levelset_dcp.kinds import Build, Container, ContainerStatus, EnvVar
from levelset_dcp.records import MemoryRecords
from levelset_machine import Identity
from systems.dcp.tests.engines_world import container, engine_world, names, seen_states, status

ONE = Ref(Container, "one")
LASTING: dict[str, Any] = {"container_name": "lasting", "persistent": True}


@pytest.fixture
def engine() -> InMemoryEngine:
    return InMemoryEngine()


@pytest.fixture
def world(engine: InMemoryEngine) -> Containers:
    return engine_world(engine, records=MemoryRecords(workload="w"))


async def delete(cluster: Cluster, name: str = "one") -> None:
    await cluster.delete(Ref(Container, name))
    await cluster.until_gone(Ref(Container, name))


async def test_a_persistent_one_is_kept_reused_and_written_down(
    cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    ids: list[str] = []
    found = ContainerStatus()
    async with cluster.running(containers_controller(world)):
        for _ in range(2):
            await cluster.create(container(**LASTING))
            found = await status(cluster)
            ids.append(found.container_id)
            assert found.state == "Running"
            assert found.lifecycle_key
            await delete(cluster)
            await cluster.advance(30)
        info = await engine.inspect_container("lasting")
        assert ids == [info.id, info.id]
        assert found.startup_timestamp == info.started_at
        (record,) = (await world.records.belongings("w")).resources
        assert (record.kind, record.name, record.id) == ("container", "lasting", info.id)
        assert record.key == info.labels[KEY]


async def test_another_lifecycle_key_makes_another_container(
    cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    async with cluster.running(containers_controller(world)):
        await cluster.create(container(**LASTING))
        first = (await status(cluster)).container_id
        await delete(cluster)
        await cluster.create(container(**LASTING, env=(EnvVar(name="A", value="1"),)))
        found = await status(cluster)
        assert found.state == "Running"
        assert found.container_id != first
        assert await names(engine) == ["lasting"]


async def test_one_that_has_ended_meanwhile_is_made_anew(
    cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    async with cluster.running(containers_controller(world)):
        await cluster.create(container(**LASTING))
        first = (await status(cluster)).container_id
        await delete(cluster)
        engine.exit("lasting", 1)
        await cluster.create(container(**LASTING))
        found = await status(cluster)
        assert found.state == "Running"
        assert found.container_id != first


async def test_the_content_of_the_dockerfile_counts(
    cluster: Cluster, engine: InMemoryEngine, world: Containers, tmp_path: Path
) -> None:
    keys: list[str] = []
    build = Build(context=str(tmp_path), tags=("own:1",))
    async with cluster.running(containers_controller(world)):
        for text in ("FROM a", "FROM a", "FROM b"):
            await asyncio.to_thread((tmp_path / "Dockerfile").write_text, text)
            await cluster.create(container(**LASTING, image="", build=build))
            keys.append((await status(cluster)).lifecycle_key)
            await delete(cluster)
    assert keys[0] == keys[1] != keys[2]


async def test_an_existing_one_is_never_made_and_kept(
    cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    async with cluster.running(containers_controller(world)):
        await cluster.create(container(mode="existing", container_name="theirs", image="", lifecycle_key="other"))
        assert (await status(cluster)).state == "NotFound"
        writes = len(cluster.history(ONE))
        await cluster.advance(60)
        assert len(cluster.history(ONE)) == writes
        made = await engine.create_container(NewContainer(image="pg", name="theirs"))
        await engine.start_container(made)
        await cluster.advance(6)
        found = await status(cluster)
        assert (found.state, found.container_id) == ("Running", made)
        await delete(cluster)
        assert await names(engine) == ["theirs"]


@pytest.mark.parametrize("is_adopted", [True, False])
async def test_cleanup_never_makes_one_but_removes_it(
    is_adopted: bool, cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    async with cluster.running(containers_controller(world)):
        await cluster.create(container(mode="cleanup", container_name="theirs", image=""))
        await cluster.settled()
        made = await engine.create_container(NewContainer(image="pg", name="theirs"))
        await engine.start_container(made)
        if is_adopted:
            await cluster.advance(6)
            assert (await status(cluster)).state == "Running"
        await delete(cluster)
        assert await names(engine) == []


async def test_cleanup_with_nothing_to_remove_ends(cluster: Cluster, world: Containers) -> None:
    async with cluster.running(containers_controller(world)):
        await cluster.create(container(mode="cleanup", container_name="theirs", image=""))
        await cluster.settled()
        await delete(cluster)


@pytest.mark.parametrize("is_running", [True, False])
async def test_stop_ends_a_persistent_one_of_an_earlier_session(
    is_running: bool, cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    async with cluster.running(containers_controller(world)):
        await cluster.create(container(**LASTING))
        await status(cluster)
        await delete(cluster)
        if not is_running:
            engine.exit("lasting", 5)
        await cluster.create(container(**LASTING, start=False, stop=True))
        found = await status(cluster)
        assert (found.state, found.exit_code) == ("Exited", 143 if is_running else 5)
        assert ("Stopping" in seen_states(cluster, ONE)) is is_running


async def test_the_container_of_another_session_is_waited_for(
    cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    records = MemoryRecords(taken=frozenset({"containers/lasting"}))
    async with cluster.running(containers_controller(engine_world(engine, records=records))):
        await cluster.create(container(**LASTING))
        assert (await status(cluster)).message == "another session has the container"
        records.taken = frozenset()
        await cluster.advance(6)
        assert (await status(cluster)).state == "Running"
        assert records.leases == {"containers/lasting"}
        await delete(cluster)
        assert not records.leases


@pytest.mark.parametrize("is_same_controller", [True, False])
async def test_a_controller_that_is_started_anew_goes_on(
    is_same_controller: bool, cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    controller = containers_controller(world)
    async with cluster.running(controller):
        await cluster.create(container(container_name="web"))
        await status(cluster)
    engine.exit("web", 4)
    async with cluster.running(controller if is_same_controller else containers_controller(world)):
        found = await status(cluster)
        assert (found.state, found.exit_code) == ("Exited", 4)
        await delete(cluster)
        assert await names(engine) == []


async def test_a_start_that_was_interrupted_goes_on_with_the_same_container(
    cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    controller = containers_controller(world)
    engine.slow("start_container", 20.0)
    async with cluster.running(controller):
        await cluster.create(container(container_name="web"))
        await cluster.advance(3)
    assert [one.status for one in await engine.list_containers()] == ["created"]
    async with cluster.running(controller):
        await cluster.advance(25)
        assert (await status(cluster)).state == "Running"
        assert await names(engine) == ["web"]


async def test_one_that_was_stopped_before_its_record_could_be_found_is_not_started(
    cluster: Cluster, engine: InMemoryEngine, world: Containers
) -> None:
    async with cluster.running(containers_controller(world)):
        await cluster.create(container(**LASTING, start=False))
        await cluster.advance(10)
        await cluster.patch(ONE, MergePatch({"spec": {"stop": True}}))
        assert (await status(cluster)).state == "FailedToStart"
        assert await names(engine) == []


def left(*, key: str = "k", running: bool = True, uid: str = "x") -> ContainerInfo:
    labels = {**labels_of(container(), Identity(1, 1), lasts=True, key=key), UID: uid} if uid else {}
    return ContainerInfo(id="1", name="n", image="i", status="running" if running else "exited", labels=labels)


@pytest.mark.parametrize(
    ("spec", "there", "verdict"),
    [
        ({}, None, "make"),
        ({}, left(), "foreign"),
        ({"persistent": True}, None, "make"),
        ({"persistent": True}, left(), "take"),
        ({"persistent": True}, left(key="other"), "replace"),
        ({"persistent": True}, left(running=False), "replace"),
        ({"persistent": True}, left(uid="", running=False), "take"),
        ({"persistent": True, "start": False}, left(key="other"), "take"),
        ({"persistent": True, "stop": True}, left(running=False), "take"),
        ({"mode": "existing"}, left(key="other"), "take"),
        ({"mode": "existing"}, None, "wait"),
        ({"mode": "cleanup"}, None, "wait"),
    ],
)
def test_what_becomes_of_what_is_there(spec: dict[str, Any], there: ContainerInfo | None, verdict: str) -> None:
    assert judge(container(**spec), there, "k") == verdict
