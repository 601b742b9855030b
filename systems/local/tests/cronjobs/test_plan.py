"""The next step of a CronJob: which Job it creates, which it deletes, and its status."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from levelset import replace
from levelset.kinds.batch_v1 import CronJob, CronJobStatus, Job, JobCondition, JobStatus
from levelset.objects import parse_schedule
from levelset_local.cronjobs import Plan, make_plan
from levelset_local.cronjobs.plan import SCHEDULED_AT, reference_to
from systems.local.tests import samples

NOON = datetime(2031, 1, 1, 12, tzinfo=UTC)


def owner(
    schedule: str = "*/5 * * * *",
    *,
    last: datetime | None = NOON,
    active: tuple[Job, ...] = (),
    **spec: Any,
) -> CronJob:
    made = samples.cron_job(schedule, **spec)
    status = CronJobStatus(last_schedule_time=last, active=tuple(reference_to(one) for one in active))
    made = made.with_metadata(uid="uid-tick", namespace="test", creation_timestamp=NOON - timedelta(days=1))
    return replace(made, status=status)


def job(name: str, *, ended: str | None = None, at: datetime = NOON, **metadata: Any) -> Job:
    conditions = () if ended is None else (JobCondition(type=ended, status="True"),)
    status = JobStatus(start_time=at, completion_time=at if ended == "Complete" else None, conditions=conditions)
    return replace(samples.job(name).with_metadata(uid=f"uid-{name}", namespace="test", **metadata), status=status)


def plan_of(one: CronJob, *jobs: Job, now: datetime, zone: str = "UTC") -> Plan:
    return make_plan(one, jobs, parse_schedule(one.spec.schedule), ZoneInfo(zone), now=now)


def reasons(plan: Plan) -> list[str]:
    return [one.reason for one in plan.notes]


def minutes(count: float) -> datetime:
    return NOON + timedelta(minutes=count)


def test_a_job_is_created_when_it_is_due_and_named_by_its_time() -> None:
    assert plan_of(owner(), now=minutes(4.9)).create is None
    assert plan_of(owner(), now=minutes(4.9)).requeue_at == minutes(5)
    plan = plan_of(owner(), now=minutes(5))
    assert plan.create is not None
    assert plan.create.name == f"tick-{int(minutes(5).timestamp()) // 60}"
    assert plan.create.metadata.annotations[SCHEDULED_AT] == "2031-01-01T12:05:00Z"
    assert (plan.scheduled_at, plan.requeue_at) == (minutes(5), minutes(10))


def test_of_several_missed_times_only_the_last_one_gets_a_job() -> None:
    plan = plan_of(owner(), now=minutes(17))
    assert (plan.scheduled_at, reasons(plan)) == (minutes(15), [])
    assert reasons(plan_of(owner(last=NOON - timedelta(days=2)), now=minutes(17))) == ["TooManyMissedTimes"]


def test_times_are_those_of_the_time_zone() -> None:
    one = owner("30 9 * * *", timeZone="Asia/Tokyo")
    plan = plan_of(one, now=minutes(60 * 13), zone="Asia/Tokyo")
    assert plan.scheduled_at == datetime(2031, 1, 2, 0, 30, tzinfo=UTC)
    assert plan.create is not None
    assert plan.create.metadata.annotations[SCHEDULED_AT] == "2031-01-02T09:30:00+09:00"


def test_no_job_is_created_after_the_starting_deadline() -> None:
    assert plan_of(owner(startingDeadlineSeconds=60), now=minutes(6.5)).create is None
    assert plan_of(owner(startingDeadlineSeconds=60), now=minutes(5.9)).scheduled_at == minutes(5)


def test_a_suspended_cron_job_creates_nothing() -> None:
    plan = plan_of(owner(suspend=True), now=minutes(20))
    assert (plan.create, plan.requeue_at) == (None, None)


@pytest.mark.parametrize(
    ("policy", "creates", "deletes"), [("Allow", True, []), ("Forbid", False, []), ("Replace", True, ["before"])]
)
def test_the_concurrency_policy(policy: str, creates: bool, deletes: list[str]) -> None:
    running = job("before")
    plan = plan_of(owner(active=(running,), concurrencyPolicy=policy), running, now=minutes(5))
    assert (plan.create is not None, [one.name for one in plan.delete]) == (creates, deletes)
    assert len(plan.status.active) == (0 if policy == "Replace" else 1)
    assert reasons(plan) == (["JobAlreadyActive"] if policy == "Forbid" else [])


def test_a_job_whose_creation_was_not_recorded_is_not_created_again() -> None:
    name = f"tick-{int(minutes(5).timestamp()) // 60}"
    made = job(name, annotations={SCHEDULED_AT: "x"})
    plan = plan_of(owner(), made, now=minutes(6))
    assert (plan.create, plan.status.last_schedule_time) == (None, minutes(5))
    assert [one.name for one in plan.status.active] == [name]


def test_finished_and_missing_jobs_are_no_longer_active() -> None:
    running, done, lost = job("running"), job("done", ended="Complete", at=minutes(2)), job("lost")
    plan = plan_of(owner(active=(running, done, lost)), running, done, now=minutes(3))
    assert [one.name for one in plan.status.active] == ["running"]
    assert plan.status.last_successful_time == minutes(2)
    assert reasons(plan) == ["SawCompletedJob", "MissingJob"]


def test_a_job_of_another_creator_is_reported_and_not_counted() -> None:
    plan = plan_of(owner(), job("manual"), now=minutes(3))
    assert (plan.status.active, reasons(plan)) == ((), ["UnexpectedJob"])


def test_the_oldest_jobs_above_the_limits_are_deleted() -> None:
    succeeded = [job(f"good{number}", ended="Complete", at=minutes(-number)) for number in range(4)]
    failed = [job(f"bad{number}", ended="Failed", at=minutes(-number)) for number in range(3)]
    one = owner(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1)
    plan = plan_of(one, *succeeded, *failed, job("running"), now=minutes(1))
    assert sorted(each.name for each in plan.delete) == ["bad1", "bad2", "good2", "good3"]


def test_a_job_that_is_being_deleted_is_not_deleted_again() -> None:
    old, new = job("old", ended="Complete", deletion_timestamp=NOON), job("new", ended="Complete", at=minutes(1))
    assert plan_of(owner(successfulJobsHistoryLimit=1), old, new, now=minutes(2)).delete == ()


def test_a_cron_job_that_is_being_deleted_only_has_a_status() -> None:
    one = owner().with_metadata(deletion_timestamp=NOON)
    plan = plan_of(one, now=minutes(20))
    assert (plan.create, plan.delete) == (None, ())
