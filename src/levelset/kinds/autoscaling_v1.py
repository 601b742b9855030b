"""The kinds of autoscaling/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Self

from levelset.objects import Atomic, Model, ObjectMeta, Resource, Spec, Status

__all__ = [
    "CrossVersionObjectReference",
    "HorizontalPodAutoscaler",
    "HorizontalPodAutoscalerSpec",
    "HorizontalPodAutoscalerStatus",
    "Scale",
    "ScaleSpec",
    "ScaleStatus",
]


class CrossVersionObjectReference(Model):
    """`scaleTargetRef` of HorizontalPodAutoscalerSpec."""

    kind: str
    name: str
    api_version: str | None = None


class HorizontalPodAutoscalerSpec(Spec):
    """`spec` of HorizontalPodAutoscaler."""

    max_replicas: int
    scale_target_ref: Annotated[CrossVersionObjectReference, Atomic()]
    min_replicas: int | None = None
    target_cpu_utilization_percentage: int | None = None


class HorizontalPodAutoscalerStatus(Status):
    """`status` of HorizontalPodAutoscaler."""

    current_replicas: int
    desired_replicas: int
    current_cpu_utilization_percentage: int | None = None
    last_scale_time: datetime | None = None
    observed_generation: int | None = None


class ScaleSpec(Spec):
    """`spec` of Scale."""

    replicas: int = 0


class ScaleStatus(Status):
    """`status` of Scale."""

    replicas: int
    selector: str | None = None


class HorizontalPodAutoscaler(
    Resource[HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus],
    api="autoscaling/v1",
    short_names=["hpa"],
    categories=["all"],
):
    """Scales the number of replicas by metrics."""


class Scale(Resource[ScaleSpec, ScaleStatus], api="autoscaling/v1", kind="Scale", status=False):
    """The desired and current number of replicas of a scalable object."""

    spec: ScaleSpec = ScaleSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: ScaleSpec | None = None,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Self:
        """A new object that no server has seen yet; without a spec, an empty one."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(metadata=metadata) if spec is None else cls(metadata=metadata, spec=spec)
