"""A request for a key: what everybody who asked for it agreed on, and where it waits."""

import math
from collections import deque
from collections.abc import Hashable
from enum import Enum
from typing import Final, Generic, TypeVar

import msgspec

__all__ = [
    "FARTHEST",
    "LOW",
    "NOBODY",
    "NORMAL",
    "Appointment",
    "Due",
    "Entry",
    "Nobody",
    "is_stale",
    "moment",
    "sweep",
]

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

NORMAL: Final = 0
"""The priority of a request unless it says otherwise."""
LOW: Final = -100
"""The priority of what can wait: a first list, a resync."""


FARTHEST: Final = 180 * 86400.0
"""No request waits longer than so many seconds."""


class Nobody(Enum):
    """What stands for no key, since anything else may be one."""

    NOBODY = 0


NOBODY: Final = Nobody.NOBODY


class Due(msgspec.Struct, Generic[K, R], eq=False):
    """A request for a key.

    While it waits the timeline merges others into it. Once taken it belongs to the taker and does not change any more.
    """

    key: K
    priority: int
    """The highest that was asked for."""
    reasons: tuple[R, ...]
    """Why, in the order in which the reasons came, each once; the first ones, if there were many."""
    since: float
    """When it became due, or will."""
    added: float
    """When it was first asked for."""

    def __repr__(self) -> str:
        return f"<Due {self.key}: priority {self.priority}, since {self.since}, {list(self.reasons)}>"


class Entry(Due[K, R]):
    """What the timeline knows of a request besides: where it is."""

    place: "deque[Entry[K, R]] | list[Appointment[K, R]] | None" = None
    """The queue of its level, or the agenda; None while it runs, is held, or when it is gone."""
    held: "Entry[K, R] | None" = None
    """While it runs: the next request for its key."""


Appointment = tuple[float, int, Entry[K, R]]
"""An entry of the agenda: when, the how many-th, and who."""


def is_stale(entry: Appointment[K, R], agenda: list[Appointment[K, R]]) -> bool:
    """Whether a request has left the agenda, or has another time on it than this entry says."""
    return entry[2].place is not agenda or entry[2].since != entry[0]


def sweep(queues: list[deque[Entry[K, R]]]) -> None:
    """Takes out the entries of requests that have left their queue early."""
    for queue in queues:
        live = [due for due in queue if due.place is queue]
        queue.clear()
        queue.extend(live)


def moment(at: float, now: float, debounce: float) -> float:
    """When a request for a time is due; ValueError if the time is not finite."""
    if not -math.inf < at < math.inf:
        raise ValueError(f"cannot schedule at {at}; give a finite time, such as now + 5")
    return now + debounce if at <= now else min(at, now + FARTHEST)
