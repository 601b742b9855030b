"""The next step of a Job: which Pods to create, delete and release, and its status and conditions; pure.

As in Kubernetes a Job whose outcome is decided first has the condition `SuccessCriteriaMet` or `FailureTarget`. Then
its remaining Pods are deleted and counted, and when none is left it becomes `Complete` or `Failed`.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from levelset import replace
from levelset.kinds.batch_v1 import Job, JobCondition, JobStatus
from levelset.kinds.core_v1 import Pod
from levelset.objects import seconds_precision
from levelset_local import pod_state
from levelset_local.jobs.completion_indexes import index_of, missing_indexes
from levelset_local.jobs.pod_tracking import PodCounts, count_pods, counts_as_failed, has_finalizer, is_indexed
from levelset_local.jobs.policies import failures_of_index, has_index_limit, is_ignored, matched_rule, success_rule

__all__ = ["COMPLETE", "FAILED", "SUSPENDED", "Plan", "backoff_delay", "make_plan", "retry_at"]

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"
SUCCESS_MET: Final = "SuccessCriteriaMet"
FAILURE_TARGET: Final = "FailureTarget"

DEFAULT_BACKOFF_LIMIT: Final = 6
INITIAL_DELAY: Final = 10.0
MAX_DELAY: Final = 360.0

Conditions = tuple[JobCondition, ...]


class Plan(Struct, frozen=True, kw_only=True):
    """The next step of a Job; it is executed in the order status, release, drop, stop, create."""

    status: JobStatus
    release: tuple[Pod, ...] = ()
    """Pods whose finalizers are removed once the status has been written."""
    drop: tuple[Pod, ...] = ()
    """Pods to delete without counting them."""
    stop: tuple[Pod, ...] = ()
    """Pods to delete and to count as failed."""
    running: int = 0
    """The number of active Pods before the step."""
    create: tuple[int | None, ...] = ()
    """The Pods to create: their completion indexes, or None for each without one."""
    requeue_at: datetime | None = None
    is_expired: bool = False
    """Whether `ttlSecondsAfterFinished` has passed, so that the Job is to be deleted."""


def make_plan(owner: Job, pods: Sequence[Pod], *, now: datetime) -> Plan:
    """Plans the next step of a Job that has these Pods."""
    state = _job_state(owner, pods, now)
    before = owner.status or JobStatus()
    finished = _true_condition(before.conditions, COMPLETE, FAILED)
    if finished is not None:
        return _plan_finished(state, finished)
    if owner.metadata.deletion_timestamp is not None:
        status = _counted(state, before.conditions, state.active)
        return Plan(status=status, running=len(state.active), release=state.counts.release)
    outcome = _recorded_outcome(before.conditions) or _decide_outcome(state)
    if outcome is not None:
        return _plan_ending(state, outcome)
    return _plan_suspended(state) if owner.spec.suspend else _plan_active(state)


def backoff_delay(failures: int) -> float:
    """The seconds to wait after so many consecutive failures."""
    if failures <= 0:
        return 0.0
    return min(MAX_DELAY, INITIAL_DELAY * 2.0 ** min(failures - 1, 30))


def retry_at(owner: Job, pods: Sequence[Pod]) -> datetime | None:
    """When the next Pod may be created after the failures since the last success; None for at once.

    It is computed from the Pods, so that the back-off survives a restart of the controller.
    """
    successes = [at for pod in pods if pod_state.has_succeeded(pod) and (at := pod_state.finished_at(pod)) is not None]
    last = max(successes, default=None)
    failed = (pod for pod in pods if counts_as_failed(owner, pod) and not is_ignored(owner, pod))
    times = [at for pod in failed if (at := pod_state.finished_at(pod)) is not None and (last is None or at > last)]
    return max(times) + timedelta(seconds=backoff_delay(len(times))) if times else None


class _JobState(Struct, frozen=True):
    """A Job with its Pods: how far they are counted, and which of them are active.

    An active Pod without the tracking finalizer is untracked: a step that was to delete it was interrupted.
    """

    owner: Job
    pods: Sequence[Pod]
    counts: PodCounts
    now: datetime
    active: tuple[Pod, ...] = ()
    untracked: tuple[Pod, ...] = ()


def _job_state(owner: Job, pods: Sequence[Pod], now: datetime) -> _JobState:
    active = [pod for pod in pods if pod_state.is_active(pod)]
    tracked = tuple(one for one in active if has_finalizer(one))
    untracked = tuple(one for one in active if not has_finalizer(one))
    return _JobState(owner, pods, count_pods(owner, pods), now, tracked, untracked)


class _Outcome(Struct, frozen=True):
    """The decided outcome of a Job, with the reason and message of its conditions."""

    is_success: bool
    reason: str
    message: str


def _decide_outcome(state: _JobState) -> _Outcome | None:
    """The outcome that follows from the counts and the time; None if the Job goes on."""
    owner, counts = state.owner, state.counts
    rules = (matched_rule(owner, pod) for pod in state.pods)
    fatal = next((rule for rule in rules if rule is not None and rule.action == "FailJob"), None)
    if fatal is not None:
        return _Outcome(False, "PodFailurePolicy", fatal.message)
    limit = DEFAULT_BACKOFF_LIMIT if owner.spec.backoff_limit is None else owner.spec.backoff_limit
    if counts.all_failed > limit or _exceeds_restarts(state, limit):
        return _Outcome(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    deadline = _deadline_of(owner, None if owner.status is None else owner.status.start_time)
    if deadline is not None and deadline <= state.now and not owner.spec.suspend:
        return _Outcome(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    failed = _failed_indexes_outcome(state)
    if failed is not None:
        return failed
    rule = success_rule(owner, counts.indexes) if is_indexed(owner) else None
    if rule is not None:
        return _Outcome(True, "SuccessPolicy", f"Matched rules at index {rule}")
    wanted = owner.spec.completions
    is_reached = counts.all_succeeded > 0 and not state.active if wanted is None else counts.all_succeeded >= wanted
    return _Outcome(True, "CompletionsReached", "Reached expected number of succeeded pods") if is_reached else None


def _failed_indexes_outcome(state: _JobState) -> _Outcome | None:
    """The failure of a Job whose indexes have a limit of their own: too many have failed, or all have ended."""
    owner, failed = state.owner, state.counts.failed_indexes
    if not has_index_limit(owner) or not failed:
        return None
    most = owner.spec.max_failed_indexes
    if most is not None and len(failed) > most:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return _Outcome(False, "MaxFailedIndexesExceeded", message)
    if len(failed | state.counts.indexes) >= (owner.spec.completions or 0):
        return _Outcome(False, "FailedIndexes", "Job has failed indexes")
    return None


def _recorded_outcome(conditions: Conditions) -> _Outcome | None:
    """The outcome that was decided in an earlier step: it is final, whatever the remaining Pods do."""
    found = _true_condition(conditions, SUCCESS_MET, FAILURE_TARGET)
    if found is None:
        return None
    return _Outcome(found.type == SUCCESS_MET, found.reason or "", found.message or "")


def _exceeds_restarts(state: _JobState, limit: int) -> bool:
    """Whether in-place restarts exceed the limit; with the policy OnFailure they count like failed Pods."""
    template = state.owner.spec.template.spec
    if template.restart_policy != "OnFailure":
        return False
    restarts = sum(pod_state.restart_count_of(pod) for pod in state.active)
    return restarts > 0 if limit == 0 else restarts >= limit


def _plan_finished(state: _JobState, finished: JobCondition) -> Plan:
    """The step of a Job that is Complete or Failed: it is deleted when its TTL has passed."""
    at = _expires_at(state.owner, finished)
    is_expired = at is not None and at <= state.now
    return Plan(
        status=_counted(state, (state.owner.status or JobStatus()).conditions, ()),
        release=state.counts.release,
        drop=(*state.untracked, *state.active),
        requeue_at=None if is_expired else at,
        is_expired=is_expired,
    )


def _plan_suspended(state: _JobState) -> Plan:
    """The step of a suspended Job: its Pods are deleted, and do not count as failed."""
    before = state.owner.status or JobStatus()
    conditions = _set_condition(
        before.conditions, SUSPENDED, "True", reason="JobSuspended", message="Job suspended", now=state.now
    )
    return Plan(
        status=replace(_counted(state, conditions, ()), start_time=None),
        running=len(state.active),
        release=state.counts.release,
        drop=(*state.untracked, *state.active),
    )


def _plan_active(state: _JobState) -> Plan:
    """The step of a Job without an outcome: as many Pods as its parallelism allows."""
    owner, before = state.owner, state.owner.status or JobStatus()
    conditions = _resumed(before.conditions, state.now)
    start = before.start_time or seconds_precision(state.now)
    deadline = _deadline_of(owner, start)
    drop = _pods_to_delete(state)
    create, retry = _pods_to_create(state)
    remaining = [pod for pod in state.active if pod not in drop]
    status = replace(_counted(state, conditions, remaining), start_time=start)
    times = [at for at in (deadline, retry) if at is not None]
    return Plan(
        status=status,
        running=len(state.active),
        release=state.counts.release,
        drop=(*state.untracked, *drop),
        create=create,
        requeue_at=min(times, default=None),
    )


def _plan_ending(state: _JobState, outcome: _Outcome) -> Plan:
    """The step of a Job with an outcome: deletes its Pods, and finishes the Job when all are counted and gone."""
    before = state.owner.status or JobStatus()
    first = SUCCESS_MET if outcome.is_success else FAILURE_TARGET
    conditions = _set_condition(
        before.conditions, first, "True", reason=outcome.reason, message=outcome.message, now=state.now
    )
    start = before.start_time or seconds_precision(state.now)
    is_over = state.counts.is_settled and not state.active and not state.untracked and not _terminating(state)
    if not is_over:
        status = replace(_counted(state, conditions, ()), start_time=start)
        drop, stop = ((*state.untracked, *state.active), ()) if outcome.is_success else (state.untracked, state.active)
        return Plan(status=status, running=len(state.active), release=state.counts.release, drop=drop, stop=stop)
    last = COMPLETE if outcome.is_success else FAILED
    conditions = _set_condition(conditions, last, "True", reason=outcome.reason, message=outcome.message, now=state.now)
    ended = seconds_precision(state.now) if outcome.is_success else None
    status = replace(_counted(state, conditions, ()), start_time=start, completion_time=ended)
    finished = _true_condition(conditions, last)
    return Plan(status=status, requeue_at=None if finished is None else _expires_at(state.owner, finished))


def _wanted(state: _JobState) -> int:
    """How many Pods should be active now."""
    spec = state.owner.spec
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        ended = state.counts.all_succeeded + len(state.counts.failed_indexes)
        return max(0, min(parallelism, spec.completions - ended))
    # A work queue: once a Pod has succeeded, the others finish what is left, and no new ones are created.
    return min(parallelism, len(state.active)) if state.counts.all_succeeded else parallelism


def _pods_to_delete(state: _JobState) -> tuple[Pod, ...]:
    """The Pods above the wanted number, those with the least progress first, and duplicates of an index."""
    duplicates = _duplicates(state) if is_indexed(state.owner) else ()
    rest = [pod for pod in state.active if pod not in duplicates]
    more = len(rest) - _wanted(state)
    ranked = sorted(rest, key=_progress)
    return (*duplicates, *ranked[: max(0, more)])


def _pods_to_create(state: _JobState) -> tuple[tuple[int | None, ...], datetime | None]:
    """The indexes of the Pods to create now (None without indexes), or when the back-off allows them."""
    owner = state.owner
    waiting = 0
    if owner.spec.pod_replacement_policy == "Failed":
        waiting = _terminating(state)  # a Pod that is terminating may still succeed
    duplicates = len(_duplicates(state)) if is_indexed(owner) else 0
    more = _wanted(state) - (len(state.active) - duplicates) - waiting
    if more <= 0:
        return (), None
    busy = {index for pod in state.active if (index := index_of(pod)) is not None}
    taken = state.counts.indexes | state.counts.failed_indexes | busy
    if has_index_limit(owner):
        return _indexes_to_create(state, taken, more)
    at = retry_at(owner, state.pods)
    if at is not None and at > state.now:
        return (), at
    if not is_indexed(owner):
        return (None,) * more, None
    return missing_indexes(owner.spec.completions or 0, taken, more), None


def _indexes_to_create(
    state: _JobState, taken: frozenset[int], more: int
) -> tuple[tuple[int | None, ...], datetime | None]:
    """The indexes whose own back-off is over, and when that of the next one is."""
    completions = state.owner.spec.completions or 0
    due: list[int] = []
    later: list[datetime] = []
    for index in missing_indexes(completions, taken, completions):
        at = _index_retry_at(state, index)
        if at is not None and at > state.now:
            later.append(at)
        elif len(due) < more:
            due.append(index)
    return tuple(due), min(later, default=None)


def _index_retry_at(state: _JobState, index: int) -> datetime | None:
    """When an index may have its next Pod; None for at once."""
    own = [pod for pod in state.pods if index_of(pod) == index and pod_state.has_failed(pod)]
    times = [at for pod in own if (at := pod_state.finished_at(pod)) is not None]
    failures = failures_of_index(state.owner, own, index)
    return max(times) + timedelta(seconds=backoff_delay(failures)) if times and failures else None


def _terminating(state: _JobState) -> int:
    """How many Pods are being deleted and may still run."""
    return sum(pod_state.is_terminating(pod) for pod in state.pods)


def _duplicates(state: _JobState) -> tuple[Pod, ...]:
    """Pods whose index has ended, has another active Pod, or is out of range."""
    taken = {*state.counts.indexes, *state.counts.failed_indexes}
    found: list[Pod] = []
    for pod in sorted(state.active, key=_progress, reverse=True):
        index = index_of(pod)
        if index is None or index in taken or index >= (state.owner.spec.completions or 0):
            found.append(pod)
        else:
            taken.add(index)
    return tuple(found)


def _progress(pod: Pod) -> tuple[bool, bool, float, str]:
    at = pod.metadata.creation_timestamp
    bound = bool(pod.spec.node_name)
    return bound, pod_state.is_ready(pod), 0.0 if at is None else -at.timestamp(), pod.name


def _deadline_of(owner: Job, started: datetime | None) -> datetime | None:
    """When `activeDeadlineSeconds` is exceeded; None if there is no deadline."""
    seconds = owner.spec.active_deadline_seconds
    return None if seconds is None or started is None else started + timedelta(seconds=seconds)


def _expires_at(owner: Job, finished: JobCondition) -> datetime | None:
    """When a finished Job is deleted by its TTL; None if it has none."""
    seconds, at = owner.spec.ttl_seconds_after_finished, finished.last_transition_time
    return None if seconds is None or at is None else at + timedelta(seconds=seconds)


def _counted(state: _JobState, conditions: Conditions, active: Sequence[Pod]) -> JobStatus:
    """The status with all counts and these conditions."""
    before, counts = state.owner.status or JobStatus(), state.counts
    return replace(
        before,
        active=len(active),
        ready=sum(pod_state.is_ready(pod) for pod in active),
        terminating=_terminating(state),
        succeeded=counts.succeeded,
        failed=counts.failed,
        completed_indexes=counts.completed(state.owner),
        failed_indexes=counts.all_failed_indexes(state.owner),
        uncounted_terminated_pods=counts.uncounted(),
        conditions=conditions,
    )


def _resumed(conditions: Conditions, now: datetime) -> Conditions:
    if _true_condition(conditions, SUSPENDED) is None:
        return conditions
    return _set_condition(conditions, SUSPENDED, "False", reason="JobResumed", message="Job resumed", now=now)


def _true_condition(conditions: Iterable[JobCondition], *types: str) -> JobCondition | None:
    """The first condition of one of these types that is True, or None."""
    return next((one for one in conditions if one.type in types and one.status == "True"), None)


def _set_condition(
    conditions: Conditions, kind: str, status: Literal["True", "False"], *, reason: str, message: str, now: datetime
) -> Conditions:
    """The conditions with this one set; its transition time changes only with its status."""
    time = seconds_precision(now)
    present = next((one for one in conditions if one.type == kind), None)
    made = JobCondition(
        type=kind, status=status, reason=reason, message=message, last_probe_time=time, last_transition_time=time
    )
    if present is None:
        return (*conditions, made)
    if (present.status, present.reason) == (status, reason):
        return conditions
    if present.status == status:
        made = replace(made, last_transition_time=present.last_transition_time)
    return tuple(made if one is present else one for one in conditions)
