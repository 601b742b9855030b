"""What is to be done with an Executable next, from its spec and from what is known; pure."""

from typing import Final, Literal

from levelset_dcp.checks.executables import mode_of
from levelset_dcp.executables.known import RunKnown
from levelset_dcp.executables.transitions import is_final
from levelset_dcp.kinds import Executable, ExecutableSpec
from levelset_dcp.modes import HABITS, Habits

__all__ = ["LOST", "Step", "habits_of", "plan", "should_stop"]

LOST: Final = "it ended with the manager that ran it"

Step = Literal["rest", "find", "launch", "halt", "refuse", "mourn"]
"""Nothing; find what an earlier session has left; start; stop; be told not to start; accept that it is gone."""


def habits_of(spec: ExecutableSpec) -> Habits:
    """What the mode of an Executable means."""
    return HABITS[mode_of(spec)]


def plan(exe: Executable, known: RunKnown, *, was_sought: bool = False) -> Step:
    """The next step; `was_sought` says that what an earlier session may have left was looked for, and not found."""
    if is_final(known.state) or known.is_ending or known.doom:
        return "rest"
    if known.identity is not None:
        return "halt" if should_stop(exe) and not known.is_stopping else "rest"
    habits = habits_of(exe.spec)
    if known.state in ("Running", "Stopping") and not habits.finds:
        return "mourn"
    if habits.finds and not was_sought:
        return "find"
    if exe.spec.stop:
        return "refuse"
    return "launch" if habits.makes and exe.spec.start and exe.metadata.deletion_timestamp is None else "rest"


def should_stop(exe: Executable) -> bool:
    """Whether it is to end, by its spec or with its object."""
    return exe.spec.stop or (exe.metadata.deletion_timestamp is not None and habits_of(exe.spec).ends)
