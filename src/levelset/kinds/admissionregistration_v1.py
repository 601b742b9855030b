"""The kinds of admissionregistration.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from typing import Annotated, Self

from levelset.kinds.enums import (
    FailurePolicy,
    MatchPolicy,
    Operation,
    ParameterNotFoundAction,
    PatchType,
    ReinvocationPolicy,
    RuleScope,
    SideEffects,
    ValidationAction,
)
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import Atomic, Condition, ListMap, ListSet, Model, Object, ObjectMeta, Resource, Spec, Status

__all__ = [
    "ApplyConfiguration",
    "AuditAnnotation",
    "ExpressionWarning",
    "JSONPatch",
    "MatchCondition",
    "MatchResources",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicyBindingSpec",
    "MutatingAdmissionPolicySpec",
    "MutatingWebhook",
    "MutatingWebhookConfiguration",
    "Mutation",
    "NamedRuleWithOperations",
    "ParamKind",
    "ParamRef",
    "RuleWithOperations",
    "ServiceReference",
    "TypeChecking",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicyBindingSpec",
    "ValidatingAdmissionPolicySpec",
    "ValidatingAdmissionPolicyStatus",
    "ValidatingWebhook",
    "ValidatingWebhookConfiguration",
    "Validation",
    "Variable",
    "WebhookClientConfig",
]


class ApplyConfiguration(Model):
    """`applyConfiguration` of Mutation."""

    expression: str | None = None


class AuditAnnotation(Model):
    """One of `auditAnnotations` of ValidatingAdmissionPolicySpec."""

    key: str
    value_expression: str


class ExpressionWarning(Model):
    """One of `expressionWarnings` of TypeChecking."""

    field_ref: str
    warning: str


class JSONPatch(Model):
    """`jsonPatch` of Mutation."""

    expression: str | None = None


class MatchCondition(Model):
    """One of `matchConditions` of MutatingAdmissionPolicySpec, and others."""

    expression: str
    name: str


class NamedRuleWithOperations(Model):
    """One of `excludeResourceRules` of MatchResources, and others."""

    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()
    resource_names: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: RuleScope | None = None


class MatchResources(Model):
    """`matchResources` of MutatingAdmissionPolicyBindingSpec, and others."""

    exclude_resource_rules: tuple[NamedRuleWithOperations, ...] = ()
    match_policy: MatchPolicy | None = None
    namespace_selector: Annotated[LabelSelector, Atomic()] | None = None
    object_selector: Annotated[LabelSelector, Atomic()] | None = None
    resource_rules: tuple[NamedRuleWithOperations, ...] = ()


class ParamRef(Model):
    """`paramRef` of MutatingAdmissionPolicyBindingSpec, and others."""

    name: str | None = None
    namespace: str | None = None
    parameter_not_found_action: ParameterNotFoundAction | None = None
    selector: Annotated[LabelSelector, Atomic()] | None = None


class MutatingAdmissionPolicyBindingSpec(Spec):
    """`spec` of MutatingAdmissionPolicyBinding."""

    match_resources: Annotated[MatchResources, Atomic()] | None = None
    param_ref: Annotated[ParamRef, Atomic()] | None = None
    policy_name: str | None = None


class Mutation(Model):
    """One of `mutations` of MutatingAdmissionPolicySpec."""

    patch_type: PatchType
    apply_configuration: ApplyConfiguration | None = None
    json_patch: JSONPatch | None = None


class ParamKind(Model):
    """`paramKind` of MutatingAdmissionPolicySpec, and others."""

    api_version: str | None = None
    kind: str | None = None


class Variable(Model):
    """One of `variables` of MutatingAdmissionPolicySpec, and others."""

    expression: str
    name: str


class MutatingAdmissionPolicySpec(Spec):
    """`spec` of MutatingAdmissionPolicy."""

    failure_policy: FailurePolicy | None = None
    match_conditions: Annotated[tuple[MatchCondition, ...], ListMap("name")] = ()
    match_constraints: Annotated[MatchResources, Atomic()] | None = None
    mutations: tuple[Mutation, ...] = ()
    param_kind: Annotated[ParamKind, Atomic()] | None = None
    reinvocation_policy: ReinvocationPolicy | None = None
    variables: tuple[Variable, ...] = ()


class ServiceReference(Model):
    """`service` of WebhookClientConfig."""

    name: str
    namespace: str
    path: str | None = None
    port: int | None = None


class WebhookClientConfig(Model):
    """`clientConfig` of MutatingWebhook, and others."""

    ca_bundle: bytes | None = None
    service: ServiceReference | None = None
    url: str | None = None


class RuleWithOperations(Model):
    """One of `rules` of MutatingWebhook, and others."""

    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()
    resources: tuple[str, ...] = ()
    scope: RuleScope | None = None


class MutatingWebhook(Model):
    """One of `webhooks` of MutatingWebhookConfiguration."""

    admission_review_versions: tuple[str, ...]
    client_config: WebhookClientConfig
    name: str
    side_effects: SideEffects
    failure_policy: FailurePolicy | None = None
    match_conditions: Annotated[tuple[MatchCondition, ...], ListMap("name")] = ()
    match_policy: MatchPolicy | None = None
    namespace_selector: Annotated[LabelSelector, Atomic()] | None = None
    object_selector: Annotated[LabelSelector, Atomic()] | None = None
    reinvocation_policy: ReinvocationPolicy | None = None
    rules: tuple[RuleWithOperations, ...] = ()
    timeout_seconds: int | None = None


class TypeChecking(Model):
    """`typeChecking` of ValidatingAdmissionPolicyStatus."""

    expression_warnings: tuple[ExpressionWarning, ...] = ()


class ValidatingAdmissionPolicyBindingSpec(Spec):
    """`spec` of ValidatingAdmissionPolicyBinding."""

    policy_name: str
    validation_actions: Annotated[tuple[ValidationAction, ...], ListSet()]
    match_resources: Annotated[MatchResources, Atomic()] | None = None
    param_ref: Annotated[ParamRef, Atomic()] | None = None


class Validation(Model):
    """One of `validations` of ValidatingAdmissionPolicySpec."""

    expression: str
    message: str | None = None
    message_expression: str | None = None
    reason: str | None = None


class ValidatingAdmissionPolicySpec(Spec):
    """`spec` of ValidatingAdmissionPolicy."""

    audit_annotations: tuple[AuditAnnotation, ...] = ()
    failure_policy: FailurePolicy | None = None
    match_conditions: Annotated[tuple[MatchCondition, ...], ListMap("name")] = ()
    match_constraints: Annotated[MatchResources, Atomic()] | None = None
    param_kind: Annotated[ParamKind, Atomic()] | None = None
    validations: tuple[Validation, ...] = ()
    variables: Annotated[tuple[Variable, ...], ListMap("name")] = ()


class ValidatingAdmissionPolicyStatus(Status):
    """`status` of ValidatingAdmissionPolicy."""

    conditions: Annotated[tuple[Condition, ...], ListMap("type")] = ()
    observed_generation: int | None = None
    type_checking: TypeChecking | None = None


class ValidatingWebhook(Model):
    """One of `webhooks` of ValidatingWebhookConfiguration."""

    admission_review_versions: tuple[str, ...]
    client_config: WebhookClientConfig
    name: str
    side_effects: SideEffects
    failure_policy: FailurePolicy | None = None
    match_conditions: Annotated[tuple[MatchCondition, ...], ListMap("name")] = ()
    match_policy: MatchPolicy | None = None
    namespace_selector: Annotated[LabelSelector, Atomic()] | None = None
    object_selector: Annotated[LabelSelector, Atomic()] | None = None
    rules: tuple[RuleWithOperations, ...] = ()
    timeout_seconds: int | None = None


class MutatingAdmissionPolicy(
    Resource[MutatingAdmissionPolicySpec, None],
    api="admissionregistration.k8s.io/v1",
    scope="Cluster",
    categories=["api-extensions"],
):
    """CEL expressions that mutate objects at admission."""

    spec: MutatingAdmissionPolicySpec = MutatingAdmissionPolicySpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: MutatingAdmissionPolicySpec | None = None,
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


class MutatingAdmissionPolicyBinding(
    Resource[MutatingAdmissionPolicyBindingSpec, None],
    api="admissionregistration.k8s.io/v1",
    scope="Cluster",
    categories=["api-extensions"],
):
    """Where a MutatingAdmissionPolicy applies."""

    spec: MutatingAdmissionPolicyBindingSpec = MutatingAdmissionPolicyBindingSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: MutatingAdmissionPolicyBindingSpec | None = None,
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


class MutatingWebhookConfiguration(
    Object, api="admissionregistration.k8s.io/v1", scope="Cluster", categories=["api-extensions"]
):
    """The admission webhooks that may mutate objects."""

    webhooks: Annotated[tuple[MutatingWebhook, ...], ListMap("name")] = ()

    @classmethod
    def new(
        cls,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        webhooks: tuple[MutatingWebhook, ...] = (),
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(name=name, labels=dict(labels or {}), annotations=dict(annotations or {}))
        return cls(metadata=metadata, webhooks=webhooks)


class ValidatingAdmissionPolicy(
    Resource[ValidatingAdmissionPolicySpec, ValidatingAdmissionPolicyStatus],
    api="admissionregistration.k8s.io/v1",
    scope="Cluster",
    categories=["api-extensions"],
):
    """CEL expressions that validate objects at admission."""

    spec: ValidatingAdmissionPolicySpec = ValidatingAdmissionPolicySpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: ValidatingAdmissionPolicySpec | None = None,
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


class ValidatingAdmissionPolicyBinding(
    Resource[ValidatingAdmissionPolicyBindingSpec, None],
    api="admissionregistration.k8s.io/v1",
    scope="Cluster",
    categories=["api-extensions"],
):
    """Where a ValidatingAdmissionPolicy applies."""


class ValidatingWebhookConfiguration(
    Object, api="admissionregistration.k8s.io/v1", scope="Cluster", categories=["api-extensions"]
):
    """The admission webhooks that validate objects."""

    webhooks: Annotated[tuple[ValidatingWebhook, ...], ListMap("name")] = ()

    @classmethod
    def new(
        cls,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        webhooks: tuple[ValidatingWebhook, ...] = (),
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(name=name, labels=dict(labels or {}), annotations=dict(annotations or {}))
        return cls(metadata=metadata, webhooks=webhooks)
