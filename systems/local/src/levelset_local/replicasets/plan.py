"""What a ReplicaSet needs: how many Pods to make, which to delete, and what its status says; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from levelset import replace
from levelset.kinds.apps_v1 import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from levelset.kinds.core_v1 import Pod
from levelset.objects import seconds_precision
from levelset_local import podstates
from levelset_local.replicasets.ranking import rank_for_deletion

__all__ = ["MOST_AT_ONCE", "Plan", "Trouble", "make_status", "plan_pods"]

MOST_AT_ONCE: Final = 500
"""How many Pods one look makes, or deletes, at most."""
FAILURE: Final = "ReplicaFailure"


@dataclass(frozen=True, slots=True)
class Plan:
    """The next step of a ReplicaSet; `look` is when it should be looked at even if nothing changes."""

    create: int = 0
    delete: tuple[Pod, ...] = ()
    look: datetime | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    """What kept a ReplicaSet from its step."""

    reason: Literal["FailedCreate", "FailedDelete"]
    message: str


def plan_pods(owner: ReplicaSet, pods: Sequence[Pod], *, now: datetime) -> Plan:
    """What is to be done about the Pods of a ReplicaSet; nothing if it is being deleted.

    Those that have finished, or are being deleted, do not count: they are replaced.
    """
    active = [pod for pod in pods if podstates.is_active(pod)]
    look = podstates.next_available(active, _min_ready(owner), now=now)
    more = _wanted(owner) - len(active)
    if owner.metadata.deletion_timestamp is not None or more == 0:
        return Plan(look=look)
    if more > 0:
        return Plan(create=min(more, MOST_AT_ONCE), look=look)
    return Plan(delete=tuple(rank_for_deletion(active)[: min(-more, MOST_AT_ONCE)]), look=look)


def make_status(
    owner: ReplicaSet, pods: Sequence[Pod], *, deleted: Sequence[Pod] = (), trouble: Trouble | None, now: datetime
) -> ReplicaSetStatus:
    """The status of a ReplicaSet that has these Pods, some of which were `deleted` just now."""
    going = {pod.metadata.uid for pod in deleted}
    active = [pod for pod in pods if podstates.is_active(pod) and pod.metadata.uid not in going]
    labels = {} if owner.spec.template is None else owner.spec.template.metadata.labels
    return ReplicaSetStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(labels.items() <= pod.metadata.labels.items() for pod in active),
        ready_replicas=sum(podstates.is_ready(pod) for pod in active),
        available_replicas=sum(podstates.is_available(pod, _min_ready(owner), now=now) for pod in active),
        terminating_replicas=sum(podstates.is_terminating(pod) for pod in pods) + len(going),
        observed_generation=owner.metadata.generation,
        conditions=_conditions(owner, trouble, now),
    )


def _wanted(owner: ReplicaSet) -> int:
    return 1 if owner.spec.replicas is None else owner.spec.replicas


def _min_ready(owner: ReplicaSet) -> int:
    return owner.spec.min_ready_seconds or 0


def _conditions(owner: ReplicaSet, trouble: Trouble | None, now: datetime) -> tuple[ReplicaSetCondition, ...]:
    before = () if owner.status is None else owner.status.conditions
    others = tuple(one for one in before if one.type != FAILURE)
    if trouble is None:
        return others
    present = next((one for one in before if one.type == FAILURE), None)
    made = ReplicaSetCondition(
        type=FAILURE,
        status="True",
        reason=trouble.reason,
        message=trouble.message,
        last_transition_time=seconds_precision(now),
    )
    if present is not None and present.status == "True":
        made = replace(made, last_transition_time=present.last_transition_time)
    return (*others, made)
