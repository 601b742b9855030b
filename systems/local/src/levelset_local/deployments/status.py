"""The status of a Deployment: the numbers of its ReplicaSets together, and what they mean; pure."""

from collections.abc import Sequence
from datetime import datetime

from levelset import replace
from levelset.kinds.apps_v1 import Deployment, DeploymentStatus, ReplicaSet, ReplicaSetStatus
from levelset_local.deployments import conditions as conditions_
from levelset_local.deployments.conditions import Conditions
from levelset_local.deployments.rolling import limits_of

__all__ = ["is_complete", "make_status", "with_failed_create"]

_NO_STATUS = ReplicaSetStatus(replicas=0)


def make_status(
    owner: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet], *, now: datetime, is_made: bool = False
) -> DeploymentStatus:
    """The status of a Deployment with these ReplicaSets; `is_made` says that the new one is about to be made."""
    everybody = [*([] if new is None else [new]), *olds]
    states = [one.status or _NO_STATUS for one in everybody]
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
    found = _judge_available(owner, status, now)
    found = conditions_.judge_failure(found, everybody, now=now)
    if owner.metadata.deletion_timestamp is None:
        found = _judge_progress(owner, replace(status, conditions=found), new, is_made=is_made, now=now)
    return replace(status, conditions=found)


def is_complete(owner: Deployment, status: DeploymentStatus) -> bool:
    """Whether all Pods that are wanted are there, are of the newest template, and are available, and no others."""
    desired = limits_of(owner.spec).desired
    return status.updated_replicas == status.replicas == status.available_replicas == desired


def with_failed_create(owner: Deployment, status: DeploymentStatus, message: str, *, now: datetime) -> DeploymentStatus:
    """The status of a Deployment whose new ReplicaSet the server would not make."""
    if conditions_.deadline_of(owner) is None:
        return status
    before = () if owner.status is None else owner.status.conditions
    others = tuple(one for one in status.conditions if one.type != conditions_.PROGRESSING)
    kept = tuple(one for one in before if one.type == conditions_.PROGRESSING)
    made = conditions_.put(
        (*others, *kept), conditions_.PROGRESSING, "False", now=now, reason="FailedCreate", message=message
    )
    return replace(status, conditions=made)


def _judge_available(owner: Deployment, status: DeploymentStatus, now: datetime) -> Conditions:
    least = limits_of(owner.spec).least
    is_available = status.available_replicas >= least
    return conditions_.put(
        status.conditions,
        conditions_.AVAILABLE,
        "True" if is_available else "False",
        now=now,
        reason="MinimumReplicasAvailable" if is_available else "MinimumReplicasUnavailable",
        message="there are enough available replicas" if is_available else "there are too few available replicas",
    )


def _judge_progress(
    owner: Deployment, status: DeploymentStatus, new: ReplicaSet | None, *, is_made: bool, now: datetime
) -> Conditions:
    found = status.conditions
    if new is not None and conditions_.deadline_of(owner) is not None:
        found = _introduce(found, new, is_made=is_made, now=now)
    found = conditions_.judge_pause(owner, found, now=now)
    if owner.spec.paused or is_made:
        return found
    subject = f"Deployment {owner.name}" if new is None else f"ReplicaSet {new.name}"
    is_done = is_complete(owner, status)
    return conditions_.judge_progress(
        owner, replace(status, conditions=found), is_done=is_done, subject=subject, now=now
    )


def _introduce(found: Conditions, new: ReplicaSet, *, is_made: bool, now: datetime) -> Conditions:
    kind = conditions_.PROGRESSING
    if is_made:
        words = f"made ReplicaSet {new.name}"
        return conditions_.put(found, kind, "True", now=now, reason="NewReplicaSetCreated", message=words, is_anew=True)
    if conditions_.find(found, kind) is None:
        words = f"found ReplicaSet {new.name}"
        return conditions_.put(found, kind, "True", now=now, reason="FoundNewReplicaSet", message=words)
    return found
