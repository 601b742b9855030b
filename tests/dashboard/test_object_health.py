"""What is wrong with an object: false conditions, failures, and what has been stuck for long."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from levelset.dashboard.object_health import MOST_ILL, illness_of, scan
from levelset.objects import GroupVersionKind
from levelset.objects.cached_object import CachedObject, decode_cached
from levelset.testing.virtual_time import virtual
from tests.dashboard.test_views import ODD, condition, waiting

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
POD = GroupVersionKind("", "v1", "Pod")


CRASHING = {
    "name": "web",
    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}},
    "lastState": {"terminated": {"exitCode": 1, "message": "no config\n"}},
}
NO_IMAGE = {"name": "init", "state": {"waiting": {"reason": "ErrImageNeverPull", "message": "add a line to images"}}}


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def pod(name: str = "web", *, age: float = 3600.0, **more: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "creationTimestamp": ago(age), **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, **more}


def cached(tree: dict[str, Any]) -> CachedObject:
    return decode_cached(json.dumps(tree).encode())


@pytest.mark.parametrize(
    ("tree", "what", "message"),
    [
        (pod(status={"phase": "Failed", "message": "out of memory"}), "Failed", "out of memory"),
        (pod(status={"phase": "Pending", "containerStatuses": [waiting("CrashLoopBackOff")]}), "CrashLoopBackOff", ""),
        (
            pod(status={"phase": "Pending", "containerStatuses": [CRASHING]}),
            "CrashLoopBackOff",
            "web: back-off 20s; the last run ended with exit code 1: no config",
        ),
        (
            pod(status={"conditions": [condition("Ready", "False")], "initContainerStatuses": [NO_IMAGE]}),
            "ErrImageNeverPull",
            "init: add a line to images",
        ),
        (pod(status={"conditions": [condition("Ready", "False", "NoImage")]}), "not Ready: NoImage", ""),
        (pod(status={"phase": "Odd", "conditions": [condition("Ready", "False", "No")]}), "Odd, not Ready: No", ""),
        (
            pod(status={"conditions": [condition("Stalled", "False"), condition("Paid", "False", "No")]}),
            "not Paid: No",
            "",
        ),
        (pod(status={"phase": "Unpaid", "conditions": [condition("Paid", "False")]}), "not Paid", ""),
        (pod(metadata={"deletionTimestamp": ago(61), "finalizers": ["a/b"]}), "being deleted", "waits for a/b"),
        (pod(status={"phase": "Pending"}), "Pending", "has not become ready"),
        (pod(spec={"replicas": 3}, status={"replicas": 3, "readyReplicas": 1}), "1/3 ready", "has not become ready"),
        (
            pod(metadata={"generation": 3}, status={"observedGeneration": 2}),
            "generation 2 of 3 observed",
            "its controller is behind",
        ),
    ],
)
def test_an_ill_object_has_a_reason(tree: Any, what: str, message: str) -> None:
    found = illness_of(tree, NOW)
    assert found is not None
    assert (found.what, found.message) == (what, message)


@pytest.mark.parametrize(
    "tree",
    [
        pod(status={"phase": "Running"}),
        pod(status={"phase": "Succeeded", "conditions": [condition("Ready", "False")]}),
        pod(age=60, status={"phase": "Pending"}),
        pod(age=60, spec={"replicas": 3}, status={"replicas": 3, "readyReplicas": 1}),
        pod(age=60, metadata={"generation": 3}, status={"observedGeneration": 2}),
        pod(metadata={"deletionTimestamp": ago(30), "finalizers": ["a/b"]}),
        pod(age=10, status={"conditions": [condition("Paid", "False")]}),
        pod(status={"conditions": [condition("DiskPressure", "False"), condition("NotSeen", "False")]}),
        pod(status={"conditions": [condition("Paid", "False"), condition("Ready", "True")]}),
        pod(status={"phase": "Active", "conditions": [condition("Paid", "False")]}),
    ],
)
def test_an_object_that_is_healthy_or_just_starting_is_not_ill(tree: Any) -> None:
    assert illness_of(tree, NOW) is None


def test_a_namespace_that_is_stuck_says_what_is_left_in_it() -> None:
    left = {"type": "NamespaceContentRemaining", "status": "True", "message": "pods. has 2 resource instances"}
    done = {"type": "NamespaceDeletionContentFailure", "status": "False", "message": "all deleted"}
    found = illness_of(
        {
            "metadata": {"name": "shop", "deletionTimestamp": ago(90)},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Terminating", "conditions": [done, left]},
        },
        NOW,
    )
    assert found is not None
    assert found.is_stuck
    assert found.message == "waits for kubernetes; pods. has 2 resource instances"


GOOD_IF_FALSE = (
    *("Dangling", "ScalingLimited", "NetworkUnavailable", "MemoryPressure", "DisruptionTarget", "ReplicaFailure"),
    *("RollingOut", "ScalingUp", "Remediating", "InvalidRequest", "Issuing", "Preempted", "Fallback", "Disabled"),
    *("Completed", "Finished", "OverlappingTLSConfig", "OrphanedResources"),
)
"""Conditions of Kubernetes and of other projects that are false on a healthy object."""


@pytest.mark.parametrize("name", GOOD_IF_FALSE)
def test_a_condition_that_is_false_on_healthy_objects_is_no_problem(name: str) -> None:
    assert illness_of(pod(status={"conditions": [condition(name, "False")]}), NOW) is None


@pytest.mark.parametrize("name", ["DiskAttached", "Discovered", "UniqueName", "Paid", "ScalingActive", "AbleToScale"])
def test_a_condition_that_is_true_on_healthy_objects_is_a_mild_problem_while_it_is_false(name: str) -> None:
    found = illness_of(pod(status={"conditions": [condition(name, "False")]}), NOW)
    assert found is not None
    assert found.is_mild
    assert name in found.what


@pytest.mark.parametrize("tree", ODD)
def test_any_object_is_judged(tree: Any) -> None:
    illness_of(tree, NOW)


@virtual
async def test_a_scan_says_since_when_those_that_were_warned_of_are_good() -> None:
    changed = {**condition("Ready", "True"), "lastTransitionTime": ago(30)}
    trees = [
        pod("changed", status={"phase": "Running", "conditions": [changed]}),
        pod("always", status={"phase": "Running"}),
        pod("sick", status={"phase": "Failed", "conditions": [changed]}),
    ]
    names = {one["metadata"]["name"]: ("v1/Pod", "default", one["metadata"]["name"]) for one in trees}
    found = await scan({POD: map(cached, trees)}, NOW, candidates=set(names.values()))
    assert found.good == {names["changed"]: NOW - timedelta(seconds=30)}


@virtual
async def test_a_scan_finds_exactly_the_ill_objects_of_many() -> None:
    sick = [cached(pod(f"sick-{number}", status={"phase": "Failed"})) for number in range(MOST_ILL + 5)]
    well = [cached(pod(f"well-{number}", status={"phase": "Running"})) for number in range(2_000)]
    found = await scan({POD: [*well, *sick]}, NOW)
    assert (found.objects, found.total_ill, len(found.ill)) == (2_000 + MOST_ILL + 5, MOST_ILL + 5, MOST_ILL)
    assert {one.name.partition("-")[0] for _, one, _ in found.ill} == {"sick"}
