"""Tells one process apart from a later one that was given the same number."""

from dataclasses import dataclass

from levelset_machine.table import read_entry

__all__ = ["Identity", "identity_of", "is_alive"]


@dataclass(frozen=True, slots=True)
class Identity:
    """One process and no other: numbers are used again, but not with the same start."""

    pid: int
    started: int
    """When it was started, in clock ticks since the machine was."""


def identity_of(pid: int) -> Identity | None:
    """Who has this number now; None if nobody has. A process that ended but was not collected still has its number."""
    entry = read_entry(pid)
    return None if entry is None else Identity(entry.pid, entry.started)


def is_alive(identity: Identity) -> bool:
    """Whether this very process still runs; one that has ended but was not collected by its parent does not."""
    entry = read_entry(identity.pid)
    return entry is not None and entry.started == identity.started and entry.is_alive
