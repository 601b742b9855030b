"""What the mode of a workload or a network means: whether it is made, taken over, and ended with its object."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["HABITS", "Habits"]


@dataclass(frozen=True, slots=True)
class Habits:
    """What a mode means."""

    makes: bool
    """Whether one is made, or started, that is not there."""
    finds: bool
    """Whether one that an earlier session has left is taken over."""
    ends: bool
    """Whether it ends with its object, and with the session."""


HABITS: Final[Mapping[str, Habits]] = {
    "session": Habits(makes=True, finds=False, ends=True),
    "persistent": Habits(makes=True, finds=True, ends=False),
    "existing": Habits(makes=False, finds=True, ends=False),
    "cleanup": Habits(makes=False, finds=True, ends=True),
}
"""The modes of all kinds; those of an Executable have no `existing`."""
