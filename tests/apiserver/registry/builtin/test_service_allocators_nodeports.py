import asyncio
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.registry.builtin import service_allocators
from levelset.apiserver.verbs import delete
from levelset.errors import Invalid
from levelset.storage import MemoryStorage, SqliteStorage
from tests.apiserver.kinds_world import KindsWorld, load_data

SERVICES = ("", "v1", "services")
TAKEN = {"spec.ports[0].nodePort": "FieldValueInvalid"}


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


def service(kind: str = "NodePort", *ports: Any, **spec: Any) -> dict[str, Any]:
    return {"spec": {"type": kind, "ports": list(ports) or [{"port": 80}], **spec}}


async def create(kinds: KindsWorld, tree: dict[str, Any], *, name: str = "a") -> dict[str, Any]:
    return await kinds.create(SERVICES, deepcopy(tree), name=name)  # the server takes what it is given


async def refused(kinds: KindsWorld, tree: dict[str, Any], *, name: str = "a") -> dict[str, str]:
    return await kinds.refused(SERVICES, deepcopy(tree), name=name)


def numbers(tree: dict[str, Any]) -> list[int | None]:
    return [port.get("nodePort") for port in tree["spec"]["ports"]]


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
async def test_every_port_that_is_reached_from_outside_gets_a_number_of_its_own(kind: str) -> None:
    kinds = await KindsWorld.make()
    ports = ({"port": 80, "name": "a"}, {"port": 81, "name": "b"})
    made = [await create(kinds, service(kind, *ports), name=f"s{n}") for n in range(20)]
    found = [number for one in made for number in numbers(one)]
    assert len(set(found)) == 40
    assert all(isinstance(number, int) and 30_000 <= number <= 32_767 for number in found)


async def test_other_services_and_load_balancers_that_need_none_get_none() -> None:
    kinds = await KindsWorld.make()
    assert numbers(await create(kinds, service("ClusterIP"))) == [None]
    spare = service("LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert numbers(await create(kinds, spare, name="b")) == [None]


async def test_both_protocols_of_a_port_share_a_number() -> None:
    kinds = await KindsWorld.make()
    ports = [{"port": 53, "name": "t"}, {"port": 53, "name": "u", "protocol": "UDP"}]
    first, second = numbers(await create(kinds, service("NodePort", *ports)))
    assert first == second
    asked = [{"port": 53, "name": "t"}, {"port": 53, "name": "u", "protocol": "UDP", "nodePort": 30_053}]
    assert numbers(await create(kinds, service("NodePort", *asked), name="b")) == [30_053, 30_053]


async def test_a_number_may_be_asked_for_if_it_is_free_and_in_the_range() -> None:
    kinds = await KindsWorld.make()
    asked = service("NodePort", {"port": 80, "nodePort": 30_080})
    assert numbers(await create(kinds, asked)) == [30_080]
    assert await refused(kinds, asked, name="b") == TAKEN
    assert await refused(kinds, service("NodePort", {"port": 80, "nodePort": 80}), name="b") == TAKEN
    twice = [{"port": 1, "name": "a", "nodePort": 30_001}, {"port": 2, "name": "b", "nodePort": 30_001}]
    assert await refused(kinds, service("NodePort", *twice), name="b") == {
        "spec.ports[1].nodePort": "FieldValueDuplicate"
    }
    inside = service("ClusterIP", {"port": 80, "nodePort": 30_081})
    assert await refused(kinds, inside, name="b") == {"spec.ports[0].nodePort": "FieldValueForbidden"}


async def test_an_update_keeps_the_numbers_by_the_names_of_the_ports() -> None:
    kinds = await KindsWorld.make()
    made = await create(kinds, service("NodePort", {"port": 80, "name": "a"}, {"port": 81, "name": "b"}))
    first, second = numbers(made)
    plain = {
        **made,
        **service("NodePort", {"port": 8081, "name": "b"}, {"port": 82, "name": "c"}, {"port": 80, "name": "a"}),
    }
    third = numbers(await kinds.update(SERVICES, plain))
    assert (third[0], third[2]) == (second, first)
    assert third[1] not in (None, first, second)


async def test_an_update_may_ask_for_another_number_and_frees_the_old_one() -> None:
    kinds = await KindsWorld.make()
    made = await create(kinds, service("NodePort", {"port": 80, "nodePort": 30_080}))
    moved = {**made, **service("NodePort", {"port": 80, "nodePort": 30_090})}
    assert numbers(await kinds.update(SERVICES, moved)) == [30_090]
    again = service("NodePort", {"port": 80, "nodePort": 30_080})
    assert numbers(await create(kinds, again, name="b")) == [30_080]
    other = await kinds.get(SERVICES)
    assert other is not None
    stolen = {**other, **service("NodePort", {"port": 80, "nodePort": 30_080})}
    assert await kinds.refused_update(SERVICES, stolen) == TAKEN


@pytest.mark.parametrize("kind", ["ClusterIP", "ExternalName"])
async def test_a_service_that_turns_inwards_gives_its_numbers_back(kind: str) -> None:
    kinds = await KindsWorld.make()
    made = await create(kinds, service("NodePort", {"port": 80, "nodePort": 30_080}))
    inwards = {**made, "spec": {**made["spec"], "type": kind, "externalName": "a.com"}}
    if kind == "ClusterIP":
        del inwards["spec"]["externalName"], inwards["spec"]["externalTrafficPolicy"]
    assert numbers(await kinds.update(SERVICES, inwards)) == [None]
    again = await create(kinds, service("NodePort", {"port": 80, "nodePort": 30_080}), name="b")
    assert numbers(again) == [30_080]


async def test_the_numbers_of_a_deleted_service_are_free_again_and_known_after_a_restart() -> None:
    storage = MemoryStorage()
    first = await KindsWorld.make(storage)
    await first.create(("", "v1", "namespaces"), {}, name="default")
    asked = service("NodePort", {"port": 80, "nodePort": 30_080})
    await create(first, asked)
    second = await KindsWorld.make(storage)
    assert await refused(second, asked, name="b") == TAKEN
    await delete.delete(second.world, second.served(SERVICES), "default", "a")
    assert numbers(await create(second, asked, name="b")) == [30_080]


async def test_a_load_balancer_that_keeps_traffic_local_gets_a_port_for_its_health() -> None:
    kinds = await KindsWorld.make()
    made = await create(kinds, service("LoadBalancer", externalTrafficPolicy="Local"))
    health = made["spec"]["healthCheckNodePort"]
    assert health not in (None, *numbers(made))
    plain = {**made, **service("LoadBalancer", externalTrafficPolicy="Local")}
    assert (await kinds.update(SERVICES, plain))["spec"]["healthCheckNodePort"] == health
    spread = {**made, "spec": {**made["spec"], "externalTrafficPolicy": "Cluster"}}
    assert "healthCheckNodePort" not in (await kinds.update(SERVICES, spread))["spec"]
    asked = service("NodePort", healthCheckNodePort=30_100)
    assert await refused(kinds, asked, name="b") == {"spec.healthCheckNodePort": "FieldValueInvalid"}


async def test_when_all_numbers_are_taken_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_allocators, "_LAST", 30_001)
    kinds = await KindsWorld.make()
    for name in ("a", "b"):
        await create(kinds, service(), name=name)
    assert await refused(kinds, service(), name="c") == TAKEN


