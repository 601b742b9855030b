"""The kinds of policy/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Self

from levelset.kinds.enums import UnhealthyEvictionPolicy
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import Atomic, Condition, DeleteOptions, ListMap, Object, ObjectMeta, Resource, Spec, Status

__all__ = ["Eviction", "PodDisruptionBudget", "PodDisruptionBudgetSpec", "PodDisruptionBudgetStatus"]


class PodDisruptionBudgetSpec(Spec):
    """`spec` of PodDisruptionBudget."""

    max_unavailable: int | str | None = None
    min_available: int | str | None = None
    selector: Annotated[LabelSelector, Atomic()] | None = None
    unhealthy_pod_eviction_policy: UnhealthyEvictionPolicy | None = None


class PodDisruptionBudgetStatus(Status):
    """`status` of PodDisruptionBudget."""

    conditions: Annotated[tuple[Condition, ...], ListMap("type")] = ()
    current_healthy: int | None = None
    desired_healthy: int | None = None
    disrupted_pods: dict[str, datetime] = {}
    disruptions_allowed: int | None = None
    expected_pods: int | None = None
    observed_generation: int = 0


class Eviction(Object, api="policy/v1"):
    """A request to evict a Pod from its node, if its PodDisruptionBudget allows."""

    delete_options: DeleteOptions | None = None

    @classmethod
    def new(
        cls,
        name: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        delete_options: DeleteOptions | None = None,
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(metadata=metadata, delete_options=delete_options)


class PodDisruptionBudget(
    Resource[PodDisruptionBudgetSpec, PodDisruptionBudgetStatus], api="policy/v1", short_names=["pdb"]
):
    """How many selected Pods may be unavailable during voluntary disruptions."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: PodDisruptionBudgetSpec | None = None,
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
