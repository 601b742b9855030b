"""The next steps of a node for a Pod: a pure function of the Pod, its record and the time."""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from levelset.kinds.core_v1 import Container, Pod
from levelset_local.node.pod_record import ContainerRecord, Failure, PodRecord, RunningProcess
from levelset_local.node.restart_policy import RestartBackoff, is_sidecar, should_restart

__all__ = ["Plan", "Remove", "Start", "Step", "Stop", "is_over", "plan"]

DEFAULT_GRACE: Final = 30
DEADLINE: Final = Failure(
    reason="DeadlineExceeded", message="Pod was active on the node longer than the specified deadline"
)
_TERMINAL: Final = ("Succeeded", "Failed")


class Start(Struct, frozen=True):
    """Start a container."""

    container: Container


class Stop(Struct, frozen=True):
    """Stop a running container within so many seconds; `grace` is the whole grace period that it was given."""

    container: Container
    within: float
    grace: float
    why: str


class Remove(Struct, frozen=True):
    """Complete the deletion of a Pod of which nothing runs any more."""


Step = Start | Stop | Remove
"""A step of a plan."""


class Plan(Struct, frozen=True, kw_only=True):
    """The steps to take now, when to reconcile again if nothing changes, and why the Pod has failed, if it has."""

    steps: tuple[Step, ...] = ()
    requeue_at: datetime | None = None
    failure: Failure | None = None


def plan(pod: Pod, record: PodRecord, now: datetime, backoff: RestartBackoff | None = None) -> Plan:
    """Plans the next steps for a Pod of this node."""
    if pod.metadata.deletion_timestamp is not None:
        return _plan_deletion(pod, record, now)
    failure, deadline = _deadline(pod, record, now)
    if failure is not None or is_over(pod, record):
        return Plan(steps=_stop_all(pod, record, "the Pod is over", _grace(pod)), failure=failure)
    planner = _Planner(pod, record, now, RestartBackoff() if backoff is None else backoff)
    planner.plan()
    times = planner.times if deadline is None else [*planner.times, deadline]
    return Plan(steps=tuple(planner.steps), requeue_at=min(times, default=None))


def is_over(pod: Pod, record: PodRecord) -> bool:
    """Whether a Pod has finished: it has failed, or none of its containers is to run again."""
    if record.failure is not None or (pod.status is not None and pod.status.phase in _TERMINAL):
        return True
    for container in pod.spec.init_containers:
        one = record.container(container.name)
        has_failed = one.ended is not None and one.ended.code != 0
        if not is_sidecar(container) and has_failed and not should_restart(pod, container, one):
            return True
    ends = [(container, record.container(container.name)) for container in pod.spec.containers]
    return all(one.ended is not None and not should_restart(pod, container, one) for container, one in ends)


def _deadline(pod: Pod, record: PodRecord, now: datetime) -> tuple[Failure | None, datetime | None]:
    seconds = pod.spec.active_deadline_seconds
    if record.failure is not None or seconds is None or record.started_at is None or is_over(pod, record):
        return record.failure, None
    deadline = record.started_at + timedelta(seconds=seconds)
    return (DEADLINE, None) if now >= deadline else (None, deadline)


class _Planner:
    """Plans the containers of a Pod that is neither deleted nor over."""

    def __init__(self, pod: Pod, record: PodRecord, now: datetime, backoff: RestartBackoff) -> None:
        self.pod = pod
        self.record = record
        self.now = now
        self.backoff = backoff
        self.steps: list[Step] = []
        self.times: list[datetime] = []
        """When the back-off of a container ends."""

    def plan(self) -> None:
        """Plans the init containers, one after the other, and then all main containers."""
        spec = self.pod.spec
        # Init containers run once for a Pod, even if a record that was rebuilt from the status lacks their ends.
        has_begun = any(self.record.container(one.name).has_run for one in spec.containers)
        for container in spec.init_containers:
            if has_begun and not is_sidecar(container):
                continue
            if not self._plan_init(container) and not has_begun:
                return
        for container in spec.containers:
            self._plan_run(container)

    def _plan_init(self, container: Container) -> bool:
        """Plans an init container; whether it has completed or, if it is a sidecar, has started."""
        one = self.record.container(container.name)
        if not is_sidecar(container) and one.ended is not None and one.ended.code == 0:
            return True
        self._plan_run(container)
        return is_sidecar(container) and one.live is not None and one.live.is_started and one.live.is_posted

    def _plan_run(self, container: Container) -> None:
        """Plans a container that should run: a start, a restart when the back-off is over, or a stop if it fails."""
        one = self.record.container(container.name)
        if one.live is not None:
            why = one.live.failing or _image_change(container, one.live)
            if why and not one.live.stopping:
                grace = _grace(self.pod) if one.live.failing_grace is None else one.live.failing_grace
                self.steps.append(Stop(container, grace, grace, why))
        elif one.ended is None:
            self.steps.append(Start(container))
        elif should_restart(self.pod, container, one):
            due = self.backoff.due(one)
            if due is None or due <= self.now:
                self.steps.append(Start(container))
            else:
                self.times.append(due)


def _image_change(container: Container, live: RunningProcess) -> str:
    """Why a running container has to be restarted for another image; empty if it has not.

    The image is the only field of a container that the API allows to change.
    """
    is_same = not live.image or live.image == (container.image or "")
    return "" if is_same else f"Container {container.name} definition changed, will be restarted"


def _plan_deletion(pod: Pod, record: PodRecord, now: datetime) -> Plan:
    metadata = pod.metadata
    grace = metadata.deletion_grace_period_seconds
    grace = _grace(pod) if grace is None else grace
    if not record.running_containers:
        return Plan(steps=(Remove(),))
    ends = metadata.deletion_timestamp or now
    # Timestamps have a precision of a second: without the extra one, up to a second of the grace would be lost.
    within = max(0.0, min(float(grace), (ends - now).total_seconds() + 1.0))
    return Plan(steps=_stop_all(pod, record, "the Pod is being deleted", within, grace))


def _stop_all(pod: Pod, record: PodRecord, why: str, within: float, grace: float | None = None) -> tuple[Step, ...]:
    """Stops what runs: the main containers first, and then the sidecars, one at a time in reverse order."""
    sidecars = {one.name for one in pod.spec.init_containers if is_sidecar(one)}
    grace = within if grace is None else grace
    every = (*pod.spec.init_containers, *pod.spec.containers)
    running = [one for one in every if record.container(one.name).live is not None]
    first = [one for one in running if one.name not in sidecars] or running[-1:]
    return tuple(Stop(one, within, grace, why) for one in first if _needs_stop(record.container(one.name), grace))


def _needs_stop(one: ContainerRecord, grace: float) -> bool:
    """Whether a container is not being stopped yet, or is with a longer grace period."""
    live = one.live
    if live is None or not live.stopping:
        return True
    return live.stopping_within is not None and grace < live.stopping_within


def _grace(pod: Pod) -> int:
    seconds = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE if seconds is None else seconds
