"""What a set does next, from its spec, its replicas and the time; all pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Final

from levelset import ObjectMeta, replace, set_condition
from levelset.objects import MicroTime
from levelset_dcp.kinds import Executable, ExecutableReplicaSet, ExecutableReplicaSetStatus, HealthStatus
from levelset_dcp.naming import DISPLAY_NAME, REPLICA_ID, REPLICA_SET_NAME, REPLICA_STATE

__all__ = ["PAUSE", "Scaling", "active_of", "replica_of", "scale", "status_of"]

PAUSE: Final = 2.0
"""Seconds between two changes of the number of replicas."""

_LETTERS: Final = "0123456789abcdefghijklmnopqrstuv"
_FINAL: Final = ("Finished", "Terminated", "FailedToStart", "Unknown")


@dataclass(frozen=True, slots=True)
class Scaling:
    """What is to be done: replicas to make, or replicas that are too many; or to wait for so many seconds."""

    make: int = 0
    surplus: tuple[Executable, ...] = ()
    wait: float | None = None


def active_of(replicas: Sequence[Executable]) -> Sequence[Executable]:
    """The replicas that count: not those that were put aside, nor those that are about to go."""
    return [
        one
        for one in replicas
        if one.metadata.annotations.get(REPLICA_STATE) != "inactive" and one.metadata.deletion_timestamp is None
    ]


def scale(owner: ExecutableReplicaSet, active: Sequence[Executable], last: datetime | None, now: datetime) -> Scaling:
    """What brings the number of replicas to the one that is wanted, not too often."""
    wanted = owner.spec.replicas
    missing = wanted - len(active)
    if missing == 0:
        return Scaling()
    passed = PAUSE if last is None else (now - last).total_seconds()
    if passed < PAUSE and wanted > 0:
        return Scaling(wait=PAUSE - passed)
    if missing > 0:
        return Scaling(make=missing)
    return Scaling(surplus=tuple(sorted(active, key=_needed)[:-missing]))


def _needed(one: Executable) -> tuple[bool, float, str]:
    """Who goes first: those that do not run any more, then the youngest."""
    state = one.status.state if one.status else ""
    made = one.metadata.creation_timestamp
    return state not in _FINAL, -(made.timestamp() if made else 0.0), one.name


def replica_of(owner: ExecutableReplicaSet, number: int, random: Random) -> Executable:
    """A new replica, with a name that no other has."""
    template = owner.spec.template
    mark = "".join(random.choice(_LETTERS) for _ in range(10))
    annotations = {
        **template.annotations,
        REPLICA_STATE: "active",
        DISPLAY_NAME: f"{owner.name}-{number}",
        REPLICA_ID: mark,
        REPLICA_SET_NAME: owner.name,
        "otel-service-instance-id": mark,
    }
    metadata = ObjectMeta(name=f"{owner.name}-{mark}", labels=dict(template.labels), annotations=annotations)
    return Executable(metadata=metadata, spec=template.spec)


def status_of(
    owner: ExecutableReplicaSet, active: Sequence[Executable], scaled: datetime | None, now: datetime
) -> ExecutableReplicaSetStatus:
    """How the set is."""
    before = owner.status or ExecutableReplicaSetStatus()
    states = [one.status.state if one.status else "" for one in active]
    health = _health(owner.spec.replicas, active)
    conditions = set_condition(
        before.conditions,
        "Ready",
        health == "Healthy",
        now=now,
        reason="AllHealthy" if health == "Healthy" else "Unhealthy",
        message=f"{states.count('Running')} of {owner.spec.replicas} replicas run",
        observed_generation=owner.metadata.generation,
    )
    return replace(
        before,
        observed_replicas=len(active),
        running_replicas=states.count("Running"),
        failed_replicas=states.count("FailedToStart"),
        finished_replicas=states.count("Finished"),
        last_scale_time=before.last_scale_time if scaled is None else MicroTime.of(scaled),
        health_status=health,
        conditions=conditions,
        observed_generation=owner.metadata.generation,
    )


def _health(wanted: int, active: Sequence[Executable]) -> HealthStatus:
    healthy = sum(one.status is not None and one.status.health_status == "Healthy" for one in active)
    if healthy >= wanted:
        return "Healthy"
    return "Caution" if healthy else "Unhealthy"
