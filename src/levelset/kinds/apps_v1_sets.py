"""Pods that are tied to nodes, or to names and volumes.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Self

from levelset.kinds.core_v1_templates import PodTemplateSpec
from levelset.kinds.core_v1_volumes import PersistentVolumeClaim
from levelset.kinds.enums import ClaimRetention, ConditionStatus, PodManagementPolicy, UpdateStrategyType
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import Atomic, ListMap, Model, Object, ObjectMeta, Resource, Scale, Spec, Status

__all__ = [
    "ControllerRevision",
    "DaemonSet",
    "DaemonSetCondition",
    "DaemonSetSpec",
    "DaemonSetStatus",
    "DaemonSetUpdateStrategy",
    "RollingUpdateDaemonSet",
    "RollingUpdateStatefulSetStrategy",
    "StatefulSet",
    "StatefulSetCondition",
    "StatefulSetOrdinals",
    "StatefulSetPersistentVolumeClaimRetentionPolicy",
    "StatefulSetSpec",
    "StatefulSetStatus",
    "StatefulSetUpdateStrategy",
]


class DaemonSetCondition(Model):
    """One of `conditions` of DaemonSetStatus."""

    status: ConditionStatus
    type: str
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None


class RollingUpdateDaemonSet(Model):
    """`rollingUpdate` of DaemonSetUpdateStrategy."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class DaemonSetUpdateStrategy(Model):
    """`updateStrategy` of DaemonSetSpec."""

    rolling_update: RollingUpdateDaemonSet | None = None
    type: UpdateStrategyType | None = None


class DaemonSetSpec(Spec):
    """`spec` of DaemonSet."""

    selector: Annotated[LabelSelector, Atomic()]
    template: PodTemplateSpec
    min_ready_seconds: int | None = None
    revision_history_limit: int | None = None
    update_strategy: DaemonSetUpdateStrategy = DaemonSetUpdateStrategy()


class DaemonSetStatus(Status):
    """`status` of DaemonSet."""

    current_number_scheduled: int
    desired_number_scheduled: int
    number_misscheduled: int
    number_ready: int
    collision_count: int | None = None
    conditions: Annotated[tuple[DaemonSetCondition, ...], ListMap("type")] = ()
    number_available: int = 0
    number_unavailable: int = 0
    observed_generation: int = 0
    updated_number_scheduled: int = 0


class RollingUpdateStatefulSetStrategy(Model):
    """`rollingUpdate` of StatefulSetUpdateStrategy."""

    max_unavailable: int | str | None = None
    partition: int | None = None


class StatefulSetCondition(Model):
    """One of `conditions` of StatefulSetStatus."""

    status: ConditionStatus
    type: str
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None


class StatefulSetOrdinals(Model):
    """`ordinals` of StatefulSetSpec."""

    start: int | None = None


class StatefulSetPersistentVolumeClaimRetentionPolicy(Model):
    """`persistentVolumeClaimRetentionPolicy` of StatefulSetSpec."""

    when_deleted: ClaimRetention | None = None
    when_scaled: ClaimRetention | None = None


class StatefulSetUpdateStrategy(Model):
    """`updateStrategy` of StatefulSetSpec."""

    rolling_update: RollingUpdateStatefulSetStrategy | None = None
    type: UpdateStrategyType | None = None


class StatefulSetSpec(Spec):
    """`spec` of StatefulSet."""

    selector: Annotated[LabelSelector, Atomic()]
    template: PodTemplateSpec
    min_ready_seconds: int | None = None
    ordinals: StatefulSetOrdinals | None = None
    persistent_volume_claim_retention_policy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = None
    pod_management_policy: PodManagementPolicy | None = None
    replicas: int | None = None
    revision_history_limit: int | None = None
    service_name: str | None = None
    update_strategy: StatefulSetUpdateStrategy = StatefulSetUpdateStrategy()
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()


class StatefulSetStatus(Status):
    """`status` of StatefulSet."""

    replicas: int
    available_replicas: int = 0
    collision_count: int | None = None
    conditions: Annotated[tuple[StatefulSetCondition, ...], ListMap("type")] = ()
    current_replicas: int = 0
    current_revision: str | None = None
    observed_generation: int = 0
    ready_replicas: int = 0
    update_revision: str | None = None
    updated_replicas: int = 0


class ControllerRevision(Object, api="apps/v1"):
    """An earlier state of a StatefulSet or DaemonSet, to go back to."""

    revision: int
    data: Any = None

    @classmethod
    def new(
        cls,
        name: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        revision: int,
        data: Any = None,
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(metadata=metadata, revision=revision, data=data)


class DaemonSet(Resource[DaemonSetSpec, DaemonSetStatus], api="apps/v1", short_names=["ds"], categories=["all"]):
    """Runs one Pod on each node."""


class StatefulSet(
    Resource[StatefulSetSpec, StatefulSetStatus], api="apps/v1", short_names=["sts"], categories=["all"], scale=Scale()
):
    """Runs Pods that have names and volumes of their own, one after another."""
