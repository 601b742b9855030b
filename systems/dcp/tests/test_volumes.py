"""ContainerVolumes: creation, removal and an unhealthy engine."""

import os

import pytest

from levelset import Ref
from levelset.testing import Cluster
from levelset_dcp.containers import containers_controller
from levelset_dcp.engines import EngineNotFound, InMemoryEngine, Mount, NewContainer
from levelset_dcp.kinds import Container, ContainerVolume, ContainerVolumeSpec, ContainerVolumeStatus, VolumeMount
from levelset_dcp.names import PERSISTENT, labels_of
from levelset_dcp.volumes import volumes_controller
from levelset_machine import Identity
from systems.dcp.tests.support.containers import container, fake_container_host, state_history

DATA = Ref(ContainerVolume, "data")


@pytest.fixture
def engine() -> InMemoryEngine:
    return InMemoryEngine()


def volume(*, persistent: bool = True) -> ContainerVolume:
    return ContainerVolume.new("data", ContainerVolumeSpec(name="pg-data", persistent=persistent))


async def settled_status(cluster: Cluster) -> ContainerVolumeStatus:
    await cluster.settled()
    return (await cluster.get(DATA)).status or ContainerVolumeStatus()


async def test_a_volume_is_created(cluster: Cluster, engine: InMemoryEngine) -> None:
    async with cluster.running(volumes_controller(fake_container_host(engine))):
        await cluster.create(volume())
        found = await settled_status(cluster)
        assert (found.state, found.message, found.observed_generation) == ("Ready", "", 1)
        assert [one.status for one in found.conditions] == ["True"]
        assert (await engine.inspect_volume("pg-data")).name == "pg-data"


@pytest.mark.parametrize("persistent", [True, False])
async def test_only_a_persistent_volume_survives_deletion(
    persistent: bool, cluster: Cluster, engine: InMemoryEngine
) -> None:
    async with cluster.running(volumes_controller(fake_container_host(engine))):
        await cluster.create(volume(persistent=persistent))
        await settled_status(cluster)
        await cluster.delete(DATA)
        await cluster.until_gone(DATA)
        if persistent:
            await engine.inspect_volume("pg-data")
        else:
            with pytest.raises(EngineNotFound):
                await engine.inspect_volume("pg-data")


async def test_a_container_waits_for_the_volume_that_it_mounts(cluster: Cluster, engine: InMemoryEngine) -> None:
    # An engine would create the volume itself, without the labels by which the next session finds it.
    host = fake_container_host(engine)
    engine.slow("create_volume", 5.0)
    mount = VolumeMount(source="pg-data", target="/data", type="volume")
    async with cluster.running(volumes_controller(host), containers_controller(host)):
        await cluster.create(volume(persistent=False))
        await cluster.create(container(volume_mounts=(mount,)))
        await cluster.advance(1)
        found = (await cluster.get(Ref(Container, "one"))).status
        assert found is not None
        assert (found.state, found.message) == ("Starting", "volume data is not ready yet")
        assert await engine.list_containers() == ()
        await cluster.advance(5)
        await cluster.until(Ref(Container, "one"), lambda one: bool(one.status and one.status.state == "Running"))
        assert (await engine.inspect_volume("pg-data")).labels[PERSISTENT] == "false"


async def test_a_volume_waits_while_the_engine_is_down(cluster: Cluster, engine: InMemoryEngine) -> None:
    engine.set_health(False, "the engine naps; wake it")
    async with cluster.running(volumes_controller(fake_container_host(engine))):
        await cluster.create(volume())
        found = await settled_status(cluster)
        assert (found.state, found.message) == ("RuntimeUnhealthy", "the engine naps; wake it")
        writes = len(cluster.history(DATA))
        await cluster.advance(60)
        assert len(cluster.history(DATA)) == writes
        engine.set_health(True)
        await cluster.advance(10)
        assert state_history(cluster, DATA)[-2:] == ["RuntimeUnhealthy", "Ready"]


async def test_without_an_engine_a_volume_is_unhealthy(cluster: Cluster) -> None:
    async with cluster.running(volumes_controller(fake_container_host(None))):
        await cluster.create(volume())
        found = await settled_status(cluster)
        assert found.state == "RuntimeUnhealthy"
        assert "install Docker or Podman" in found.message


async def test_a_volume_in_use_is_removed_later(cluster: Cluster, engine: InMemoryEngine) -> None:
    async with cluster.running(volumes_controller(fake_container_host(engine))):
        await cluster.create(volume(persistent=False))
        await settled_status(cluster)
        mount = Mount(source="pg-data", target="/data", type="volume")
        await engine.create_container(NewContainer(image="pg:1", name="pg", mounts=(mount,)))
        await cluster.delete(DATA)
        await cluster.advance(10)
        assert "is used by pg" in (await settled_status(cluster)).message
        engine.remove("pg")
        await cluster.until_gone(DATA)
        with pytest.raises(EngineNotFound):
            await engine.inspect_volume("pg-data")


async def test_a_volume_that_a_killed_session_has_left_is_replaced(cluster: Cluster, engine: InMemoryEngine) -> None:
    dead = labels_of(volume(), Identity(os.getpid(), 1), is_persistent=False)
    await engine.create_volume("pg-data", labels=dead)
    mount = Mount(type="volume", source="pg-data", target="/data")
    user = await engine.create_container(NewContainer(image="x", name="user", mounts=(mount,)))
    async with cluster.running(volumes_controller(fake_container_host(engine))):
        await cluster.create(volume())
        found = await settled_status(cluster)
        assert found.state == "Pending"
        assert "a killed session has left this volume" in found.message
        await engine.remove_container(user)
        await cluster.advance(10)
        assert (await settled_status(cluster)).state == "Ready"
        assert (await engine.inspect_volume("pg-data")).labels[PERSISTENT] == "true"
