"""The status of a PodDisruptionBudget: how many of its Pods are healthy, and how many may be evicted; pure.

The number of Pods that are expected comes from their controllers, so that it does not shrink while Pods are missing. An
eviction that the server has allowed counts as a disruption until its Pod is being deleted, or for two minutes.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from levelset import Condition
from levelset.kinds.core_v1 import Pod
from levelset.kinds.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetStatus
from levelset.objects import set_condition
from levelset_local import pod_state
from levelset_local.pod_state import int_or_percent

__all__ = ["EVICTION_TIMEOUT", "BudgetPlan", "NoScale", "failed_status", "make_plan"]

EVICTION_TIMEOUT: Final = timedelta(minutes=2)
"""How long an evicted Pod counts as disrupted if its deletion does not begin."""


class NoScale(Exception):
    """The number of Pods that are expected is not known; the message says why."""


class BudgetPlan(Struct, frozen=True):
    """The status of a budget, and when an eviction expires."""

    status: PodDisruptionBudgetStatus
    requeue_at: datetime | None = None


def make_plan(
    budget: PodDisruptionBudget, pods: Sequence[Pod], scales: Mapping[str, int], *, now: datetime
) -> BudgetPlan:
    """Plans the status of a budget that selects these Pods; `scales` are the replicas of their controllers, by uid.

    Raises NoScale if a Pod has no controller with a scale, and the budget depends on it.
    """
    evicted = _pending_evictions(budget, pods, now)
    healthy = sum(_is_healthy(pod, evicted) for pod in pods)
    expected, desired = _expected(budget, pods, scales)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status = PodDisruptionBudgetStatus(
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        disruptions_allowed=allowed,
        disrupted_pods=evicted,
        observed_generation=budget.metadata.generation,
        conditions=_conditions(budget, "SufficientPods" if allowed else "InsufficientPods", "", now),
    )
    return BudgetPlan(status, min((at + EVICTION_TIMEOUT for at in evicted.values()), default=None))


def failed_status(budget: PodDisruptionBudget, problem: str, *, now: datetime) -> PodDisruptionBudgetStatus:
    """The status of a budget whose expected Pods are not known: nothing may be evicted."""
    before = budget.status or PodDisruptionBudgetStatus()
    return PodDisruptionBudgetStatus(
        current_healthy=before.current_healthy or 0,
        desired_healthy=before.desired_healthy or 0,
        expected_pods=before.expected_pods or 0,
        disruptions_allowed=0,
        disrupted_pods=before.disrupted_pods,
        observed_generation=budget.metadata.generation,
        conditions=_conditions(budget, "SyncFailed", problem, now),
    )


def _pending_evictions(budget: PodDisruptionBudget, pods: Sequence[Pod], now: datetime) -> dict[str, datetime]:
    """The evictions that the server has recorded, without those that have begun or expired."""
    before = {} if budget.status is None else budget.status.disrupted_pods
    waiting = {pod.name for pod in pods if pod.metadata.deletion_timestamp is None}
    return {name: at for name, at in before.items() if name in waiting and at + EVICTION_TIMEOUT > now}


def _is_healthy(pod: Pod, evicted: Mapping[str, datetime]) -> bool:
    return pod.metadata.deletion_timestamp is None and pod.name not in evicted and pod_state.is_ready(pod)


def _expected(budget: PodDisruptionBudget, pods: Sequence[Pod], scales: Mapping[str, int]) -> tuple[int, int]:
    """How many Pods are expected, and how many have to be healthy."""
    most, least = budget.spec.max_unavailable, budget.spec.min_available
    if most is not None:
        expected = _total_scale(pods, scales)
        return expected, max(0, expected - int_or_percent(most, expected, up=True))
    if isinstance(least, str):
        expected = _total_scale(pods, scales)
        return expected, int_or_percent(least, expected, up=True)
    return len(pods), least or 0


def _total_scale(pods: Sequence[Pod], scales: Mapping[str, int]) -> int:
    owners = set[str]()
    for pod in pods:
        refs = [one for one in pod.metadata.owner_references if one.controller]
        if not refs:
            raise NoScale(f"found no controllers for pod {pod.name!r}")
        if refs[0].uid not in scales:
            raise NoScale(f"the {refs[0].kind} {refs[0].name!r} of pod {pod.name!r} has no scale")
        owners.add(refs[0].uid)
    return sum(scales[uid] for uid in owners)


def _conditions(budget: PodDisruptionBudget, reason: str, message: str, now: datetime) -> tuple[Condition, ...]:
    before = () if budget.status is None else budget.status.conditions
    return set_condition(
        before,
        "DisruptionAllowed",
        reason == "SufficientPods",
        now=now,
        reason=reason,
        message=message,
        observed_generation=budget.metadata.generation,
    )
