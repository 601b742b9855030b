"""The status of an Executable, from the observed state of its run; pure."""

from collections.abc import Sequence
from datetime import datetime

from levelset import replace, set_condition
from levelset.objects import MicroTime
from levelset_dcp.executables.state import ObservedRun, is_final
from levelset_dcp.kinds import (
    Executable,
    ExecutableState,
    ExecutableStatus,
    HealthProbe,
    HealthProbeResult,
    HealthStatus,
)
from levelset_dcp.workloads.health_probes import probes_health
from levelset_dcp.workloads.templates import template_conditions

__all__ = ["health_of", "observed_from_status", "status_of"]


def health_of(
    state: ExecutableState,
    exit_code: int | None,
    probes: Sequence[HealthProbe],
    results: Sequence[HealthProbeResult],
) -> HealthStatus:
    """The health of an Executable, from its state and its probe results."""
    if state == "Running":
        return probes_health([one.name for one in probes], results)
    if state == "FailedToStart" or (state == "Finished" and exit_code):
        return "Unhealthy"
    return "Caution"


def status_of(exe: Executable, observed: ObservedRun, now: datetime) -> ExecutableStatus:
    """The new status of an Executable."""
    before = exe.status or ExecutableStatus()
    health = health_of(observed.state, observed.exit_code, exe.spec.health_probes, observed.results)
    pid, session = observed.pid, "" if observed.session is None else observed.session.id
    conditions = set_condition(
        before.conditions,
        "Ready",
        observed.state == "Running" and health == "Healthy",
        now=now,
        reason=observed.state or "Waiting",
        message=observed.message or f"the program is {health.lower()}",
        observed_generation=exe.metadata.generation,
    )
    return replace(
        before,
        state=observed.state,
        execution_id=session or (before.execution_id if pid is None else str(pid)),
        pid=None if is_final(observed.state) else pid,
        startup_timestamp=_micro(observed.started_at),
        finish_timestamp=_micro(observed.finished_at),
        exit_code=observed.exit_code,
        std_out_file=observed.files[0],
        std_err_file=observed.files[1],
        terminal_socket_path="" if is_final(observed.state) else observed.terminal,
        effective_env=observed.env,
        effective_args=observed.args,
        health_status=health,
        health_probe_results=observed.results,
        message=observed.message,
        conditions=template_conditions(conditions, exe, now),
        observed_generation=exe.metadata.generation,
    )


def observed_from_status(exe: Executable) -> ObservedRun:
    """Restores the observed state from the status after a restart."""
    status = exe.status or ExecutableStatus()
    return ObservedRun(
        uid=exe.metadata.uid,
        state=status.state,
        started_at=status.startup_timestamp,
        finished_at=status.finish_timestamp,
        exit_code=status.exit_code,
        files=(status.std_out_file, status.std_err_file),
        terminal=status.terminal_socket_path,
        env=status.effective_env,
        args=status.effective_args,
        results=status.health_probe_results,
        message=status.message,
    )


def _micro(when: datetime | None) -> MicroTime | None:
    return None if when is None else MicroTime.of(when)
