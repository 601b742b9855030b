"""Services in a cluster of both families; what kube-apiserver answers is recorded in tests/conformance/builtin."""

from typing import Any

import pytest

from levelset.apiserver.registry.builtin.services.cluster_ip_allocator import ClusterIpAllocator
from levelset.errors import ApiError, ConfigError
from tests.apiserver.support.kinds_harness import KindsHarness, load_data

SERVICES = ("", "v1", "services")
RANGES = "10.96.0.0/16,fd00:10:96::/112"


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


def service(**spec: Any) -> dict[str, Any]:
    return {"spec": {"ports": [{"port": 80}], **spec}}


async def test_the_first_range_is_that_of_the_default_family() -> None:
    kinds = await KindsHarness.make(service_addresses="fd00:10:96::/112,10.96.0.0/16")
    spec = (await kinds.create(SERVICES, service()))["spec"]
    assert (spec["ipFamilies"], spec["clusterIP"][:11]) == (["IPv6"], "fd00:10:96:")


async def test_an_address_is_taken_in_every_form_of_it() -> None:
    kinds = await KindsHarness.make(service_addresses=RANGES)
    await kinds.create(SERVICES, service(clusterIP="fd00:10:96::77"))
    refused = await kinds.refused(SERVICES, service(clusterIP="FD00:10:96:0::0077"), name="b")
    assert refused == {"spec.clusterIPs": "FieldValueInvalid"}


async def test_a_second_address_that_is_released_can_be_requested_by_another_service() -> None:
    kinds = await KindsHarness.make(service_addresses=RANGES)
    made = await kinds.create(SERVICES, service(ipFamilyPolicy="RequireDualStack"))
    second = made["spec"]["clusterIPs"][1]
    assert await kinds.refused(SERVICES, service(clusterIP=second), name="b") == {
        "spec.clusterIPs": "FieldValueInvalid"
    }
    single = await kinds.update(SERVICES, {**made, "spec": {**made["spec"], "ipFamilyPolicy": "SingleStack"}})
    assert single["spec"]["clusterIPs"] == made["spec"]["clusterIPs"][:1]
    assert (await kinds.create(SERVICES, service(clusterIP=second), name="b"))["spec"]["clusterIPs"] == [second]


async def test_a_service_that_prefers_two_families_stays_as_it_is_when_the_cluster_gets_the_second_one() -> None:
    single = await KindsHarness.make(service_addresses="10.96.0.0/16")
    made = await single.create(SERVICES, service(ipFamilyPolicy="PreferDualStack"))
    assert made["spec"]["ipFamilies"] == ["IPv4"]
    dual = await KindsHarness.make(single.state.storage, service_addresses=RANGES)
    labelled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    assert (await dual.update(SERVICES, labelled))["spec"]["clusterIPs"] == made["spec"]["clusterIPs"]


async def test_a_service_is_refused_when_all_addresses_are_allocated() -> None:
    kinds = await KindsHarness.make(service_addresses="10.96.0.0/30")
    await kinds.create(SERVICES, service())
    with pytest.raises(ApiError, match="failed to allocate a serviceIP: range is full") as caught:
        await kinds.create(SERVICES, service(), name="b")
    assert (caught.value.code, await kinds.get(SERVICES, "b")) == (500, None)


@pytest.mark.parametrize(
    ("ranges", "problem"),
    [
        ("10.96.0.0/16,10.97.0.0/16", "one of IPv4 and one of IPv6"),
        ("10.96.0.0/16,fd00:10:96::/112,10.97.0.0/16", "one of IPv4 and one of IPv6"),
        ("10.96.0.0/16,odd", "invalid service CIDR 'odd'"),
        ("10.96.0.0/16,fd00::/128", "has only 1 addresses"),
    ],
)
def test_ranges_that_cannot_be_used_are_a_config_error(ranges: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        ClusterIpAllocator(ranges)
