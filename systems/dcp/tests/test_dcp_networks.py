"""Networks: made, found, kept or removed as their modes say, with the containers in them that want to be."""

from typing import Any

import pytest

from levelset import ObjectMeta, Ref
from levelset.testing import Cluster
from levelset_dcp.engines import EngineNotFound, InMemoryEngine, NewContainer, NewNetwork
from levelset_dcp.kinds import (
    ContainerNetwork,
    ContainerNetworkConnection,
    ContainerNetworkConnectionSpec,
    ContainerNetworkSpec,
    ContainerNetworkStatus,
)
from levelset_dcp.networks import networks_controller
from levelset_dcp.records import MemoryRecords
from systems.dcp.tests.engines_world import engine_world, seen_states

NET = Ref(ContainerNetwork, "net")


@pytest.fixture
def engine() -> InMemoryEngine:
    return InMemoryEngine()


def network(**spec: Any) -> ContainerNetwork:
    return ContainerNetwork.new("net", ContainerNetworkSpec(**spec))


async def shown(cluster: Cluster) -> ContainerNetworkStatus:
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


async def test_a_network_is_made_and_removed(cluster: Cluster, engine: InMemoryEngine) -> None:
    async with cluster.running(networks_controller(engine_world(engine))):
        await cluster.create(network(network_name="MyNet", ipv6=True))
        found = await shown(cluster)
        assert (found.state, found.network_name, found.driver, found.ipv6) == ("Running", "MyNet", "bridge", True)
        info = await engine.inspect_network("MyNet")
        assert (found.id, found.subnets, found.gateways) == (info.id, info.subnets, info.gateways)
        await cluster.delete(NET)
        await cluster.until_gone(NET)
        assert not await is_there(engine, "MyNet")


async def test_a_name_is_made_up_unless_it_is_given(cluster: Cluster, engine: InMemoryEngine) -> None:
    async with cluster.running(networks_controller(engine_world(engine))):
        await cluster.create(network())
        found = await shown(cluster)
        assert found.network_name.startswith("net-")
        assert await is_there(engine, found.network_name)


async def test_a_session_network_does_not_take_that_of_others(cluster: Cluster, engine: InMemoryEngine) -> None:
    await engine.create_network(NewNetwork(name="shared"))
    async with cluster.running(networks_controller(engine_world(engine))):
        await cluster.create(network(network_name="shared"))
        found = await shown(cluster)
        assert found.state == "FailedToStart"
        assert "use mode existing or persistent" in found.message
        await cluster.delete(NET)
        await cluster.until_gone(NET)
        assert await is_there(engine, "shared")


async def test_a_persistent_one_is_reused_kept_and_written_down(cluster: Cluster, engine: InMemoryEngine) -> None:
    records = MemoryRecords(workload="w")
    async with cluster.running(networks_controller(engine_world(engine, records=records))):
        for _ in range(2):
            await cluster.create(network(network_name="lasting", persistent=True))
            assert (await shown(cluster)).state == "Running"
            assert records.leases == {"containernetworks/lasting"}
            await cluster.delete(NET)
            await cluster.until_gone(NET)
            assert await is_there(engine, "lasting")
            assert not records.leases
    (record,) = (await records.belongings("w")).resources
    assert (record.kind, record.name) == ("network", "lasting")
    assert engine.calls.count("create_network lasting") == 1


@pytest.mark.parametrize("mode", ["existing", "cleanup"])
async def test_others_wait_for_it_and_only_cleanup_removes_it(
    mode: str, cluster: Cluster, engine: InMemoryEngine
) -> None:
    async with cluster.running(networks_controller(engine_world(engine))):
        await cluster.create(network(network_name="there", mode=mode))
        assert (await shown(cluster)).state == "NotFound"
        await engine.create_network(NewNetwork(name="there"))
        await cluster.advance(6)
        assert (await shown(cluster)).state == "Running"
        await cluster.delete(NET)
        await cluster.until_gone(NET)
        assert await is_there(engine, "there") is (mode == "existing")


async def test_a_persistent_one_of_another_session_is_waited_for(cluster: Cluster, engine: InMemoryEngine) -> None:
    records = MemoryRecords(taken=frozenset({"containernetworks/lasting"}))
    async with cluster.running(networks_controller(engine_world(engine, records=records))):
        await cluster.create(network(network_name="lasting", mode="persistent"))
        assert "another session has" in (await shown(cluster)).message
        records.taken = frozenset()
        await cluster.advance(6)
        assert (await shown(cluster)).state == "Running"


async def test_everything_waits_while_the_engine_is_down(cluster: Cluster, engine: InMemoryEngine) -> None:
    engine.set_health(False, "it naps")
    async with cluster.running(networks_controller(engine_world(engine))):
        await cluster.create(network(network_name="a"))
        found = await shown(cluster)
        assert (found.state, found.message) == ("Pending", "it naps")
        writes = len(cluster.history(NET))
        await cluster.advance(30)
        assert len(cluster.history(NET)) == writes
        engine.set_health(True)
        await cluster.advance(1)
        assert (await shown(cluster)).state == "Running"


async def test_what_the_engine_refuses_is_told(cluster: Cluster, engine: InMemoryEngine) -> None:
    engine.fail_matching("create_network a", message="no room for networks")
    async with cluster.running(networks_controller(engine_world(engine))):
        await cluster.create(network(network_name="a"))
        found = await shown(cluster)
        assert (found.state, found.message) == ("FailedToStart", "no room for networks")


async def test_one_that_somebody_else_removes_is_told(cluster: Cluster, engine: InMemoryEngine) -> None:
    async with cluster.running(networks_controller(engine_world(engine))):
        await cluster.create(network(network_name="a"))
        await shown(cluster)
        await engine.remove_network("a")
        assert (await shown(cluster)).state == "Removed"
        assert seen_states(cluster, NET) == ["Pending", "Running", "Removed"]
        await cluster.delete(NET)
        await cluster.until_gone(NET)


async def test_containers_are_connected_with_their_names_and_foreign_ones_stay(
    cluster: Cluster, engine: InMemoryEngine
) -> None:
    ours = await engine.create_container(NewContainer(image="web", name="ours"))
    foreign = await engine.create_container(NewContainer(image="web", name="foreign"))
    async with cluster.running(networks_controller(engine_world(engine))):
        await cluster.create(network(network_name="a"))
        await cluster.create(connection(ours, "db", "DB2"))
        assert (await shown(cluster)).container_ids == (ours,)
        attached = (await engine.inspect_container(ours)).networks[-1]
        assert (attached.network, attached.aliases) == ("a", ("db", "DB2"))
        await engine.connect("a", foreign)
        assert (await shown(cluster)).container_ids == tuple(sorted((ours, foreign)))
        await cluster.delete(Ref(ContainerNetworkConnection, "c"))
        assert (await shown(cluster)).container_ids == (foreign,)
        await cluster.delete(NET)
        await cluster.until_gone(NET)
        assert not await is_there(engine, "a")


async def test_a_connection_that_fails_is_tried_again_and_told_once(cluster: Cluster, engine: InMemoryEngine) -> None:
    async with cluster.running(networks_controller(engine_world(engine))):
        await cluster.create(network(network_name="a"))
        await cluster.create(connection("nobody"))
        found = await shown(cluster)
        assert found.state == "Running"
        assert "nobody" in found.message
        writes = len(cluster.history(NET))
        await cluster.advance(60)
        assert len(cluster.history(NET)) == writes
