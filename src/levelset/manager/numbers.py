"""What is counted of one controller: plain attributes, because counting happens far more often than looking.

What came of a reconcile is only kept at first, and counted with a thousand others: a loop over many costs a third of as
many calls.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from levelset.controller.actions import Outcome
from levelset.controller.requests import Reason
from levelset.errors import LevelsetError

__all__ = ["BOUNDS", "MANY", "QUEUE_BOUNDS", "RECONCILE_BOUNDS", "RESULTS", "Numbers", "fold"]

RECONCILE_BOUNDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0),
    *(40.0, 50.0, 60.0),
)
"""The buckets of controller_runtime_reconcile_time_seconds."""

QUEUE_BOUNDS: Final = (1e-08, 1e-07, 1e-06, 1e-05, 0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
"""The buckets of the workqueue histograms."""

BOUNDS: Final = tuple(sorted({*RECONCILE_BOUNDS, *QUEUE_BOUNDS}))
"""Both together: each time is put into one of these, and folded into theirs when somebody looks."""

RESULTS: Final = ("success", "error", "requeue", "requeue_after")

MANY: Final = 1024
"""So many outcomes are kept before they are counted."""

_WORDS: Final = {
    "done": "success",
    "gone": "success",
    "requeued": "requeue_after",
    "retry": "requeue_after",
    "conflict": "requeue",
    "failed": "error",
    "timed_out": "error",
    "gave_up": "error",
}
_MOST_REASONS: Final = 25
_OTHER: Final = "other"


class Numbers:
    """The counters of one controller."""

    __slots__ = (
        "adds",
        "ask_adds",
        "ask_ages",
        "ask_depth",
        "concurrency",
        "depth",
        "ended",
        "errors",
        "hot_loops",
        "panics",
        "reasons",
        "results",
        "retries",
        "running",
        "settle",
        "terminal",
        "timeouts",
        "waited",
        "waited_counts",
        "worked",
        "worked_counts",
    )

    def __init__(self) -> None:
        self.adds = self.retries = self.depth = self.hot_loops = 0
        self.errors = self.terminal = self.panics = self.timeouts = 0
        self.concurrency = 1
        self.ask_depth: Callable[[], int] | None = None
        self.ask_adds: Callable[[], int] | None = None
        self.ask_ages: Callable[[], list[float]] | None = None
        self.settle: Callable[[], None] | None = None
        self.results: dict[str, int] = dict.fromkeys(RESULTS, 0)
        self.reasons: dict[str, int] = {}
        self.running: dict[int, float] = {}
        self.ended: list[Outcome[Any]] = []
        self.waited = self.worked = 0.0
        self.waited_counts = [0] * (len(BOUNDS) + 1)
        self.worked_counts = [0] * (len(BOUNDS) + 1)

    def ages(self, now: float) -> list[float]:
        """For how many seconds each reconcile that runs has done so."""
        return [now - began for began in self.running.values()] if self.ask_ages is None else self.ask_ages()

    def take_in(self) -> None:
        """Counts what has been kept."""
        if self.settle is not None:
            self.settle()
        ended, self.ended = self.ended, []
        if ended:
            self.count([part for one in ended for part in (one, one.seconds, one.reasons, one.waited)])

    def count(self, laid: Sequence[Any]) -> None:
        """Counts some looks, at least one, as a `History` lays them down.

        Nearly always all went well, and for the same reasons as the first: that is seen without a step for each.
        """
        ended: Sequence[Any] = laid[::4]
        reasons: Sequence[tuple[Reason, ...]] = laid[2::4]
        self.worked += _count_times(laid[1::4], self.worked_counts)
        self.waited += _count_times(laid[3::4], self.waited_counts)
        usual = reasons[0]
        if len(set(map(id, reasons))) == 1:
            self._count_reasons(Counter([reason.kind for reason in usual]), len(reasons))
        else:
            self._count_reasons(Counter([reason.kind for those in reasons for reason in those]), 1)
        rest: list[Outcome[Any]] = []
        if Outcome in set(map(type, ended)):
            rest = [one for one in ended if type(one) is Outcome and one.result != "done"]
        self.results["success"] += len(ended) - len(rest)
        for one in rest:
            self._count_result(one)

    def _count_reasons(self, counted: Counter[str], times: int) -> None:
        """Adds to the reasons; those of users, who write their own words, become `other` if there are many."""
        for kind, number in counted.items():
            known = kind if kind in self.reasons or len(self.reasons) < _MOST_REASONS else _OTHER
            self.reasons[known] = self.reasons.get(known, 0) + number * times

    def _count_result(self, outcome: Outcome[Any]) -> None:
        result, error = outcome.result, outcome.error
        word = _WORDS.get(result, "error")
        if result == "requeued" and not outcome.action.after:
            word = "requeue"
        self.results[word] += 1
        self.retries += result in {"failed", "timed_out", "conflict", "retry"}
        if word == "error":
            self.errors += 1
            self.terminal += result == "gave_up"
            self.timeouts += result == "timed_out"
            self.panics += result == "failed" and error is not None and not isinstance(error, LevelsetError)


def _count_times(times: Sequence[float], counts: list[int]) -> float:
    """Counts the times up to each bound, and gives their sum.

    They are sorted first: with those of each bound side by side, none is asked about by itself.
    """
    ordered, before = sorted(times), 0
    for place in range(bisect_left(BOUNDS, ordered[0]), bisect_left(BOUNDS, ordered[-1])):
        at = bisect_right(ordered, BOUNDS[place], before)
        counts[place] += at - before
        before = at
    counts[bisect_left(BOUNDS, ordered[-1])] += len(ordered) - before
    return sum(times)


def fold(bounds: tuple[float, ...], counts: list[int]) -> list[int]:
    """The counts by `BOUNDS` as counts by some of them."""
    folded = [0] * (len(bounds) + 1)
    place = 0
    for bound, count in zip(BOUNDS, counts, strict=False):
        while place < len(bounds) and bounds[place] < bound:
            place += 1
        folded[place] += count
    folded[-1] += counts[-1]
    return folded
