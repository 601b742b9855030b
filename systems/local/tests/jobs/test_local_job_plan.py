"""The next step of a Job: which Pods it makes and stops, what it counts, and when it is over."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from levelset import replace
from levelset.kinds.batch_v1 import Job, JobStatus
from levelset.kinds.core_v1 import Pod
from levelset.testing import START
from levelset_local.jobs import FINALIZER, Plan, make_plan
from levelset_local.jobs.timing import delay_after, retry_at
from systems.local.tests.samples import job, pod


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def known(**spec: Any) -> Job:
    """A Job as a server would show it."""
    given = {"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False}
    if "completions" not in spec and "parallelism" not in spec:
        given["completions"] = 1
    return job(**{**given, **spec}).with_metadata(uid="uid-sum", namespace="test", generation=1)


def running(name: str, **given: Any) -> Pod:
    return pod(name, finalizers=(FINALIZER,), **given)


def ended(name: str, *, code: int = 0, at: datetime = START, **given: Any) -> Pod:
    phase = "Succeeded" if code == 0 else "Failed"
    return running(name, phase=phase, ended=at, exit_code=code, **given)


def counted(one: Pod) -> Pod:
    return one.with_metadata(finalizers=())


def names(pods: Any) -> list[str]:
    return [one.name for one in pods]


def conditions(plan: Plan) -> dict[str, tuple[str, str | None]]:
    return {one.type: (one.status, one.reason) for one in plan.status.conditions}


def follow(owner: Job, pods: list[Pod], *, now: datetime = START) -> tuple[Job, list[Pod], Plan]:
    """One look, and what it leads to: the status is written, and those that are let go have no finalizer."""
    plan = make_plan(owner, pods, now=now)
    free = {one.metadata.uid for one in (*plan.release, *plan.drop)}
    gone = {one.metadata.uid for one in (*plan.drop, *plan.stop)}
    left = [counted(one) if one.metadata.uid in free else one for one in pods]
    left = [one.with_metadata(deletion_timestamp=now) if one.metadata.uid in gone else one for one in left]
    return owner.with_status(plan.status), left, plan


def test_a_job_begins_with_as_many_pods_as_it_may_have_at_once() -> None:
    plan = make_plan(known(completions=5, parallelism=3), [], now=later(0.5))
    assert plan.make == (None, None, None)
    assert plan.status.start_time == START
    assert make_plan(known(completions=2, parallelism=3), [], now=START).make == (None, None)
    assert make_plan(known(completions=2, parallelism=0), [], now=START).make == ()


def test_the_status_counts_those_that_run() -> None:
    plan = make_plan(known(completions=3, parallelism=3), [running("a", ready=START), running("b")], now=START)
    assert plan.make == (None,)
    assert (plan.status.active, plan.status.ready, plan.status.terminating) == (2, 1, 0)


def test_one_that_has_ended_is_noted_then_let_go_then_counted() -> None:
    owner, pods, first = follow(known(), [ended("a")])
    assert names(first.release) == ["a"]
    noted = first.status.uncounted_terminated_pods
    assert noted is not None
    assert (noted.succeeded, first.status.succeeded) == (("uid-a",), 0)
    assert conditions(first) == {"SuccessCriteriaMet": ("True", "CompletionsReached")}
    owner, pods, second = follow(owner, pods, now=later(1))
    assert (second.release, second.status.succeeded) == ((), 1)
    assert conditions(second)["Complete"] == ("True", "CompletionsReached")
    assert second.status.completion_time == later(1)
    assert follow(owner, pods, now=later(99))[2].status == owner.status


def test_whoever_is_interrupted_between_two_writes_counts_nobody_twice_or_never() -> None:
    owner, _, _ = follow(known(completions=2), [ended("a")])
    again = make_plan(owner, [ended("a")], now=START)  # the finalizer is still there
    assert names(again.release) == ["a"]
    assert again.status.succeeded == 0
    vanished = make_plan(owner, [], now=START)  # it was let go, and deleted by somebody
    assert vanished.status.succeeded == 1
    assert make_plan(owner.with_status(vanished.status), [counted(ended("a"))], now=START).status.succeeded == 1


def test_a_job_without_completions_ends_with_the_first_success_once_nobody_runs() -> None:
    owner = known(parallelism=2)
    assert make_plan(owner, [], now=START).make == (None, None)
    half = make_plan(owner, [ended("a"), running("b")], now=START)
    assert (half.make, conditions(half)) == ((), {})
    owner, pods, _ = follow(owner, [ended("a"), ended("b")])
    assert "Complete" in conditions(make_plan(owner, pods, now=START))


def test_a_failed_pod_is_replaced_after_a_growing_while() -> None:
    owner, pods, plan = follow(known(), [ended("a", code=1, at=START)])
    assert (plan.make, plan.look) == ((), later(10))
    assert make_plan(owner, pods, now=later(9)).make == ()
    assert make_plan(owner, pods, now=later(10)).make == (None,)
    pods.append(counted(ended("b", code=1, at=later(15))))
    assert make_plan(owner, pods, now=later(20)).look == later(35)


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 360), (5000, 360)])
def test_the_while_doubles_up_to_six_minutes(failures: int, seconds: float) -> None:
    assert delay_after(failures) == seconds


def test_a_success_makes_failures_forgotten() -> None:
    pods = [ended("a", code=1, at=START), ended("b", at=later(5)), ended("c", code=1, at=later(9))]
    assert retry_at(known(), pods) == later(19)
    assert retry_at(known(), pods[:2]) is None


def test_too_many_failures_end_it_and_stop_the_others() -> None:
    owner = known(completions=3, parallelism=2, backoffLimit=0)
    owner, pods, first = follow(owner, [ended("a", code=1), running("b")])
    assert names(first.stop) == ["b"]
    assert conditions(first) == {"FailureTarget": ("True", "BackoffLimitExceeded")}
    owner, pods, second = follow(owner, pods)
    assert names(second.release) == ["b"]  # whoever was stopped has failed
    assert "Failed" not in conditions(second)
    third = make_plan(owner, pods[:1], now=later(3))  # the node has stopped it
    assert conditions(third)["Failed"] == ("True", "BackoffLimitExceeded")
    assert (third.status.failed, third.status.active, third.status.completion_time) == (2, 0, None)


def test_restarts_in_place_count_as_failures() -> None:
    owner = known(restart="OnFailure", backoffLimit=3)
    assert conditions(make_plan(owner, [running("a", restarts=2)], now=START)) == {}
    assert "FailureTarget" in conditions(make_plan(owner, [running("a", restarts=3)], now=START))
    never = known(restart="OnFailure", backoffLimit=0)
    assert "FailureTarget" in conditions(make_plan(never, [running("a", restarts=1)], now=START))


def test_a_deadline_ends_it() -> None:
    owner = known(activeDeadlineSeconds=30).with_status(JobStatus(start_time=START))
    assert make_plan(owner, [running("a")], now=later(10)).look == later(30)
    plan = make_plan(owner, [running("a")], now=later(30))
    assert conditions(plan) == {"FailureTarget": ("True", "DeadlineExceeded")}
    assert names(plan.stop) == ["a"]


def test_what_was_decided_is_not_decided_again() -> None:
    owner, _, _ = follow(known(backoffLimit=0), [ended("a", code=1)])
    plan = make_plan(owner, [counted(ended("a", code=1)), ended("b")], now=START)
    assert "SuccessCriteriaMet" not in conditions(plan)


def test_a_suspended_job_stops_its_pods_without_counting_them() -> None:
    owner = known(completions=2, parallelism=2, suspend=True).with_status(JobStatus(start_time=START))
    owner, pods, plan = follow(owner, [running("a"), running("b")])
    assert names(plan.drop) == ["a", "b"]
    assert (plan.status.active, plan.status.start_time, plan.make) == (0, None, ())
    assert conditions(plan) == {"Suspended": ("True", "JobSuspended")}
    again = make_plan(owner, pods, now=later(5))
    assert again.status.failed == 0
    assert replace(again.status, terminating=0) == replace(plan.status, terminating=0)
    resumed = make_plan(owner.with_spec(suspend=False), [], now=later(9))
    assert conditions(resumed) == {"Suspended": ("False", "JobResumed")}
    assert (resumed.status.start_time, resumed.make) == (later(9), (None, None))


def test_a_suspended_job_has_no_deadline() -> None:
    owner = known(activeDeadlineSeconds=5, suspend=True).with_status(JobStatus(start_time=START))
    assert "FailureTarget" not in conditions(make_plan(owner, [], now=later(60)))


def test_fewer_at_once_drops_those_that_got_the_least_far() -> None:
    owner = known(completions=9, parallelism=1)
    plan = make_plan(owner, [running("old"), running("waiting", node=None)], now=START)
    assert (names(plan.drop), plan.status.active) == (["waiting"], 1)


def test_who_runs_without_a_finalizer_was_about_to_be_dropped() -> None:
    plan = make_plan(known(), [counted(running("a"))], now=START)
    assert (names(plan.drop), plan.make) == (["a"], (None,))


def test_a_pod_that_somebody_deletes_has_failed() -> None:
    plan = make_plan(known(), [running("a", deleted=START)], now=START)
    assert plan.status.uncounted_terminated_pods is not None
    assert plan.status.uncounted_terminated_pods.failed == ("uid-a",)


def test_a_job_that_replaces_only_the_failed_waits_for_those_that_end() -> None:
    owner = known(podReplacementPolicy="Failed")
    ending = running("a", deleted=later(30), deletion_grace_period_seconds=30)
    plan = make_plan(owner, [ending], now=START)
    assert (plan.make, plan.release, plan.status.terminating) == ((), (), 1)
    over = make_plan(owner, [ending.with_metadata(deletion_grace_period_seconds=0)], now=START)
    assert names(over.release) == ["a"]


def test_a_finished_job_is_deleted_when_its_time_has_come() -> None:
    owner, pods, _ = follow(known(ttlSecondsAfterFinished=60), [ended("a")])
    owner, pods, plan = follow(owner, pods)
    assert plan.look == later(60)
    assert not make_plan(owner, pods, now=later(59)).is_expired
    assert make_plan(owner, pods, now=later(60)).is_expired


def test_a_job_that_is_being_deleted_makes_nobody() -> None:
    owner = known(completions=3).with_metadata(deletion_timestamp=START)
    plan = make_plan(owner, [ended("a")], now=START)
    assert (plan.make, names(plan.release)) == ((), ["a"])


def numbered(one: Pod, index: int) -> Pod:
    return one.with_metadata(annotations={"batch.kubernetes.io/job-completion-index": str(index)})


def test_each_index_is_worked_on_once() -> None:
    owner = known(completions=4, parallelism=2, completionMode="Indexed")
    assert make_plan(owner, [], now=START).make == (0, 1)
    owner, pods, plan = follow(owner, [numbered(ended("a"), 0), numbered(running("b"), 1)])
    assert plan.make == (2,)
    assert (plan.status.completed_indexes, plan.status.succeeded) == ("0", 1)
    owner, pods, plan = follow(owner, [pods[0], numbered(ended("b"), 1), numbered(ended("c"), 2)])
    assert (plan.status.completed_indexes, plan.make) == ("0-2", (3,))


def test_a_second_pod_of_an_index_is_dropped() -> None:
    owner = known(completions=3, parallelism=3, completionMode="Indexed")
    pods = [numbered(running("a", ready=START), 0), numbered(running("b"), 0), numbered(running("c"), 7)]
    plan = make_plan(owner, pods, now=START)
    assert sorted(names(plan.drop)) == ["b", "c"]
    assert plan.make == (1, 2)
