"""The next step of a CronJob: which Job it creates, which Jobs it deletes, and its status; pure.

Of several times that were missed, only the last one gets a Job. The name of a Job follows from its time, so a Job whose
creation was not recorded in the status is found again instead of being created twice.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Final, Literal

from msgspec import Struct

from levelset import ObjectMeta
from levelset.kinds.batch_v1 import CronJob, CronJobStatus, Job
from levelset.kinds.core_v1 import ObjectReference
from levelset.objects import CronSchedule

__all__ = ["MANY_MISSED", "SCHEDULED_AT", "Note", "Plan", "finished_as", "job_name", "make_plan", "reference_to"]

SCHEDULED_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MANY_MISSED: Final = 100
"""More missed times than so many are reported."""


class Note(Struct, frozen=True):
    """An Event about a CronJob."""

    reason: str
    message: str
    is_warning: bool = False


class Plan(Struct, frozen=True, kw_only=True):
    """The next step of a CronJob."""

    status: CronJobStatus
    delete: tuple[Job, ...] = ()
    """The Jobs above the history limits, and those that the next one replaces."""
    create: Job | None = None
    """The Job to create, after the others are deleted."""
    scheduled_at: datetime | None = None
    """The time for which it is created: `lastScheduleTime` once it exists."""
    notes: tuple[Note, ...] = ()
    requeue_at: datetime | None = None


def make_plan(
    owner: CronJob, jobs: Sequence[Job], schedule: CronSchedule | None, zone: tzinfo, *, now: datetime
) -> Plan:
    """Plans the next step of a CronJob that controls these Jobs; without a schedule none is created."""
    status, notes = _observed_status(owner, jobs)
    pruned = _above_limits(owner, jobs)
    if owner.metadata.deletion_timestamp is not None:
        return Plan(status=status, notes=notes)
    if owner.spec.suspend or schedule is None:
        return Plan(status=status, delete=pruned, notes=notes)
    earliest = _earliest(owner, now)
    due = schedule.last_between(earliest, now, zone)
    after = schedule.next_after(due or earliest, zone)
    requeue_at = after if after is None or after > now else schedule.next_after(now, zone)
    base = Plan(status=status, delete=pruned, notes=notes, requeue_at=requeue_at)
    return base if due is None else _with_job(base, owner, jobs, _Due(due, earliest, schedule, zone))


class _Due(Struct, frozen=True):
    """A time at which a Job is due."""

    at: datetime
    earliest: datetime
    schedule: CronSchedule
    zone: tzinfo

    @property
    def many_missed(self) -> bool:
        """Whether so many times were missed that the clock may be wrong."""
        first = self.schedule.next_after(self.earliest, self.zone)
        second = None if first is None else self.schedule.next_after(first, self.zone)
        if first is None or second is None:
            return False
        return (self.at - first) // (second - first) >= MANY_MISSED


def _with_job(base: Plan, owner: CronJob, jobs: Sequence[Job], due: _Due) -> Plan:
    """The plan with the Job that is due, unless the concurrency policy forbids it."""
    name = job_name(owner, due.at)
    made = next((one for one in jobs if one.name == name), None)
    notes, delete = list(base.notes), list(base.delete)
    if due.many_missed:
        text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        notes.append(Note("TooManyMissedTimes", text, is_warning=True))
    if made is not None:  # it was created, but the status was not written
        return _changed(base, status=_started(base.status, made, due.at), notes=notes)
    active = {one.uid for one in base.status.active}
    if active and owner.spec.concurrency_policy == "Forbid":
        text = "Not starting job because prior execution is running and concurrency policy is Forbid"
        return _changed(base, notes=[*notes, Note("JobAlreadyActive", text)])
    status = base.status
    if owner.spec.concurrency_policy == "Replace":
        delete += [one for one in jobs if one.metadata.uid in active]
        status = CronJobStatus(
            active=(), last_schedule_time=status.last_schedule_time, last_successful_time=status.last_successful_time
        )
    return Plan(
        status=status,
        delete=tuple(delete),
        create=_new_job(owner, due.at, due.zone),
        scheduled_at=due.at,
        notes=tuple(notes),
        requeue_at=base.requeue_at,
    )


def _changed(base: Plan, *, notes: Sequence[Note], status: CronJobStatus | None = None) -> Plan:
    return Plan(status=status or base.status, delete=base.delete, notes=tuple(notes), requeue_at=base.requeue_at)


def _started(status: CronJobStatus, job: Job, at: datetime) -> CronJobStatus:
    """The status with a Job that has been created for a time."""
    is_listed = finished_as(job) is not None or any(one.uid == job.metadata.uid for one in status.active)
    active = status.active if is_listed else (*status.active, reference_to(job))
    return CronJobStatus(active=active, last_schedule_time=at, last_successful_time=status.last_successful_time)


def _earliest(owner: CronJob, now: datetime) -> datetime:
    """The time after which Jobs may be due: the last one, or the creation, but not before the starting deadline."""
    created = owner.metadata.creation_timestamp or now
    last = None if owner.status is None else owner.status.last_schedule_time
    deadline = owner.spec.starting_deadline_seconds
    earliest = last or created
    return earliest if deadline is None else max(earliest, now - timedelta(seconds=deadline))


def job_name(owner: CronJob, at: datetime) -> str:
    """The name of the Job for a time."""
    return f"{owner.name}-{int(at.timestamp()) // 60}"


def _new_job(owner: CronJob, at: datetime, zone: tzinfo) -> Job:
    template = owner.spec.job_template
    stamp = at.astimezone(zone).isoformat(timespec="seconds").replace("+00:00", "Z")
    metadata = ObjectMeta(
        name=job_name(owner, at),
        namespace=owner.namespace,
        labels=dict(template.metadata.labels),
        annotations={**template.metadata.annotations, SCHEDULED_AT: stamp},
    )
    return Job(metadata=metadata, spec=template.spec)


def _observed_status(owner: CronJob, jobs: Sequence[Job]) -> tuple[CronJobStatus, tuple[Note, ...]]:
    """The status by the Jobs that exist, and the Events about what has changed."""
    before = owner.status or CronJobStatus()
    by_uid = {one.metadata.uid: one for one in jobs}
    listed = {one.uid for one in before.active}
    active, notes = list[ObjectReference](), list[Note]()
    for ref in before.active:
        job = by_uid.get(ref.uid or "")
        ended = None if job is None else finished_as(job)
        if job is None:
            notes.append(Note("MissingJob", f"Active job went missing: {ref.name}"))
        elif ended is not None:
            notes.append(Note("SawCompletedJob", f"Saw completed job: {job.name}, condition: {ended}"))
        else:
            active.append(ref)
    succeeded = [before.last_successful_time]
    for job in jobs:
        if finished_as(job) == "Complete":
            succeeded.append(None if job.status is None else job.status.completion_time)
        elif (
            finished_as(job) is None and job.metadata.uid not in listed and SCHEDULED_AT not in job.metadata.annotations
        ):
            text = f"Saw a job that the controller did not create or forgot: {job.name}"
            notes.append(Note("UnexpectedJob", text, is_warning=True))
    status = CronJobStatus(
        active=tuple(active),
        last_schedule_time=before.last_schedule_time,
        last_successful_time=max((one for one in succeeded if one is not None), default=None),
    )
    return status, tuple(notes)


def reference_to(job: Job) -> ObjectReference:
    """The reference to an active Job."""
    metadata = job.metadata
    return ObjectReference(
        api_version=job.api_version,
        kind=job.kind,
        name=job.name,
        namespace=job.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def finished_as(job: Job) -> Literal["Complete", "Failed"] | None:
    """The condition with which a Job has finished; None if it has not."""
    conditions = () if job.status is None else job.status.conditions
    for one in conditions:
        if one.status == "True" and one.type in ("Complete", "Failed"):
            return "Complete" if one.type == "Complete" else "Failed"
    return None


def _above_limits(owner: CronJob, jobs: Sequence[Job]) -> tuple[Job, ...]:
    """The oldest finished Jobs above the limits of the history."""
    spec, surplus = owner.spec, list[Job]()
    limits = {"Complete": spec.successful_jobs_history_limit, "Failed": spec.failed_jobs_history_limit}
    for condition, limit in limits.items():
        finished = sorted((one for one in jobs if finished_as(one) == condition), key=_age)
        if limit is not None:
            surplus += finished[: max(0, len(finished) - limit)]
    return tuple(one for one in surplus if one.metadata.deletion_timestamp is None)


def _age(job: Job) -> tuple[float, str]:
    started = None if job.status is None else job.status.start_time
    return (float("inf") if started is None else started.timestamp()), job.name
