"""What Pods are given to live with: names, settings, secrets, identities, limits.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Self

from levelset.kinds.core_v1_references import LocalObjectReference, ObjectReference
from levelset.kinds.enums import ConditionStatus, NamespacePhase, QuotaOperator, QuotaScope
from levelset.objects import Atomic, ListMap, Model, Object, ObjectMeta, Quantity, Resource, Spec, Status, field

__all__ = [
    "ConfigMap",
    "LimitRange",
    "LimitRangeItem",
    "LimitRangeSpec",
    "Namespace",
    "NamespaceCondition",
    "NamespaceSpec",
    "NamespaceStatus",
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceQuotaStatus",
    "ScopeSelector",
    "ScopedResourceSelectorRequirement",
    "Secret",
    "ServiceAccount",
]


class LimitRangeItem(Model):
    """One of `limits` of LimitRangeSpec."""

    type: str
    default: dict[str, Quantity] = {}
    default_request: dict[str, Quantity] = {}
    max: dict[str, Quantity] = {}
    max_limit_request_ratio: dict[str, Quantity] = {}
    min: dict[str, Quantity] = {}


class LimitRangeSpec(Spec):
    """`spec` of LimitRange."""

    limits: tuple[LimitRangeItem, ...] = field(default_factory=lambda: ())


class NamespaceCondition(Model):
    """One of `conditions` of NamespaceStatus."""

    status: ConditionStatus
    type: str
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None


class NamespaceSpec(Spec):
    """`spec` of Namespace."""

    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Status):
    """`status` of Namespace."""

    conditions: Annotated[tuple[NamespaceCondition, ...], ListMap("type")] = ()
    phase: NamespacePhase | None = None


class ScopedResourceSelectorRequirement(Model):
    """One of `matchExpressions` of ScopeSelector."""

    operator: QuotaOperator
    scope_name: QuotaScope
    values: tuple[str, ...] = ()


class ScopeSelector(Model):
    """`scopeSelector` of ResourceQuotaSpec."""

    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(Spec):
    """`spec` of ResourceQuota."""

    hard: dict[str, Quantity] = {}
    scope_selector: Annotated[ScopeSelector, Atomic()] | None = None
    scopes: tuple[QuotaScope, ...] = ()


class ResourceQuotaStatus(Status):
    """`status` of ResourceQuota."""

    hard: dict[str, Quantity] = {}
    used: dict[str, Quantity] = {}


class ConfigMap(Object, api="v1", short_names=["cm"]):
    """Configuration data that is not secret, by key."""

    binary_data: dict[str, bytes] = {}
    data: dict[str, str] = {}
    immutable: bool | None = None

    @classmethod
    def new(
        cls,
        name: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        binary_data: Mapping[str, bytes] | None = None,
        data: Mapping[str, str] | None = None,
        immutable: bool | None = None,
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(metadata=metadata, binary_data=dict(binary_data or {}), data=dict(data or {}), immutable=immutable)


class LimitRange(Resource[LimitRangeSpec, None], api="v1", short_names=["limits"]):
    """Default, minimum and maximum resources of containers in a namespace."""

    spec: LimitRangeSpec = LimitRangeSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: LimitRangeSpec | None = None,
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


class Namespace(Resource[NamespaceSpec, NamespaceStatus], api="v1", scope="Cluster", short_names=["ns"]):
    """A scope for the names of objects and for permissions."""

    spec: NamespaceSpec = NamespaceSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: NamespaceSpec | None = None,
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


class ResourceQuota(Resource[ResourceQuotaSpec, ResourceQuotaStatus], api="v1", short_names=["quota"]):
    """How much a namespace may use in all."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: ResourceQuotaSpec | None = None,
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


class Secret(Object, api="v1"):
    """Confidential data, by key."""

    data: dict[str, bytes] = {}
    immutable: bool | None = None
    string_data: dict[str, str] = {}
    type: str | None = None

    @classmethod
    def new(
        cls,
        name: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        data: Mapping[str, bytes] | None = None,
        immutable: bool | None = None,
        string_data: Mapping[str, str] | None = None,
        type: str | None = None,  # noqa: A002
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(
            metadata=metadata,
            data=dict(data or {}),
            immutable=immutable,
            string_data=dict(string_data or {}),
            type=type,
        )


class ServiceAccount(Object, api="v1", short_names=["sa"]):
    """An identity for Pods."""

    automount_service_account_token: bool | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    secrets: Annotated[tuple[ObjectReference, ...], ListMap("name")] = ()

    @classmethod
    def new(
        cls,
        name: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        automount_service_account_token: bool | None = None,
        image_pull_secrets: tuple[LocalObjectReference, ...] = (),
        secrets: tuple[ObjectReference, ...] = (),
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(
            metadata=metadata,
            automount_service_account_token=automount_service_account_token,
            image_pull_secrets=image_pull_secrets,
            secrets=secrets,
        )
