from typing import Any

import pytest

from tests.apiserver.support.kinds_harness import KindsHarness, load_data

EVENTS, NEWER = ("", "v1", "events"), ("events.k8s.io", "v1", "events")
LEASES = ("coordination.k8s.io", "v1", "leases")


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


def newer(**more: Any) -> dict[str, Any]:
    return {
        "eventTime": "2024-01-01T00:00:00.123456Z",
        "reportingController": "example.com/t",
        "reportingInstance": "t-1",
        "action": "A",
        "reason": "R",
        "regarding": {"kind": "ConfigMap", "namespace": "default", "name": "x"},
        "note": "n",
        "type": "Normal",
        **more,
    }


async def test_an_event_is_in_the_namespace_of_its_object() -> None:
    kinds = await KindsHarness.make()
    about = {"kind": "ConfigMap", "namespace": "elsewhere", "name": "x"}
    assert await kinds.refused(EVENTS, {"involvedObject": about}) == {"involvedObject.namespace": "FieldValueInvalid"}


async def test_an_event_of_a_cluster_scoped_object_is_in_the_default_namespace() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.create(EVENTS, {"involvedObject": {"kind": "Node", "name": "n"}})
    assert made["eventTime"] is None
    assert made["source"] == {}


@pytest.mark.parametrize("field", ["reportingController", "reportingInstance", "action", "reason", "eventTime"])
async def test_an_events_v1_event_needs_reporter_action_reason_and_time(field: str) -> None:
    kinds = await KindsHarness.make()
    assert field in await kinds.refused(NEWER, newer(**{field: None}))


async def test_the_type_of_an_events_v1_event_is_normal_or_warning() -> None:
    kinds = await KindsHarness.make()
    assert await kinds.refused(NEWER, newer(type="Odd")) == {"type": "FieldValueInvalid"}
    assert await kinds.refused(NEWER, newer(note="x" * 1025)) == {"message": "FieldValueInvalid"}


async def test_only_the_series_of_an_events_v1_event_can_change() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.create(NEWER, newer())
    series = {"count": 2, "lastObservedTime": "2024-01-01T00:02:00.000001Z"}
    made = await kinds.update(NEWER, {**made, "series": series})
    assert made["series"] == series
    assert await kinds.refused_update(NEWER, {**made, "note": "changed"}) == {"message": "FieldValueInvalid"}


async def test_timestamps_are_normalized_to_utc() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.create(LEASES, {"spec": {"acquireTime": "2024-01-01T02:00:00.500000+02:00"}})
    assert made["spec"]["acquireTime"] == "2024-01-01T00:00:00.500000Z"
    about = {"kind": "Node", "name": "n"}
    made = await kinds.create(EVENTS, {"involvedObject": about, "firstTimestamp": "2024-01-01T01:00:00+01:00"})
    assert made["firstTimestamp"] == "2024-01-01T00:00:00Z"


async def test_invalid_numbers_of_a_lease_are_rejected() -> None:
    kinds = await KindsHarness.make()
    assert await kinds.refused(LEASES, {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}) == {
        "spec.leaseDurationSeconds": "FieldValueInvalid",
        "spec.leaseTransitions": "FieldValueInvalid",
    }
