"""ContainerNetworks: created, adopted and removed as their modes say, and their connections."""

from typing import Any

import pytest

from levelset import ObjectMeta, Ref
from levelset.testing import Cluster
from levelset_dcp.engines import EngineNotFound, EngineTimedOut, InMemoryEngine, NewContainer, NewNetwork
from levelset_dcp.kinds import (
    ContainerNetwork,
    ContainerNetworkConnection,
    ContainerNetworkConnectionSpec,
    ContainerNetworkSpec,
    ContainerNetworkStatus,
)
from levelset_dcp.networks import networks_controller
from levelset_dcp.records import MemoryRecords
from systems.dcp.tests.support.containers import fake_container_host, state_history

NET = Ref(ContainerNetwork, "net")


@pytest.fixture
def engine() -> InMemoryEngine:
    return InMemoryEngine()


def network(**spec: Any) -> ContainerNetwork:
    return ContainerNetwork.new("net", ContainerNetworkSpec(**spec))


async def settled_status(cluster: Cluster) -> ContainerNetworkStatus:
    await cluster.settled()
    return (await cluster.get(NET)).status or ContainerNetworkStatus()


async def is_there(engine: InMemoryEngine, name: str) -> bool:
    try:
        await engine.inspect_network(name)
    except EngineNotFound:
        return False
    return True


def connection(container_id: str, *aliases: str, name: str = "c") -> ContainerNetworkConnection:
    spec = ContainerNetworkConnectionSpec(container_network_name="net", container_id=container_id, aliases=aliases)
    return ContainerNetworkConnection(metadata=ObjectMeta(name=name), spec=spec)


async def test_a_network_is_created_and_removed(cluster: Cluster, engine: InMemoryEngine) -> None:
    async with cluster.running(networks_controller(fake_container_host(engine))):
        await cluster.create(network(network_name="MyNet", ipv6=True))
        found = await settled_status(cluster)
        assert (found.state, found.network_name, found.driver, found.ipv6) == ("Running", "MyNet", "bridge", True)
        info = await engine.inspect_network("MyNet")
        assert (found.id, found.subnets, found.gateways) == (info.id, info.subnets, info.gateways)
        await cluster.delete(NET)
        await cluster.until_gone(NET)
        assert not await is_there(engine, "MyNet")


async def test_a_name_is_generated_by_default(cluster: Cluster, engine: InMemoryEngine) -> None:
    async with cluster.running(networks_controller(fake_container_host(engine))):
        await cluster.create(network())
        found = await settled_status(cluster)
        assert found.network_name.startswith("net-")
        assert await is_there(engine, found.network_name)


async def test_mode_session_does_not_adopt_a_foreign_network(cluster: Cluster, engine: InMemoryEngine) -> None:
    await engine.create_network(NewNetwork(name="shared"))
    async with cluster.running(networks_controller(fake_container_host(engine))):
        await cluster.create(network(network_name="shared"))
        found = await settled_status(cluster)
        assert found.state == "FailedToStart"
        assert "use mode existing or persistent" in found.message
        await cluster.delete(NET)
        await cluster.until_gone(NET)
        assert await is_there(engine, "shared")


async def test_a_persistent_network_is_reused_not_removed_and_recorded(
    cluster: Cluster, engine: InMemoryEngine
) -> None:
    records = MemoryRecords(workload="w")
    async with cluster.running(networks_controller(fake_container_host(engine, records=records))):
        for _ in range(2):
            await cluster.create(network(network_name="lasting", persistent=True))
            assert (await settled_status(cluster)).state == "Running"
            assert records.leases == {"containernetworks/lasting"}
            await cluster.delete(NET)
            await cluster.until_gone(NET)
            assert await is_there(engine, "lasting")
            assert not records.leases
    (record,) = (await records.workload_records("w")).resources
    assert (record.kind, record.name) == ("network", "lasting")
    assert engine.calls.count("create_network lasting") == 1


@pytest.mark.parametrize("mode", ["existing", "cleanup"])
async def test_modes_existing_and_cleanup_wait_and_only_cleanup_removes(
    mode: str, cluster: Cluster, engine: InMemoryEngine
) -> None:
    async with cluster.running(networks_controller(fake_container_host(engine))):
        await cluster.create(network(network_name="there", mode=mode))
        assert (await settled_status(cluster)).state == "NotFound"
        await engine.create_network(NewNetwork(name="there"))
        await cluster.advance(6)
        assert (await settled_status(cluster)).state == "Running"
        await cluster.delete(NET)
        await cluster.until_gone(NET)
        assert await is_there(engine, "there") is (mode == "existing")


async def test_a_persistent_network_waits_for_the_lease_of_another_session(
    cluster: Cluster, engine: InMemoryEngine
) -> None:
    records = MemoryRecords(taken=frozenset({"containernetworks/lasting"}))
    async with cluster.running(networks_controller(fake_container_host(engine, records=records))):
        await cluster.create(network(network_name="lasting", mode="persistent"))
        assert "another session holds the lease" in (await settled_status(cluster)).message
        records.taken = frozenset()
        await cluster.advance(6)
        assert (await settled_status(cluster)).state == "Running"


