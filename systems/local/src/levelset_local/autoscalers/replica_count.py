"""How many Pods an autoscaler recommends: from the processor time of its Pods, over time, within its limits; pure.

The same rules as the autoscaler of Kubernetes: tolerance, Pods that are not ready or not measured, the stabilization
windows, and the policies that limit how quickly the number changes.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from levelset import replace
from levelset.kinds.autoscaling_v2 import HorizontalPodAutoscalerSpec, HPAScalingPolicy, HPAScalingRules, MetricTarget
from levelset.kinds.core_v1 import Pod
from levelset_local import pod_state

__all__ = [
    "ChangeRecord",
    "Decision",
    "History",
    "MetricFailure",
    "Recommendation",
    "decide",
    "recommend",
    "with_change",
]

_TOLERANCE: Final = 0.1
_UP: Final = HPAScalingRules(
    stabilization_window_seconds=0,
    select_policy="Max",
    policies=(
        HPAScalingPolicy(type="Pods", value=4, period_seconds=15),
        HPAScalingPolicy(type="Percent", value=100, period_seconds=15),
    ),
)
_DOWN: Final = HPAScalingRules(
    stabilization_window_seconds=300,
    select_policy="Max",
    policies=(HPAScalingPolicy(type="Percent", value=100, period_seconds=15),),
)


class MetricFailure(Exception):
    """A metric cannot be computed; the message is that of the condition."""


class Recommendation(Struct, frozen=True, kw_only=True):
    """The number of Pods by one metric, and its current value."""

    replicas: int
    average: float
    """Cores for each Pod."""
    utilization: int | None = None
    """The percentage of what the Pods request."""


class ChangeRecord(Struct, frozen=True):
    """A change of the number of Pods, positive or negative."""

    at: datetime
    change: int


class History(Struct, frozen=True):
    """What an autoscaler remembers: earlier recommendations, and changes that it has made."""

    recommendations: tuple[tuple[datetime, int], ...] = ()
    changes: tuple[ChangeRecord, ...] = ()


class Decision(Struct, frozen=True, kw_only=True):
    """The number of Pods to set, what limited it, and the history with this recommendation."""

    replicas: int
    is_stabilized: bool
    limit: Literal["", "TooFewReplicas", "TooManyReplicas", "ScaleUpLimit", "ScaleDownLimit"]
    history: History


def recommend(
    target: MetricTarget,
    pods: Sequence[Pod],
    usage: Mapping[str, float],
    *,
    current: int,
    rules: HPAScalingRules | None,
) -> Recommendation:
    """The recommendation by the cores that Pods use, by uid; raises MetricFailure.

    Pods that are not ready, or not measured, are taken to use nothing when more Pods are needed, and all that they
    request when fewer are: they never turn the direction.
    """
    living = [pod for pod in pods if pod_state.is_active(pod)]
    measured = [pod for pod in living if pod.metadata.uid in usage and pod_state.is_ready(pod)]
    if not measured:
        raise MetricFailure("did not receive metrics for targeted pods (pods might be unready)")
    unready = [pod for pod in living if not pod_state.is_ready(pod)]
    missing = [pod for pod in living if pod_state.is_ready(pod) and pod.metadata.uid not in usage]
    per_pod, goal = _goals(target, living)
    used = [usage[pod.metadata.uid] for pod in measured]
    ratio = _ratio(used, [per_pod[pod.metadata.uid] for pod in measured], goal)
    average = sum(used) / len(used)
    requested = sum(per_pod[pod.metadata.uid] for pod in measured)
    utilization = round(100 * sum(used) / requested) if target.average_utilization is not None else None
    made = Recommendation(replicas=current, average=average, utilization=utilization)
    tolerance = _TOLERANCE if rules is None or rules.tolerance is None else float(rules.tolerance)
    if not missing and not (unready and ratio > 1):
        if abs(ratio - 1) <= tolerance:
            return made
        return replace(made, replicas=math.ceil(ratio * len(measured)))
    assumed = [(0.0 if ratio > 1 else per_pod[pod.metadata.uid] * max(1.0, goal), pod) for pod in missing]
    assumed += [(0.0, pod) for pod in unready if ratio > 1]
    values = [*used, *(value for value, _ in assumed)]
    goals = [per_pod[pod.metadata.uid] for pod in (*measured, *(pod for _, pod in assumed))]
    again = _ratio(values, goals, goal)
    count = math.ceil(again * len(values))
    is_turned = (ratio < 1 < again) or (again < 1 < ratio)
    if abs(again - 1) <= tolerance or is_turned or (again < 1 and count > current) or (again > 1 and count < current):
        return made
    return replace(made, replicas=count)


def _goals(target: MetricTarget, pods: Sequence[Pod]) -> tuple[dict[str, float], float]:
    """What each Pod's use is compared with, by uid, and the part of it that is aimed at."""
    if target.average_utilization is not None:
        return {pod.metadata.uid: _requested(pod) for pod in pods}, target.average_utilization / 100
    if target.average_value is None:
        raise MetricFailure("invalid resource metric source: neither an average utilization nor an average value")
    value = float(target.average_value)
    return {pod.metadata.uid: value for pod in pods}, 1.0


