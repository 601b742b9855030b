"""Deployments, and the sets of Pods that they make.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from datetime import datetime
from typing import Annotated

from levelset.kinds.core_v1_templates import PodTemplateSpec
from levelset.kinds.enums import ConditionStatus, DeploymentStrategyType
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import Atomic, ListMap, Model, Resource, Scale, Spec, Status

__all__ = [
    "Deployment",
    "DeploymentCondition",
    "DeploymentSpec",
    "DeploymentStatus",
    "DeploymentStrategy",
    "ReplicaSet",
    "ReplicaSetCondition",
    "ReplicaSetSpec",
    "ReplicaSetStatus",
    "RollingUpdateDeployment",
]


class DeploymentCondition(Model):
    """One of `conditions` of DeploymentStatus."""

    status: ConditionStatus
    type: str
    last_transition_time: datetime | None = None
    last_update_time: datetime | None = None
    message: str | None = None
    reason: str | None = None


class RollingUpdateDeployment(Model):
    """How many Pods may be missing, or be there in addition, during an update."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class DeploymentStrategy(Model):
    """How a Deployment replaces its Pods."""

    rolling_update: RollingUpdateDeployment | None = None
    type: DeploymentStrategyType | None = None


class DeploymentSpec(Spec):
    """`spec` of Deployment."""

    selector: Annotated[LabelSelector, Atomic()]
    template: PodTemplateSpec
    min_ready_seconds: int | None = None
    paused: bool | None = None
    progress_deadline_seconds: int | None = None
    replicas: int | None = None
    revision_history_limit: int | None = None
    strategy: DeploymentStrategy = DeploymentStrategy()


class DeploymentStatus(Status):
    """`status` of Deployment."""

    available_replicas: int = 0
    collision_count: int | None = None
    conditions: Annotated[tuple[DeploymentCondition, ...], ListMap("type")] = ()
    observed_generation: int = 0
    ready_replicas: int = 0
    replicas: int = 0
    terminating_replicas: int | None = None
    unavailable_replicas: int = 0
    updated_replicas: int = 0


class ReplicaSetCondition(Model):
    """One of `conditions` of ReplicaSetStatus."""

    status: ConditionStatus
    type: str
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None


class ReplicaSetSpec(Spec):
    """`spec` of ReplicaSet."""

    selector: Annotated[LabelSelector, Atomic()]
    min_ready_seconds: int | None = None
    replicas: int | None = None
    template: PodTemplateSpec | None = None


class ReplicaSetStatus(Status):
    """`status` of ReplicaSet."""

    replicas: int
    available_replicas: int = 0
    conditions: Annotated[tuple[ReplicaSetCondition, ...], ListMap("type")] = ()
    fully_labeled_replicas: int = 0
    observed_generation: int = 0
    ready_replicas: int = 0
    terminating_replicas: int | None = None


class Deployment(
    Resource[DeploymentSpec, DeploymentStatus], api="apps/v1", short_names=["deploy"], categories=["all"], scale=Scale()
):
    """Runs a number of identical Pods and rolls out changes of their template."""


class ReplicaSet(
    Resource[ReplicaSetSpec, ReplicaSetStatus], api="apps/v1", short_names=["rs"], categories=["all"], scale=Scale()
):
    """Runs a number of identical Pods."""
