"""The status of an Executable, from what is known of its run; pure."""

from datetime import datetime

from levelset import replace, set_condition
from levelset.objects import MicroTime
from levelset_dcp.executables.health import health_of
from levelset_dcp.executables.known import RunKnown
from levelset_dcp.executables.transitions import is_final
from levelset_dcp.kinds import Executable, ExecutableStatus

__all__ = ["known_of", "status_of"]


def status_of(exe: Executable, known: RunKnown, now: datetime) -> ExecutableStatus:
    """How the Executable is now."""
    before = exe.status or ExecutableStatus()
    health = health_of(known.state, known.exit_code, exe.spec.health_probes, known.results)
    pid = known.identity.pid if known.identity is not None else None
    conditions = set_condition(
        before.conditions,
        "Ready",
        known.state == "Running" and health == "Healthy",
        now=now,
        reason=known.state or "Waiting",
        message=known.message or f"it is {health.lower()}",
        observed_generation=exe.metadata.generation,
    )
    return replace(
        before,
        state=known.state,
        execution_id=before.execution_id if pid is None else str(pid),
        pid=None if is_final(known.state) else pid,
        startup_timestamp=_micro(known.started_at),
        finish_timestamp=_micro(known.finished_at),
        exit_code=known.exit_code,
        std_out_file=known.files[0],
        std_err_file=known.files[1],
        terminal_socket_path="" if is_final(known.state) else known.terminal,
        effective_env=known.env,
        effective_args=known.args,
        health_status=health,
        health_probe_results=known.results,
        message=known.message,
        conditions=conditions,
        observed_generation=exe.metadata.generation,
    )


def known_of(exe: Executable) -> RunKnown:
    """What the status alone says of a run, when nobody remembers it."""
    status = exe.status or ExecutableStatus()
    return RunKnown(
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
