"""The node's record of a Pod: its address, and for each container the running process and how earlier runs ended.

Records are frozen values that only the Pod reconciler replaces. They are also stored on disk (`record_store`), so that
the next manager finds the processes that this one has started.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from msgspec import Struct

from levelset import replace
from levelset.kinds.core_v1 import ContainerState, ContainerStateTerminated, ContainerStatus, Pod
from levelset_machine import Identity

__all__ = [
    "ContainerRecord",
    "Failure",
    "PendingEvent",
    "PodRecord",
    "RecordUpdate",
    "RunningProcess",
    "Termination",
    "WaitingReason",
    "container_failing",
    "event_pending",
    "mark_lost",
    "post_start_done",
    "process_ended",
    "readiness_changed",
    "recover_record",
    "startup_succeeded",
]

KILLED: Final = 137
_LOST: Final = "The process ended while its manager was not running, so that its exit code is not known"
_MOST_EVENTS: Final = 20


class WaitingReason(Struct, frozen=True, kw_only=True):
    """Why a container does not run."""

    reason: str
    message: str = ""


class Termination(Struct, frozen=True, kw_only=True):
    """How a run of a container ended."""

    code: int
    reason: str
    message: str = ""
    container_id: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class RunningProcess(Struct, frozen=True, kw_only=True):
    """The running process of a container, with the results of its hooks and probes."""

    identity: Identity
    started_at: datetime
    image: str = ""
    """The image of the container when it was started; empty if unknown."""
    is_posted: bool = True
    """Whether the postStart hook has finished."""
    is_started: bool = True
    """Whether the startup probe has succeeded."""
    is_ready: bool = False
    failing: str = ""
    """Why the process has to be stopped, for example a failed liveness probe."""
    failing_grace: int | None = None
    """The grace period of that stop in seconds; None for the Pod's own."""
    stopping: bool = False
    stopping_within: float | None = None
    """The grace period in seconds that the stop was started with."""

    @property
    def container_id(self) -> str:
        """The container ID in the status: it identifies the process."""
        return f"levelset://{self.identity.pid}-{self.identity.started}"


class ContainerRecord(Struct, frozen=True, kw_only=True):
    """The state of a container: its current run and the end of the previous one."""

    name: str
    live: RunningProcess | None = None
    ended: Termination | None = None
    """How the current run ended."""
    before: Termination | None = None
    """How the previous run ended."""
    wait: WaitingReason | None = None
    """Why the next run cannot start, other than the restart back-off."""
    restarts: int = 0
    streak: int = 0
    """Consecutive restarts, none of them after a run that was long enough to reset the back-off."""

    @property
    def has_run(self) -> bool:
        """Whether the container runs or has ever run."""
        return self.live is not None or self.ended is not None or self.before is not None


class PendingEvent(Struct, frozen=True, kw_only=True):
    """A warning Event that the next reconcile records."""

    reason: str
    message: str


class Failure(Struct, frozen=True, kw_only=True):
    """Why a Pod as a whole has failed."""

    reason: str
    message: str


class PodRecord(Struct, frozen=True, kw_only=True):
    """The state of a Pod that this node runs."""

    uid: str
    name: str = ""
    namespace: str | None = None
    address: str = ""
    started_at: datetime | None = None
    containers: tuple[ContainerRecord, ...] = ()
    failure: Failure | None = None
    unmounted: str = ""
    """Why the volumes could not be set up; empty if they are, or were not tried yet."""
    is_mounted: bool = False
    pending_events: tuple[PendingEvent, ...] = ()

    def container(self, name: str) -> ContainerRecord:
        """The record of a container; an empty one if it has never run."""
        return next((one for one in self.containers if one.name == name), ContainerRecord(name=name))

    def with_container(self, changed: ContainerRecord) -> "PodRecord":
        """The record with that of one container replaced or added."""
        if any(one.name == changed.name for one in self.containers):
            containers = tuple(changed if one.name == changed.name else one for one in self.containers)
        else:
            containers = (*self.containers, changed)
        return replace(self, containers=containers)

    @property
    def running_containers(self) -> tuple[ContainerRecord, ...]:
        """The containers with a running process."""
        return tuple(one for one in self.containers if one.live is not None)


RecordUpdate = Callable[[PodRecord], PodRecord | None]
"""An update of a record that is deferred to the next reconcile of the Pod; it returns None if nothing changes.

Updates are made where a process ends or a probe result changes. They name the process that they are about, and change
nothing if another run of the container has begun before they are applied.
"""


