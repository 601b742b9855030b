"""The kinds of coordination.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from typing import Self

from levelset.objects import MicroTime, ObjectMeta, Resource, Spec

__all__ = ["Lease", "LeaseSpec"]


class LeaseSpec(Spec):
    """`spec` of Lease."""

    acquire_time: MicroTime | None = None
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    preferred_holder: str | None = None
    renew_time: MicroTime | None = None
    strategy: str | None = None


class Lease(Resource[LeaseSpec, None], api="coordination.k8s.io/v1"):
    """A lock with one holder at a time, such as leadership, until the holder stops renewing it."""

    spec: LeaseSpec = LeaseSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: LeaseSpec | None = None,
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
