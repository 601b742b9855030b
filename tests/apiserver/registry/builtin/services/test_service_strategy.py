from typing import Any

import pytest

from tests.apiserver.support.kinds_harness import KindsHarness, load_data

SERVICES = ("", "v1", "services")


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


def service(**spec: Any) -> dict[str, Any]:
    return {"spec": {"ports": [{"port": 80}], **spec}}


async def test_a_service_gets_defaults_and_a_cluster_ip() -> None:
    kinds = await KindsHarness.make()
    spec = (await kinds.create(SERVICES, service()))["spec"]
    assert spec["clusterIP"].startswith("10.96.")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert (spec["type"], spec["sessionAffinity"], spec["ipFamilies"]) == ("ClusterIP", "None", ["IPv4"])
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]


async def test_an_update_keeps_the_cluster_ip_and_cannot_change_it() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.create(SERVICES, service())
    plain = {**made, **service(selector={"a": "b"})}
    changed = await kinds.update(SERVICES, plain)
    assert changed["spec"]["clusterIP"] == made["spec"]["clusterIP"]
    moved = {**changed, "spec": {**changed["spec"], "clusterIP": "10.96.7.7"}}
    assert await kinds.refused_update(SERVICES, moved) == {"spec.clusterIPs[0]": "FieldValueInvalid"}


async def test_ports_are_required_in_range_and_uniquely_named() -> None:
    kinds = await KindsHarness.make()
    assert await kinds.refused(SERVICES, {"spec": {}}) == {"spec.ports": "FieldValueRequired"}
    ports = [{"port": 0, "name": "a"}, {"port": 1, "name": "a"}, {"port": 2}]
    assert await kinds.refused(SERVICES, service(ports=ports)) == {
        "spec.ports[0].port": "FieldValueInvalid",
        "spec.ports[0].targetPort": "FieldValueInvalid",
        "spec.ports[1].name": "FieldValueDuplicate",
        "spec.ports[2].name": "FieldValueRequired",
    }
    assert await kinds.refused(SERVICES, service(type="Odd")) == {"spec.type": "FieldValueNotSupported"}
