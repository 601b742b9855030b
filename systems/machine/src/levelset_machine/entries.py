"""One process as the operating system tells of it.

Only the standard library's smallest parts are used here, because the guard process loads this file too.
"""

from typing import Final, NamedTuple

__all__ = ["MARKER", "Entry"]

MARKER: Final = "LEVELSET_RUN"
"""The environment variable that says to which run a process belongs, however far it has moved away from it."""


class Entry(NamedTuple):
    """One process, as the kernel tells of it."""

    pid: int
    started: int
    """In clock ticks since the machine was started."""
    parent: int
    session: int
    state: str
    """One letter: `R` runs, `S` sleeps, `Z` has ended but was not collected by its parent."""
    marker: str = ""
    """What its environment said of its run when its program was started; empty if nothing, or nothing we may read."""

    @property
    def is_alive(self) -> bool:
        """Whether it can still do something."""
        return self.state not in "ZXx"