async def test_a_service_from_before_there_were_numbers_is_let_be_until_it_changes() -> None:
    kinds = await KindsWorld.make()
    made = await create(kinds, service("ClusterIP"))
    made["spec"]["type"] = "NodePort"
    rules = kinds.kinds.services.rules
    assert rules.validate is not None
    assert rules.validate(made, made) == []
    labelled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    assert rules.prepare_update is not None
    rules.prepare_update(labelled, deepcopy(made))
    assert 30_000 <= labelled["spec"]["ports"][0]["nodePort"] <= 32_767


@pytest.mark.parametrize(
    "asked",
    [service("ClusterIP", clusterIP="10.96.9.9"), service("NodePort", {"port": 80, "nodePort": 30_080})],
    ids=["address", "number"],
)
async def test_of_two_services_written_to_a_file_at_once_one_gets_what_both_ask_for(tmp_path: Path, asked: Any) -> None:
    async with await SqliteStorage.open(tmp_path / "data.db") as storage:
        kinds = await KindsWorld.make(storage)
        await kinds.create(("", "v1", "namespaces"), {}, name="default")
        writes = [create(kinds, asked, name=name) for name in ("a", "b", "c")]
        made = await asyncio.gather(*writes, return_exceptions=True)
        assert sorted(type(one).__name__ for one in made) == ["Invalid", "Invalid", "dict"]


async def test_what_a_write_that_failed_asked_for_is_free_again(tmp_path: Path) -> None:
    asked = service("NodePort", {"port": 80, "nodePort": 30_080}, clusterIP="10.96.9.9")
    async with await SqliteStorage.open(tmp_path / "data.db") as storage:
        kinds = await KindsWorld.make(storage)
        await kinds.create(("", "v1", "namespaces"), {}, name="default")
        await create(kinds, service())
        with pytest.raises(Exception, match="already exists"):
            await create(kinds, asked)
        assert numbers(await create(kinds, asked, name="b")) == [30_080]
        with pytest.raises(Invalid):
            await create(kinds, asked, name="c")
