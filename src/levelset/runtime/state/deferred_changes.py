"""Deferred changes of object states: queued by any task at any time, applied in order by the next reconcile.

A change is a function from the current state to the next one. It is applied to the state at that time, so that two
concurrent changes never overwrite each other.
"""

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from enum import Enum, auto
from typing import Any, Final, Generic, TypeVar

import msgspec

from levelset.objects import Ref

__all__ = ["ANY_KEY", "DeferFailure", "DeferFailureKind", "DeferredChange", "DeferredChanges", "log_defer_failure"]

Kind = TypeVar("Kind")
State = TypeVar("State")

log = logging.getLogger(__name__)

ANY_KEY: Final = object()
"""Instead of a key: the change applies whatever the key of the object is."""


class DeferFailureKind(Enum):
    """Why a deferred change was not applied, or not announced."""

    FAILED = auto()
    """It raised an error, or returned an invalid state; later changes were applied."""

    EXPIRED = auto()
    """The object had no state to apply it to for too long."""

    EVICTED = auto()
    """Too many changes were queued, and this was the oldest."""

    LISTENER_FAILED = auto()
    """A listener raised an error instead of waking its controller; the change stays queued."""


class DeferFailure(msgspec.Struct, frozen=True):
    """A deferred change that was not applied, or not announced."""

    ref: Ref[Any]
    kind: DeferFailureKind
    error: Exception | None = None

    def __str__(self) -> str:
        cause = f": {self.error!r}" if self.error is not None else ""
        return f"deferred change of {self.ref}: {self.kind.name.lower().replace('_', ' ')}{cause}"


def log_defer_failure(failure: DeferFailure) -> None:
    """Logs a failure: the default `report`."""
    log.error("%s", failure, exc_info=failure.error)


class DeferredChange(msgspec.Struct, Generic[State], frozen=True):
    """One queued change."""

    apply: Callable[[State], State | None]
    """Returns the next state, or None to leave it unchanged."""
    for_key: Hashable
    """The external key that the object must still have by then; ANY_KEY if it does not matter."""


class DeferredChanges(Generic[Kind, State]):
    """A queue of changes for each object.

    Changes of an object that has a state stay until its next reconcile. Those of an object without one, an *orphan*,
    stay `orphan_timeout` seconds. An object has at most `limit` changes, and there are at most `orphan_limit` orphans;
    beyond that the oldest is dropped. Every dropped change is reported.
    """

    def __init__(
        self,
        *,
        limit: int,
        orphan_timeout: float,
        orphan_limit: int,
        report: Callable[[DeferFailure], object] = log_defer_failure,
    ) -> None:
        if not (limit > 0 and orphan_timeout > 0 and orphan_limit > 0):
            raise ValueError(f"deferred changes: {limit=}, {orphan_timeout=} and {orphan_limit=} must be above 0")
        self.report = report
        self._limit = limit
        self._orphan_timeout = orphan_timeout
        self._orphan_limit = orphan_limit
        self._queues: dict[Ref[Kind], deque[DeferredChange[State]]] = {}
        self._orphans: dict[Ref[Kind], float] = {}  # since when, the oldest first

    def __len__(self) -> int:
        """The number of queued changes."""
        return sum(map(len, self._queues.values()))

    def __contains__(self, ref: object) -> bool:
        return ref in self._queues

    def __iter__(self) -> Iterator[Ref[Kind]]:
        """The objects with queued changes."""
        return iter(self._queues)

    def add(
        self, ref: Ref[Kind], change: Callable[[State], State | None], *, for_key: Hashable, orphan: bool, now: float
    ) -> None:
        """Appends a change to the queue of its object."""
        queue = self._queues.setdefault(ref, deque())
        if orphan:
            self._orphans.setdefault(ref, now)
        if len(queue) >= self._limit:
            queue.popleft()
            self.report(DeferFailure(ref, DeferFailureKind.EVICTED))
        queue.append(DeferredChange(change, for_key))
        self.expire(now)

    def adopt(self, ref: Ref[Kind]) -> bool:
        """Called when the object has a state from now on; returns whether it has queued changes."""
        self._orphans.pop(ref, None)
        return ref in self._queues

    def forget(self, ref: Ref[Kind]) -> int:
        """Drops the changes of a deleted object; returns how many there were."""
        self._orphans.pop(ref, None)
        return len(self._queues.pop(ref, ()))

    def take(self, ref: Ref[Kind]) -> "Iterable[DeferredChange[State]]":
        """Removes and returns the changes of an object, the oldest first."""
        return self._queues.pop(ref, ())

    def expire(self, now: float) -> None:
        """Drops and reports the changes of orphans that waited too long, or are too many."""
        while self._orphans:
            ref, since = next(iter(self._orphans.items()))
            is_late = now - since >= self._orphan_timeout
            if not is_late and len(self._orphans) <= self._orphan_limit:
                return
            for _ in range(self.forget(ref)):
                self.report(DeferFailure(ref, DeferFailureKind.EXPIRED if is_late else DeferFailureKind.EVICTED))
