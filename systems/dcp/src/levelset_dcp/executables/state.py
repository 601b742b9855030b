"""The state of an Executable's run, its transitions, the next step of the reconciler, and the status; pure."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from levelset import replace
from levelset_dcp.ide import SessionState
from levelset_dcp.kinds import EnvVar, Executable, ExecutableState, ExecutableStatus, HealthProbeResult
from levelset_dcp.workloads.health_probes import with_result
from levelset_dcp.workloads.modes import executable_policy
from levelset_dcp.workloads.workload_status import health_of, micro_time, workload_conditions
from levelset_machine import Ended, Identity

__all__ = [
    "FINAL",
    "LOST",
    "Change",
    "ObservedRun",
    "Step",
    "can_follow",
    "earlier_run_stopped",
    "ended",
    "is_final",
    "observed_from_status",
    "plan",
    "probed",
    "session_changed",
    "should_stop",
    "status_of",
    "stop_failed",
]

FINAL: Final[tuple[ExecutableState, ...]] = ("Terminated", "FailedToStart", "Finished", "Unknown")
_NEXT: Final[Mapping[ExecutableState, tuple[ExecutableState, ...]]] = {
    "": ("Starting", "Running", "NotFound", "Terminated", "FailedToStart"),
    "NotFound": ("Starting", "Running", "Terminated", "FailedToStart", "Finished"),
    "Starting": ("Running", "FailedToStart", "Finished", "NotFound"),
    "Running": ("Stopping", "Terminated", "Finished"),
    "Stopping": ("Terminated", "Finished"),
}
LOST: Final = "the process ended with the manager that ran it"
Step = Literal["none", "find", "start", "stop", "fail", "mark_lost"]
"""Do nothing; look for a process of an earlier session; start; stop; fail before the start; report as lost."""


def is_final(state: ExecutableState) -> bool:
    """Whether a state is terminal."""
    return state in FINAL


def can_follow(before: ExecutableState, after: ExecutableState) -> bool:
    """Whether a transition is valid; staying in a state is, and so is Unknown from any state that is not final."""
    if before == after:
        return True
    if before in FINAL:
        return False
    return after == "Unknown" or after in _NEXT[before]


Change = Callable[["ObservedRun"], "ObservedRun | None"]
"""A change of the observed state; None if there is nothing to change."""


class ObservedRun(Struct, frozen=True, kw_only=True):
    """The observed state of one run of an Executable."""

    uid: str
    state: ExecutableState = "Starting"
    identity: Identity | None = None
    session: SessionState | None = None
    """The run session in an IDE, in place of a process of ours; without an ID until the IDE has started it."""
    attempts: tuple[str, ...] = ()
    """Why the execution types that were tried failed, in their order."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    env: tuple[EnvVar, ...] = ()
    args: tuple[str, ...] = ()
    is_stopping: bool = False
    """Whether a stop was requested; never reset."""
    results: tuple[HealthProbeResult, ...] = ()
    message: str = ""
    is_stopping_earlier: bool = False
    """Whether the process of an earlier session is being stopped, which nothing may overtake."""
    start_error: str = ""
    """Why a process that was just started is stopped again; its Executable becomes FailedToStart."""
    files: tuple[str, str] = ("", "")
    """The files of its stdout and stderr."""
    terminal: str = ""
    """The path of the socket of its terminal."""

    def transition(self, state: ExecutableState, **changes: object) -> "ObservedRun":
        """Moves to another state; an invalid transition changes nothing at all."""
        return replace(self, state=state, **changes) if can_follow(self.state, state) else self

    @property
    def has_run(self) -> bool:
        """Whether it has a process, or a run session that may not have started yet."""
        return self.identity is not None or self.session is not None

    @property
    def is_alive(self) -> bool:
        """Whether its process or its run session runs."""
        return self.has_run and not is_final(self.state)

    @property
    def pid(self) -> int | None:
        """The process ID; of a run session the one that the IDE has reported, if any."""
        if self.session is not None:
            return self.session.pid
        return None if self.identity is None else self.identity.pid


