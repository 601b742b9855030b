"""The kinds of autoscaling/v2 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from datetime import datetime
from typing import Annotated

from levelset.kinds.enums import ConditionStatus, MetricSourceType, MetricTargetType, ScalingPolicyType, ScalingSelect
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import Atomic, ListMap, Model, Quantity, Resource, Spec, Status

__all__ = [
    "ContainerResourceMetricSource",
    "ContainerResourceMetricStatus",
    "CrossVersionObjectReference",
    "ExternalMetricSource",
    "ExternalMetricStatus",
    "HPAScalingPolicy",
    "HPAScalingRules",
    "HorizontalPodAutoscaler",
    "HorizontalPodAutoscalerBehavior",
    "HorizontalPodAutoscalerCondition",
    "HorizontalPodAutoscalerSpec",
    "HorizontalPodAutoscalerStatus",
    "MetricIdentifier",
    "MetricSpec",
    "MetricStatus",
    "MetricTarget",
    "MetricValueStatus",
    "ObjectMetricSource",
    "ObjectMetricStatus",
    "PodsMetricSource",
    "PodsMetricStatus",
    "ResourceMetricSource",
    "ResourceMetricStatus",
]


class MetricTarget(Model):
    """`target` of ContainerResourceMetricSource, and others."""

    type: MetricTargetType
    average_utilization: int | None = None
    average_value: Quantity | None = None
    value: Quantity | None = None


class ContainerResourceMetricSource(Model):
    """`containerResource` of MetricSpec."""

    container: str
    name: str
    target: MetricTarget


class MetricValueStatus(Model):
    """`current` of ContainerResourceMetricStatus, and others."""

    average_utilization: int | None = None
    average_value: Quantity | None = None
    value: Quantity | None = None


class ContainerResourceMetricStatus(Model):
    """`containerResource` of MetricStatus."""

    container: str
    current: MetricValueStatus
    name: str


class CrossVersionObjectReference(Model):
    """`scaleTargetRef` of HorizontalPodAutoscalerSpec, and others."""

    kind: str
    name: str
    api_version: str | None = None


class MetricIdentifier(Model):
    """`metric` of ExternalMetricSource, and others."""

    name: str
    selector: Annotated[LabelSelector, Atomic()] | None = None


class ExternalMetricSource(Model):
    """`external` of MetricSpec."""

    metric: MetricIdentifier
    target: MetricTarget


class ExternalMetricStatus(Model):
    """`external` of MetricStatus."""

    current: MetricValueStatus
    metric: MetricIdentifier


class HPAScalingPolicy(Model):
    """One of `policies` of HPAScalingRules."""

    period_seconds: int
    type: ScalingPolicyType
    value: int


class HPAScalingRules(Model):
    """`scaleDown` of HorizontalPodAutoscalerBehavior, and others."""

    policies: tuple[HPAScalingPolicy, ...] = ()
    select_policy: ScalingSelect | None = None
    stabilization_window_seconds: int | None = None
    tolerance: Quantity | None = None


class HorizontalPodAutoscalerBehavior(Model):
    """`behavior` of HorizontalPodAutoscalerSpec."""

    scale_down: HPAScalingRules | None = None
    scale_up: HPAScalingRules | None = None


class HorizontalPodAutoscalerCondition(Model):
    """One of `conditions` of HorizontalPodAutoscalerStatus."""

    status: ConditionStatus
    type: str
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None


class ObjectMetricSource(Model):
    """`object` of MetricSpec."""

    described_object: CrossVersionObjectReference
    metric: MetricIdentifier
    target: MetricTarget


class PodsMetricSource(Model):
    """`pods` of MetricSpec."""

    metric: MetricIdentifier
    target: MetricTarget


class ResourceMetricSource(Model):
    """`resource` of MetricSpec."""

    name: str
    target: MetricTarget


class MetricSpec(Model):
    """One of `metrics` of HorizontalPodAutoscalerSpec."""

    type: MetricSourceType
    container_resource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None


class HorizontalPodAutoscalerSpec(Spec):
    """`spec` of HorizontalPodAutoscaler."""

    max_replicas: int
    scale_target_ref: CrossVersionObjectReference
    behavior: HorizontalPodAutoscalerBehavior | None = None
    metrics: tuple[MetricSpec, ...] = ()
    min_replicas: int | None = None


class ObjectMetricStatus(Model):
    """`object` of MetricStatus."""

    current: MetricValueStatus
    described_object: CrossVersionObjectReference
    metric: MetricIdentifier


class PodsMetricStatus(Model):
    """`pods` of MetricStatus."""

    current: MetricValueStatus
    metric: MetricIdentifier


class ResourceMetricStatus(Model):
    """`resource` of MetricStatus."""

    current: MetricValueStatus
    name: str


class MetricStatus(Model):
    """One of `currentMetrics` of HorizontalPodAutoscalerStatus."""

    type: MetricSourceType
    container_resource: ContainerResourceMetricStatus | None = None
    external: ExternalMetricStatus | None = None
    object: ObjectMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    resource: ResourceMetricStatus | None = None


class HorizontalPodAutoscalerStatus(Status):
    """`status` of HorizontalPodAutoscaler."""

    desired_replicas: int
    conditions: Annotated[tuple[HorizontalPodAutoscalerCondition, ...], ListMap("type")] = ()
    current_metrics: tuple[MetricStatus, ...] = ()
    current_replicas: int = 0
    last_scale_time: datetime | None = None
    observed_generation: int | None = None


class HorizontalPodAutoscaler(
    Resource[HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus],
    api="autoscaling/v2",
    short_names=["hpa"],
    categories=["all"],
):
    """Scales the number of replicas by metrics."""
