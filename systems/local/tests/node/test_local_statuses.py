"""The status of a Pod: phase, conditions and container states, as a pure function of what is known."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from levelset.kinds.core_v1 import Pod, PodCondition, PodStatus
from levelset.objects import replace as with_fields
from levelset_local.node import PodKnown, pod_status
from levelset_local.node.events import status_news
from levelset_local.node.known import ContainerKnown, Failure, Wait
from levelset_local.node.recovering import lost, recovered
from systems.local.tests.node.playing import condition, container, container_states, pod
from systems.local.tests.node.test_local_plan import NOW, deleted, end, known, live


def told(it: Pod, what: PodKnown) -> Pod:
    """The Pod with the status that follows."""
    placed = replace(what, address="127.9.0.1", is_mounted=True)
    return with_fields(it, status=pod_status(it, placed, NOW))


def phase(it: Pod, what: PodKnown) -> str | None:
    status = told(it, what).status
    return None if status is None else status.phase


@pytest.mark.parametrize(
    ("policy", "what", "expected"),
    [
        ("Always", known(), "Pending"),
        ("Always", known(web=live()), "Running"),
        ("Always", known(web=end(1)), "Running"),
        ("Always", known(web=end(0)), "Running"),
        ("OnFailure", known(web=end(1)), "Running"),
        ("OnFailure", known(web=end(0)), "Succeeded"),
        ("Never", known(web=end(1)), "Failed"),
        ("Never", known(web=end(0)), "Succeeded"),
        ("Always", replace(known(web=live()), failure=Failure(reason="DeadlineExceeded", message="late")), "Failed"),
    ],
)
def test_the_phase(policy: str, what: PodKnown, expected: str) -> None:
    assert phase(pod("web", restartPolicy=policy), what) == expected


def test_the_phase_of_a_pod_that_is_deleted_is_that_of_its_exit_codes() -> None:
    assert phase(deleted(), known(web=live())) == "Running"
    assert phase(deleted(), known(web=end(0))) == "Succeeded"
    assert phase(deleted(), known(web=end(143))) == "Failed"


def test_a_pod_with_init_containers_is_pending_until_they_are_through() -> None:
    it = pod("web", initContainers=[container("one")])
    waiting = told(it, known(one=live()))
    assert phase(it, known(one=live())) == "Pending"
    assert container_states(waiting) == {"one": "running", "web": "PodInitializing"}
    assert condition(waiting, "Initialized") == "False"
    assert condition(told(it, known(one=end(0), web=live(is_ready=True))), "Initialized") == "True"
    assert phase(pod("web", initContainers=[container("one")], restartPolicy="Never"), known(one=end(1))) == "Failed"


def test_readiness_is_that_of_all_containers_and_of_the_gates() -> None:
    two = pod("web", container("a"), container("b"))
    assert condition(told(two, known(a=live(is_ready=True), b=live())), "Ready") == "False"
    assert condition(told(two, known(a=live(is_ready=True), b=live(is_ready=True))), "Ready") == "True"
    gated = pod("web", readinessGates=[{"conditionType": "example.dev/open"}])
    closed = told(gated, known(web=live(is_ready=True)))
    assert (condition(closed, "ContainersReady"), condition(closed, "Ready")) == ("True", "False")
    said = PodCondition(type="example.dev/open", status="True")
    opened = with_fields(gated, status=PodStatus(conditions=(said,)))
    assert condition(told(opened, known(web=live(is_ready=True))), "Ready") == "True"
    assert condition(told(opened, known(web=live(is_ready=True))), "example.dev/open") == "True"


def test_a_container_is_not_ready_before_its_start_is_through() -> None:
    for one in (live(is_ready=True, is_started=False), live(is_ready=True, is_posted=False)):
        assert condition(told(pod(), known(web=one)), "Ready") == "False"


def test_nothing_changes_when_nothing_does() -> None:
    what = known(web=live(is_ready=True))
    first = told(pod(), what)
    later = pod_status(first, replace(what, address="127.9.0.1", is_mounted=True), NOW + timedelta(hours=1))
    assert later == first.status


def test_a_time_moves_only_with_its_condition() -> None:
    first = told(pod(), known(web=live()))
    ready = replace(known(web=live(is_ready=True)), address="127.9.0.1", is_mounted=True)
    later = pod_status(first, ready, NOW + timedelta(seconds=9))
    times = {one.type: one.last_transition_time for one in later.conditions}
    assert times["Ready"] == NOW + timedelta(seconds=9)
    assert times["PodScheduled"] == times["Initialized"] == NOW


def test_waiting_has_a_reason() -> None:
    crashed = ContainerKnown(name="web", ended=end(1), streak=3, restarts=3)
    assert container_states(told(pod(), known(web=crashed))) == {"web": "CrashLoopBackOff"}
    wait = Wait(reason="ErrImageNeverPull", message="no")
    assert container_states(told(pod(), known(web=ContainerKnown(name="web", wait=wait)))) == {
        "web": "ErrImageNeverPull"
    }
    assert container_states(told(pod(), known())) == {"web": "ContainerCreating"}


def test_news_are_told_once() -> None:
    it = told(pod(), known(web=ContainerKnown(name="web", ended=end(1), streak=3)))
    assert it.status is not None
    assert [one.reason for one in status_news(it, None, it.status)] == ["BackOff"]
    assert list(status_news(it, it.status, it.status)) == []


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}, "Burstable"),
    ],
)
def test_the_quality_of_service(resources: dict[str, Any], expected: str) -> None:
    status = told(pod("web", container(resources=resources)), known()).status
    assert status is not None
    assert status.qos_class == expected


def test_a_status_tells_the_next_manager_what_there_was() -> None:
    what = replace(
        known(web=ContainerKnown(name="web", live=live(is_ready=True), before=end(3), restarts=2)), address="127.9.0.1"
    )
    it = told(pod(), what)
    again = recovered(it, None)
    assert (again.address, again.container("web").restarts) == ("127.9.0.1", 2)
    assert again.container("web").live == live(is_ready=True)
    gone = lost(again.container("web"), NOW)
    assert gone.live is None
    assert gone.ended is not None
    assert (gone.ended.code, gone.ended.reason) == (137, "ContainerStatusUnknown")
    assert recovered(it, what) is what
