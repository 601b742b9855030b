"""The kinds of rbac.authorization.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from typing import Annotated, Self

from levelset.kinds.enums import RoleKind
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import Atomic, Model, Object, ObjectMeta

__all__ = [
    "AggregationRule",
    "ClusterRole",
    "ClusterRoleBinding",
    "PolicyRule",
    "Role",
    "RoleBinding",
    "RoleRef",
    "Subject",
]


class AggregationRule(Model):
    """`aggregationRule` of ClusterRole."""

    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class PolicyRule(Model):
    """What may be done, and to which resources."""

    verbs: tuple[str, ...]
    api_groups: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()


class RoleRef(Model):
    """The role that a binding gives."""

    kind: RoleKind
    name: str
    api_group: str | None = None


class Subject(Model):
    """One of `subjects` of ClusterRoleBinding, and others."""

    kind: str
    name: str
    api_group: str | None = None
    namespace: str | None = None


class ClusterRole(Object, api="rbac.authorization.k8s.io/v1", scope="Cluster"):
    """A set of permissions for the whole cluster, or for the namespaces in which it is bound."""

    aggregation_rule: AggregationRule | None = None
    rules: tuple[PolicyRule, ...] = ()

    @classmethod
    def new(
        cls,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        aggregation_rule: AggregationRule | None = None,
        rules: tuple[PolicyRule, ...] = (),
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(name=name, labels=dict(labels or {}), annotations=dict(annotations or {}))
        return cls(metadata=metadata, aggregation_rule=aggregation_rule, rules=rules)


class ClusterRoleBinding(Object, api="rbac.authorization.k8s.io/v1", scope="Cluster"):
    """Grants a ClusterRole to subjects in the whole cluster."""

    role_ref: Annotated[RoleRef, Atomic()]
    subjects: tuple[Subject, ...] = ()

    @classmethod
    def new(
        cls,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        role_ref: RoleRef,
        subjects: tuple[Subject, ...] = (),
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(name=name, labels=dict(labels or {}), annotations=dict(annotations or {}))
        return cls(metadata=metadata, role_ref=role_ref, subjects=subjects)


class Role(Object, api="rbac.authorization.k8s.io/v1"):
    """A set of permissions in one namespace."""

    rules: tuple[PolicyRule, ...] = ()

    @classmethod
    def new(
        cls,
        name: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        rules: tuple[PolicyRule, ...] = (),
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(metadata=metadata, rules=rules)


class RoleBinding(Object, api="rbac.authorization.k8s.io/v1"):
    """Grants a role to subjects in one namespace."""

    role_ref: Annotated[RoleRef, Atomic()]
    subjects: tuple[Subject, ...] = ()

    @classmethod
    def new(
        cls,
        name: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        role_ref: RoleRef,
        subjects: tuple[Subject, ...] = (),
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(metadata=metadata, role_ref=role_ref, subjects=subjects)
