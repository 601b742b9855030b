"""The kinds of node.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from typing import Annotated, Self

from levelset.kinds.core_v1_references import Toleration
from levelset.objects import Atomic, Model, Object, ObjectMeta, Quantity

__all__ = ["Overhead", "RuntimeClass", "Scheduling"]


class Overhead(Model):
    """`overhead` of RuntimeClass."""

    pod_fixed: dict[str, Quantity] = {}


class Scheduling(Model):
    """`scheduling` of RuntimeClass."""

    node_selector: Annotated[dict[str, str], Atomic()] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(Object, api="node.k8s.io/v1", scope="Cluster"):
    """A way to run containers that nodes offer."""

    handler: str
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None

    @classmethod
    def new(
        cls,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        handler: str,
        overhead: Overhead | None = None,
        scheduling: Scheduling | None = None,
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(name=name, labels=dict(labels or {}), annotations=dict(annotations or {}))
        return cls(metadata=metadata, handler=handler, overhead=overhead, scheduling=scheduling)
