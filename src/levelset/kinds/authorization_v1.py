"""The kinds of authorization.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from levelset.kinds.meta_v1 import FieldSelectorRequirement, LabelSelectorRequirement
from levelset.objects import Model, Resource, Spec, Status, field

__all__ = [
    "FieldSelectorAttributes",
    "LabelSelectorAttributes",
    "LocalSubjectAccessReview",
    "NonResourceAttributes",
    "NonResourceRule",
    "ResourceAttributes",
    "ResourceRule",
    "SelfSubjectAccessReview",
    "SelfSubjectAccessReviewSpec",
    "SelfSubjectRulesReview",
    "SelfSubjectRulesReviewSpec",
    "SubjectAccessReview",
    "SubjectAccessReviewSpec",
    "SubjectAccessReviewStatus",
    "SubjectRulesReviewStatus",
]


class FieldSelectorAttributes(Model):
    """`fieldSelector` of ResourceAttributes."""

    raw_selector: str | None = None
    requirements: tuple[FieldSelectorRequirement, ...] = ()


class LabelSelectorAttributes(Model):
    """`labelSelector` of ResourceAttributes."""

    raw_selector: str | None = None
    requirements: tuple[LabelSelectorRequirement, ...] = ()


class NonResourceAttributes(Model):
    """`nonResourceAttributes` of SelfSubjectAccessReviewSpec, and others."""

    path: str | None = None
    verb: str | None = None


class NonResourceRule(Model):
    """One of `nonResourceRules` of SubjectRulesReviewStatus."""

    verbs: tuple[str, ...]
    non_resource_urls: tuple[str, ...] = ()


class ResourceAttributes(Model):
    """`resourceAttributes` of SelfSubjectAccessReviewSpec, and others."""

    field_selector: FieldSelectorAttributes | None = None
    group: str | None = None
    label_selector: LabelSelectorAttributes | None = None
    name: str | None = None
    namespace: str | None = None
    resource: str | None = None
    subresource: str | None = None
    verb: str | None = None
    version: str | None = None


class ResourceRule(Model):
    """One of `resourceRules` of SubjectRulesReviewStatus."""

    verbs: tuple[str, ...]
    api_groups: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()


class SelfSubjectAccessReviewSpec(Spec):
    """`spec` of SelfSubjectAccessReview."""

    non_resource_attributes: NonResourceAttributes | None = None
    resource_attributes: ResourceAttributes | None = None


class SelfSubjectRulesReviewSpec(Spec):
    """`spec` of SelfSubjectRulesReview."""

    namespace: str | None = None


class SubjectAccessReviewSpec(Spec):
    """`spec` of LocalSubjectAccessReview, and others."""

    extra: dict[str, tuple[str, ...]] = {}
    groups: tuple[str, ...] = ()
    non_resource_attributes: NonResourceAttributes | None = None
    resource_attributes: ResourceAttributes | None = None
    uid: str | None = None
    user: str | None = None


class SubjectAccessReviewStatus(Status):
    """`status` of LocalSubjectAccessReview, and others."""

    allowed: bool
    denied: bool | None = None
    evaluation_error: str | None = None
    reason: str | None = None


class SubjectRulesReviewStatus(Status):
    """`status` of SelfSubjectRulesReview."""

    incomplete: bool
    non_resource_rules: tuple[NonResourceRule, ...] = field(default_factory=lambda: ())
    resource_rules: tuple[ResourceRule, ...] = field(default_factory=lambda: ())
    evaluation_error: str | None = None


class LocalSubjectAccessReview(
    Resource[SubjectAccessReviewSpec, SubjectAccessReviewStatus], api="authorization.k8s.io/v1", status=False
):
    """Checks whether a user may perform an action in one namespace."""


class SelfSubjectAccessReview(
    Resource[SelfSubjectAccessReviewSpec, SubjectAccessReviewStatus],
    api="authorization.k8s.io/v1",
    scope="Cluster",
    status=False,
):
    """Checks whether the requesting user may perform an action."""


class SelfSubjectRulesReview(
    Resource[SelfSubjectRulesReviewSpec, SubjectRulesReviewStatus],
    api="authorization.k8s.io/v1",
    scope="Cluster",
    status=False,
):
    """The actions that the requesting user may perform in a namespace."""


class SubjectAccessReview(
    Resource[SubjectAccessReviewSpec, SubjectAccessReviewStatus],
    api="authorization.k8s.io/v1",
    scope="Cluster",
    status=False,
):
    """Checks whether a user may perform an action."""
