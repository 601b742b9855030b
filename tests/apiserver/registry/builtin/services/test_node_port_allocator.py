import asyncio
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.registry.builtin.services import node_port_allocator
from levelset.apiserver.verbs import delete
from levelset.errors import ApiError, Invalid
from levelset.storage import MemoryStorage, SqliteStorage
from tests.apiserver.support.kinds_harness import KindsHarness, load_data

SERVICES = ("", "v1", "services")
TAKEN = {"spec.ports[0].nodePort": "FieldValueInvalid"}


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


def service(kind: str = "NodePort", *ports: Any, **spec: Any) -> dict[str, Any]:
    return {"spec": {"type": kind, "ports": list(ports) or [{"port": 80}], **spec}}


async def create(kinds: KindsHarness, tree: dict[str, Any], *, name: str = "a") -> dict[str, Any]:
    return await kinds.create(SERVICES, deepcopy(tree), name=name)  # the server accepts the requested port


async def refused(kinds: KindsHarness, tree: dict[str, Any], *, name: str = "a") -> dict[str, str]:
    return await kinds.refused(SERVICES, deepcopy(tree), name=name)


def node_ports(tree: dict[str, Any]) -> list[int | None]:
    return [port.get("nodePort") for port in tree["spec"]["ports"]]


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
async def test_every_port_of_a_node_port_service_gets_a_node_port(kind: str) -> None:
    kinds = await KindsHarness.make()
    ports = ({"port": 80, "name": "a"}, {"port": 81, "name": "b"})
    made = [await create(kinds, service(kind, *ports), name=f"s{n}") for n in range(20)]
    found = [number for one in made for number in node_ports(one)]
    assert len(set(found)) == 40
    assert all(isinstance(number, int) and 30_000 <= number <= 32_767 for number in found)


async def test_other_services_get_no_node_ports() -> None:
    kinds = await KindsHarness.make()
    assert node_ports(await create(kinds, service("ClusterIP"))) == [None]
    spare = service("LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert node_ports(await create(kinds, spare, name="b")) == [None]


async def test_both_protocols_of_a_port_share_a_node_port() -> None:
    kinds = await KindsHarness.make()
    ports = [{"port": 53, "name": "t"}, {"port": 53, "name": "u", "protocol": "UDP"}]
    first, second = node_ports(await create(kinds, service("NodePort", *ports)))
    assert first == second
    requested = [{"port": 53, "name": "t"}, {"port": 53, "name": "u", "protocol": "UDP", "nodePort": 30_053}]
    assert node_ports(await create(kinds, service("NodePort", *requested), name="b")) == [30_053, 30_053]


async def test_a_free_node_port_in_the_range_can_be_requested() -> None:
    kinds = await KindsHarness.make()
    requested = service("NodePort", {"port": 80, "nodePort": 30_080})
    assert node_ports(await create(kinds, requested)) == [30_080]
    assert await refused(kinds, requested, name="b") == TAKEN
    assert await refused(kinds, service("NodePort", {"port": 80, "nodePort": 80}), name="b") == TAKEN
    twice = [{"port": 1, "name": "a", "nodePort": 30_001}, {"port": 2, "name": "b", "nodePort": 30_001}]
    # Allocation is first, as upstream: the first port has taken it.
    assert await refused(kinds, service("NodePort", *twice), name="b") == {
        "spec.ports[1].nodePort": "FieldValueInvalid"
    }
    inside = service("ClusterIP", {"port": 80, "nodePort": 30_081})
    assert await refused(kinds, inside, name="b") == {"spec.ports[0].nodePort": "FieldValueForbidden"}


async def test_an_update_keeps_node_ports_by_port_name() -> None:
    kinds = await KindsHarness.make()
    made = await create(kinds, service("NodePort", {"port": 80, "name": "a"}, {"port": 81, "name": "b"}))
    first, second = node_ports(made)
    plain = {
        **made,
        **service("NodePort", {"port": 8081, "name": "b"}, {"port": 82, "name": "c"}, {"port": 80, "name": "a"}),
    }
    third = node_ports(await kinds.update(SERVICES, plain))
    assert (third[0], third[2]) == (second, first)
    assert third[1] not in (None, first, second)


async def test_an_update_can_request_another_node_port_and_releases_the_old_one() -> None:
    kinds = await KindsHarness.make()
    made = await create(kinds, service("NodePort", {"port": 80, "nodePort": 30_080}))
    moved = {**made, **service("NodePort", {"port": 80, "nodePort": 30_090})}
    assert node_ports(await kinds.update(SERVICES, moved)) == [30_090]
    again = service("NodePort", {"port": 80, "nodePort": 30_080})
    assert node_ports(await create(kinds, again, name="b")) == [30_080]
    other = await kinds.get(SERVICES)
    assert other is not None
    stolen = {**other, **service("NodePort", {"port": 80, "nodePort": 30_080})}
    assert await kinds.refused_update(SERVICES, stolen) == TAKEN


@pytest.mark.parametrize("kind", ["ClusterIP", "ExternalName"])
async def test_a_service_that_becomes_cluster_ip_releases_its_node_ports(kind: str) -> None:
    kinds = await KindsHarness.make()
    made = await create(kinds, service("NodePort", {"port": 80, "nodePort": 30_080}))
    inwards = {**made, "spec": {**made["spec"], "type": kind, "externalName": "a.com"}}
    if kind == "ClusterIP":
        del inwards["spec"]["externalName"], inwards["spec"]["externalTrafficPolicy"]
    assert node_ports(await kinds.update(SERVICES, inwards)) == [None]
    again = await create(kinds, service("NodePort", {"port": 80, "nodePort": 30_080}), name="b")
    assert node_ports(again) == [30_080]


async def test_node_ports_are_released_by_a_deletion_and_known_after_a_restart() -> None:
    storage = MemoryStorage()
    first = await KindsHarness.make(storage)
    await first.create(("", "v1", "namespaces"), {}, name="default")
    requested = service("NodePort", {"port": 80, "nodePort": 30_080})
    await create(first, requested)
    second = await KindsHarness.make(storage)
    assert await refused(second, requested, name="b") == TAKEN
    await delete.delete(second.state, second.served(SERVICES), "default", "a")
    assert node_ports(await create(second, requested, name="b")) == [30_080]


async def test_a_load_balancer_with_local_traffic_gets_a_health_check_node_port() -> None:
    kinds = await KindsHarness.make()
    made = await create(kinds, service("LoadBalancer", externalTrafficPolicy="Local"))
    health = made["spec"]["healthCheckNodePort"]
    assert health not in (None, *node_ports(made))
    plain = {**made, **service("LoadBalancer", externalTrafficPolicy="Local")}
    assert (await kinds.update(SERVICES, plain))["spec"]["healthCheckNodePort"] == health
    spread = {**made, "spec": {**made["spec"], "externalTrafficPolicy": "Cluster"}}
    assert "healthCheckNodePort" not in (await kinds.update(SERVICES, spread))["spec"]
    requested = service("NodePort", healthCheckNodePort=30_100)
    assert await refused(kinds, requested, name="b") == {"spec.healthCheckNodePort": "FieldValueInvalid"}


async def test_a_full_node_port_range_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_port_allocator, "_LAST", 30_001)
    kinds = await KindsHarness.make()
    for name in ("a", "b"):
        await create(kinds, service(), name=name)
    with pytest.raises(ApiError, match="Internal error occurred: failed to allocate a nodePort: range is full"):
        await create(kinds, service(), name="c")


