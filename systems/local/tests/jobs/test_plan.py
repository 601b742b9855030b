"""The next step of a Job: which Pods it creates and deletes, what it counts, and when it finishes."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from levelset import replace
from levelset.kinds.batch_v1 import Job, JobStatus
from levelset.kinds.core_v1 import Pod
from levelset.testing import START
from levelset_local.jobs import FINALIZER, Plan, make_plan
from levelset_local.jobs.plan import backoff_delay, retry_at
from systems.local.tests.samples import job, pod


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def stored(**spec: Any) -> Job:
    """A Job as the server returns it."""
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
    """One reconcile: the Job with its status written, and its Pods after releases and deletions."""
    plan = make_plan(owner, pods, now=now)
    free = {one.metadata.uid for one in (*plan.release, *plan.drop)}
    gone = {one.metadata.uid for one in (*plan.drop, *plan.stop)}
    left = [counted(one) if one.metadata.uid in free else one for one in pods]
    left = [one.with_metadata(deletion_timestamp=now) if one.metadata.uid in gone else one for one in left]
    return owner.with_status(plan.status), left, plan


def test_a_job_starts_with_as_many_pods_as_its_parallelism_allows() -> None:
    plan = make_plan(stored(completions=5, parallelism=3), [], now=later(0.5))
    assert plan.create == (None, None, None)
    assert plan.status.start_time == START
    assert make_plan(stored(completions=2, parallelism=3), [], now=START).create == (None, None)
    assert make_plan(stored(completions=2, parallelism=0), [], now=START).create == ()


def test_the_status_counts_active_and_ready_pods() -> None:
    plan = make_plan(stored(completions=3, parallelism=3), [running("a", ready=START), running("b")], now=START)
    assert plan.create == (None,)
    assert (plan.status.active, plan.status.ready, plan.status.terminating) == (2, 1, 0)


def test_a_finished_pod_is_uncounted_then_released_then_counted() -> None:
    owner, pods, first = follow(stored(), [ended("a")])
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


def test_an_interruption_between_two_writes_neither_loses_nor_repeats_a_count() -> None:
    owner, _, _ = follow(stored(completions=2), [ended("a")])
    again = make_plan(owner, [ended("a")], now=START)  # the finalizer is still there
    assert names(again.release) == ["a"]
    assert again.status.succeeded == 0
    vanished = make_plan(owner, [], now=START)  # it was released, and deleted by another client
    assert vanished.status.succeeded == 1
    assert make_plan(owner.with_status(vanished.status), [counted(ended("a"))], now=START).status.succeeded == 1


def test_a_job_without_completions_succeeds_with_the_first_success_once_no_pod_is_active() -> None:
    owner = stored(parallelism=2)
    assert make_plan(owner, [], now=START).create == (None, None)
    half = make_plan(owner, [ended("a"), running("b")], now=START)
    assert (half.create, conditions(half)) == ((), {})
    owner, pods, _ = follow(owner, [ended("a"), ended("b")])
    assert "Complete" in conditions(make_plan(owner, pods, now=START))


def test_a_failed_pod_is_replaced_after_the_back_off() -> None:
    owner, pods, plan = follow(stored(), [ended("a", code=1, at=START)])
    assert (plan.create, plan.requeue_at) == ((), later(10))
    assert make_plan(owner, pods, now=later(9)).create == ()
    assert make_plan(owner, pods, now=later(10)).create == (None,)
    pods.append(counted(ended("b", code=1, at=later(15))))
    assert make_plan(owner, pods, now=later(20)).requeue_at == later(35)


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 360), (5000, 360)])
def test_the_back_off_doubles_up_to_six_minutes(failures: int, seconds: float) -> None:
    assert backoff_delay(failures) == seconds


def test_a_success_resets_the_back_off() -> None:
    pods = [ended("a", code=1, at=START), ended("b", at=later(5)), ended("c", code=1, at=later(9))]
    assert retry_at(stored(), pods) == later(19)
    assert retry_at(stored(), pods[:2]) is None


def test_exceeding_the_backoff_limit_fails_the_job_and_stops_its_pods() -> None:
    owner = stored(completions=3, parallelism=2, backoffLimit=0)
    owner, pods, first = follow(owner, [ended("a", code=1), running("b")])
    assert names(first.stop) == ["b"]
    assert conditions(first) == {"FailureTarget": ("True", "BackoffLimitExceeded")}
    owner, pods, second = follow(owner, pods)
    assert names(second.release) == ["b"]  # a stopped Pod counts as failed
    assert "Failed" not in conditions(second)
    third = make_plan(owner, pods[:1], now=later(3))  # the node has stopped it
    assert conditions(third)["Failed"] == ("True", "BackoffLimitExceeded")
    assert (third.status.failed, third.status.active, third.status.completion_time) == (2, 0, None)


def test_restarts_in_place_count_as_failures() -> None:
    owner = stored(restart="OnFailure", backoffLimit=3)
    assert conditions(make_plan(owner, [running("a", restarts=2)], now=START)) == {}
    assert "FailureTarget" in conditions(make_plan(owner, [running("a", restarts=3)], now=START))
    never = stored(restart="OnFailure", backoffLimit=0)
    assert "FailureTarget" in conditions(make_plan(never, [running("a", restarts=1)], now=START))


def test_exceeding_the_active_deadline_fails_the_job() -> None:
    owner = stored(activeDeadlineSeconds=30).with_status(JobStatus(start_time=START))
    assert make_plan(owner, [running("a")], now=later(10)).requeue_at == later(30)
    plan = make_plan(owner, [running("a")], now=later(30))
    assert conditions(plan) == {"FailureTarget": ("True", "DeadlineExceeded")}
    assert names(plan.stop) == ["a"]


def test_a_decided_outcome_is_final() -> None:
    owner, _, _ = follow(stored(backoffLimit=0), [ended("a", code=1)])
    plan = make_plan(owner, [counted(ended("a", code=1)), ended("b")], now=START)
    assert "SuccessCriteriaMet" not in conditions(plan)


def test_a_suspended_job_stops_its_pods_without_counting_them() -> None:
    owner = stored(completions=2, parallelism=2, suspend=True).with_status(JobStatus(start_time=START))
    owner, pods, plan = follow(owner, [running("a"), running("b")])
    assert names(plan.drop) == ["a", "b"]
    assert (plan.status.active, plan.status.start_time, plan.create) == (0, None, ())
    assert conditions(plan) == {"Suspended": ("True", "JobSuspended")}
    again = make_plan(owner, pods, now=later(5))
    assert again.status.failed == 0
    assert replace(again.status, terminating=0) == replace(plan.status, terminating=0)
    resumed = make_plan(owner.with_spec(suspend=False), [], now=later(9))
    assert conditions(resumed) == {"Suspended": ("False", "JobResumed")}
    assert (resumed.status.start_time, resumed.create) == (later(9), (None, None))


def test_a_suspended_job_has_no_deadline() -> None:
    owner = stored(activeDeadlineSeconds=5, suspend=True).with_status(JobStatus(start_time=START))
    assert "FailureTarget" not in conditions(make_plan(owner, [], now=later(60)))


def test_lower_parallelism_deletes_the_pods_with_the_least_progress() -> None:
    owner = stored(completions=9, parallelism=1)
    plan = make_plan(owner, [running("old"), running("waiting", node=None)], now=START)
    assert (names(plan.drop), plan.status.active) == (["waiting"], 1)


def test_an_active_pod_without_a_finalizer_is_deleted() -> None:
    plan = make_plan(stored(), [counted(running("a"))], now=START)
    assert (names(plan.drop), plan.create) == (["a"], (None,))


def test_a_deleted_pod_counts_as_failed() -> None:
    plan = make_plan(stored(), [running("a", deleted=START)], now=START)
    assert plan.status.uncounted_terminated_pods is not None
    assert plan.status.uncounted_terminated_pods.failed == ("uid-a",)


def test_pod_replacement_policy_failed_waits_for_terminating_pods() -> None:
    owner = stored(podReplacementPolicy="Failed")
    ending = running("a", deleted=later(30), deletion_grace_period_seconds=30)
    plan = make_plan(owner, [ending], now=START)
    assert (plan.create, plan.release, plan.status.terminating) == ((), (), 1)
    over = make_plan(owner, [ending.with_metadata(deletion_grace_period_seconds=0)], now=START)
    assert names(over.release) == ["a"]


def test_a_finished_job_expires_after_its_ttl() -> None:
    owner, pods, _ = follow(stored(ttlSecondsAfterFinished=60), [ended("a")])
    owner, pods, plan = follow(owner, pods)
    assert plan.requeue_at == later(60)
    assert not make_plan(owner, pods, now=later(59)).is_expired
    assert make_plan(owner, pods, now=later(60)).is_expired


def test_a_job_that_is_being_deleted_creates_no_pods() -> None:
    owner = stored(completions=3).with_metadata(deletion_timestamp=START)
    plan = make_plan(owner, [ended("a")], now=START)
    assert (plan.create, names(plan.release)) == ((), ["a"])


def numbered(one: Pod, index: int) -> Pod:
    return one.with_metadata(annotations={"batch.kubernetes.io/job-completion-index": str(index)})


def test_each_index_has_one_pod() -> None:
    owner = stored(completions=4, parallelism=2, completionMode="Indexed")
    assert make_plan(owner, [], now=START).create == (0, 1)
    owner, pods, plan = follow(owner, [numbered(ended("a"), 0), numbered(running("b"), 1)])
    assert plan.create == (2,)
    assert (plan.status.completed_indexes, plan.status.succeeded) == ("0", 1)
    owner, pods, plan = follow(owner, [pods[0], numbered(ended("b"), 1), numbered(ended("c"), 2)])
    assert (plan.status.completed_indexes, plan.create) == ("0-2", (3,))


def test_a_second_pod_of_an_index_is_deleted() -> None:
    owner = stored(completions=3, parallelism=3, completionMode="Indexed")
    pods = [numbered(running("a", ready=START), 0), numbered(running("b"), 0), numbered(running("c"), 7)]
    plan = make_plan(owner, pods, now=START)
    assert sorted(names(plan.drop)) == ["b", "c"]
    assert plan.create == (1, 2)
