"""The status of a Pod: phase, conditions and container states from its record."""

from datetime import timedelta
from typing import Any

import pytest

from levelset import replace
from levelset.kinds.core_v1 import Pod, PodCondition, PodStatus
from levelset.objects import replace as with_fields
from levelset_local.node import PodRecord, pod_status
from levelset_local.node.pod_reconciler import status_events
from levelset_local.node.pod_record import ContainerRecord, Failure, WaitingReason, mark_lost, recover_record
from systems.local.tests.node.fake_node import condition, container, container_states, pod
from systems.local.tests.node.test_plan import NOW, deleted, end, live, record


def with_status(it: Pod, what: PodRecord) -> Pod:
    """The Pod with the status from a record."""
    placed = replace(what, address="127.9.0.1", is_mounted=True)
    return with_fields(it, status=pod_status(it, placed, NOW))


def phase(it: Pod, what: PodRecord) -> str | None:
    status = with_status(it, what).status
    return None if status is None else status.phase


@pytest.mark.parametrize(
    ("policy", "what", "expected"),
    [
        ("Always", record(), "Pending"),
        ("Always", record(web=live()), "Running"),
        ("Always", record(web=end(1)), "Running"),
        ("Always", record(web=end(0)), "Running"),
        ("OnFailure", record(web=end(1)), "Running"),
        ("OnFailure", record(web=end(0)), "Succeeded"),
        ("Never", record(web=end(1)), "Failed"),
        ("Never", record(web=end(0)), "Succeeded"),
        ("Always", replace(record(web=live()), failure=Failure(reason="DeadlineExceeded", message="late")), "Failed"),
    ],
)
def test_the_phase_follows_from_the_record_and_the_restart_policy(policy: str, what: PodRecord, expected: str) -> None:
    assert phase(pod("web", restartPolicy=policy), what) == expected


def test_the_phase_of_a_deleted_pod_follows_from_its_exit_codes() -> None:
    assert phase(deleted(), record(web=live())) == "Running"
    assert phase(deleted(), record(web=end(0))) == "Succeeded"
    assert phase(deleted(), record(web=end(143))) == "Failed"


def test_a_pod_is_pending_until_its_init_containers_have_completed() -> None:
    it = pod("web", initContainers=[container("one")])
    waiting = with_status(it, record(one=live()))
    assert phase(it, record(one=live())) == "Pending"
    assert container_states(waiting) == {"one": "running", "web": "PodInitializing"}
    assert condition(waiting, "Initialized") == "False"
    assert condition(with_status(it, record(one=end(0), web=live(is_ready=True))), "Initialized") == "True"
    assert phase(pod("web", initContainers=[container("one")], restartPolicy="Never"), record(one=end(1))) == "Failed"


def test_a_pod_is_ready_if_all_containers_and_readiness_gates_are() -> None:
    two = pod("web", container("a"), container("b"))
    assert condition(with_status(two, record(a=live(is_ready=True), b=live())), "Ready") == "False"
    assert condition(with_status(two, record(a=live(is_ready=True), b=live(is_ready=True))), "Ready") == "True"
    gated = pod("web", readinessGates=[{"conditionType": "example.dev/open"}])
    closed = with_status(gated, record(web=live(is_ready=True)))
    assert (condition(closed, "ContainersReady"), condition(closed, "Ready")) == ("True", "False")
    gate = PodCondition(type="example.dev/open", status="True")
    opened = with_fields(gated, status=PodStatus(conditions=(gate,)))
    assert condition(with_status(opened, record(web=live(is_ready=True))), "Ready") == "True"
    assert condition(with_status(opened, record(web=live(is_ready=True))), "example.dev/open") == "True"


def test_a_container_is_not_ready_before_startup_probe_and_post_start_hook() -> None:
    for one in (live(is_ready=True, is_started=False), live(is_ready=True, is_posted=False)):
        assert condition(with_status(pod(), record(web=one)), "Ready") == "False"


def test_the_status_is_unchanged_without_a_change() -> None:
    what = record(web=live(is_ready=True))
    first = with_status(pod(), what)
    later = pod_status(first, replace(what, address="127.9.0.1", is_mounted=True), NOW + timedelta(hours=1))
    assert later == first.status


def test_a_transition_time_changes_only_with_its_condition() -> None:
    first = with_status(pod(), record(web=live()))
    ready = replace(record(web=live(is_ready=True)), address="127.9.0.1", is_mounted=True)
    later = pod_status(first, ready, NOW + timedelta(seconds=9))
    times = {one.type: one.last_transition_time for one in later.conditions}
    assert times["Ready"] == NOW + timedelta(seconds=9)
    assert times["PodScheduled"] == times["Initialized"] == NOW


def test_a_waiting_container_has_a_reason() -> None:
    crashed = ContainerRecord(name="web", ended=end(1), streak=3, restarts=3)
    assert container_states(with_status(pod(), record(web=crashed))) == {"web": "CrashLoopBackOff"}
    wait = WaitingReason(reason="ErrImageNeverPull", message="no")
    assert container_states(with_status(pod(), record(web=ContainerRecord(name="web", wait=wait)))) == {
        "web": "ErrImageNeverPull"
    }
    assert container_states(with_status(pod(), record())) == {"web": "ContainerCreating"}


def test_status_events_are_recorded_once() -> None:
    it = with_status(pod(), record(web=ContainerRecord(name="web", ended=end(1), streak=3)))
    assert it.status is not None
    assert [one.reason for one in status_events(it, None, it.status)] == ["BackOff"]
    assert list(status_events(it, it.status, it.status)) == []


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}, "Burstable"),
    ],
)
def test_the_quality_of_service_class(resources: dict[str, Any], expected: str) -> None:
    status = with_status(pod("web", container(resources=resources)), record()).status
    assert status is not None
    assert status.qos_class == expected


def test_a_record_is_recovered_from_the_status() -> None:
    what = replace(
        record(web=ContainerRecord(name="web", live=live(is_ready=True), before=end(3), restarts=2)),
        address="127.9.0.1",
    )
    it = with_status(pod(), what)
    again = recover_record(it, None)
    assert (again.address, again.container("web").restarts) == ("127.9.0.1", 2)
    assert again.container("web").live == live(is_ready=True)
    gone = mark_lost(again.container("web"), NOW)
    assert gone.live is None
    assert gone.ended is not None
    assert (gone.ended.code, gone.ended.reason) == (137, "ContainerStatusUnknown")
    assert recover_record(it, what) is what
