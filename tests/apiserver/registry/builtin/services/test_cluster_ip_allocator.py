import asyncio
from typing import Any

import pytest

from levelset.apiserver.verbs import delete
from levelset.storage import MemoryStorage
from tests.apiserver.support.kinds_harness import KindsHarness, load_data

SERVICES = ("", "v1", "services")


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


def service(**spec: Any) -> dict[str, Any]:
    return {"spec": {"ports": [{"port": 80}], **spec}}


async def test_no_two_services_have_the_same_cluster_ip() -> None:
    kinds = await KindsHarness.make()
    made = await asyncio.gather(*(kinds.create(SERVICES, service(), name=f"s{n}") for n in range(50)))
    assert len({one["spec"]["clusterIP"] for one in made}) == 50


async def test_a_free_cluster_ip_in_the_range_can_be_requested() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.create(SERVICES, service(clusterIP="10.96.9.9"))
    assert made["spec"]["clusterIPs"] == ["10.96.9.9"]
    refused = {"spec.clusterIPs": "FieldValueInvalid"}
    assert await kinds.refused(SERVICES, service(clusterIP="10.96.9.9"), name="b") == refused
    assert await kinds.refused(SERVICES, service(clusterIP="192.168.0.1"), name="b") == refused
    assert await kinds.refused(SERVICES, service(clusterIP="x"), name="b") == {
        "spec.clusterIPs[0]": "FieldValueInvalid"
    }


async def test_the_cluster_ip_of_a_deleted_service_is_released() -> None:
    kinds = await KindsHarness.make()
    await kinds.create(SERVICES, service(clusterIP="10.96.9.9"))
    await delete.delete(kinds.state, kinds.served(SERVICES), "default", "a")
    assert (await kinds.create(SERVICES, service(clusterIP="10.96.9.9"), name="b"))["spec"]["clusterIP"] == "10.96.9.9"


async def test_headless_and_external_name_services_get_no_cluster_ip() -> None:
    kinds = await KindsHarness.make()
    assert (await kinds.create(SERVICES, service(clusterIP="None")))["spec"]["clusterIPs"] == ["None"]
    named = await kinds.create(SERVICES, {"spec": {"type": "ExternalName", "externalName": "a.com"}}, name="b")
    assert "clusterIP" not in named["spec"]


async def test_allocated_cluster_ips_are_known_after_a_restart() -> None:
    storage = MemoryStorage()
    first = await KindsHarness.make(storage)
    await first.create(("", "v1", "namespaces"), {}, name="default")
    await first.create(SERVICES, service(clusterIP="10.96.9.9"))
    second = await KindsHarness.make(storage)
    refused = await second.refused(SERVICES, service(clusterIP="10.96.9.9"), name="b")
    assert refused == {"spec.clusterIPs": "FieldValueInvalid"}
