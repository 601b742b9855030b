"""The state of a Pod for workload controllers: active, ready, available or finished, and since when."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from levelset import ObjectMeta
from levelset.kinds.core_v1 import Pod, PodCondition, PodTemplateSpec

__all__ = [
    "available_at",
    "finished_at",
    "has_failed",
    "has_succeeded",
    "int_or_percent",
    "is_active",
    "is_available",
    "is_finished",
    "is_ready",
    "is_terminating",
    "next_available_at",
    "pod_from_template",
    "ready_since",
    "restart_count_of",
]


def has_succeeded(pod: Pod) -> bool:
    """Whether all its containers have terminated successfully."""
    return pod.status is not None and pod.status.phase == "Succeeded"


def has_failed(pod: Pod) -> bool:
    """Whether all its containers have terminated, at least one of them in failure."""
    return pod.status is not None and pod.status.phase == "Failed"


def is_finished(pod: Pod) -> bool:
    """Whether it has succeeded or failed, and will never run again."""
    return has_succeeded(pod) or has_failed(pod)


def is_terminating(pod: Pod) -> bool:
    """Whether it is being deleted and its containers may still run."""
    return pod.metadata.deletion_timestamp is not None and not is_finished(pod)


def is_active(pod: Pod) -> bool:
    """Whether it runs or will run: it has neither finished nor been deleted."""
    return pod.metadata.deletion_timestamp is None and not is_finished(pod)


def is_ready(pod: Pod) -> bool:
    """Whether its Ready condition is True."""
    found = _ready_condition(pod)
    return found is not None and found.status == "True"


def ready_since(pod: Pod) -> datetime | None:
    """When it became ready; None if it is not ready."""
    found = _ready_condition(pod)
    return found.last_transition_time if found is not None and found.status == "True" else None


def available_at(pod: Pod, min_ready_seconds: int) -> datetime | None:
    """When it became or will become available; None if it is not ready, or if the time is unknown."""
    since = ready_since(pod)
    return None if since is None else since + timedelta(seconds=min_ready_seconds)


def is_available(pod: Pod, min_ready_seconds: int, *, now: datetime) -> bool:
    """Whether it has been ready for at least so many seconds."""
    if not min_ready_seconds:
        return is_ready(pod)
    at = available_at(pod, min_ready_seconds)
    return at is not None and at <= now


def next_available_at(pods: Iterable[Pod], min_ready_seconds: int, *, now: datetime) -> datetime | None:
    """When the next of these Pods becomes available if its readiness does not change; None if none does."""
    times = (available_at(pod, min_ready_seconds) for pod in pods)
    return min((at for at in times if at is not None and at > now), default=None)


def restart_count_of(pod: Pod) -> int:
    """The restarts of all its containers."""
    if pod.status is None:
        return 0
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return sum(one.restart_count for one in statuses)


def finished_at(pod: Pod) -> datetime | None:
    """When it finished: the end of its last container, or else its deletion or the last change of a condition."""
    if pod.status is None:
        return pod.metadata.deletion_timestamp or pod.metadata.creation_timestamp
    ended = [
        one.state.terminated.finished_at
        for one in pod.status.container_statuses
        if one.state.terminated is not None and one.state.terminated.finished_at is not None
    ]
    if ended:
        return max(ended)
    changed = [one.last_transition_time for one in pod.status.conditions if one.last_transition_time is not None]
    return pod.metadata.deletion_timestamp or max(changed, default=pod.metadata.creation_timestamp)


def int_or_percent(given: int | str, total: int, *, up: bool) -> int:
    """A number of Pods, given as such or as a percentage of the total, rounded up or down."""
    if isinstance(given, int):
        return max(0, given)
    digits = given.removesuffix("%")
    whole = total * (int(digits) if digits.isascii() and digits.isdigit() else 0)
    return -(-whole // 100) if up else whole // 100


def pod_from_template(template: PodTemplateSpec, *, generate_name: str, namespace: str | None) -> Pod:
    """A new Pod from a template; the server generates its name."""
    given = template.metadata
    metadata = ObjectMeta(
        generate_name=generate_name,
        namespace=namespace,
        labels=dict(given.labels),
        annotations=dict(given.annotations),
        finalizers=given.finalizers,
    )
    return Pod(metadata=metadata, spec=template.spec)


def _ready_condition(pod: Pod) -> PodCondition | None:
    if pod.status is None:
        return None
    return next((one for one in pod.status.conditions if one.type == "Ready"), None)
