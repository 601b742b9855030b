"""The recent outcomes of a controller, bounded, newest last: what was reconciled, why, and with which result.

Recording must cost next to nothing, since it happens for every reconcile: the worker appends four plain values to
`pending`, and an `Outcome` is only made when it is read. `flush` moves pending entries into the history and has them
counted by the metrics, about a thousand at a time.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar, overload

from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Outcome, await_change

__all__ = ["CountReconciles", "ReconcileHistory"]

K = TypeVar("K")

CountReconciles = Callable[[Sequence[Any]], object]
"""Counts a batch of reconciles, given as entries of `ReconcileHistory.pending`: four values each."""

_MAX_BATCH: Final = 1024
_AWAIT: Final = await_change()

_log = logging.getLogger(__name__)


def _same(ref: Ref[Any]) -> Ref[Any]:
    return ref


class ReconcileHistory(Sequence[Outcome[K]], Generic[K]):
    """The last `most` outcomes, oldest first; `total` counts also those that have been dropped.

    `count` is called once with each entry, in batches, when it is flushed: when a batch is full, or when the history is
    read. `ref_of` makes the ref of what the worker appended in place of an outcome (its key).
    """

    __slots__ = ("_count", "_entries", "_flushed", "_most", "_ref_of", "max_pending", "pending")

    def __init__(
        self, most: int = 1000, *, count: CountReconciles | None = None, ref_of: Callable[[Any], Ref[Any]] = _same
    ) -> None:
        self.pending: list[Any] = []
        """Entries that are not flushed yet; always the same list, so that workers may hold on to it.

        Each reconcile takes four places: outcome, seconds, reasons, and how long the request had waited. For a
        reconcile that succeeded and requeues nothing, as nearly all do, the object's key stands for the outcome.
        """
        self.max_pending = 4 * max(1, min(most, _MAX_BATCH))
        """At this length, workers call `flush`."""
        self._count = count
        self._ref_of = ref_of
        self._most = most
        self._entries: list[Any] = []
        self._flushed = 0

    @property
    def total(self) -> int:
        """How many outcomes there were so far."""
        return self._flushed + len(self.pending) // 4

    def add(self, outcome: Outcome[K]) -> None:
        """Adds an outcome, and drops the oldest if there are too many."""
        self.pending += (outcome, outcome.seconds, outcome.reasons, outcome.waited)
        if len(self.pending) >= self.max_pending:
            self.flush()

    def newest(self) -> Outcome[K]:
        """The outcome of the last reconcile."""
        return self._outcome_at(self.pending or self._entries, -4)

    def flush(self) -> None:
        """Moves pending entries into the history and has them counted."""
        if not self.pending:
            return
        flushed, entries = self.pending.copy(), self._entries
        self.pending.clear()
        self._flushed += len(flushed) // 4
        entries += flushed
        del entries[: max(0, len(entries) - 4 * self._most)]
        if self._count is not None:
            try:
                self._count(flushed)
            except Exception as error:  # noqa: BLE001 -- metrics must not break the controller
                _log.error("%d reconciles could not be counted: %s", len(flushed) // 4, error, exc_info=error)

    def of(self, ref: Ref[Any]) -> list[Outcome[K]]:
        """The outcomes of one object."""
        return [one for one in self if one.ref == ref]

    def __len__(self) -> int:
        self.flush()
        return len(self._entries) // 4

    def __iter__(self) -> Iterator[Outcome[K]]:
        return iter(self[:])

    @overload
    def __getitem__(self, index: int) -> Outcome[K]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Outcome[K]]: ...
    def __getitem__(self, index: int | slice) -> Outcome[K] | list[Outcome[K]]:
        places = range(0, 4 * len(self), 4)[index]
        entries, outcome_at = self._entries, self._outcome_at
        return outcome_at(entries, places) if isinstance(places, int) else [outcome_at(entries, one) for one in places]

    def __repr__(self) -> str:
        return f"<ReconcileHistory of {len(self)} of {self.total} reconciles>"

    def _outcome_at(self, entries: list[Any], place: int) -> Outcome[Any]:
        """The outcome at a place; made once, and then stored there."""
        found: Outcome[Any] | Ref[Any] | str = entries[place]
        if isinstance(found, Outcome):
            return found
        _, seconds, reasons, waited = entries[place : place + 4 or None]
        made: Outcome[Any] = Outcome(self._ref_of(found), "done", _AWAIT, None, seconds, reasons, 0, waited)
        entries[place] = made
        return made