async def test_a_network_waits_while_the_engine_is_down(cluster: Cluster, engine: InMemoryEngine) -> None:
    engine.set_health(False, "the engine is down")
    async with cluster.running(networks_controller(fake_container_host(engine))):
        await cluster.create(network(network_name="a"))
        found = await settled_status(cluster)
        assert (found.state, found.message) == ("Pending", "the engine is down")
        writes = len(cluster.history(NET))
        await cluster.advance(30)
        assert len(cluster.history(NET)) == writes
        engine.set_health(True)
        await cluster.advance(1)
        assert (await settled_status(cluster)).state == "Running"


async def test_a_network_that_was_not_created_goes_while_the_engine_is_down(
    cluster: Cluster, engine: InMemoryEngine
) -> None:
    engine.set_health(False, "the engine is down")
    async with cluster.running(networks_controller(fake_container_host(engine))):
        await cluster.create(network(network_name="a"))
        await settled_status(cluster)
        await cluster.delete(NET)
        await cluster.until_gone(NET, within=6)


async def test_a_network_that_was_created_waits_for_the_engine_to_be_removed(
    cluster: Cluster, engine: InMemoryEngine
) -> None:
    async with cluster.running(networks_controller(fake_container_host(engine))):
        await cluster.create(network(network_name="a"))
        assert (await settled_status(cluster)).state == "Running"
        engine.set_health(False, "the engine is down")
        await cluster.delete(NET)
        await cluster.advance(30)
        assert (await settled_status(cluster)).message == "the engine is down"
        engine.set_health(True)
        await cluster.until_gone(NET)
        assert not await is_there(engine, "a")


async def test_a_network_whose_creation_was_not_reported_is_removed_after_an_error(
    cluster: Cluster, engine: InMemoryEngine
) -> None:
    engine.fail_matching("create_network a", message=EngineTimedOut("no answer"), after_effect=True)
    async with cluster.running(networks_controller(fake_container_host(engine))):
        await cluster.create(network(network_name="a"))
        await cluster.until(NET, lambda one: one.status is not None and one.status.message == "no answer")
        assert await is_there(engine, "a")
        engine.fail_matching("remove_network *", message=EngineTimedOut("no answer again"))
        await cluster.delete(NET)
        await cluster.until_gone(NET)
        assert not await is_there(engine, "a")


async def test_an_error_of_the_engine_is_reported(cluster: Cluster, engine: InMemoryEngine) -> None:
    engine.fail_matching("create_network a", message="no space for networks")
    async with cluster.running(networks_controller(fake_container_host(engine))):
        await cluster.create(network(network_name="a"))
        found = await settled_status(cluster)
        assert (found.state, found.message) == ("FailedToStart", "no space for networks")


async def test_a_network_that_is_removed_externally_is_reported(cluster: Cluster, engine: InMemoryEngine) -> None:
    async with cluster.running(networks_controller(fake_container_host(engine))):
        await cluster.create(network(network_name="a"))
        await settled_status(cluster)
        await engine.remove_network("a")
        assert (await settled_status(cluster)).state == "Removed"
        assert state_history(cluster, NET) == ["Pending", "Running", "Removed"]
        await cluster.delete(NET)
        await cluster.until_gone(NET)


async def test_containers_are_connected_with_aliases_and_foreign_ones_are_not_touched(
    cluster: Cluster, engine: InMemoryEngine
) -> None:
    ours = await engine.create_container(NewContainer(image="web", name="ours"))
    foreign = await engine.create_container(NewContainer(image="web", name="foreign"))
    async with cluster.running(networks_controller(fake_container_host(engine))):
        await cluster.create(network(network_name="a"))
        await cluster.create(connection(ours, "db", "DB2"))
        assert (await settled_status(cluster)).container_ids == (ours,)
        attached = (await engine.inspect_container(ours)).networks[-1]
        assert (attached.network, attached.aliases) == ("a", ("db", "DB2"))
        await engine.connect("a", foreign)
        assert (await settled_status(cluster)).container_ids == tuple(sorted((ours, foreign)))
        await cluster.delete(Ref(ContainerNetworkConnection, "c"))
        assert (await settled_status(cluster)).container_ids == (foreign,)
        await cluster.delete(NET)
        await cluster.until_gone(NET)
        assert not await is_there(engine, "a")


async def test_a_failed_connection_is_retried_and_reported_once(cluster: Cluster, engine: InMemoryEngine) -> None:
    async with cluster.running(networks_controller(fake_container_host(engine))):
        await cluster.create(network(network_name="a"))
        await cluster.create(connection("missing"))
        found = await settled_status(cluster)
        assert found.state == "Running"
        assert "missing" in found.message
        writes = len(cluster.history(NET))
        await cluster.advance(60)
        assert len(cluster.history(NET)) == writes
