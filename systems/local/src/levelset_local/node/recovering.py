"""What a manager knows of the Pods of the one before it: from the records, or else from their status."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from levelset.kinds.core_v1 import ContainerState, ContainerStateTerminated, ContainerStatus, Pod
from levelset_local.node.known import ContainerKnown, End, Failure, Live, PodKnown
from levelset_machine import Identity

__all__ = ["lost", "recovered"]

KILLED: Final = 137
_LOST: Final = "The process ended while its manager was not running, so that its exit code is not known"


def recovered(pod: Pod, record: PodKnown | None) -> PodKnown:
    """What is known of a Pod at first sight."""
    if record is not None:
        return record
    status = pod.status
    blank = PodKnown(uid=pod.metadata.uid, name=pod.name, namespace=pod.namespace)
    if status is None:
        return blank
    found = (*status.init_container_statuses, *status.container_statuses)
    failure = None
    if status.phase == "Failed" and status.reason:
        failure = Failure(reason=status.reason, message=status.message or "")
    return replace(
        blank,
        address=status.pod_ip or "",
        started_at=status.start_time,
        containers=tuple(_container(one) for one in found),
        failure=failure,
    )


def _container(status: ContainerStatus) -> ContainerKnown:
    known = ContainerKnown(
        name=status.name, restarts=status.restart_count, streak=status.restart_count, before=_end(status.last_state)
    )
    state = status.state
    if state.terminated is not None:
        return replace(known, ended=_end(state))
    if state.running is not None:
        return replace(known, live=_live(status))
    return replace(known, ended=known.before, before=None)


def _live(status: ContainerStatus) -> Live | None:
    running = status.state.running
    identity = _identity(status.container_id or "")
    if running is None or running.started_at is None or identity is None:
        return None
    return Live(
        identity=identity, started_at=running.started_at, is_started=bool(status.started), is_ready=status.ready
    )


def _identity(container_id: str) -> Identity | None:
    pid, dash, started = container_id.removeprefix("levelset://").partition("-")
    return Identity(int(pid), int(started)) if dash and pid.isdecimal() and started.isdecimal() else None


def _end(state: ContainerState) -> End | None:
    found: ContainerStateTerminated | None = state.terminated
    if found is None:
        return None
    return End(
        code=found.exit_code,
        reason=found.reason or "",
        message=found.message or "",
        container_id=found.container_id or "",
        started_at=found.started_at,
        finished_at=found.finished_at,
    )


def lost(one: ContainerKnown, now: datetime) -> ContainerKnown:
    """What is known of a container whose process is not there any more: it has ended, nobody knows how.

    It went with its manager, most likely, and not by a fault of its own: it waits for nothing when it runs again.
    """
    if one.live is None:
        return one
    end = End(
        code=KILLED,
        reason="ContainerStatusUnknown",
        message=_LOST,
        container_id=one.live.container_id,
        started_at=one.live.started_at,
        finished_at=now,
    )
    return replace(one, live=None, ended=end, streak=0)
