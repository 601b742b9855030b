"""The states of an Executable, and which may follow which."""

from collections.abc import Mapping
from typing import Final

from levelset_dcp.kinds import ExecutableState

__all__ = ["FINAL", "can_follow", "is_final"]

FINAL: Final[tuple[ExecutableState, ...]] = ("Terminated", "FailedToStart", "Finished", "Unknown")

_NEXT: Final[Mapping[ExecutableState, tuple[ExecutableState, ...]]] = {
    "": ("Starting", "Running", "NotFound", "Terminated", "FailedToStart"),
    "NotFound": ("Starting", "Running", "Terminated", "FailedToStart", "Finished"),
    "Starting": ("Running", "FailedToStart", "Finished", "NotFound"),
    "Running": ("Stopping", "Terminated", "Finished"),
    "Stopping": ("Terminated", "Finished"),
}


def is_final(state: ExecutableState) -> bool:
    """Whether nothing follows this state."""
    return state in FINAL


def can_follow(before: ExecutableState, after: ExecutableState) -> bool:
    """Whether an Executable may go from one state to the other; a state may always stay, and end as Unknown."""
    if before == after:
        return True
    if before in FINAL:
        return False
    return after == "Unknown" or after in _NEXT[before]
