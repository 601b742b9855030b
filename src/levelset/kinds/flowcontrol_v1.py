"""The kinds of flowcontrol.apiserver.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from datetime import datetime
from typing import Annotated

from levelset.kinds.enums import ConditionStatus, FlowDistinguisher, LimitResponseType, PriorityLevelType
from levelset.objects import ListMap, ListSet, Model, Resource, Spec, Status

__all__ = [
    "ExemptPriorityLevelConfiguration",
    "FlowDistinguisherMethod",
    "FlowSchema",
    "FlowSchemaCondition",
    "FlowSchemaSpec",
    "FlowSchemaStatus",
    "GroupSubject",
    "LimitResponse",
    "LimitedPriorityLevelConfiguration",
    "NonResourcePolicyRule",
    "PolicyRulesWithSubjects",
    "PriorityLevelConfiguration",
    "PriorityLevelConfigurationCondition",
    "PriorityLevelConfigurationReference",
    "PriorityLevelConfigurationSpec",
    "PriorityLevelConfigurationStatus",
    "QueuingConfiguration",
    "ResourcePolicyRule",
    "ServiceAccountSubject",
    "Subject",
    "UserSubject",
]


class ExemptPriorityLevelConfiguration(Model):
    """`exempt` of PriorityLevelConfigurationSpec."""

    lendable_percent: int | None = None
    nominal_concurrency_shares: int | None = None


class FlowDistinguisherMethod(Model):
    """`distinguisherMethod` of FlowSchemaSpec."""

    type: FlowDistinguisher


class FlowSchemaCondition(Model):
    """One of `conditions` of FlowSchemaStatus."""

    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None
    status: ConditionStatus | None = None
    type: str | None = None


class PriorityLevelConfigurationReference(Model):
    """`priorityLevelConfiguration` of FlowSchemaSpec."""

    name: str


class GroupSubject(Model):
    """`group` of Subject."""

    name: str


class ServiceAccountSubject(Model):
    """`serviceAccount` of Subject."""

    name: str
    namespace: str


class UserSubject(Model):
    """`user` of Subject."""

    name: str


class Subject(Model):
    """One of `subjects` of PolicyRulesWithSubjects."""

    kind: str
    group: GroupSubject | None = None
    service_account: ServiceAccountSubject | None = None
    user: UserSubject | None = None


class NonResourcePolicyRule(Model):
    """One of `nonResourceRules` of PolicyRulesWithSubjects."""

    non_resource_urls: Annotated[tuple[str, ...], ListSet()]
    verbs: Annotated[tuple[str, ...], ListSet()]


class ResourcePolicyRule(Model):
    """One of `resourceRules` of PolicyRulesWithSubjects."""

    api_groups: Annotated[tuple[str, ...], ListSet()]
    resources: Annotated[tuple[str, ...], ListSet()]
    verbs: Annotated[tuple[str, ...], ListSet()]
    cluster_scope: bool | None = None
    namespaces: Annotated[tuple[str, ...], ListSet()] = ()


class PolicyRulesWithSubjects(Model):
    """One of `rules` of FlowSchemaSpec."""

    subjects: tuple[Subject, ...]
    non_resource_rules: tuple[NonResourcePolicyRule, ...] = ()
    resource_rules: tuple[ResourcePolicyRule, ...] = ()


class FlowSchemaSpec(Spec):
    """`spec` of FlowSchema."""

    priority_level_configuration: PriorityLevelConfigurationReference
    distinguisher_method: FlowDistinguisherMethod | None = None
    matching_precedence: int | None = None
    rules: tuple[PolicyRulesWithSubjects, ...] = ()


class FlowSchemaStatus(Status):
    """`status` of FlowSchema."""

    conditions: Annotated[tuple[FlowSchemaCondition, ...], ListMap("type")] = ()


class QueuingConfiguration(Model):
    """`queuing` of LimitResponse."""

    hand_size: int | None = None
    queue_length_limit: int | None = None
    queues: int | None = None


class LimitResponse(Model):
    """`limitResponse` of LimitedPriorityLevelConfiguration."""

    type: LimitResponseType
    queuing: QueuingConfiguration | None = None


class LimitedPriorityLevelConfiguration(Model):
    """`limited` of PriorityLevelConfigurationSpec."""

    borrowing_limit_percent: int | None = None
    lendable_percent: int | None = None
    limit_response: LimitResponse | None = None
    nominal_concurrency_shares: int | None = None


class PriorityLevelConfigurationCondition(Model):
    """One of `conditions` of PriorityLevelConfigurationStatus."""

    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None
    status: ConditionStatus | None = None
    type: str | None = None


class PriorityLevelConfigurationSpec(Spec):
    """`spec` of PriorityLevelConfiguration."""

    type: PriorityLevelType
    exempt: ExemptPriorityLevelConfiguration | None = None
    limited: LimitedPriorityLevelConfiguration | None = None


class PriorityLevelConfigurationStatus(Status):
    """`status` of PriorityLevelConfiguration."""

    conditions: Annotated[tuple[PriorityLevelConfigurationCondition, ...], ListMap("type")] = ()


class FlowSchema(Resource[FlowSchemaSpec, FlowSchemaStatus], api="flowcontrol.apiserver.k8s.io/v1", scope="Cluster"):
    """Which requests to the server belong to which priority level."""


class PriorityLevelConfiguration(
    Resource[PriorityLevelConfigurationSpec, PriorityLevelConfigurationStatus],
    api="flowcontrol.apiserver.k8s.io/v1",
    scope="Cluster",
):
    """The request concurrency of a priority level of the API server."""
