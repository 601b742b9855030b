from typing import Any

import pytest

from levelset.apiserver.registry.builtin.conversions import (
    autoscaler_to_v1,
    autoscaler_to_v2,
    event_to_core_v1,
    event_to_events_v1,
)
from tests.apiserver.support.kinds_harness import KindsHarness, load_data

CORE = ("", "v1", "events")
NEWER = ("events.k8s.io", "v1", "events")
OLD_SCALER = ("autoscaling", "v1", "horizontalpodautoscalers")
SCALER = ("autoscaling", "v2", "horizontalpodautoscalers")


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


def test_an_event_converts_between_both_groups() -> None:
    event = {"involvedObject": {"kind": "Pod"}, "message": "m", "count": 2, "reason": "R", "source": {"component": "c"}}
    tree = dict(event)
    event_to_events_v1(tree)
    expected = {"regarding": {"kind": "Pod"}, "note": "m", "deprecatedCount": 2, "reason": "R"}
    assert tree == {**expected, "deprecatedSource": {"component": "c"}}
    event_to_core_v1(tree)
    assert tree == event


async def test_an_event_is_one_object_in_two_groups() -> None:
    kinds = await KindsHarness.make()
    about = {"kind": "ConfigMap", "namespace": "default", "name": "x"}
    await kinds.create(CORE, {"involvedObject": about, "message": "it happened", "reason": "R", "type": "Normal"})
    found = await kinds.get(NEWER)
    assert found is not None
    assert (found["apiVersion"], found["note"], found["regarding"]) == ("events.k8s.io/v1", "it happened", about)
    assert "message" not in found


async def test_an_events_v1_event_is_stored_as_a_core_event() -> None:
    kinds = await KindsHarness.make()
    said = {"reportingController": "example.com/t", "reportingInstance": "t-1", "action": "A", "reason": "R"}
    about = {"kind": "ConfigMap", "namespace": "default", "name": "x"}
    when = {"eventTime": "2026-01-01T02:00:00.500000+02:00", "type": "Normal", "note": "n", "regarding": about}
    await kinds.create(NEWER, {**said, **when})
    found = await kinds.get(CORE)
    assert found is not None
    assert (found["apiVersion"], found["message"], found["reportingComponent"]) == ("v1", "n", "example.com/t")
    assert found["eventTime"] == "2026-01-01T00:00:00.500000Z"


def test_the_cpu_target_of_a_v1_autoscaler_is_a_metric_in_v2() -> None:
    tree = {"spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 60}}
    autoscaler_to_v2(tree)
    target = {"type": "Utilization", "averageUtilization": 60}
    assert tree == {
        "spec": {"maxReplicas": 3, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]}
    }
    autoscaler_to_v1(tree)
    assert tree == {"spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 60}}


async def test_an_autoscaler_is_one_object_in_two_versions() -> None:
    kinds = await KindsHarness.make()
    spec = {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}}
    await kinds.create(SCALER, {"spec": dict(spec)})
    found = await kinds.get(OLD_SCALER)
    assert found is not None
    assert found["spec"] == {**spec, "minReplicas": 1, "targetCPUUtilizationPercentage": 80}


async def test_v2_fields_survive_an_update_in_v1() -> None:
    kinds = await KindsHarness.make()
    memory = {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 5}},
    }
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    spec = {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}}
    await kinds.create(SCALER, {"spec": {**spec, "metrics": [memory], "behavior": behavior}})
    older = await kinds.get(OLD_SCALER)
    assert older is not None
    older["spec"]["maxReplicas"] = 4
    await kinds.update(OLD_SCALER, older)
    found = await kinds.get(SCALER)
    assert found is not None
    assert (found["spec"]["maxReplicas"], found["spec"]["metrics"]) == (4, [memory])
    assert found["spec"]["behavior"] == behavior
    assert "annotations" not in found["metadata"]


@pytest.mark.parametrize(
    "metric",
    [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 4, "averageValue": "2m"}}},
        {"type": "Pods", "pods": {"metric": {"name": "hits"}, "current": {"averageValue": "2"}}},
        {"type": "External", "external": {"metric": {"name": "hits"}, "current": {"value": "2", "averageValue": "1"}}},
        {
            "type": "Object",
            "object": {
                "metric": {"name": "hits", "selector": {"matchLabels": {"a": "b"}}},
                "describedObject": {"kind": "Service", "name": "web"},
                "current": {"value": "2"},
            },
        },
        {
            "type": "ContainerResource",
            "containerResource": {"name": "cpu", "container": "main", "current": {"averageValue": "2m"}},
        },
    ],
    ids=lambda metric: metric["type"],
)
def test_the_status_of_an_autoscaler_is_the_same_after_a_conversion_to_v1_and_back(metric: Any) -> None:
    status = {
        "currentReplicas": 1,
        "currentMetrics": [metric],
        "conditions": [{"type": "AbleToScale", "status": "True"}],
    }
    tree: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {"maxReplicas": 3}, "status": dict(status)}
    autoscaler_to_v1(tree)
    assert tree["status"].keys() <= {"currentReplicas", "currentCPUUtilizationPercentage"}
    autoscaler_to_v2(tree)
    assert tree == {"metadata": {"name": "a"}, "spec": {"maxReplicas": 3}, "status": status}
