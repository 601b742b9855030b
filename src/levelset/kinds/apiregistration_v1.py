"""The kinds of apiregistration.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from datetime import datetime
from typing import Annotated

from levelset.kinds.enums import ConditionStatus
from levelset.objects import ListMap, Model, Resource, Spec, Status

__all__ = ["APIService", "APIServiceCondition", "APIServiceSpec", "APIServiceStatus", "ServiceReference"]


class APIServiceCondition(Model):
    """One of `conditions` of APIServiceStatus."""

    status: ConditionStatus
    type: str
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None


class ServiceReference(Model):
    """`service` of APIServiceSpec."""

    name: str | None = None
    namespace: str | None = None
    port: int | None = None


class APIServiceSpec(Spec):
    """`spec` of APIService."""

    group_priority_minimum: int
    version_priority: int
    ca_bundle: bytes | None = None
    group: str | None = None
    insecure_skip_tls_verify: bool | None = None
    service: ServiceReference | None = None
    version: str | None = None


class APIServiceStatus(Status):
    """`status` of APIService."""

    conditions: Annotated[tuple[APIServiceCondition, ...], ListMap("type")] = ()


class APIService(
    Resource[APIServiceSpec, APIServiceStatus],
    api="apiregistration.k8s.io/v1",
    scope="Cluster",
    categories=["api-extensions"],
):
    """A group and version that another server serves."""
