"""The lifecycle of a Container: start, exit, stop, deletion, external changes, ports, networks and health."""

import json
from typing import Any

import pytest

from levelset import MergePatch, Ref
from levelset.errors import Invalid
from levelset.testing import Cluster
from levelset_dcp.containers import ContainerHost, containers_controller
from levelset_dcp.engines import EngineTimedOut, InMemoryEngine
from levelset_dcp.kinds import (
    Container,
    ContainerNetwork,
    ContainerNetworkConnection,
    ContainerNetworkSpec,
    ContainerPort,
    Endpoint,
    EnvVar,
    NetworkRef,
    Service,
    ServiceSpec,
)
from levelset_dcp.networks import networks_controller
from levelset_dcp.services import FakeListeners, services_controller
from systems.dcp.tests.support.containers import container, fake_container_host, names, state_history, status

ONE = Ref(Container, "one")
STOP = MergePatch({"spec": {"stop": True}})


@pytest.fixture
def engine() -> InMemoryEngine:
    return InMemoryEngine()


@pytest.fixture
def host(engine: InMemoryEngine) -> ContainerHost:
    return fake_container_host(engine)


async def test_a_new_container_is_started_in_the_background(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.slow("create_container", 20.0)
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(args=("--x",), env=(EnvVar(name="A", value="{{ .Name }}"),)))
        await cluster.advance(5)
        assert (await cluster.get(ONE)).status.state == "Starting"  # type: ignore[union-attr]  # it has one
        await cluster.advance(20)
        found = await status(cluster)
        (info,) = await engine.list_containers()
        assert (found.state, found.container_id, found.container_name) == ("Running", info.id, info.name)
        assert found.health_status == "Healthy"
        assert found.observed_generation == 1
        assert (info.command, info.env) == (("--x",), {"A": "one"})
        assert [(one.name, one.value) for one in found.effective_env] == [("A", "one")]
        assert state_history(cluster, ONE) == ["Pending", "Starting", "Running"]
        assert [one for one in engine.calls if one.startswith(("create", "start"))] == [
            f"create_container {info.name}",
            f"start_container {info.name}",
        ]


@pytest.mark.parametrize("name", ["-web", "w", "we b", "web/1", "wéb"])
async def test_an_invalid_container_name_is_rejected(name: str, cluster: Cluster, host: ContainerHost) -> None:
    async with cluster.running(containers_controller(host)):
        with pytest.raises(Invalid, match="containerName"):
            await cluster.create(container(container_name=name))


async def test_a_slow_start_does_not_block_other_containers(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.slow("create_container slow", 300.0)
    async with cluster.running(containers_controller(host)):
        await cluster.create(container("one", container_name="slow"))
        await cluster.create(container("two", container_name="quick"))
        await cluster.advance(1)
        assert (await cluster.get(Ref(Container, "two"))).status.state == "Running"  # type: ignore[union-attr]


async def test_an_idle_container_causes_no_writes(cluster: Cluster, host: ContainerHost) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container())
        await status(cluster)
        writes = len(cluster.history(ONE))
        await cluster.advance(600)
        assert len(cluster.history(ONE)) == writes


async def test_a_failed_creation_reports_the_error_of_the_engine(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.fail_matching("create_container *", message="no space left on device")
    async with cluster.running(containers_controller(host)):
        await cluster.create(container())
        found = await status(cluster)
        assert (found.state, found.health_status) == ("FailedToStart", "Unhealthy")
        assert found.message == "no space left on device"
        assert found.finish_timestamp is not None
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)


async def test_a_creation_whose_response_is_lost_takes_effect_once(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.fail_matching("create_container *", message=EngineTimedOut("no answer"), after_effect=True)
    async with cluster.running(containers_controller(host)):
        await cluster.create(container())
        assert (await status(cluster)).state == "Running"
        assert len(await engine.list_containers()) == 1


async def test_a_container_of_another_object_is_not_adopted(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host)):
        for name in ("one", "two"):
            await cluster.create(container(name, container_name="same"))
            await cluster.settled()
        found = await status(cluster, "two")
        assert found.state == "FailedToStart"
        assert "belongs to another object" in found.message
        await cluster.delete(Ref(Container, "two"))
        await cluster.until_gone(Ref(Container, "two"))
        assert (await status(cluster)).state == "Running"


