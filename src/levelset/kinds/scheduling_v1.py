"""The kinds of scheduling.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from typing import Self

from levelset.kinds.enums import PreemptionPolicy
from levelset.objects import Object, ObjectMeta

__all__ = ["PriorityClass"]


class PriorityClass(Object, api="scheduling.k8s.io/v1", scope="Cluster", short_names=["pc"]):
    """The scheduling priority of the Pods of a class."""

    description: str | None = None
    global_default: bool | None = None
    preemption_policy: PreemptionPolicy | None = None
    value: int | None = None

    @classmethod
    def new(
        cls,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        description: str | None = None,
        global_default: bool | None = None,
        preemption_policy: PreemptionPolicy | None = None,
        value: int | None = None,
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(name=name, labels=dict(labels or {}), annotations=dict(annotations or {}))
        return cls(
            metadata=metadata,
            description=description,
            global_default=global_default,
            preemption_policy=preemption_policy,
            value=value,
        )