def process_ended(name: str, identity: Identity, end: Termination) -> RecordUpdate:
    """The process of the container has ended."""

    def update(record: PodRecord) -> PodRecord | None:
        one = record.container(name)
        if one.live is None or one.live.identity != identity:
            return None
        return record.with_container(replace(one, live=None, ended=end))

    return update


def post_start_done(name: str, identity: Identity) -> RecordUpdate:
    """The postStart hook has finished."""
    return _update_process(name, identity, lambda live: replace(live, is_posted=True))


def startup_succeeded(name: str, identity: Identity) -> RecordUpdate:
    """The startup probe has succeeded."""
    return _update_process(name, identity, lambda live: replace(live, is_started=True))


def readiness_changed(name: str, identity: Identity, *, is_ready: bool) -> RecordUpdate:
    """The readiness of the container has changed; a container that is being stopped never becomes ready."""
    return _update_process(name, identity, lambda live: replace(live, is_ready=is_ready and not live.stopping))


def container_failing(name: str, identity: Identity, why: str, grace: int | None = None) -> RecordUpdate:
    """The container has to be stopped, with `grace` seconds if given, else with the Pod's grace period."""
    return _update_process(name, identity, lambda live: replace(live, failing=why, failing_grace=grace))


def event_pending(reason: str, message: str) -> RecordUpdate:
    """A warning Event is to be recorded; of many between two reconciles only the latest 20 are retained."""
    event = PendingEvent(reason=reason, message=message)
    return lambda record: replace(record, pending_events=(*record.pending_events, event)[-_MOST_EVENTS:])


def _update_process(name: str, identity: Identity, change: Callable[[RunningProcess], RunningProcess]) -> RecordUpdate:
    def update(record: PodRecord) -> PodRecord | None:
        one: ContainerRecord = record.container(name)
        if one.live is None or one.live.identity != identity:
            return None
        return record.with_container(replace(one, live=change(one.live)))

    return update


def recover_record(pod: Pod, stored: PodRecord | None) -> PodRecord:
    """The record of a Pod that this process has not reconciled yet: the stored one, or one rebuilt from the status."""
    if stored is not None:
        return stored
    status = pod.status
    blank = PodRecord(uid=pod.metadata.uid, name=pod.name, namespace=pod.namespace)
    if status is None:
        return blank
    statuses = (*status.init_container_statuses, *status.container_statuses)
    failure = None
    if status.phase == "Failed" and status.reason:
        failure = Failure(reason=status.reason, message=status.message or "")
    return replace(
        blank,
        address=status.pod_ip or "",
        started_at=status.start_time,
        containers=tuple(_container_record(one) for one in statuses),
        failure=failure,
    )


def _container_record(status: ContainerStatus) -> ContainerRecord:
    record = ContainerRecord(
        name=status.name,
        restarts=status.restart_count,
        streak=status.restart_count,
        before=_termination(status.last_state),
    )
    state = status.state
    if state.terminated is not None:
        return replace(record, ended=_termination(state))
    if state.running is not None:
        return replace(record, live=_running_process(status))
    return replace(record, ended=record.before, before=None)


def _running_process(status: ContainerStatus) -> RunningProcess | None:
    running = status.state.running
    identity = _identity(status.container_id or "")
    if running is None or running.started_at is None or identity is None:
        return None
    return RunningProcess(
        identity=identity, started_at=running.started_at, is_started=bool(status.started), is_ready=status.ready
    )


def _identity(container_id: str) -> Identity | None:
    pid, dash, started = container_id.removeprefix("levelset://").partition("-")
    return Identity(int(pid), int(started)) if dash and pid.isdecimal() and started.isdecimal() else None


def _termination(state: ContainerState) -> Termination | None:
    found: ContainerStateTerminated | None = state.terminated
    if found is None:
        return None
    return Termination(
        code=found.exit_code,
        reason=found.reason or "",
        message=found.message or "",
        container_id=found.container_id or "",
        started_at=found.started_at,
        finished_at=found.finished_at,
    )


def mark_lost(one: ContainerRecord, now: datetime) -> ContainerRecord:
    """The record of a container whose process no longer exists: it ended with an unknown exit code.

    The process most likely ended together with its manager and not through a fault of its own, so the restart back-off
    is reset.
    """
    if one.live is None:
        return one
    end = Termination(
        code=KILLED,
        reason="ContainerStatusUnknown",
        message=_LOST,
        container_id=one.live.container_id,
        started_at=one.live.started_at,
        finished_at=now,
    )
    return replace(one, live=None, ended=end, streak=0)
