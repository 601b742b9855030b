"""The status of a Pod from its record: phase, container statuses and conditions, by the rules of a kubelet; pure."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from levelset.kinds.core_v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    HostIP,
    Pod,
    PodCondition,
    PodIP,
    PodStatus,
)
from levelset.kinds.enums import PodPhase, QOSClass
from levelset.objects import replace
from levelset_local.node.pod_record import ContainerRecord, Failure, PodRecord, Termination
from levelset_local.node.restart_policy import RestartBackoff, is_sidecar, should_restart

__all__ = [
    "container_status",
    "phase_of",
    "pod_conditions",
    "pod_status",
    "qos_class",
    "rejected_status",
    "unschedulable_status",
]

_IMAGE: Final = "local://"
_OWN: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def pod_status(
    pod: Pod, record: PodRecord, now: datetime, *, host: str = "127.0.0.1", backoff: RestartBackoff | None = None
) -> PodStatus:
    """The status of a Pod; conditions of other writers stay, and so do transition times of what has not changed."""
    backoff = RestartBackoff() if backoff is None else backoff
    init = tuple(container_status(pod, one, record, backoff) for one in pod.spec.init_containers)
    main = tuple(container_status(pod, one, record, backoff) for one in pod.spec.containers)
    before = pod.status or PodStatus()
    phase = phase_of(pod, record, init, main)
    made = replace(
        before,
        phase=phase,
        reason=None if record.failure is None else record.failure.reason,
        message=None if record.failure is None else record.failure.message,
        host_ip=host,
        host_ips=(HostIP(ip=host),),
        pod_ip=record.address or None,
        pod_ips=(PodIP(ip=record.address),) if record.address else (),
        start_time=_whole(record.started_at),
        qos_class=before.qos_class or qos_class(pod),
        init_container_statuses=init,
        container_statuses=main,
        observed_generation=pod.metadata.generation or None,
    )
    return replace(made, conditions=pod_conditions(pod, made, now, is_mounted=record.is_mounted))


def container_status(pod: Pod, container: Container, record: PodRecord, backoff: RestartBackoff) -> ContainerStatus:
    """The status of one container."""
    one = record.container(container.name)
    state, last = _states(pod, container, one, record, backoff)
    live = one.live
    return ContainerStatus(
        name=container.name,
        image=container.image or "",
        image_id=_IMAGE + (container.image or "") if one.has_run else "",
        container_id=_container_id(one),
        ready=_is_ready(pod, container, one),
        started=live is not None and live.is_started and live.is_posted,
        restart_count=one.restarts,
        state=state,
        last_state=last,
    )


def _container_id(one: ContainerRecord) -> str | None:
    if one.live is not None:
        return one.live.container_id
    end = one.ended or one.before
    return None if end is None else end.container_id or None


def _is_ready(pod: Pod, container: Container, one: ContainerRecord) -> bool:
    """Whether a container is ready; an init container that is no sidecar is ready when it has completed."""
    is_init = any(each.name == container.name for each in pod.spec.init_containers)
    if is_init and not is_sidecar(container):
        return one.ended is not None and one.ended.code == 0
    return one.live is not None and one.live.is_ready and one.live.is_started and one.live.is_posted


def _states(
    pod: Pod, container: Container, one: ContainerRecord, record: PodRecord, backoff: RestartBackoff
) -> tuple[ContainerState, ContainerState]:
    """The current and the last state of a container."""
    if one.live is not None:
        running = ContainerStateRunning(started_at=_whole(one.live.started_at))
        return ContainerState(running=running), _terminated(one.before)
    goes_on = record.failure is None and pod.metadata.deletion_timestamp is None
    if one.ended is not None and not (goes_on and should_restart(pod, container, one)):
        return _terminated(one.ended), _terminated(one.before)
    if one.wait is not None:
        return _waiting(one.wait.reason, one.wait.message), _terminated(one.ended)
    if one.ended is not None:
        return _waiting("CrashLoopBackOff", _backing_off(pod, container, backoff.delay(one))), _terminated(one.ended)
    return _not_yet(pod, container, record), _terminated(one.before)


def _not_yet(pod: Pod, container: Container, record: PodRecord) -> ContainerState:
    is_first = not pod.spec.init_containers or container.name == pod.spec.init_containers[0].name
    if is_first or record.unmounted:
        return _waiting("ContainerCreating" if is_first else "PodInitializing", "")
    return _waiting("PodInitializing", "")


def _backing_off(pod: Pod, container: Container, delay: float) -> str:
    shown = _duration(delay)
    place = f"{pod.name}_{pod.namespace}({pod.metadata.uid})"
    return f"back-off {shown} restarting failed container={container.name} pod={place}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"


def _waiting(reason: str, message: str) -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message or None))


def _terminated(end: Termination | None) -> ContainerState:
    if end is None:
        return ContainerState()
    return ContainerState(
        terminated=ContainerStateTerminated(
            exit_code=end.code,
            reason=end.reason,
            message=end.message or None,
            container_id=end.container_id or None,
            started_at=_whole(end.started_at),
            finished_at=_whole(end.finished_at),
        )
    )


def phase_of(
    pod: Pod, record: PodRecord, init: tuple[ContainerStatus, ...], main: tuple[ContainerStatus, ...]
) -> PodPhase:
    """The phase of a Pod; a terminal phase never changes."""
    if pod.status is not None and pod.status.phase in ("Succeeded", "Failed"):
        return pod.status.phase
    if record.failure is not None:
        return "Failed"
    if pod.metadata.deletion_timestamp is not None and not record.running_containers:
        return _last_phase(main)
    is_begun = any(record.container(one.name).has_run for one in pod.spec.containers)
    if not is_begun and not _is_initialized(pod, init):
        has_failed = any(_code(one.state) not in (0, None) for one in init)
        return "Failed" if has_failed else "Pending"
    return _phase_of_main(main)


def _last_phase(main: tuple[ContainerStatus, ...]) -> PodPhase:
    """The phase of a Pod that is deleted before its containers have completed."""
    return "Succeeded" if all(_code(one.state) == 0 for one in main) else "Failed"


def _is_initialized(pod: Pod, init: tuple[ContainerStatus, ...]) -> bool:
    return all(
        (one.started or False) if is_sidecar(container) else _code(one.state) == 0
        for container, one in zip(pod.spec.init_containers, init, strict=True)
    )


def _phase_of_main(main: tuple[ContainerStatus, ...]) -> PodPhase:
    waiting = [one for one in main if one.state.waiting is not None and one.last_state.terminated is None]
    running = [one for one in main if one.state.running is not None]
    again = [one for one in main if one.state.waiting is not None and one.last_state.terminated is not None]
    if waiting:
        return "Pending"
    if running or again:
        return "Running"
    codes = [_code(one.state) for one in main]
    return "Succeeded" if all(code == 0 for code in codes) else "Failed"


def _code(state: ContainerState) -> int | None:
    return None if state.terminated is None else state.terminated.exit_code


def qos_class(pod: Pod) -> QOSClass:
    """The quality of service class of a Pod."""
    every = (*pod.spec.init_containers, *pod.spec.containers)
    if not any(one.resources.limits or one.resources.requests for one in every):
        return "BestEffort"
    for one in every:
        for name in ("cpu", "memory"):
            limit = one.resources.limits.get(name)
            if limit is None or one.resources.requests.get(name, limit) != limit:
                return "Burstable"
    return "Guaranteed"


def _whole(time: datetime | None) -> datetime | None:
    return None if time is None else time.replace(microsecond=0)


def pod_conditions(pod: Pod, status: PodStatus, now: datetime, *, is_mounted: bool) -> tuple[PodCondition, ...]:
    """The conditions for this status; those of other writers stay, and times change only with their conditions."""
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


def unschedulable_status(pod: Pod, message: str, now: datetime) -> PodStatus:
    """The status of a Pod that no node can run."""
    status = pod.status or PodStatus()
    condition = _condition("PodScheduled", is_true=False, reason="Unschedulable", message=message)
    before = next((one for one in status.conditions if one.type == condition.type), None)
    others = tuple(one for one in status.conditions if one.type != condition.type)
    timed = _timed(condition, before, now, pod.metadata.generation)
    return replace(status, phase=status.phase or "Pending", conditions=(*others, timed))


def rejected_status(pod: Pod, failure: Failure, now: datetime) -> PodStatus:
    """The status of a Pod that its node does not accept, with none of the fields of a Pod that was started."""
    before = pod.status or PodStatus()
    return PodStatus(
        phase="Failed",
        reason=failure.reason,
        message=f"Pod was rejected: {failure.message}",
        qos_class=before.qos_class or qos_class(pod),
        start_time=before.start_time or _whole(now),
        conditions=tuple(one for one in before.conditions if one.type not in _OWN),
        resource_claim_statuses=before.resource_claim_statuses,
        observed_generation=pod.metadata.generation or None,
    )


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
    """The Ready condition: all containers are ready, and so are the Pod's readiness gates."""
    if containers.status != "True":
        return replace(containers, type="Ready")
    present = {one.type: one.status for one in status.conditions}
    missing = [gate.condition_type for gate in pod.spec.readiness_gates if present.get(gate.condition_type) != "True"]
    if not missing:
        return _condition("Ready", is_true=True)
    named = ", ".join(f'corresponding condition of pod readiness gate "{one}" does not exist.' for one in missing)
    return _condition("Ready", is_true=False, reason="ReadinessGatesNotReady", message=named)


def _listed(names: list[str]) -> str:
    return f"[{' '.join(names)}]"
