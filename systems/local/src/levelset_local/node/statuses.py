"""The status of a Pod, from what is known of its containers: what `kubectl get pods` and everybody else reads."""

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
    PodIP,
    PodStatus,
)
from levelset.kinds.enums import PodPhase, QOSClass
from levelset.objects import replace
from levelset_local.node.known import ContainerKnown, End, PodKnown
from levelset_local.node.pod_conditions import pod_conditions
from levelset_local.node.restarting import Restarts, is_sidecar, restarts_again

__all__ = ["container_status", "phase_of", "pod_status", "qos_class"]

_IMAGE: Final = "local://"


def pod_status(
    pod: Pod, known: PodKnown, now: datetime, *, host: str = "127.0.0.1", restarts: Restarts | None = None
) -> PodStatus:
    """The whole status; of what is there, only what others say is kept, and times of what has not changed."""
    restarts = Restarts() if restarts is None else restarts
    init = tuple(container_status(pod, one, known, restarts) for one in pod.spec.init_containers)
    main = tuple(container_status(pod, one, known, restarts) for one in pod.spec.containers)
    before = pod.status or PodStatus()
    phase = phase_of(pod, known, init, main)
    made = replace(
        before,
        phase=phase,
        reason=None if known.failure is None else known.failure.reason,
        message=None if known.failure is None else known.failure.message,
        host_ip=host,
        host_ips=(HostIP(ip=host),),
        pod_ip=known.address or None,
        pod_ips=(PodIP(ip=known.address),) if known.address else (),
        start_time=_whole(known.started_at),
        qos_class=before.qos_class or qos_class(pod),
        init_container_statuses=init,
        container_statuses=main,
        observed_generation=pod.metadata.generation or None,
    )
    return replace(made, conditions=pod_conditions(pod, made, now, is_mounted=known.is_mounted))


def container_status(pod: Pod, container: Container, known: PodKnown, restarts: Restarts) -> ContainerStatus:
    """The status of one container."""
    one = known.container(container.name)
    state, last = _states(pod, container, one, known, restarts)
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


def _container_id(one: ContainerKnown) -> str | None:
    if one.live is not None:
        return one.live.container_id
    end = one.ended or one.before
    return None if end is None else end.container_id or None


def _is_ready(pod: Pod, container: Container, one: ContainerKnown) -> bool:
    """Whether a container is ready; one that only prepares the Pod is when it is through."""
    is_init = any(each.name == container.name for each in pod.spec.init_containers)
    if is_init and not is_sidecar(container):
        return one.ended is not None and one.ended.code == 0
    return one.live is not None and one.live.is_ready and one.live.is_started and one.live.is_posted


def _states(
    pod: Pod, container: Container, one: ContainerKnown, known: PodKnown, restarts: Restarts
) -> tuple[ContainerState, ContainerState]:
    """The state of a container, and the last one before it."""
    if one.live is not None:
        running = ContainerStateRunning(started_at=_whole(one.live.started_at))
        return ContainerState(running=running), _terminated(one.before)
    goes_on = known.failure is None and pod.metadata.deletion_timestamp is None
    if one.ended is not None and not (goes_on and restarts_again(pod, container, one)):
        return _terminated(one.ended), _terminated(one.before)
    if one.wait is not None:
        return _waiting(one.wait.reason, one.wait.message), _terminated(one.ended)
    if one.ended is not None:
        return _waiting("CrashLoopBackOff", _backing_off(pod, container, restarts.delay(one))), _terminated(one.ended)
    return _not_yet(pod, container, known), _terminated(one.before)


def _not_yet(pod: Pod, container: Container, known: PodKnown) -> ContainerState:
    is_first = not pod.spec.init_containers or container.name == pod.spec.init_containers[0].name
    if is_first or known.unmounted:
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


def _terminated(end: End | None) -> ContainerState:
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
    pod: Pod, known: PodKnown, init: tuple[ContainerStatus, ...], main: tuple[ContainerStatus, ...]
) -> PodPhase:
    """The phase, by the rules of a kubelet; one that is over stays so."""
    if pod.status is not None and pod.status.phase in ("Succeeded", "Failed"):
        return pod.status.phase
    if known.failure is not None:
        return "Failed"
    if pod.metadata.deletion_timestamp is not None and not known.living:
        return _last_phase(main)
    is_begun = any(known.container(one.name).has_run for one in pod.spec.containers)
    if not is_begun and not _is_initialized(pod, init):
        has_failed = any(_code(one.state) not in (0, None) for one in init)
        return "Failed" if has_failed else "Pending"
    return _phase_of_main(main)


def _last_phase(main: tuple[ContainerStatus, ...]) -> PodPhase:
    """How a Pod ends that is deleted before it is through."""
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
    """How much of the machine a Pod is promised, in a word."""
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
