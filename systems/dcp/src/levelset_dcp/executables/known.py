"""What is known of a run, and how news changes it; all pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from levelset_dcp.executables.transitions import can_follow, is_final
from levelset_dcp.kinds import EnvVar, ExecutableState, HealthProbeResult
from levelset_machine import Ended, Identity

__all__ = ["Change", "RunKnown", "earlier_ended", "ended", "is_news", "probed", "stop_failed"]

Change = Callable[["RunKnown"], "RunKnown | None"]
"""News about a run; None if it says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKnown:
    """One run of an Executable, as far as it is known."""

    uid: str
    state: ExecutableState = "Starting"
    identity: Identity | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    env: tuple[EnvVar, ...] = ()
    args: tuple[str, ...] = ()
    is_stopping: bool = False
    """Whether somebody has begun to stop it; once set, it stays."""
    results: tuple[HealthProbeResult, ...] = ()
    message: str = ""
    is_ending: bool = False
    """Whether the program of an earlier session is being stopped, before anything else is done."""
    doom: str = ""
    """Why a program that was just started is stopped again; it counts as one that never started."""
    files: tuple[str, str] = ("", "")
    """Where its output and its errors are written to."""
    terminal: str = ""
    """The socket that leads to its terminal."""

    def moved(self, state: ExecutableState, **changes: object) -> "RunKnown":
        """The same in another state; a state that may not follow changes nothing at all."""
        return replace(self, state=state, **changes) if can_follow(self.state, state) else self  # type: ignore[arg-type]  # names of attributes

    @property
    def is_alive(self) -> bool:
        """Whether there is a process."""
        return self.identity is not None and not is_final(self.state)


def ended(end: Ended) -> Change:
    """The process has ended; of an adopted one nobody knows the code."""

    def change(known: RunKnown) -> RunKnown:
        code = end.code if end.is_known else None
        if known.doom:
            return known.moved("FailedToStart", started_at=end.at, finished_at=end.at, message=known.doom)
        return known.moved("Finished", exit_code=code, finished_at=_earlier(known.finished_at, end.at), message="")

    return change


def earlier_ended(started_at: datetime, at: datetime, *, is_wanted: bool) -> Change:
    """The program of an earlier session is gone; that is all if it is wanted so, else another one takes its place."""

    def change(known: RunKnown) -> RunKnown:
        known = replace(known, is_ending=False, message="")
        if not is_wanted:
            return known
        return known.moved("Starting").moved("Finished", started_at=started_at, finished_at=at)

    return change


def stop_failed(at: datetime, words: str) -> Change:
    """It was tried to stop the process, and something is still there."""

    def change(known: RunKnown) -> RunKnown:
        known = replace(known, is_ending=False)
        return known.moved("Unknown", finished_at=_earlier(known.finished_at, at), message=words)

    return change


def probed(result: HealthProbeResult) -> Change:
    """A probe has found something out."""

    def change(known: RunKnown) -> RunKnown | None:
        if not is_news(known.results, result):
            return None
        others = [one for one in known.results if one.probe_name != result.probe_name]
        return replace(known, results=tuple(sorted([*others, result], key=lambda one: one.probe_name)))

    return change


def is_news(results: Sequence[HealthProbeResult], result: HealthProbeResult) -> bool:
    """Whether a result says something that is not known: when it was found out does not count."""
    known = next((one for one in results if one.probe_name == result.probe_name), None)
    return known is None or (known.outcome, known.reason) != (result.outcome, result.reason)


def _earlier(one: datetime | None, other: datetime) -> datetime:
    return other if one is None else min(one, other)