async def test_two_ports_of_an_update_cannot_get_one_node_port() -> None:
    kinds = await KindsHarness.make()
    made = await create(kinds, service("NodePort", {"port": 80, "name": "a", "nodePort": 30_080}))
    twice = {**made, **service("NodePort", {"port": 80, "name": "a"}, {"port": 81, "name": "a"})}
    with pytest.raises(ApiError, match="duplicate nodePort: {TCP 30080}") as refused:
        await kinds.update(SERVICES, twice)
    assert (refused.value.code, refused.value.reason) == (500, "")


async def test_a_node_port_of_health_checks_that_is_taken_is_an_internal_error() -> None:
    kinds = await KindsHarness.make()
    await create(kinds, service("NodePort", {"port": 80, "nodePort": 30_080}))
    requested = service("LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=30_080)
    problem = "failed to allocate requested HealthCheck NodePort 30080: provided port is already allocated"
    with pytest.raises(ApiError, match=f"Internal error occurred: {problem}"):
        await create(kinds, requested, name="b")


async def test_a_dry_run_may_request_a_node_port_beyond_the_range() -> None:
    kinds = await KindsHarness.make()
    rules = kinds.kinds.services.rules
    assert rules.check_allocation is not None
    tree = {"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}}
    assert rules.check_allocation(tree, None, dry_run=True) == []
    assert [one.field for one in rules.check_allocation(tree, None, dry_run=False)] == ["spec.ports[0].nodePort"]


async def test_an_old_service_without_node_ports_stays_valid_until_it_changes() -> None:
    kinds = await KindsHarness.make()
    made = await create(kinds, service("ClusterIP"))
    made["spec"]["type"] = "NodePort"
    rules = kinds.kinds.services.rules
    assert rules.validate is not None
    assert rules.validate(made, made) == []
    labelled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    assert rules.allocate_update is not None
    rules.allocate_update(labelled, deepcopy(made))
    assert 30_000 <= labelled["spec"]["ports"][0]["nodePort"] <= 32_767


@pytest.mark.parametrize(
    "requested",
    [service("ClusterIP", clusterIP="10.96.9.9"), service("NodePort", {"port": 80, "nodePort": 30_080})],
    ids=["address", "number"],
)
async def test_only_one_of_two_simultaneous_creates_gets_the_requested_node_port(
    tmp_path: Path, requested: Any
) -> None:
    async with await SqliteStorage.open(tmp_path / "data.db") as storage:
        kinds = await KindsHarness.make(storage)
        await kinds.create(("", "v1", "namespaces"), {}, name="default")
        writes = [create(kinds, requested, name=name) for name in ("a", "b", "c")]
        made = await asyncio.gather(*writes, return_exceptions=True)
        assert sorted(type(one).__name__ for one in made) == ["Invalid", "Invalid", "dict"]


async def test_a_failed_write_releases_its_node_port(tmp_path: Path) -> None:
    requested = service("NodePort", {"port": 80, "nodePort": 30_080}, clusterIP="10.96.9.9")
    async with await SqliteStorage.open(tmp_path / "data.db") as storage:
        kinds = await KindsHarness.make(storage)
        await kinds.create(("", "v1", "namespaces"), {}, name="default")
        await create(kinds, service())
        with pytest.raises(Exception, match="already exists"):
            await create(kinds, requested)
        assert node_ports(await create(kinds, requested, name="b")) == [30_080]
        with pytest.raises(Invalid):
            await create(kinds, requested, name="c")
