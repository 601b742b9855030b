"""What is known of a command inside of a container, what is next, and what its status says; all pure."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from levelset import replace as changed
from levelset import set_condition
from levelset.objects import MicroTime
from levelset_dcp.kinds import Container, ContainerExec, ContainerExecStatus, EnvVar

__all__ = [
    "FINAL",
    "LOST",
    "Change",
    "ExecKnown",
    "ExecState",
    "Step",
    "failed",
    "finished",
    "known_of",
    "plan",
    "status_of",
]

ExecState = Literal["", "Starting", "Running", "FailedToStart", "Finished", "Unknown"]
FINAL: Final = ("FailedToStart", "Finished", "Unknown")
LOST: Final = "how it ended nobody knows, since the manager that ran it is gone; make another one to run it again"

Step = Literal["rest", "wait", "mark", "run", "refuse", "mourn"]
"""Nothing; wait for the container; write down that it begins; run; the container is over; accept that it is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecKnown:
    """One run of a command, as far as it is known."""

    uid: str
    state: ExecState = ""
    is_ours: bool = False
    """Whether it is this controller that has begun to run it."""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    env: tuple[EnvVar, ...] = ()
    args: tuple[str, ...] = ()
    files: tuple[str, str] = ("", "")


Change = Callable[[ExecKnown], ExecKnown | None]


def plan(known: ExecKnown, container: Container | None) -> Step:
    """What is to be done next.

    It is run at most once: before that somebody has written down that it begins, and if nobody knows what became of
    it then, it is not run again.
    """
    if known.state in FINAL or known.state == "Running":
        return "rest" if known.is_ours or known.state in FINAL else "mourn"
    if known.state == "Starting":
        return "run" if known.is_ours else "mourn"
    status = None if container is None else container.status
    if status is None:
        return "wait"
    if status.finish_timestamp is not None or status.state in ("FailedToStart", "Exited", "Unknown"):
        return "refuse"
    return "mark" if status.state == "Running" else "wait"


def finished(code: int, at: datetime) -> Change:
    """The command has ended."""
    return lambda known: replace(known, state="Finished", exit_code=code, finished_at=at, message="")


def failed(words: str, at: datetime) -> Change:
    """The engine does not run it."""

    def change(known: ExecKnown) -> ExecKnown:
        started = known.started_at or at
        return replace(known, state="FailedToStart", started_at=started, finished_at=at, message=words)

    return change


def known_of(one: ContainerExec) -> ExecKnown:
    """What the status alone says, when nobody remembers."""
    status = one.status or ContainerExecStatus()
    return ExecKnown(
        uid=one.metadata.uid,
        state=status.state,
        message=status.message,
        started_at=status.startup_timestamp,
        finished_at=status.finish_timestamp,
        exit_code=status.exit_code,
        env=status.effective_env,
        args=status.effective_args,
        files=(status.std_out_file, status.std_err_file),
    )


def status_of(one: ContainerExec, known: ExecKnown, now: datetime) -> ContainerExecStatus:
    """How the command is now."""
    before = one.status or ContainerExecStatus()
    conditions = set_condition(
        before.conditions,
        "Succeeded",
        known.state == "Finished" and known.exit_code == 0,
        now=now,
        reason=known.state or "Waiting",
        message=known.message or (f"exit code {known.exit_code}" if known.exit_code is not None else ""),
        observed_generation=one.metadata.generation,
    )
    return changed(
        before,
        state=known.state,
        startup_timestamp=None if known.started_at is None else MicroTime.of(known.started_at),
        finish_timestamp=None if known.finished_at is None else MicroTime.of(known.finished_at),
        exit_code=known.exit_code,
        std_out_file=known.files[0],
        std_err_file=known.files[1],
        effective_env=known.env,
        effective_args=known.args,
        message=known.message,
        conditions=conditions,
        observed_generation=one.metadata.generation,
    )
