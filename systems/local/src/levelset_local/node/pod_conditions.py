"""The conditions of a Pod: scheduled, initialized, its containers ready, and ready as a whole."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from levelset.kinds.core_v1 import ContainerStatus, Pod, PodCondition, PodStatus
from levelset.objects import replace
from levelset_local.node.restarting import is_sidecar

__all__ = ["pod_conditions", "unscheduled"]

_OWN: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def pod_conditions(pod: Pod, status: PodStatus, now: datetime, *, is_mounted: bool) -> tuple[PodCondition, ...]:
    """The conditions for this status; those of others stay, and a time moves only when its condition turns."""
    before = {one.type: one for one in status.conditions}
    containers = _containers_ready(pod, status)
    wanted = (
        _condition("PodReadyToStartContainers", is_true=is_mounted and bool(status.pod_ip) and not _is_over(status)),
        _initialized(pod, status),
        _ready(pod, status, containers),
        containers,
        _condition("PodScheduled", is_true=True),
    )
    generation = status.observed_generation
    own = tuple(_timed(one, before.get(one.type), now, generation) for one in wanted)
    return own + tuple(one for one in status.conditions if one.type not in _OWN)


def unscheduled(pod: Pod, message: str, now: datetime) -> PodStatus:
    """The status of a Pod that waits for a place."""
    status = pod.status or PodStatus()
    condition = _condition("PodScheduled", is_true=False, reason="Unschedulable", message=message)
    before = next((one for one in status.conditions if one.type == condition.type), None)
    others = tuple(one for one in status.conditions if one.type != condition.type)
    timed = _timed(condition, before, now, pod.metadata.generation)
    return replace(status, phase=status.phase or "Pending", conditions=(*others, timed))


def _timed(one: PodCondition, before: PodCondition | None, now: datetime, generation: int | None) -> PodCondition:
    since = now.replace(microsecond=0)
    if before is not None and before.status == one.status and before.last_transition_time is not None:
        since = before.last_transition_time
    return replace(one, last_transition_time=since, observed_generation=generation)


def _condition(type_: str, *, is_true: bool, reason: str = "", message: str = "") -> PodCondition:
    return PodCondition(
        type=type_, status="True" if is_true else "False", reason=reason or None, message=message or None
    )


def _is_over(status: PodStatus) -> bool:
    return status.phase in ("Succeeded", "Failed")


def _initialized(pod: Pod, status: PodStatus) -> PodCondition:
    if status.phase == "Succeeded":
        return _condition("Initialized", is_true=True, reason="PodCompleted")
    begun = any(one.state.waiting is None or one.restart_count for one in status.container_statuses)
    specs = {one.name: one for one in pod.spec.init_containers}
    late = [
        one.name
        for one in status.init_container_statuses
        if not ((one.started or False) if is_sidecar(specs[one.name]) else one.ready)
    ]
    if not late or begun:
        return _condition("Initialized", is_true=True)
    message = f"containers with incomplete status: {_listed(late)}"
    return _condition("Initialized", is_true=False, reason="ContainersNotInitialized", message=message)


def _containers_ready(pod: Pod, status: PodStatus) -> PodCondition:
    if status.phase == "Succeeded":
        return _condition("ContainersReady", is_true=False, reason="PodCompleted")
    if status.phase == "Failed":
        return _condition("ContainersReady", is_true=False, reason="PodFailed")
    sidecars = {one.name for one in pod.spec.init_containers if is_sidecar(one)}
    counted: Iterable[ContainerStatus] = (
        *(one for one in status.init_container_statuses if one.name in sidecars),
        *status.container_statuses,
    )
    unready = [one.name for one in counted if not one.ready]
    if not unready:
        return _condition("ContainersReady", is_true=True)
    message = f"containers with unready status: {_listed(unready)}"
    return _condition("ContainersReady", is_true=False, reason="ContainersNotReady", message=message)


def _ready(pod: Pod, status: PodStatus, containers: PodCondition) -> PodCondition:
    """Whether the Pod may be sent requests: its containers are ready, and what others ask of it holds."""
    if containers.status != "True":
        return replace(containers, type="Ready")
    said = {one.type: one.status for one in status.conditions}
    missing = [gate.condition_type for gate in pod.spec.readiness_gates if said.get(gate.condition_type) != "True"]
    if not missing:
        return _condition("Ready", is_true=True)
    named = ", ".join(f'corresponding condition of pod readiness gate "{one}" does not exist.' for one in missing)
    return _condition("Ready", is_true=False, reason="ReadinessGatesNotReady", message=named)


def _listed(names: list[str]) -> str:
    return f"[{' '.join(names)}]"
