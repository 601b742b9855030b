"""The lifecycle modes of Containers, and restarts of their controller."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from levelset import MergePatch, Ref
from levelset.testing import Cluster
from levelset_dcp.containers import ContainerHost, containers_controller
from levelset_dcp.containers.state import decide_adoption
from levelset_dcp.engines import ContainerInfo, InMemoryEngine, NewContainer
from levelset_dcp.kinds import Build, Container, ContainerStatus, EnvVar
from levelset_dcp.names import KEY, UID, labels_of
from levelset_dcp.records import MemoryRecords
from levelset_machine import Identity
from systems.dcp.tests.support.containers import container, fake_container_host, names, state_history, status

ONE = Ref(Container, "one")
PERSISTENT_SPEC: dict[str, Any] = {"container_name": "lasting", "persistent": True}


@pytest.fixture
def engine() -> InMemoryEngine:
    return InMemoryEngine()


@pytest.fixture
def host(engine: InMemoryEngine) -> ContainerHost:
    return fake_container_host(engine, records=MemoryRecords(workload="w"))


async def delete(cluster: Cluster, name: str = "one") -> None:
    await cluster.delete(Ref(Container, name))
    await cluster.until_gone(Ref(Container, name))


async def test_a_persistent_container_is_not_removed_is_reused_and_recorded(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    ids: list[str] = []
    found = ContainerStatus()
    async with cluster.running(containers_controller(host)):
        for _ in range(2):
            await cluster.create(container(**PERSISTENT_SPEC))
            found = await status(cluster)
            ids.append(found.container_id)
            assert found.state == "Running"
            assert found.lifecycle_key
            await delete(cluster)
            await cluster.advance(30)
        info = await engine.inspect_container("lasting")
        assert ids == [info.id, info.id]
        assert found.startup_timestamp == info.started_at
        (record,) = (await host.records.workload_records("w")).resources
        assert (record.kind, record.name, record.id) == ("container", "lasting", info.id)
        assert record.key == info.labels[KEY]


async def test_another_lifecycle_key_creates_another_container(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(**PERSISTENT_SPEC))
        first = (await status(cluster)).container_id
        await delete(cluster)
        await cluster.create(container(**PERSISTENT_SPEC, env=(EnvVar(name="A", value="1"),)))
        found = await status(cluster)
        assert found.state == "Running"
        assert found.container_id != first
        assert await names(engine) == ["lasting"]


async def test_a_persistent_container_that_has_exited_is_replaced(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(**PERSISTENT_SPEC))
        first = (await status(cluster)).container_id
        await delete(cluster)
        engine.exit("lasting", 1)
        await cluster.create(container(**PERSISTENT_SPEC))
        found = await status(cluster)
        assert found.state == "Running"
        assert found.container_id != first


async def test_the_content_of_the_dockerfile_is_part_of_the_lifecycle_key(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost, tmp_path: Path
) -> None:
    keys: list[str] = []
    build = Build(context=str(tmp_path), tags=("own:1",))
    async with cluster.running(containers_controller(host)):
        for text in ("FROM a", "FROM a", "FROM b"):
            await asyncio.to_thread((tmp_path / "Dockerfile").write_text, text)
            await cluster.create(container(**PERSISTENT_SPEC, image="", build=build))
            keys.append((await status(cluster)).lifecycle_key)
            await delete(cluster)
    assert keys[0] == keys[1] != keys[2]


async def test_mode_existing_never_creates_nor_removes_a_container(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host)):
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
async def test_mode_cleanup_never_creates_but_removes_a_container(
    is_adopted: bool, cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(mode="cleanup", container_name="theirs", image=""))
        await cluster.settled()
        made = await engine.create_container(NewContainer(image="pg", name="theirs"))
        await engine.start_container(made)
        if is_adopted:
            await cluster.advance(6)
            assert (await status(cluster)).state == "Running"
        await delete(cluster)
        assert await names(engine) == []


async def test_mode_cleanup_without_a_container_can_be_deleted(cluster: Cluster, host: ContainerHost) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(mode="cleanup", container_name="theirs", image=""))
        await cluster.settled()
        await delete(cluster)


@pytest.mark.parametrize("is_running", [True, False])
async def test_stop_stops_a_persistent_container_of_an_earlier_session(
    is_running: bool, cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(**PERSISTENT_SPEC))
        await status(cluster)
        await delete(cluster)
        if not is_running:
            engine.exit("lasting", 5)
        await cluster.create(container(**PERSISTENT_SPEC, start=False, stop=True))
        found = await status(cluster)
        assert (found.state, found.exit_code) == ("Exited", 143 if is_running else 5)
        assert ("Stopping" in state_history(cluster, ONE)) is is_running


async def test_a_container_waits_for_the_lease_of_another_session(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    records = MemoryRecords(taken=frozenset({"containers/lasting"}))
    async with cluster.running(containers_controller(fake_container_host(engine, records=records))):
        await cluster.create(container(**PERSISTENT_SPEC))
        assert (await status(cluster)).message == "another session holds the lease of the container"
        records.taken = frozenset()
        await cluster.advance(6)
        assert (await status(cluster)).state == "Running"
        assert records.leases == {"containers/lasting"}
        await delete(cluster)
        assert not records.leases


@pytest.mark.parametrize("is_same_controller", [True, False])
async def test_a_restarted_controller_resumes(
    is_same_controller: bool, cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    controller = containers_controller(host)
    async with cluster.running(controller):
        await cluster.create(container(container_name="web"))
        await status(cluster)
    engine.exit("web", 4)
    async with cluster.running(controller if is_same_controller else containers_controller(host)):
        found = await status(cluster)
        assert (found.state, found.exit_code) == ("Exited", 4)
        await delete(cluster)
        assert await names(engine) == []


async def test_an_interrupted_start_resumes_with_the_same_container(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    controller = containers_controller(host)
    engine.slow("start_container", 20.0)
    async with cluster.running(controller):
        await cluster.create(container(container_name="web"))
        await cluster.advance(3)
    assert [one.status for one in await engine.list_containers()] == ["created"]
    async with cluster.running(controller):
        await cluster.advance(25)
        assert (await status(cluster)).state == "Running"
        assert await names(engine) == ["web"]


async def test_a_persistent_container_that_is_stopped_before_its_start_fails(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(**PERSISTENT_SPEC, start=False))
        await cluster.advance(10)
        await cluster.patch(ONE, MergePatch({"spec": {"stop": True}}))
        assert (await status(cluster)).state == "FailedToStart"
        assert await names(engine) == []


def left(*, key: str = "k", running: bool = True, uid: str = "x") -> ContainerInfo:
    labels = {**labels_of(container(), Identity(1, 1), is_persistent=True, key=key), UID: uid} if uid else {}
    return ContainerInfo(id="1", name="n", image="i", status="running" if running else "exited", labels=labels)


@pytest.mark.parametrize(
    ("spec", "existing", "adoption"),
    [
        ({}, None, "create"),
        ({}, left(), "foreign"),
        ({}, left(uid="u"), "adopt"),
        ({"persistent": True}, left(uid="u", key="other"), "adopt"),
        ({"persistent": True}, None, "create"),
        ({"persistent": True}, left(), "adopt"),
        ({"persistent": True}, left(key="other"), "replace"),
        ({"persistent": True}, left(running=False), "replace"),
        ({"persistent": True}, left(uid="", running=False), "adopt"),
        ({"persistent": True, "start": False}, left(key="other"), "adopt"),
        ({"persistent": True, "stop": True}, left(running=False), "adopt"),
        ({"mode": "existing"}, left(key="other"), "adopt"),
        ({"mode": "existing"}, None, "wait"),
        ({"mode": "cleanup"}, None, "wait"),
    ],
)
def test_the_adoption_of_an_existing_container(
    spec: dict[str, Any], existing: ContainerInfo | None, adoption: str
) -> None:
    assert decide_adoption(container(**spec).with_metadata(uid="u"), existing, "k") == adoption
