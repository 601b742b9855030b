"""The status of a Container, from its observed state; pure."""

from datetime import datetime

from levelset import replace
from levelset_dcp.containers.state import ObservedContainer
from levelset_dcp.kinds import Container, ContainerStatus
from levelset_dcp.workloads.workload_status import health_of, micro_time, workload_conditions

__all__ = ["observed_from_status", "status_of"]


def status_of(
    container: Container, observed: ObservedContainer, networks: tuple[str, ...], now: datetime
) -> ContainerStatus:
    """The new status; `networks` are the names of the ContainerNetworks that it is attached to."""
    before = container.status or ContainerStatus()
    state, health = (
        observed.state,
        health_of(observed.state, observed.exit_code, container.spec.health_probes, observed.results),
    )
    message = observed.message or f"the health of the container is {health}"
    return replace(
        before,
        state=observed.state,
        container_id=observed.container_id,
        container_name=observed.container_name,
        startup_timestamp=micro_time(observed.started_at),
        finish_timestamp=micro_time(observed.finished_at),
        startup_std_out_file=observed.files[0],
        startup_std_err_file=observed.files[1],
        terminal_socket_path=observed.terminal,
        exit_code=observed.exit_code,
        message=observed.message,
        effective_env=observed.env,
        effective_args=observed.args,
        networks=networks,
        health_status=health,
        health_probe_results=observed.results,
        lifecycle_key=observed.key,
        conditions=workload_conditions(
            container, before.conditions, health, state=state or "Pending", message=message, now=now
        ),
        observed_generation=container.metadata.generation,
    )


def observed_from_status(container: Container) -> ObservedContainer:
    """Restores the observed state from the status after a restart; an unfinished start is resolved again."""
    status = container.status or ContainerStatus()
    is_there = bool(status.container_id)
    return ObservedContainer(
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
