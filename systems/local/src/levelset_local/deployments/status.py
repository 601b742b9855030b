"""The status of a Deployment: the counts of its ReplicaSets, and its conditions; pure.

A condition has two times: `lastTransitionTime` changes with its status, `lastUpdateTime` also with its reason and with
each progress of a rollout. The progress deadline is counted from the latter, so that it survives a restart of the
controller.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from levelset import replace
from levelset.kinds.apps_v1 import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetStatus
from levelset.objects import seconds_precision
from levelset_local.deployments.rollout import rollout_limits

__all__ = ["is_complete", "make_status", "progress_deadline_at", "with_failed_create"]

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
FAILURE: Final = "ReplicaFailure"
NO_DEADLINE: Final = 2**31 - 1
_NO_STATUS = ReplicaSetStatus(replicas=0)

Conditions = tuple[DeploymentCondition, ...]


def make_status(
    owner: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet], *, now: datetime, is_new: bool = False
) -> DeploymentStatus:
    """The status of a Deployment with these ReplicaSets; `is_new` if the new one is about to be created."""
    sets = [*([] if new is None else [new]), *olds]
    states = [one.status or _NO_STATUS for one in sets]
    replicas, available = sum(one.replicas for one in states), sum(one.available_replicas for one in states)
    terminating = [one.terminating_replicas for one in states if one.terminating_replicas is not None]
    before = owner.status or DeploymentStatus()
    status = DeploymentStatus(
        observed_generation=owner.metadata.generation,
        replicas=replicas,
        updated_replicas=0 if new is None or new.status is None else new.status.replicas,
        ready_replicas=sum(one.ready_replicas for one in states),
        available_replicas=available,
        unavailable_replicas=max(0, replicas - available),
        terminating_replicas=sum(terminating) if terminating else None,
        collision_count=before.collision_count,
        conditions=before.conditions,
    )
    conditions = _set_available(owner, status, now)
    conditions = _set_failure(conditions, sets, now=now)
    if owner.metadata.deletion_timestamp is None:
        status = replace(status, conditions=conditions)
        conditions = _set_progressing(owner, status, new, is_new=is_new, now=now)
    return replace(status, conditions=conditions)


def is_complete(owner: Deployment, status: DeploymentStatus) -> bool:
    """Whether all desired Pods exist, are available and have the latest template, and there are no others."""
    desired = rollout_limits(owner.spec).desired
    return status.updated_replicas == status.replicas == status.available_replicas == desired


def with_failed_create(owner: Deployment, status: DeploymentStatus, message: str, *, now: datetime) -> DeploymentStatus:
    """The status of a Deployment whose new ReplicaSet could not be created."""
    if _deadline_of(owner) is None:
        return status
    before = () if owner.status is None else owner.status.conditions
    others = _remove(status.conditions, PROGRESSING)
    # Not that of the new status, which already reports the new ReplicaSet as created.
    progressing = tuple(one for one in before if one.type == PROGRESSING)
    made = _set((*others, *progressing), PROGRESSING, "False", now=now, reason="FailedCreate", message=message)
    return replace(status, conditions=made)


def progress_deadline_at(owner: Deployment, conditions: Conditions) -> datetime | None:
    """When the progress deadline of a rollout is exceeded; None if there is no deadline or no rollout in progress."""
    present = _find(conditions, PROGRESSING)
    seconds = _deadline_of(owner)
    if present is None or seconds is None or present.last_update_time is None or owner.spec.paused:
        return None
    if present.reason in {"NewReplicaSetAvailable", "ProgressDeadlineExceeded"}:
        return None
    return present.last_update_time + timedelta(seconds=seconds)


def _set_available(owner: Deployment, status: DeploymentStatus, now: datetime) -> Conditions:
    is_available = status.available_replicas >= rollout_limits(owner.spec).min_available
    words = "has" if is_available else "does not have"
    return _set(
        status.conditions,
        AVAILABLE,
        "True" if is_available else "False",
        now=now,
        reason="MinimumReplicasAvailable" if is_available else "MinimumReplicasUnavailable",
        message=f"Deployment {words} minimum availability.",
    )


def _set_failure(conditions: Conditions, sets: Iterable[ReplicaSet], *, now: datetime) -> Conditions:
    """The conditions with the ReplicaFailure of the first ReplicaSet that has one, or without it if none has."""
    for one in sets:
        for failure in () if one.status is None else one.status.conditions:
            if failure.type == FAILURE and failure.status == "True":
                reason, message = failure.reason or "", failure.message or ""
                return _set(conditions, FAILURE, "True", now=now, reason=reason, message=message)
    return _remove(conditions, FAILURE)


def _set_progressing(
    owner: Deployment, status: DeploymentStatus, new: ReplicaSet | None, *, is_new: bool, now: datetime
) -> Conditions:
    conditions = status.conditions
    if new is not None and _deadline_of(owner) is not None:
        conditions = _set_new_replica_set(conditions, new, is_new=is_new, now=now)
    conditions = _set_paused(owner, conditions, now=now)
    if owner.spec.paused or is_new:
        return conditions
    subject = f'Deployment "{owner.name}"' if new is None else f'ReplicaSet "{new.name}"'
    return _set_progress(owner, replace(status, conditions=conditions), subject=subject, now=now)


def _set_new_replica_set(conditions: Conditions, new: ReplicaSet, *, is_new: bool, now: datetime) -> Conditions:
    if is_new:
        message = f'Created new replica set "{new.name}"'
        return _set(
            conditions, PROGRESSING, "True", now=now, reason="NewReplicaSetCreated", message=message, is_progress=True
        )
    if _find(conditions, PROGRESSING) is None:
        message = f'Found new replica set "{new.name}"'
        return _set(conditions, PROGRESSING, "True", now=now, reason="FoundNewReplicaSet", message=message)
    return conditions


def _set_paused(owner: Deployment, conditions: Conditions, *, now: datetime) -> Conditions:
    """The conditions after the Deployment was paused or resumed; the progress deadline is counted from then."""
    present = _find(conditions, PROGRESSING)
    reason = None if present is None else present.reason
    if _deadline_of(owner) is None or reason == "ProgressDeadlineExceeded":
        return conditions
    if owner.spec.paused and reason != "DeploymentPaused":
        message = "Deployment is paused"
        return _set(conditions, PROGRESSING, "Unknown", now=now, reason="DeploymentPaused", message=message)
    if not owner.spec.paused and reason == "DeploymentPaused":
        message = "Deployment is resumed"
        return _set(conditions, PROGRESSING, "Unknown", now=now, reason="DeploymentResumed", message=message)
    return conditions


def _set_progress(owner: Deployment, status: DeploymentStatus, *, subject: str, now: datetime) -> Conditions:
    """The conditions after a comparison with the status before: complete, progressing, or past the deadline."""
    conditions = status.conditions
    if _deadline_of(owner) is None:
        return _remove(conditions, PROGRESSING)
    present = _find(conditions, PROGRESSING)
    was_complete = present is not None and present.reason == "NewReplicaSetAvailable"
    if was_complete and status.replicas == status.updated_replicas:
        return conditions
    if is_complete(owner, status):
        message = f"{subject} has successfully progressed."
        return _set(conditions, PROGRESSING, "True", now=now, reason="NewReplicaSetAvailable", message=message)
    if was_complete or _has_progressed(owner.status or DeploymentStatus(), status):
        message = f"{subject} is progressing."
        return _set(
            conditions, PROGRESSING, "True", now=now, reason="ReplicaSetUpdated", message=message, is_progress=True
        )
    if present is not None and _is_late(owner, present, now):
        message = f"{subject} has timed out progressing."
        return _set(conditions, PROGRESSING, "False", now=now, reason="ProgressDeadlineExceeded", message=message)
    return conditions


def _has_progressed(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    return (
        after.updated_replicas > before.updated_replicas
        or after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
    )


def _is_late(owner: Deployment, present: DeploymentCondition, now: datetime) -> bool:
    at = progress_deadline_at(owner, (present,))
    return present.reason == "ProgressDeadlineExceeded" or (at is not None and at <= now)


def _deadline_of(owner: Deployment) -> float | None:
    """The progress deadline in seconds; None if there is none."""
    given = owner.spec.progress_deadline_seconds
    return None if given is None or given == NO_DEADLINE else float(given)


def _find(conditions: Iterable[DeploymentCondition], kind: str) -> DeploymentCondition | None:
    """The condition of that type, or None."""
    return next((one for one in conditions if one.type == kind), None)


def _remove(conditions: Conditions, kind: str) -> Conditions:
    """The conditions without those of that type."""
    return tuple(one for one in conditions if one.type != kind)


def _set(
    conditions: Conditions,
    kind: str,
    status: Literal["True", "False", "Unknown"],
    *,
    now: datetime,
    reason: str,
    message: str,
    is_progress: bool = False,
) -> Conditions:
    """The conditions with this one set; unchanged if status and reason are the same, unless there was progress."""
    present = _find(conditions, kind)
    if present is not None and (present.status, present.reason) == (status, reason) and not is_progress:
        return conditions
    time = seconds_precision(now)
    made = DeploymentCondition(
        type=kind, status=status, reason=reason, message=message, last_update_time=time, last_transition_time=time
    )
    if present is None:
        return (*conditions, made)
    if present.status == status:
        made = replace(made, last_transition_time=present.last_transition_time)
    return tuple(made if one is present else one for one in conditions)
