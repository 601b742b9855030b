"""The status of a Container, from what is known of it; pure."""

from collections.abc import Sequence
from datetime import datetime

from levelset import replace, set_condition
from levelset.objects import MicroTime
from levelset_dcp.containers.known import ContainerKnown
from levelset_dcp.executables.health import probes_health
from levelset_dcp.kinds import Container, ContainerStatus, HealthProbe, HealthStatus

__all__ = ["health_of", "known_of", "status_of"]


def health_of(known: ContainerKnown, probes: Sequence[HealthProbe]) -> HealthStatus:
    """Whether all is well, something is wrong, or one cannot say."""
    if known.state == "Running":
        return probes_health([one.name for one in probes], known.results)
    if known.state == "FailedToStart" or (known.state == "Exited" and known.exit_code):
        return "Unhealthy"
    return "Caution"


def status_of(container: Container, known: ContainerKnown, networks: tuple[str, ...], now: datetime) -> ContainerStatus:
    """How the container is now; `networks` are the names of the ContainerNetworks that it is in."""
    before = container.status or ContainerStatus()
    health = health_of(known, container.spec.health_probes)
    conditions = set_condition(
        before.conditions,
        "Ready",
        known.state == "Running" and health == "Healthy",
        now=now,
        reason=known.state or "Pending",
        message=known.message or f"it is {health.lower()}",
        observed_generation=container.metadata.generation,
    )
    return replace(
        before,
        state=known.state,
        container_id=known.container_id,
        container_name=known.container_name,
        startup_timestamp=_micro(known.started_at),
        finish_timestamp=_micro(known.finished_at),
        startup_std_out_file=known.files[0],
        startup_std_err_file=known.files[1],
        exit_code=known.exit_code,
        message=known.message,
        effective_env=known.env,
        effective_args=known.args,
        networks=networks,
        health_status=health,
        health_probe_results=known.results,
        lifecycle_key=known.key,
        conditions=conditions,
        observed_generation=container.metadata.generation,
    )


def known_of(container: Container) -> ContainerKnown:
    """What the status alone says, when nobody remembers: one that was being started is looked for."""
    status = container.status or ContainerStatus()
    is_there = bool(status.container_id)
    return ContainerKnown(
        uid=container.metadata.uid,
        state=status.state if is_there or status.state == "FailedToStart" else "Pending",
        message=status.message,
        container_id=status.container_id,
        container_name=status.container_name,
        started_at=status.startup_timestamp,
        finished_at=status.finish_timestamp,
        exit_code=status.exit_code,
        env=status.effective_env,
        args=status.effective_args,
        key=status.lifecycle_key,
        results=status.health_probe_results,
        files=(status.startup_std_out_file, status.startup_std_err_file),
        is_resolved=is_there,
        is_stopping=status.state == "Stopping",
    )


def _micro(when: datetime | None) -> MicroTime | None:
    return None if when is None else MicroTime.of(when)
