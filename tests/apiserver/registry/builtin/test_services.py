import asyncio
from typing import Any

import pytest

from levelset.apiserver.verbs import delete
from levelset.storage import MemoryStorage
from tests.apiserver.kinds_world import KindsWorld, load_data

SERVICES = ("", "v1", "services")


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


def service(**spec: Any) -> dict[str, Any]:
    return {"spec": {"ports": [{"port": 80}], **spec}}


async def test_a_service_is_completed_and_gets_an_address() -> None:
    kinds = await KindsWorld.make()
    spec = (await kinds.create(SERVICES, service()))["spec"]
    assert spec["clusterIP"].startswith("10.96.")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert (spec["type"], spec["sessionAffinity"], spec["ipFamilies"]) == ("ClusterIP", "None", ["IPv4"])
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]


async def test_no_two_services_have_the_same_address() -> None:
    kinds = await KindsWorld.make()
    made = await asyncio.gather(*(kinds.create(SERVICES, service(), name=f"s{n}") for n in range(50)))
    assert len({one["spec"]["clusterIP"] for one in made}) == 50


async def test_an_address_may_be_asked_for_if_it_is_free_and_in_the_range() -> None:
    kinds = await KindsWorld.make()
    made = await kinds.create(SERVICES, service(clusterIP="10.96.9.9"))
    assert made["spec"]["clusterIPs"] == ["10.96.9.9"]
    refused = {"spec.clusterIPs": "FieldValueInvalid"}
    assert await kinds.refused(SERVICES, service(clusterIP="10.96.9.9"), name="b") == refused
    assert await kinds.refused(SERVICES, service(clusterIP="192.168.0.1"), name="b") == refused
    assert await kinds.refused(SERVICES, service(clusterIP="x"), name="b") == {
        "spec.clusterIPs[0]": "FieldValueInvalid"
    }


async def test_the_address_of_a_deleted_service_is_free_again() -> None:
    kinds = await KindsWorld.make()
    await kinds.create(SERVICES, service(clusterIP="10.96.9.9"))
    await delete.delete(kinds.world, kinds.served(SERVICES), "default", "a")
    assert (await kinds.create(SERVICES, service(clusterIP="10.96.9.9"), name="b"))["spec"]["clusterIP"] == "10.96.9.9"


async def test_an_update_keeps_the_address_and_may_not_change_it() -> None:
    kinds = await KindsWorld.make()
    made = await kinds.create(SERVICES, service())
    plain = {**made, **service(selector={"a": "b"})}
    changed = await kinds.update(SERVICES, plain)
    assert changed["spec"]["clusterIP"] == made["spec"]["clusterIP"]
    moved = {**changed, "spec": {**changed["spec"], "clusterIP": "10.96.7.7"}}
    assert await kinds.refused_update(SERVICES, moved) == {"spec.clusterIPs[0]": "FieldValueInvalid"}


async def test_headless_and_external_services_take_no_address() -> None:
    kinds = await KindsWorld.make()
    assert (await kinds.create(SERVICES, service(clusterIP="None")))["spec"]["clusterIPs"] == ["None"]
    named = await kinds.create(SERVICES, {"spec": {"type": "ExternalName", "externalName": "a.com"}}, name="b")
    assert "clusterIP" not in named["spec"]


async def test_addresses_in_use_are_known_again_after_a_restart() -> None:
    storage = MemoryStorage()
    first = await KindsWorld.make(storage)
    await first.create(("", "v1", "namespaces"), {}, name="default")
    await first.create(SERVICES, service(clusterIP="10.96.9.9"))
    second = await KindsWorld.make(storage)
    refused = await second.refused(SERVICES, service(clusterIP="10.96.9.9"), name="b")
    assert refused == {"spec.clusterIPs": "FieldValueInvalid"}


async def test_ports_are_there_in_range_and_told_apart() -> None:
    kinds = await KindsWorld.make()
    assert await kinds.refused(SERVICES, {"spec": {}}) == {"spec.ports": "FieldValueRequired"}
    ports = [{"port": 0, "name": "a"}, {"port": 1, "name": "a"}, {"port": 2}]
    assert await kinds.refused(SERVICES, service(ports=ports)) == {
        "spec.ports[0].port": "FieldValueInvalid",
        "spec.ports[1].name": "FieldValueDuplicate",
        "spec.ports[2].name": "FieldValueRequired",
    }
    assert await kinds.refused(SERVICES, service(type="Odd")) == {"spec.type": "FieldValueNotSupported"}
