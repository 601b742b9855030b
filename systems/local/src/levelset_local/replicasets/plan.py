"""The next step of a ReplicaSet: how many Pods to create, which to delete, and its status; pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct

from levelset import replace
from levelset.kinds.apps_v1 import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from levelset.kinds.core_v1 import Pod
from levelset.objects import seconds_precision
from levelset_local import pod_state

__all__ = [
    "BURST_REPLICAS",
    "DELETION_COST",
    "Plan",
    "ReplicaFailure",
    "deletion_cost",
    "make_status",
    "plan_pods",
    "rank_for_deletion",
]

BURST_REPLICAS: Final = 500
"""How many Pods one reconcile creates or deletes at most, as in Kubernetes."""
FAILURE: Final = "ReplicaFailure"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_LOWEST: Final = -(2**31)


class Plan(Struct, frozen=True):
    """The next step of a ReplicaSet; `requeue_at` is when the next of its Pods becomes available."""

    create: int = 0
    delete: tuple[Pod, ...] = ()
    requeue_at: datetime | None = None


class ReplicaFailure(Struct, frozen=True):
    """Why Pods could not be created or deleted: the reason and message of the ReplicaFailure condition."""

    reason: Literal["FailedCreate", "FailedDelete"]
    message: str


def plan_pods(owner: ReplicaSet, pods: Sequence[Pod], *, now: datetime) -> Plan:
    """Plans the next step of a ReplicaSet; nothing is created or deleted if it is being deleted.

    Pods that have finished or are being deleted do not count, so they are replaced.
    """
    active = [pod for pod in pods if pod_state.is_active(pod)]
    requeue_at = pod_state.next_available_at(active, _min_ready(owner), now=now)
    more = _wanted(owner) - len(active)
    if owner.metadata.deletion_timestamp is not None or more == 0:
        return Plan(requeue_at=requeue_at)
    if more > 0:
        return Plan(create=min(more, BURST_REPLICAS), requeue_at=requeue_at)
    return Plan(delete=tuple(rank_for_deletion(active)[: min(-more, BURST_REPLICAS)]), requeue_at=requeue_at)


def make_status(
    owner: ReplicaSet,
    pods: Sequence[Pod],
    *,
    deleted: Sequence[Pod] = (),
    failure: ReplicaFailure | None,
    now: datetime,
) -> ReplicaSetStatus:
    """The status of a ReplicaSet that has these Pods, some of which were `deleted` just now."""
    gone = {pod.metadata.uid for pod in deleted}
    active = [pod for pod in pods if pod_state.is_active(pod) and pod.metadata.uid not in gone]
    labels = {} if owner.spec.template is None else owner.spec.template.metadata.labels
    return ReplicaSetStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(labels.items() <= pod.metadata.labels.items() for pod in active),
        ready_replicas=sum(pod_state.is_ready(pod) for pod in active),
        available_replicas=sum(pod_state.is_available(pod, _min_ready(owner), now=now) for pod in active),
        terminating_replicas=sum(pod_state.is_terminating(pod) for pod in pods) + len(gone),
        observed_generation=owner.metadata.generation,
        conditions=_conditions(owner, failure, now),
    )


def _wanted(owner: ReplicaSet) -> int:
    return 1 if owner.spec.replicas is None else owner.spec.replicas


def _min_ready(owner: ReplicaSet) -> int:
    return owner.spec.min_ready_seconds or 0


def _conditions(owner: ReplicaSet, failure: ReplicaFailure | None, now: datetime) -> tuple[ReplicaSetCondition, ...]:
    before = () if owner.status is None else owner.status.conditions
    others = tuple(one for one in before if one.type != FAILURE)
    if failure is None:
        return others
    present = next((one for one in before if one.type == FAILURE), None)
    made = ReplicaSetCondition(
        type=FAILURE,
        status="True",
        reason=failure.reason,
        message=failure.message,
        last_transition_time=seconds_precision(now),
    )
    if present is not None and present.status == "True":
        made = replace(made, last_transition_time=present.last_transition_time)
    return (*others, made)


def rank_for_deletion(pods: Iterable[Pod]) -> list[Pod]:
    """The Pods in the order in which they are deleted when there are too many.

    Unbound Pods come first, then pending ones, then those that are not ready. Then the lowest deletion cost (annotation
    `controller.kubernetes.io/pod-deletion-cost`) decides, then the latest readiness, the most restarts and the latest
    creation.
    """
    return sorted(pods, key=_deletion_key)


def deletion_cost(pod: Pod) -> int:
    """The deletion cost of a Pod; 0 if it has none, or an invalid one."""
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    try:
        found = int(text)
    except ValueError:
        return 0
    # As in Kubernetes: no plus sign, no leading zeros, 32 bits.
    return found if str(found) == text and _LOWEST <= found < -_LOWEST else 0


def _deletion_key(pod: Pod) -> tuple[Any, ...]:
    is_bound = bool(pod.spec.node_name)
    phase = None if pod.status is None else pod.status.phase
    return (
        is_bound,
        _PHASES.get(phase or "Pending", 0),
        pod_state.is_ready(pod),
        deletion_cost(pod),
        _youngest_first(pod_state.ready_since(pod)),
        -pod_state.restart_count_of(pod),
        _youngest_first(pod.metadata.creation_timestamp),
        pod.name,  # makes the order deterministic
    )


def _youngest_first(at: datetime | None) -> float:
    return 0.0 if at is None else -at.timestamp()
