"""The conditions of a Deployment: whether it is available, whether it gets on, and what is in its way; pure.

A condition has two times. `lastTransitionTime` moves with its status; `lastUpdateTime` moves with its reason as well,
and with each progress of a roll: the deadline for progress is counted from there, so that it survives a restart.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, Literal

from levelset import replace
from levelset.kinds.apps_v1 import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from levelset.objects import seconds_precision

__all__ = [
    "AVAILABLE",
    "FAILURE",
    "PROGRESSING",
    "Conditions",
    "deadline_of",
    "find",
    "judge_failure",
    "judge_pause",
    "judge_progress",
    "late_at",
    "put",
    "remove",
]

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
FAILURE: Final = "ReplicaFailure"
NO_DEADLINE: Final = 2**31 - 1

Conditions = tuple[DeploymentCondition, ...]


def find(conditions: Iterable[DeploymentCondition], kind: str) -> DeploymentCondition | None:
    """The condition of that type, or None."""
    return next((one for one in conditions if one.type == kind), None)


def remove(conditions: Conditions, kind: str) -> Conditions:
    """The conditions without that one."""
    return tuple(one for one in conditions if one.type != kind)


def put(
    conditions: Conditions,
    kind: str,
    status: Literal["True", "False", "Unknown"],
    *,
    now: datetime,
    reason: str,
    message: str,
    is_anew: bool = False,
) -> Conditions:
    """The conditions with this one, untouched if status and reason are what they were, unless it is said anew."""
    present = find(conditions, kind)
    if present is not None and (present.status, present.reason) == (status, reason) and not is_anew:
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


def judge_progress(
    owner: Deployment, status: DeploymentStatus, *, is_done: bool, subject: str, now: datetime
) -> Conditions:
    """The conditions of the status after it was compared with the one that was read: complete, getting on, or late."""
    conditions = status.conditions
    if deadline_of(owner) is None:
        return remove(conditions, PROGRESSING)
    present = find(conditions, PROGRESSING)
    was_complete = present is not None and present.reason == "NewReplicaSetAvailable"
    if was_complete and status.replicas == status.updated_replicas:
        return conditions
    if is_done:
        words = f"{subject} has all its replicas, and they are available"
        return put(conditions, PROGRESSING, "True", now=now, reason="NewReplicaSetAvailable", message=words)
    if was_complete or _has_advanced(owner.status or DeploymentStatus(), status):
        words = f"{subject} is getting on"
        return put(conditions, PROGRESSING, "True", now=now, reason="ReplicaSetUpdated", message=words, is_anew=True)
    if present is not None and _is_late(owner, present, now):
        words = f"{subject} has not got on for {owner.spec.progress_deadline_seconds} seconds"
        return put(conditions, PROGRESSING, "False", now=now, reason="ProgressDeadlineExceeded", message=words)
    return conditions


def judge_pause(owner: Deployment, conditions: Conditions, *, now: datetime) -> Conditions:
    """The conditions after somebody paused the Deployment, or let it go on; from then the deadline counts anew."""
    present = find(conditions, PROGRESSING)
    reason = None if present is None else present.reason
    if deadline_of(owner) is None or reason == "ProgressDeadlineExceeded":
        return conditions
    if owner.spec.paused and reason != "DeploymentPaused":
        words = "the Deployment is paused"
        return put(conditions, PROGRESSING, "Unknown", now=now, reason="DeploymentPaused", message=words)
    if not owner.spec.paused and reason == "DeploymentPaused":
        words = "the Deployment goes on"
        return put(conditions, PROGRESSING, "Unknown", now=now, reason="DeploymentResumed", message=words)
    return conditions


def judge_failure(conditions: Conditions, sets: Iterable[ReplicaSet], *, now: datetime) -> Conditions:
    """The conditions with what the first ReplicaSet that is in trouble says, or without any trouble."""
    for one in sets:
        for trouble in () if one.status is None else one.status.conditions:
            if trouble.type == FAILURE and trouble.status == "True":
                reason, words = trouble.reason or "", trouble.message or ""
                return put(conditions, FAILURE, "True", now=now, reason=reason, message=words)
    return remove(conditions, FAILURE)


def deadline_of(owner: Deployment) -> float | None:
    """Within how many seconds it must get on; None if it may take its time."""
    given = owner.spec.progress_deadline_seconds
    return None if given is None or given == NO_DEADLINE else float(given)


def late_at(owner: Deployment, conditions: Conditions) -> datetime | None:
    """When the Deployment will have made no progress for too long; None if that is of no concern."""
    present = find(conditions, PROGRESSING)
    seconds = deadline_of(owner)
    if present is None or seconds is None or present.last_update_time is None or owner.spec.paused:
        return None
    if present.reason in {"NewReplicaSetAvailable", "ProgressDeadlineExceeded"}:
        return None
    return present.last_update_time + timedelta(seconds=seconds)


def _has_advanced(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    return (
        after.updated_replicas > before.updated_replicas
        or after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
    )


def _is_late(owner: Deployment, present: DeploymentCondition, now: datetime) -> bool:
    at = late_at(owner, (present,))
    return present.reason == "ProgressDeadlineExceeded" or (at is not None and at <= now)
