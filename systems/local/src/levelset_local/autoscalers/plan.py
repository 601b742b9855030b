"""The next step of a HorizontalPodAutoscaler: the number of Pods to set, and its status; pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from levelset import Quantity, replace
from levelset.kinds.autoscaling_v2 import (
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus,
    MetricSpec,
    MetricStatus,
    MetricValueStatus,
    ResourceMetricStatus,
)
from levelset.kinds.core_v1 import Pod
from levelset.objects import seconds_precision
from levelset_local.autoscalers.replica_count import (
    Decision,
    History,
    MetricFailure,
    Recommendation,
    decide,
    recommend,
    with_change,
)

__all__ = ["Plan", "make_plan"]


class Plan(Struct, frozen=True, kw_only=True):
    """The next step of an autoscaler."""

    status: HorizontalPodAutoscalerStatus
    history: History
    replicas: int | None = None
    """The number of Pods to set; None if it stays."""
    reason: str = ""
    """Why it changes, for an Event."""
    problem: str = ""
    """Why the metrics say nothing."""


def make_plan(
    owner: HorizontalPodAutoscaler,
    pods: Sequence[Pod],
    usage: Mapping[str, float],
    *,
    current: int,
    history: History,
    now: datetime,
) -> Plan:
    """Plans the next step of an autoscaler whose target has `current` Pods, which use so many cores, by uid."""
    lowest = 1 if owner.spec.min_replicas is None else owner.spec.min_replicas
    if current == 0 and lowest != 0:
        text = "scaling is disabled since the replica count of the target is zero"
        return _stays(owner, current, history, _condition("ScalingActive", "ScalingDisabled", text), now)
    if not lowest <= current <= owner.spec.max_replicas:
        wanted = max(lowest, min(current, owner.spec.max_replicas))
        word = "above Spec.MaxReplicas" if current > wanted else "below Spec.MinReplicas"
        text = f"Current number of replicas {word}"
        return _scaled(owner, current, wanted, metrics=(), history=history, reason=text, now=now)
    found, failure = _recommendations(owner, pods, usage, current)
    wanted = max((one.replicas for _, one in found), default=current)
    if not found or (failure and wanted < current):
        made = _condition("ScalingActive", "FailedGetResourceMetric", failure or "no metric of the processor is given")
        return replace(_stays(owner, current, history, made, now), problem=made.message or "")
    decision = decide(owner.spec, wanted, current=current, history=history, now=now)
    statuses = tuple(_metric_status(metric, one) for metric, one in found)
    direction = "above" if decision.replicas > current else "below"
    text = f"cpu resource utilization (percentage of request) {direction} target"
    plan = _scaled(owner, current, decision.replicas, metrics=statuses, history=decision.history, reason=text, now=now)
    return replace(plan, status=replace(plan.status, conditions=_conditions(owner, _described(decision, plan), now)))


def _recommendations(
    owner: HorizontalPodAutoscaler, pods: Sequence[Pod], usage: Mapping[str, float], current: int
) -> tuple[list[tuple[MetricSpec, Recommendation]], str]:
    """The recommendation of each metric of the processor, and why one of them has none."""
    found, failure = list[tuple[MetricSpec, Recommendation]](), ""
    behavior = owner.spec.behavior or HorizontalPodAutoscalerBehavior()
    for metric in owner.spec.metrics:
        source = metric.resource
        if source is None or source.name != "cpu":
            failure = f"the metric of type {metric.type} is not measured here; use the resource cpu"
            continue
        try:
            made = recommend(source.target, pods, usage, current=current, rules=behavior.scale_up)
            if made.replicas < current:
                made = recommend(source.target, pods, usage, current=current, rules=behavior.scale_down)
        except MetricFailure as error:
            failure = f"the HPA was unable to compute the replica count: {error}"
        else:
            found.append((metric, made))
    return found, failure


def _stays(
    owner: HorizontalPodAutoscaler,
    current: int,
    history: History,
    made: HorizontalPodAutoscalerCondition,
    now: datetime,
) -> Plan:
    before = owner.status or HorizontalPodAutoscalerStatus(desired_replicas=0)
    status = replace(
        before,
        current_replicas=current,
        desired_replicas=current,
        observed_generation=owner.metadata.generation,
        conditions=_conditions(owner, [made], now),
    )
    return Plan(status=status, history=history)


def _scaled(
    owner: HorizontalPodAutoscaler,
    current: int,
    wanted: int,
    *,
    metrics: tuple[MetricStatus, ...],
    history: History,
    reason: str,
    now: datetime,
) -> Plan:
    before = owner.status or HorizontalPodAutoscalerStatus(desired_replicas=0)
    is_changed = wanted != current
    able = _condition("AbleToScale", "SucceededRescale" if is_changed else "ReadyForNewScale", "")
    status = HorizontalPodAutoscalerStatus(
        current_replicas=current,
        desired_replicas=wanted,
        current_metrics=metrics or before.current_metrics,
        last_scale_time=seconds_precision(now) if is_changed else before.last_scale_time,
        observed_generation=owner.metadata.generation,
        conditions=_conditions(owner, [able], now),
    )
    return Plan(
        status=status,
        history=with_change(history, wanted - current, now=now),
        replicas=wanted if is_changed else None,
        reason=reason,
    )


def _described(decision: Decision, plan: Plan) -> list[HorizontalPodAutoscalerCondition]:
    able = next(one for one in plan.status.conditions if one.type == "AbleToScale")
    if decision.is_stabilized and plan.replicas is None:
        able = _condition("AbleToScale", "ScaleDownStabilized", "recent recommendations were higher")
    active = _condition("ScalingActive", "ValidMetricFound", "the HPA was able to calculate a replica count")
    limited = _condition("ScalingLimited", decision.limit or "DesiredWithinRange", "")
    return [able, active, limited]


def _metric_status(metric: MetricSpec, found: Recommendation) -> MetricStatus:
    average = Quantity(f"{round(found.average * 1000)}m")
    value = MetricValueStatus(average_utilization=found.utilization, average_value=average)
    assert metric.resource is not None, "only metrics of resources are measured"
    return MetricStatus(type="Resource", resource=ResourceMetricStatus(current=value, name=metric.resource.name))


def _condition(type_: str, reason: str, message: str) -> HorizontalPodAutoscalerCondition:
    is_false = reason in ("ScalingDisabled", "FailedGetResourceMetric", "DesiredWithinRange")
    return HorizontalPodAutoscalerCondition(
        type=type_, status="False" if is_false else "True", reason=reason, message=message
    )


def _conditions(
    owner: HorizontalPodAutoscaler, made: Sequence[HorizontalPodAutoscalerCondition], now: datetime
) -> tuple[HorizontalPodAutoscalerCondition, ...]:
    """The conditions with these replaced; the time of a condition changes with its status only."""
    before = {one.type: one for one in (() if owner.status is None else owner.status.conditions)}
    for one in made:
        last = before.get(one.type)
        since = last.last_transition_time if last is not None and last.status == one.status else seconds_precision(now)
        before[one.type] = replace(one, last_transition_time=since)
    return tuple(before.values())
