"""The kinds of batch/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from datetime import datetime
from typing import Annotated

from levelset.kinds.core_v1_references import ObjectReference
from levelset.kinds.core_v1_templates import PodTemplateSpec
from levelset.kinds.enums import (
    CompletionMode,
    ConcurrencyPolicy,
    ConditionStatus,
    PodFailurePolicyAction,
    PodReplacementPolicy,
    SetOperator,
)
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import Atomic, ListSet, Model, ObjectMeta, Resource, Spec, Status

__all__ = [
    "CronJob",
    "CronJobSpec",
    "CronJobStatus",
    "Job",
    "JobCondition",
    "JobSpec",
    "JobStatus",
    "JobTemplateSpec",
    "PodFailurePolicy",
    "PodFailurePolicyOnExitCodesRequirement",
    "PodFailurePolicyOnPodConditionsPattern",
    "PodFailurePolicyRule",
    "SuccessPolicy",
    "SuccessPolicyRule",
    "UncountedTerminatedPods",
]


class PodFailurePolicyOnExitCodesRequirement(Model):
    """`onExitCodes` of PodFailurePolicyRule."""

    operator: SetOperator
    values: Annotated[tuple[int, ...], ListSet()]
    container_name: str | None = None


class PodFailurePolicyOnPodConditionsPattern(Model):
    """One of `onPodConditions` of PodFailurePolicyRule."""

    type: str
    status: str | None = None


class PodFailurePolicyRule(Model):
    """One of `rules` of PodFailurePolicy."""

    action: PodFailurePolicyAction
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: tuple[PodFailurePolicyOnPodConditionsPattern, ...] = ()


class PodFailurePolicy(Model):
    """`podFailurePolicy` of JobSpec."""

    rules: tuple[PodFailurePolicyRule, ...]


class SuccessPolicyRule(Model):
    """One of `rules` of SuccessPolicy."""

    succeeded_count: int | None = None
    succeeded_indexes: str | None = None


class SuccessPolicy(Model):
    """`successPolicy` of JobSpec."""

    rules: tuple[SuccessPolicyRule, ...]


class JobSpec(Spec):
    """`spec` of Job, and others."""

    template: PodTemplateSpec
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    completion_mode: CompletionMode | None = None
    completions: int | None = None
    managed_by: str | None = None
    manual_selector: bool | None = None
    max_failed_indexes: int | None = None
    parallelism: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    pod_replacement_policy: PodReplacementPolicy | None = None
    selector: Annotated[LabelSelector, Atomic()] | None = None
    success_policy: SuccessPolicy | None = None
    suspend: bool | None = None
    ttl_seconds_after_finished: int | None = None


class JobTemplateSpec(Model):
    """The template that a CronJob makes its Jobs from."""

    spec: JobSpec
    metadata: ObjectMeta = ObjectMeta()


class CronJobSpec(Spec):
    """`spec` of CronJob."""

    job_template: JobTemplateSpec
    schedule: str
    concurrency_policy: ConcurrencyPolicy | None = None
    failed_jobs_history_limit: int | None = None
    starting_deadline_seconds: int | None = None
    successful_jobs_history_limit: int | None = None
    suspend: bool | None = None
    time_zone: str | None = None


class CronJobStatus(Status):
    """`status` of CronJob."""

    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: datetime | None = None
    last_successful_time: datetime | None = None


class JobCondition(Model):
    """One of `conditions` of JobStatus."""

    status: ConditionStatus
    type: str
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None


class UncountedTerminatedPods(Model):
    """`uncountedTerminatedPods` of JobStatus."""

    failed: Annotated[tuple[str, ...], ListSet()] = ()
    succeeded: Annotated[tuple[str, ...], ListSet()] = ()


class JobStatus(Status):
    """`status` of Job."""

    active: int = 0
    completed_indexes: str | None = None
    completion_time: datetime | None = None
    conditions: tuple[JobCondition, ...] = ()
    failed: int = 0
    failed_indexes: str | None = None
    ready: int | None = None
    start_time: datetime | None = None
    succeeded: int = 0
    terminating: int | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None


class CronJob(Resource[CronJobSpec, CronJobStatus], api="batch/v1", short_names=["cj"], categories=["all"]):
    """Starts a Job again and again, at set times."""


class Job(Resource[JobSpec, JobStatus], api="batch/v1", categories=["all"]):
    """Runs Pods until enough of them have succeeded."""
