"""The policies of a Job: what a failed Pod means, which indexes have failed, and when it has succeeded early; pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from levelset.kinds.batch_v1 import Job, PodFailurePolicyRule
from levelset.kinds.core_v1 import ContainerStatus, Pod
from levelset_local import pod_state
from levelset_local.jobs.completion_indexes import index_of, parse_indexes

__all__ = [
    "FAILURE_COUNT",
    "MatchedRule",
    "failures_of_index",
    "has_index_limit",
    "index_fails",
    "is_ignored",
    "matched_rule",
    "success_rule",
]

FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
"""The annotation of a Pod with how often its index has failed before."""


class MatchedRule(Struct, frozen=True):
    """The rule of a pod failure policy that a failed Pod matches."""

    action: str
    message: str


def matched_rule(owner: Job, pod: Pod) -> MatchedRule | None:
    """The first rule of the pod failure policy that a failed Pod matches; None if it counts as any other."""
    policy = owner.spec.pod_failure_policy
    if policy is None or not pod_state.has_failed(pod):
        return None
    for number, rule in enumerate(policy.rules):
        message = _match(rule, pod)
        if message:
            return MatchedRule(rule.action, f"{message} matching {rule.action} rule at index {number}")
    return None


def is_ignored(owner: Job, pod: Pod) -> bool:
    """Whether the policy says that the failure of a Pod does not count."""
    found = matched_rule(owner, pod)
    return found is not None and found.action == "Ignore"


def has_index_limit(owner: Job) -> bool:
    """Whether each index of a Job has a back-off limit of its own."""
    return owner.spec.backoff_limit_per_index is not None


def failures_of_index(owner: Job, pods: Iterable[Pod], index: int) -> int:
    """How often the Pods of an index have failed; what was deleted is in the annotations of their successors."""
    counts = [0]
    for pod in pods:
        if index_of(pod) == index:
            is_counted = pod_state.has_failed(pod) and not is_ignored(owner, pod)
            text = pod.metadata.annotations.get(FAILURE_COUNT, "0")
            counts.append((int(text) if text.isdecimal() else 0) + is_counted)
    return max(counts)


def index_fails(owner: Job, pods: Sequence[Pod], pod: Pod) -> bool:
    """Whether the failure of this Pod is one too many for its index, or its policy says so."""
    index, limit = index_of(pod), owner.spec.backoff_limit_per_index
    if index is None or limit is None:
        return False
    found = matched_rule(owner, pod)
    if found is not None and found.action == "FailIndex":
        return True
    return failures_of_index(owner, pods, index) > limit


def success_rule(owner: Job, succeeded: frozenset[int]) -> int | None:
    """The number of the first rule of the success policy that these indexes fulfil; None if none does."""
    policy = owner.spec.success_policy
    for number, rule in enumerate(() if policy is None else policy.rules):
        wanted = None if rule.succeeded_indexes is None else parse_indexes(rule.succeeded_indexes)
        found = succeeded if wanted is None else succeeded & wanted
        if len(found) >= (rule.succeeded_count if rule.succeeded_count is not None else len(wanted or ())):
            return number
    return None


def _match(rule: PodFailurePolicyRule, pod: Pod) -> str:
    """How a Pod matches a rule, as the beginning of a message; empty if it does not."""
    place = f"{pod.namespace}/{pod.name}"
    if rule.on_exit_codes is not None:
        wanted = rule.on_exit_codes
        for container in _terminated(pod):
            code = _exit_code(container)
            is_named = wanted.container_name in (None, container.name)
            if is_named and code and (code in wanted.values) == (wanted.operator == "In"):
                return f"Container {container.name} for pod {place} failed with exit code {code}"
    conditions = () if pod.status is None else pod.status.conditions
    for pattern in rule.on_pod_conditions:
        if any(one.type == pattern.type and one.status == (pattern.status or "True") for one in conditions):
            return f"Pod {place} has condition {pattern.type}"
    return ""


def _terminated(pod: Pod) -> list[ContainerStatus]:
    if pod.status is None:
        return []
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return [one for one in statuses if one.state.terminated is not None]


def _exit_code(container: ContainerStatus) -> int:
    ended = container.state.terminated
    return 0 if ended is None else ended.exit_code