def ended(end: Ended) -> Change:
    """The process has exited; the exit code of an adopted process is unknown."""

    def change(observed: ObservedRun) -> ObservedRun:
        code = end.code if end.is_known else None
        if observed.start_error:
            return observed.transition(
                "FailedToStart", started_at=end.at, finished_at=end.at, message=observed.start_error
            )
        return observed.transition(
            "Finished", exit_code=code, finished_at=_earlier(observed.finished_at, end.at), message=""
        )

    return change


def session_changed(session: SessionState) -> Change:
    """The IDE has started the run session, has restarted its process, or could not start it."""

    def change(observed: ObservedRun) -> ObservedRun | None:
        if session.error:
            return replace(observed, session=None, attempts=(*observed.attempts, f"IDE: {session.error}"))
        if session.end is not None:
            seen = replace(observed, session=session, started_at=session.started_at, files=session.files)
            return ended(session.end)(seen)
        if observed.state == "Running":
            return replace(observed, session=session)
        return observed.transition(
            "Running", session=session, started_at=session.started_at, files=session.files, message=""
        )

    return change


def earlier_run_stopped(started_at: datetime, at: datetime, *, is_requested: bool) -> Change:
    """The process of an earlier session was stopped; final if that was requested, otherwise a new one starts."""

    def change(observed: ObservedRun) -> ObservedRun:
        observed = replace(observed, is_stopping_earlier=False, message="")
        if not is_requested:
            return observed
        return observed.transition("Starting").transition("Finished", started_at=started_at, finished_at=at)

    return change


def stop_failed(at: datetime, message: str) -> Change:
    """The stop has failed, and some process still runs."""

    def change(observed: ObservedRun) -> ObservedRun:
        observed = replace(observed, is_stopping_earlier=False)
        return observed.transition("Unknown", finished_at=_earlier(observed.finished_at, at), message=message)

    return change


def probed(result: HealthProbeResult) -> Change:
    """Applies the result of a probe."""

    def change(observed: ObservedRun) -> ObservedRun | None:
        results = with_result(observed.results, result)
        return None if results is None else replace(observed, results=results)

    return change


def _earlier(one: datetime | None, other: datetime) -> datetime:
    return other if one is None else min(one, other)


def plan(exe: Executable, observed: ObservedRun, *, none_found: bool = False) -> Step:
    """The next step; `none_found` means that no process of an earlier session was found."""
    if is_final(observed.state) or observed.is_stopping_earlier or observed.start_error:
        return "none"
    if observed.session is not None and not observed.session.id:
        return "none"  # it is stopped once it has started: its ID is not known before
    if observed.has_run:
        return "stop" if should_stop(exe) and not observed.is_stopping else "none"
    policy = executable_policy(exe.spec)
    if observed.state in ("Running", "Stopping") and not policy.adopts:
        return "mark_lost"
    if policy.adopts and not none_found:
        return "find"
    if exe.spec.stop:
        return "fail"
    return "start" if policy.creates and exe.spec.start and exe.metadata.deletion_timestamp is None else "none"


def should_stop(exe: Executable) -> bool:
    """Whether its process must stop, because of spec.stop or the deletion of its object."""
    return exe.spec.stop or (exe.metadata.deletion_timestamp is not None and executable_policy(exe.spec).removes)


def status_of(exe: Executable, observed: ObservedRun, now: datetime) -> ExecutableStatus:
    """The new status of an Executable."""
    before = exe.status or ExecutableStatus()
    health = health_of(observed.state, observed.exit_code, exe.spec.health_probes, observed.results)
    pid, session = observed.pid, "" if observed.session is None else observed.session.id
    message = observed.message or f"the health of the program is {health}"
    return replace(
        before,
        state=observed.state,
        execution_id=session or (before.execution_id if pid is None else str(pid)),
        pid=None if is_final(observed.state) else pid,
        startup_timestamp=micro_time(observed.started_at),
        finish_timestamp=micro_time(observed.finished_at),
        exit_code=observed.exit_code,
        std_out_file=observed.files[0],
        std_err_file=observed.files[1],
        terminal_socket_path="" if is_final(observed.state) else observed.terminal,
        effective_env=observed.env,
        effective_args=observed.args,
        health_status=health,
        health_probe_results=observed.results,
        message=observed.message,
        conditions=workload_conditions(
            exe, before.conditions, health, state=observed.state or "Waiting", message=message, now=now
        ),
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
