"""What a node does next for a Pod: a pure function of the Pod, of what is known of its containers, and of the time."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from levelset.kinds.core_v1 import Container, Pod
from levelset_local.node.known import ContainerKnown, Failure, Live, PodKnown
from levelset_local.node.restarting import Restarts, is_sidecar, restarts_again, roles

__all__ = ["Plan", "Remove", "Start", "Step", "Stop", "is_over", "plan"]

DEFAULT_GRACE: Final = 30
DEADLINE: Final = Failure(
    reason="DeadlineExceeded", message="Pod was active on the node longer than the specified deadline"
)
_TERMINAL: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Start:
    """Start a container."""

    container: Container


@dataclass(frozen=True, slots=True)
class Stop:
    """End a container that runs, within so many seconds; it was asked to with `asked` seconds of grace."""

    container: Container
    within: float
    asked: float
    why: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Nothing runs any more: let the Pod go."""


Step = Start | Stop | Remove
"""Something to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do now, when to look again if nothing happens, and why the Pod has failed, if it has."""

    steps: tuple[Step, ...] = ()
    look_at: datetime | None = None
    failure: Failure | None = None


def plan(pod: Pod, known: PodKnown, now: datetime, restarts: Restarts | None = None) -> Plan:
    """What to do next for a Pod of this node."""
    if pod.metadata.deletion_timestamp is not None:
        return _plan_end(pod, known, now)
    failure, deadline = _deadline(pod, known, now)
    if failure is not None or is_over(pod, known):
        return Plan(steps=_stop_all(pod, known, "the Pod is over", _grace(pod)), failure=failure)
    planner = _Planner(pod, known, now, Restarts() if restarts is None else restarts)
    planner.plan()
    times = planner.times if deadline is None else [*planner.times, deadline]
    return Plan(steps=tuple(planner.steps), look_at=min(times, default=None))


def is_over(pod: Pod, known: PodKnown) -> bool:
    """Whether a Pod has come to its end: it has failed, or no container of it is to run again."""
    if known.failure is not None or (pod.status is not None and pod.status.phase in _TERMINAL):
        return True
    for container in pod.spec.init_containers:
        one = known.container(container.name)
        has_failed = one.ended is not None and one.ended.code != 0
        if not is_sidecar(container) and has_failed and not restarts_again(pod, container, one):
            return True
    ends = [(container, known.container(container.name)) for container in pod.spec.containers]
    return all(one.ended is not None and not restarts_again(pod, container, one) for container, one in ends)


def _deadline(pod: Pod, known: PodKnown, now: datetime) -> tuple[Failure | None, datetime | None]:
    seconds = pod.spec.active_deadline_seconds
    if known.failure is not None or seconds is None or known.started_at is None or is_over(pod, known):
        return known.failure, None
    deadline = known.started_at + timedelta(seconds=seconds)
    return (DEADLINE, None) if now >= deadline else (None, deadline)


class _Planner:
    """Plans the containers of a Pod that goes on."""

    def __init__(self, pod: Pod, known: PodKnown, now: datetime, restarts: Restarts) -> None:
        self.pod = pod
        self.known = known
        self.now = now
        self.restarts = restarts
        self.steps: list[Step] = []
        self.times: list[datetime] = []
        """When something has to be started that must not be yet."""

    def plan(self) -> None:
        """Plans the init containers, one after the other, and then all others."""
        spec = self.pod.spec
        # Initialization is done once, also if nobody remembers it.
        has_begun = any(self.known.container(one.name).has_run for one in spec.containers)
        for container in spec.init_containers:
            if has_begun and not is_sidecar(container):
                continue
            if not self._is_through(container) and not has_begun:
                return
        for container in spec.containers:
            self._plan_run(container)

    def _is_through(self, container: Container) -> bool:
        """Plans an init container; whether it is through, or, if it stays, up."""
        one = self.known.container(container.name)
        if not is_sidecar(container) and one.ended is not None and one.ended.code == 0:
            return True
        self._plan_run(container)
        return is_sidecar(container) and one.live is not None and one.live.is_started and one.live.is_posted

    def _plan_run(self, container: Container) -> None:
        """Plans one container that should run: it is started, started again when its time has come, or ended."""
        one = self.known.container(container.name)
        if one.live is not None:
            why = one.live.failing or _changed(container, one.live)
            if why and not one.live.stopping:
                grace = _grace(self.pod) if one.live.failing_grace is None else one.live.failing_grace
                self.steps.append(Stop(container, grace, grace, why))
        elif one.ended is None:
            self.steps.append(Start(container))
        elif restarts_again(self.pod, container, one):
            due = self.restarts.due(one)
            if due is None or due <= self.now:
                self.steps.append(Start(container))
            else:
                self.times.append(due)


def _changed(container: Container, live: Live) -> str:
    """Why a container that runs is not the one that is wanted; empty if it is. Only its image can change."""
    is_same = not live.image or live.image == (container.image or "")
    return "" if is_same else f"Container {container.name} definition changed, will be restarted"


def _plan_end(pod: Pod, known: PodKnown, now: datetime) -> Plan:
    metadata = pod.metadata
    asked = metadata.deletion_grace_period_seconds
    asked = _grace(pod) if asked is None else asked
    if not known.living:
        return Plan(steps=(Remove(),))
    ends = metadata.deletion_timestamp or now
    # Timestamps have whole seconds, so that up to one of them is lost.
    within = max(0.0, min(float(asked), (ends - now).total_seconds() + 1.0))
    return Plan(steps=_stop_all(pod, known, "the Pod is being deleted", within, asked))


def _stop_all(pod: Pod, known: PodKnown, why: str, within: float, asked: float | None = None) -> tuple[Step, ...]:
    """Ends what runs: the containers first, and then the sidecars, the last one first."""
    sidecars, _ = roles(pod)
    names = {one.name for one in sidecars}
    asked = within if asked is None else asked
    living = [one for one in _every(pod) if known.container(one.name).live is not None]
    first = [one for one in living if one.name not in names] or living[-1:]
    return tuple(Stop(one, within, asked, why) for one in first if _is_news(known.container(one.name), asked))


def _is_news(one: ContainerKnown, asked: float) -> bool:
    live = one.live
    if live is None or not live.stopping:
        return True
    return live.stopping_within is not None and asked < live.stopping_within


def _every(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def _grace(pod: Pod) -> int:
    seconds = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE if seconds is None else seconds