def _requested(pod: Pod) -> float:
    total = 0.0
    for container in pod.spec.containers:
        amount = container.resources.requests.get("cpu")
        if amount is None:
            raise MetricFailure(f"missing request for cpu in container {container.name} of Pod {pod.name}")
        total += float(amount)
    return total


def _ratio(used: Sequence[float], goals: Sequence[float], goal: float) -> float:
    total = sum(goals) * goal
    return sum(used) / total if total else 0.0


def decide(
    spec: HorizontalPodAutoscalerSpec, wanted: int, *, current: int, history: History, now: datetime
) -> Decision:
    """The number of Pods to set now, given what the metrics recommend."""
    behavior = spec.behavior
    up = _with_defaults(None if behavior is None else behavior.scale_up, _UP)
    down = _with_defaults(None if behavior is None else behavior.scale_down, _DOWN)
    recommendations = (*_recent(history.recommendations, now, up, down), (now, wanted))
    stable = _stabilized(recommendations, current, now, up, down)
    changes = tuple(one for one in history.changes if now - one.at < timedelta(hours=1))
    rules = up if stable > current else down
    limit: Literal["", "TooFewReplicas", "TooManyReplicas", "ScaleUpLimit", "ScaleDownLimit"]
    allowed, limit = _rate_limited(stable, current, changes, now, rules)
    lowest = 1 if spec.min_replicas is None else spec.min_replicas
    if allowed < lowest:
        allowed, limit = lowest, "TooFewReplicas"
    elif allowed > spec.max_replicas:
        allowed, limit = spec.max_replicas, "TooManyReplicas"
    return Decision(
        replicas=allowed, is_stabilized=stable != wanted, limit=limit, history=History(recommendations, changes)
    )


def with_change(history: History, change: int, *, now: datetime) -> History:
    """The history with a change that was made."""
    return replace(history, changes=(*history.changes, ChangeRecord(now, change))) if change else history


def _with_defaults(given: HPAScalingRules | None, defaults: HPAScalingRules) -> HPAScalingRules:
    if given is None:
        return defaults
    window = given.stabilization_window_seconds
    return replace(
        given,
        policies=given.policies or defaults.policies,
        select_policy=given.select_policy or "Max",
        stabilization_window_seconds=defaults.stabilization_window_seconds if window is None else window,
    )


def _window(rules: HPAScalingRules) -> timedelta:
    return timedelta(seconds=rules.stabilization_window_seconds or 0)


def _recent(
    found: Sequence[tuple[datetime, int]], now: datetime, up: HPAScalingRules, down: HPAScalingRules
) -> list[tuple[datetime, int]]:
    longest = max(_window(up), _window(down))
    return [(at, count) for at, count in found if now - at < longest]


def _stabilized(
    found: Sequence[tuple[datetime, int]], current: int, now: datetime, up: HPAScalingRules, down: HPAScalingRules
) -> int:
    """The lowest recommendation of the window to scale up, if more are needed; the highest of the one to scale down."""
    latest = found[-1][1]
    lowest = min([latest, *(count for at, count in found if now - at < _window(up))])
    highest = max([latest, *(count for at, count in found if now - at < _window(down))])
    return min(max(current, lowest), highest)


def _rate_limited(
    wanted: int, current: int, changes: Sequence[ChangeRecord], now: datetime, rules: HPAScalingRules
) -> tuple[int, Literal["", "ScaleUpLimit", "ScaleDownLimit"]]:
    if wanted == current:
        return wanted, ""
    limits = [_limit(one, current, changes, now, is_up=wanted > current) for one in rules.policies]
    if rules.select_policy == "Disabled":
        limits = [current]
    if wanted > current:
        limit = max(current, min(limits) if rules.select_policy == "Min" else max(limits))
        return (limit, "ScaleUpLimit") if wanted > limit else (wanted, "")
    limit = min(current, max(limits) if rules.select_policy == "Min" else min(limits))
    return (limit, "ScaleDownLimit") if wanted < limit else (wanted, "")


def _limit(
    policy: HPAScalingPolicy, current: int, changes: Sequence[ChangeRecord], now: datetime, *, is_up: bool
) -> int:
    """The number of Pods that a policy allows, by how many there were at the beginning of its period."""
    recent = sum(one.change for one in changes if now - one.at < timedelta(seconds=policy.period_seconds))
    start = current - recent
    sign = 1 if is_up else -1
    if policy.type == "Pods":
        return start + sign * policy.value
    scaled = start * (100 + sign * policy.value) / 100
    return math.ceil(scaled) if is_up else math.floor(scaled)
