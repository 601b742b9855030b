"""Changes that wait for the next reconcile: queued by anybody at any time, applied in order by the reconciler alone.

A change is a function from the present state to the next one. It is applied to whatever the state is by then, so that
two changes that were made at the same time never undo each other.
"""

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, Generic, TypeVar

from levelset.objects import Ref

__all__ = ["ANY_KEY", "Change", "Deferred", "Mishap", "MishapKind", "log_mishap"]

Kind = TypeVar("Kind")
State = TypeVar("State")

log = logging.getLogger(__name__)

ANY_KEY: Final = object()
"""Instead of a key: whichever."""


class MishapKind(Enum):
    """What can become of a deferred change besides being applied."""

    FAILED = auto()
    """It raised an error, or gave a state that cannot be kept; the later ones were applied."""

    EXPIRED = auto()
    """There was no state to apply it to for too long."""

    CROWDED_OUT = auto()
    """Too many were waiting, and this was the oldest."""

    DEAF = auto()
    """A listener raised an error instead of waking its controller; the change waits."""


@dataclass(frozen=True, slots=True)
class Mishap:
    """A deferred change that was not applied, or not announced."""

    ref: Ref[Any]
    kind: MishapKind
    error: Exception | None = None

    def __str__(self) -> str:
        cause = f": {self.error!r}" if self.error is not None else ""
        return f"a deferred change of {self.ref} has {self.kind.name.lower().replace('_', ' ')}{cause}"


def log_mishap(mishap: Mishap) -> None:
    """Writes a mishap into the log: what happens unless somebody else wants to know."""
    log.error("%s", mishap, exc_info=mishap.error)


@dataclass(frozen=True, slots=True)
class Change(Generic[State]):
    """One step from a state to the next."""

    apply: Callable[[State], State | None]
    """Gives the next state, or None if nothing changes."""
    for_key: Hashable
    """The real-world key that the state must still have by then; ANY_KEY if it does not matter."""


class Deferred(Generic[Kind, State]):
    """The changes that wait, for each object a line of them.

    Those for an object that has a state wait for its next reconcile, however long. Those for an object without one, an
    *orphan*, wait `patience` seconds for it. An object has at most `most` changes, and there are at most `most_orphans`
    orphans; beyond that the oldest goes. Whatever goes unapplied is reported.
    """

    def __init__(
        self, *, most: int, patience: float, most_orphans: int, report: Callable[[Mishap], object] = log_mishap
    ) -> None:
        if not (most > 0 and patience > 0 and most_orphans > 0):
            raise ValueError(f"deferred changes: {most=}, {patience=} and {most_orphans=} must be above 0")
        self.report = report
        self._most = most
        self._patience = patience
        self._most_orphans = most_orphans
        self._lines: dict[Ref[Kind], deque[Change[State]]] = {}
        self._orphans: dict[Ref[Kind], float] = {}  # since when, the oldest first

    def __len__(self) -> int:
        """How many changes wait."""
        return sum(map(len, self._lines.values()))

    def __contains__(self, ref: object) -> bool:
        return ref in self._lines

    def __iter__(self) -> Iterator[Ref[Kind]]:
        """The objects for which changes wait."""
        return iter(self._lines)

    def add(
        self, ref: Ref[Kind], change: Callable[[State], State | None], *, for_key: Hashable, orphan: bool, now: float
    ) -> None:
        """Puts a change at the end of its object's line."""
        line = self._lines.setdefault(ref, deque())
        if orphan:
            self._orphans.setdefault(ref, now)
        if len(line) >= self._most:
            line.popleft()
            self.report(Mishap(ref, MishapKind.CROWDED_OUT))
        line.append(Change(change, for_key))
        self.expire(now)

    def adopt(self, ref: Ref[Kind]) -> bool:
        """Says that the object has a state from now on; whether changes wait for it."""
        self._orphans.pop(ref, None)
        return ref in self._lines

    def forget(self, ref: Ref[Kind]) -> int:
        """Drops the changes of an object that is gone; how many there were."""
        self._orphans.pop(ref, None)
        return len(self._lines.pop(ref, ()))

    def take(self, ref: Ref[Kind]) -> "Iterable[Change[State]]":
        """Removes and gives the changes of an object, the oldest first; what comes later is for the next time."""
        return self._lines.pop(ref, ())

    def expire(self, now: float) -> None:
        """Drops and reports what has waited too long for a state that never came."""
        while self._orphans:
            ref, since = next(iter(self._orphans.items()))
            is_late = now - since >= self._patience
            if not is_late and len(self._orphans) <= self._most_orphans:
                return
            for _ in range(self.forget(ref)):
                self.report(Mishap(ref, MishapKind.EXPIRED if is_late else MishapKind.CROWDED_OUT))