@pytest.mark.parametrize(("code", "health"), [(0, "Caution"), (3, "Unhealthy")])
@pytest.mark.parametrize("networks", [None, (NetworkRef(name="net"),)])
async def test_a_container_that_exits_at_once_is_exited(
    code: int, health: str, networks: Any, cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.program("web:1", exits=code)
    async with cluster.running(containers_controller(host), networks_controller(host)):
        await cluster.create(ContainerNetwork.new("net", ContainerNetworkSpec()))
        await cluster.create(container(networks=networks))
        found = await status(cluster)
        assert (found.state, found.exit_code, found.health_status) == ("Exited", code, health)
        assert found.finish_timestamp is not None


async def test_the_first_exited_status_has_the_exit_code(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.program("web:1", stop_code=130)
    async with cluster.running(containers_controller(host)):
        await cluster.create(container())
        await status(cluster)
        await cluster.patch(ONE, STOP)
        await status(cluster)
        assert state_history(cluster, ONE)[-3:] == ["Running", "Stopping", "Exited"]
        ends = [(one.after or {}).get("status", {}) for one in cluster.history(ONE)]
        first = next(one for one in ends if one.get("state") == "Exited")
        assert (first["exitCode"], "finishTimestamp" in first) == (130, True)


async def test_a_failed_stop_is_unknown(cluster: Cluster, engine: InMemoryEngine, host: ContainerHost) -> None:
    engine.fail_matching("stop_container *", times=100, message="it is stuck")
    async with cluster.running(containers_controller(host)):
        await cluster.create(container())
        await status(cluster)
        await cluster.patch(ONE, STOP)
        await cluster.advance(60)
        found = await status(cluster)
        assert (found.state, found.message) == ("Unknown", "cannot stop the container: it is stuck")


async def test_deletion_stops_and_removes_the_container(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container())
        await status(cluster)
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        assert await names(engine) == []
        verbs = [one.split()[0] for one in engine.calls]
        assert verbs.index("stop_container") < verbs.index("remove_container")
        assert state_history(cluster, ONE)[-1] == "Stopping"


async def test_deletion_waits_for_a_running_start(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.slow("create_container", 30.0)
    async with cluster.running(containers_controller(host)):
        await cluster.create(container())
        await cluster.advance(2)
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        assert await names(engine) == []


async def test_a_workload_that_waits_for_a_service_can_be_deleted(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(args=('{{ portFor "never" }}',)))
        found = await status(cluster)
        assert (found.state, found.message) == ("Starting", "Service never does not exist yet")
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        assert await names(engine) == []


async def test_a_container_starts_when_the_engine_becomes_healthy(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.set_health(False, "the engine naps; wake it")
    async with cluster.running(containers_controller(host)):
        await cluster.create(container())
        found = await status(cluster)
        assert (found.state, found.message) == ("RuntimeUnhealthy", "the engine naps; wake it")
        writes = len(cluster.history(ONE))
        await cluster.advance(60)
        assert len(cluster.history(ONE)) == writes
        engine.set_health(True)
        await cluster.advance(1)
        assert (await status(cluster)).state == "Running"


async def test_a_container_that_waits_for_its_start_goes_while_the_engine_is_down(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.set_health(False, "the engine naps; wake it")
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(start=False))
        assert (await status(cluster)).state == "Pending"
        await cluster.delete(ONE)
        await cluster.until_gone(ONE, within=6)


async def test_without_an_engine_a_container_is_unhealthy_and_can_be_deleted(cluster: Cluster) -> None:
    async with cluster.running(containers_controller(fake_container_host(None))):
        await cluster.create(container())
        found = await status(cluster)
        assert found.state == "RuntimeUnhealthy"
        assert "install Docker or Podman" in found.message
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)


async def test_a_running_container_stays_running_while_the_engine_is_down(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(container_name="web"))
        await status(cluster)
        engine.set_health(False)
        engine.exit("web", 7)
        await cluster.advance(30)
        assert (await status(cluster)).state == "Running"
        engine.set_health(True)
        await cluster.advance(1)
        found = await status(cluster)
        assert (found.state, found.exit_code) == ("Exited", 7)


async def test_a_container_that_is_restarted_externally_is_running_again(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(container_name="web"))
        await status(cluster)
        await cluster.advance(10)
        engine.exit("web", 1)
        first = (await status(cluster)).finish_timestamp
        await cluster.advance(10)
        engine.restart("web")
        found = await status(cluster)
        assert (found.state, found.exit_code, found.finish_timestamp) == ("Running", None, None)
        await cluster.advance(10)
        engine.exit("web", 2)
        found = await status(cluster)
        assert (found.state, found.exit_code) == ("Exited", 2)
        assert first is not None
        assert found.finish_timestamp is not None
        assert found.finish_timestamp > first


async def test_a_container_that_is_removed_externally_is_unknown(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(container_name="web"))
        await status(cluster)
        engine.remove("web")
        found = await status(cluster)
        assert (found.state, found.networks) == ("Unknown", ())
        assert "was removed by another client" in found.message
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)


async def test_a_paused_container_is_paused(cluster: Cluster, engine: InMemoryEngine, host: ContainerHost) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(container_name="web"))
        await status(cluster)
        engine.pause("web")
        assert (await status(cluster)).state == "Paused"
        engine.pause("web", is_paused=False)
        assert (await status(cluster)).state == "Running"


async def test_start_false_delays_the_start_and_stop_before_it_fails(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(start=False))
        await cluster.advance(30)
        assert await names(engine) == []
        await cluster.patch(ONE, MergePatch({"spec": {"start": True}}))
        assert (await status(cluster)).state == "Running"
        await cluster.create(container("two", start=False, stop=True))
        found = await status(cluster, "two")
        assert (found.state, found.message) == ("FailedToStart", "stopped before it was started")


async def test_published_and_serving_ports_are_injected(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    producer = json.dumps([{"serviceName": "web", "port": 80}, {"serviceName": "admin", "port": 81}])
    listeners = FakeListeners()
    async with cluster.running(containers_controller(host), services_controller(listeners)):
        for name in ("web", "admin"):
            await cluster.create(Service.new(name, ServiceSpec()))
        ports = (ContainerPort(container_port=80), ContainerPort(container_port=81, host_port=8081))
        args = ('{{ portForServing "web" }}', '{{ addressForServing "web" }}', '{{ portForServing "admin" }}')
        await cluster.create(container(annotations={"service-producer": producer}, ports=ports, args=args))
        assert (await status(cluster)).effective_args == ("80", "0.0.0.0", "81")
        (info,) = await engine.list_containers()
        published = {one.container_port: one.host_port for one in info.ports}
        assert await places(cluster) == {"web": ("127.0.0.1", published[80]), "admin": ("127.0.0.1", 8081)}
        await cluster.create(container("two", args=('{{ portFor "web" }}', '{{ addressFor "web" }}')))
        web = (await cluster.get(Ref(Service, "web"))).status
        assert web is not None
        assert (await status(cluster, "two")).effective_args == (str(web.effective_port), web.effective_address)


async def places(cluster: Cluster) -> dict[str, tuple[str, int]]:
    found = await cluster.list(Endpoint)
    return {one.spec.service_name: (one.spec.address, one.spec.port) for one in found}


async def test_endpoints_follow_the_published_port_and_are_deleted_at_the_exit(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    producer = {"service-producer": '[{"serviceName": "web", "port": 80}]'}
    async with cluster.running(containers_controller(host)):
        await cluster.create(
            container(annotations=producer, container_name="web", ports=(ContainerPort(container_port=80),))
        )
        await status(cluster)
        first = await places(cluster)
        await cluster.advance(1)
        engine.restart("web")
        await cluster.advance(1)
        second = await places(cluster)
        (info,) = await engine.list_containers()
        assert second == {"web": ("127.0.0.1", info.ports[0].host_port)} != first
        engine.exit("web", 0)
        await status(cluster)
        assert await places(cluster) == {}


async def test_a_container_waits_for_its_networks_and_is_created_in_them(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host), networks_controller(host)):
        refs = (NetworkRef(name="front", aliases=("db",)), NetworkRef(name="back"))
        await cluster.create(container(networks=refs))
        found = await status(cluster)
        assert (found.state, found.message) == ("Starting", "network front is not running yet")
        for name in ("front", "back"):
            await cluster.create(ContainerNetwork.new(name, ContainerNetworkSpec(network_name=f"My-{name}")))
        found = await status(cluster)
        assert (found.state, found.networks) == ("Running", ("front", "back"))
        (info,) = await engine.list_containers()
        assert [(one.network, one.aliases) for one in info.networks] == [("My-front", ("db",)), ("My-back", ())]
        assert len(await cluster.list(ContainerNetworkConnection)) == 2


async def test_a_changed_network_list_connects_and_disconnects(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host), networks_controller(host)):
        for name in ("a", "b"):
            await cluster.create(ContainerNetwork.new(name, ContainerNetworkSpec(network_name=name)))
        await cluster.create(container(networks=(NetworkRef(name="a"),)))
        await status(cluster)
        await cluster.patch(ONE, MergePatch({"spec": {"networks": [{"name": "b", "aliases": ["x"]}]}}))
        found = await status(cluster)
        (info,) = await engine.list_containers()
        assert found.networks == ("b",)
        assert [(one.network, one.aliases) for one in info.networks] == [("b", ("x",))]
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        await cluster.settled()
        assert not await cluster.list(ContainerNetworkConnection)


async def test_a_failed_start_leaves_no_connection_behind(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    engine.fail_matching("start_container *", message="bad command")
    async with cluster.running(containers_controller(host), networks_controller(host)):
        await cluster.create(ContainerNetwork.new("a", ContainerNetworkSpec()))
        await cluster.create(container(networks=(NetworkRef(name="a"),)))
        found = await status(cluster)
        assert (found.state, found.message) == ("FailedToStart", "bad command")
        assert not await cluster.list(ContainerNetworkConnection)
        await cluster.delete(ONE)
        await cluster.until_gone(ONE)
        assert await names(engine) == []
