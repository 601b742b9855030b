"""The recent outcomes of a controller, bounded, newest last: what was reconciled, why, and with which result.

Recording must cost next to nothing, since it happens for every reconcile: a record is a plain tuple, and an `Outcome`
is only made of it when it is read. `flush` moves the pending records into the history and has them counted by the
metrics, about a thousand at a time.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar, overload

from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Action, Outcome, Result
from levelset.runtime.controller.request import Reason

__all__ = [
    "CountReconciles",
    "ReconcileHistory",
    "Record",
    "collapse_repeats",
    "count_repeats",
    "failing_now",
    "is_poll",
]

K = TypeVar("K")
T = TypeVar("T")

Record = tuple[str, Result, Action, Exception | None, float, tuple[Reason, ...], int, float, float]
"""One reconcile: the key of its object, then the fields of its `Outcome`."""
CountReconciles = Callable[[Sequence[Record]], object]
"""Counts a batch of reconciles."""

_MAX_BATCH: Final = 1024
_POLL_REASONS: Final = frozenset({"requeued", "bulk"})
_QUIET: Final = frozenset({"done", "requeued"})
_SAME: Final = ("controller", "object", "pid")
_SAME_FAILURE: Final = ("result", "error", "reasons")
_SAME_STEP: Final = ("result", "error", "reasons", "next")
_CYCLES: Final = (2, 3)
"""The lengths of cycles that are found: a poll, and what it has other sources trigger."""

_log = logging.getLogger(__name__)


class ReconcileHistory(Sequence[Outcome[K]], Generic[K]):
    """The last `most` outcomes, oldest first; `total` counts also those that have been dropped.

    `count` is called once with each record, in batches, when it is flushed: when a batch is full, or when the history
    is read. `ref_of` makes the ref of a key.
    """

    __slots__ = ("_count", "_flushed", "_records", "_ref_of", "max_pending", "pending")

    def __init__(
        self, most: int = 1000, *, ref_of: Callable[[str], Ref[Any]], count: CountReconciles | None = None
    ) -> None:
        self.pending: list[Record] = []
        """Records that are not flushed yet, always in the same list: workers append theirs to it."""
        self.max_pending = max(1, min(most, _MAX_BATCH))
        """At this length, workers call `flush`."""
        self._records: deque[Record] = deque(maxlen=most)
        self._count = count
        self._ref_of = ref_of
        self._flushed = 0

    @property
    def total(self) -> int:
        """How many outcomes there were so far."""
        return self._flushed + len(self.pending)

    def flush(self) -> None:
        """Moves pending records into the history and has them counted."""
        if not self.pending:
            return
        flushed = self.pending.copy()
        self.pending.clear()
        self._flushed += len(flushed)
        self._records.extend(flushed)
        if self._count is not None:
            try:
                self._count(flushed)
            except Exception as error:  # noqa: BLE001 -- metrics must not break the controller
                _log.error("%d reconciles could not be counted: %s", len(flushed), error, exc_info=error)

    def of(self, ref: Ref[Any]) -> list[Outcome[K]]:
        """The outcomes of one object."""
        return [one for one in self if one.ref == ref]

    def __len__(self) -> int:
        self.flush()
        return len(self._records)

    def __iter__(self) -> Iterator[Outcome[K]]:
        return iter(self[:])

    @overload
    def __getitem__(self, index: int) -> Outcome[K]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Outcome[K]]: ...
    def __getitem__(self, index: int | slice) -> Outcome[K] | list[Outcome[K]]:
        self.flush()
        if isinstance(index, slice):
            return [self._outcome(record) for record in list(self._records)[index]]
        return self._outcome(self._records[index])

    def __repr__(self) -> str:
        return f"<ReconcileHistory of {len(self)} of {self.total} reconciles>"

    def _outcome(self, record: Record) -> Outcome[Any]:
        return Outcome(self._ref_of(record[0]), *record[1:])


def failing_now(history: Iterable[Outcome[K]]) -> list[tuple[Outcome[K], float]]:
    """The last outcome of each object whose last reconcile failed, and since when (on the loop's clock) it fails."""
    last: dict[str, Outcome[K]] = {}
    since: dict[str, float] = {}
    for one in history:
        key = one.ref.key
        if one.is_error and (key not in last or not last[key].is_error):
            since[key] = one.at
        last[key] = one
    return [(one, since[key]) for key, one in last.items() if one.is_error]


def is_poll(reasons: Iterable[str], result: str) -> bool:
    """Whether a reconcile for reasons of these kinds only polled: it was requeued by itself, and did not fail.

    One that has written something did more, which the caller has to know.
    """
    kinds = set(reasons)
    return result in _QUIET and bool(kinds) and kinds <= _POLL_REASONS


def count_repeats(items: Iterable[T], key: Callable[[T], Hashable], most: int) -> list[tuple[T, int]]:
    """The first item of each of the `most` first keys, with the number of items that have this key."""
    found: dict[Hashable, T] = {}
    counts = Counter[Hashable]()
    for one in items:
        of = key(one)
        if of in found or len(found) < most:
            found.setdefault(of, one)
            counts[of] += 1
    return [(one, counts[of]) for of, one in found.items()]


def collapse_repeats(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Joins neighbouring reconciles of one object by one controller, oldest first, that only repeat the one before.

    These are polls (`is_poll`), and failures with the same error for the same reasons that have written nothing; also
    two or three that are the same each time, a poll among them. The last of them gets their number as `times`, and as
    `first` the `at` of the first.
    """
    found: list[dict[str, Any]] = []
    for one in entries:
        last = found[-1] if found else None
        if last is not None and _is_same(last, one) and _repeats(last, one):
            found[-1] = {**one, "times": last["times"] + 1, "first": last["first"]}
        else:
            found.append({**one, "times": 1, "first": one["at"]})
            _collapse_cycle(found)
    return found


def _collapse_cycle(found: list[dict[str, Any]]) -> None:
    """Joins the last few entries with as many before them, if they are the same step by step."""
    for length in _CYCLES:
        before, last = found[-2 * length : -length], found[-length:]
        if len(before) == length and _is_cycle(before, last):
            again = [
                {**new, "times": old["times"] + 1, "first": old["first"]} for old, new in zip(before, last, strict=True)
            ]
            found[-2 * length :] = again
            return


def _is_cycle(before: Sequence[dict[str, Any]], last: Sequence[dict[str, Any]]) -> bool:
    is_counted = len({one["times"] for one in before}) == 1 and all(one["times"] == 1 for one in last)
    if not is_counted or not any(one["is_poll"] for one in last) or any(one.get("writes") for one in (*before, *last)):
        return False
    names = (*_SAME, *_SAME_STEP)
    return all(old.get(name) == new.get(name) for old, new in zip(before, last, strict=True) for name in names)


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one.get(name) == other.get(name) for name in _SAME)


def _repeats(last: dict[str, Any], one: dict[str, Any]) -> bool:
    if one.get("error") is None or one.get("writes") or last.get("writes"):
        return bool(last["is_poll"] and one["is_poll"])
    return all(last.get(name) == one.get(name) for name in _SAME_FAILURE)
