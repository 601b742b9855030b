"""What a Job needs: which Pods to make and to stop, which to let go once counted, and what its status says; pure.

A Job whose end is decided says so first (`SuccessCriteriaMet`, `FailureTarget`), stops what still runs, counts it, and
is `Complete` or `Failed` when nothing of it runs any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from levelset import replace
from levelset.kinds.batch_v1 import Job, JobCondition, JobStatus
from levelset.kinds.core_v1 import Pod
from levelset.objects import seconds_precision
from levelset_local import podstates
from levelset_local.jobs import conditions as conditions_
from levelset_local.jobs import timing
from levelset_local.jobs.conditions import Conditions, Verdict
from levelset_local.jobs.judging import find_verdict, judge
from levelset_local.jobs.workers import Look, look_at, missing, surplus, terminating

__all__ = ["Plan", "make_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The next step of a Job, in the order in which it is taken: status, release, drop, stop, make."""

    status: JobStatus
    release: tuple[Pod, ...] = ()
    """Those whose finalizers come off once the status has been written."""
    drop: tuple[Pod, ...] = ()
    """Those to delete without counting them."""
    stop: tuple[Pod, ...] = ()
    """Those to delete, and to count as failed."""
    running: int = 0
    """How many run before anything of this is done."""
    make: tuple[int | None, ...] = ()
    """The Pods to make: their indexes, or None for each that has none."""
    look: datetime | None = None
    is_expired: bool = False


def make_plan(owner: Job, pods: Sequence[Pod], *, now: datetime) -> Plan:
    """The next step of a Job that has these Pods."""
    look = look_at(owner, pods, now=now)
    before = owner.status or JobStatus()
    finished = conditions_.find(before.conditions, conditions_.COMPLETE, conditions_.FAILED)
    if finished is not None:
        return _rest(look, finished)
    if owner.metadata.deletion_timestamp is not None:
        status = _counted(look, before.conditions, look.active)
        return Plan(status=status, running=len(look.active), release=look.count.release)
    verdict = find_verdict(before.conditions) or judge(look)
    if verdict is not None:
        return _end(look, verdict)
    return _suspend(look) if owner.spec.suspend else _go_on(look)


def _rest(look: Look, finished: JobCondition) -> Plan:
    """The step of a Job that is over: to go when its time has come."""
    at = timing.expires_at(look.owner, finished)
    is_expired = at is not None and at <= look.now
    return Plan(
        status=_counted(look, (look.owner.status or JobStatus()).conditions, ()),
        release=look.count.release,
        drop=(*look.strays, *look.active),
        look=None if is_expired else at,
        is_expired=is_expired,
    )


def _suspend(look: Look) -> Plan:
    """The step of a Job that somebody has suspended: nobody runs, and nobody is blamed for that."""
    before = look.owner.status or JobStatus()
    kind, words = conditions_.SUSPENDED, "the Job is suspended"
    found = conditions_.put(before.conditions, kind, "True", reason="JobSuspended", message=words, now=look.now)
    return Plan(
        status=replace(_counted(look, found, ()), start_time=None),
        running=len(look.active),
        release=look.count.release,
        drop=(*look.strays, *look.active),
    )


def _go_on(look: Look) -> Plan:
    """The step of a Job that is not decided: so many Pods as it may have, and no more."""
    owner, before = look.owner, look.owner.status or JobStatus()
    resumed = _resumed(before.conditions, look.now)
    start = before.start_time or seconds_precision(look.now)
    deadline = timing.deadline_of(owner, start)
    drop = surplus(look)
    make, retry = missing(look)
    kept = [pod for pod in look.active if pod not in drop]
    status = replace(_counted(look, resumed, kept), start_time=start)
    times = [at for at in (deadline, retry) if at is not None]
    return Plan(
        status=status,
        running=len(look.active),
        release=look.count.release,
        drop=(*look.strays, *drop),
        make=make,
        look=min(times, default=None),
    )


def _end(look: Look, verdict: Verdict) -> Plan:
    """The step of a Job that is decided: nothing new, nothing that runs on, and the last word when all is counted."""
    before = look.owner.status or JobStatus()
    first = conditions_.SUCCESS_MET if verdict.is_success else conditions_.FAILURE_TARGET
    found = conditions_.put(
        before.conditions, first, "True", reason=verdict.reason, message=verdict.message, now=look.now
    )
    start = before.start_time or seconds_precision(look.now)
    is_over = look.count.is_settled and not look.active and not look.strays and not terminating(look)
    if not is_over:
        status = replace(_counted(look, found, ()), start_time=start)
        drop, stop = ((*look.strays, *look.active), ()) if verdict.is_success else (look.strays, look.active)
        return Plan(status=status, running=len(look.active), release=look.count.release, drop=drop, stop=stop)
    last = conditions_.COMPLETE if verdict.is_success else conditions_.FAILED
    found = conditions_.put(found, last, "True", reason=verdict.reason, message=verdict.message, now=look.now)
    ended = seconds_precision(look.now) if verdict.is_success else None
    status = replace(_counted(look, found, ()), start_time=start, completion_time=ended)
    finished = conditions_.find(found, last)
    return Plan(status=status, look=None if finished is None else timing.expires_at(look.owner, finished))


def _counted(look: Look, conditions: Conditions, active: Sequence[Pod]) -> JobStatus:
    """The status with all numbers, and these conditions."""
    before, count = look.owner.status or JobStatus(), look.count
    return replace(
        before,
        active=len(active),
        ready=sum(podstates.is_ready(pod) for pod in active),
        terminating=terminating(look),
        succeeded=count.succeeded,
        failed=count.failed,
        completed_indexes=count.completed(look.owner),
        uncounted_terminated_pods=count.uncounted(),
        conditions=conditions,
    )


def _resumed(conditions: Conditions, now: datetime) -> Conditions:
    if conditions_.find(conditions, conditions_.SUSPENDED) is None:
        return conditions
    words = "the Job goes on"
    return conditions_.put(conditions, conditions_.SUSPENDED, "False", reason="JobResumed", message=words, now=now)
