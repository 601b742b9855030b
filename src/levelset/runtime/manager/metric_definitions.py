"""The names, labels and help texts of all metrics: how counted numbers are shown.

What is counted of one controller: plain attributes, because counting happens far more often than looking.

What came of a reconcile is only kept at first, and counted with a thousand others: a loop over many costs a third of as
many calls.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

from levelset.errors import LevelsetError
from levelset.runtime.cache.informer import Stats
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.request import Reason
from levelset.runtime.manager.prometheus_text import Family, Sample, histogram_samples

__all__ = [
    "BOUNDS",
    "MANY",
    "QUEUE_BOUNDS",
    "RECONCILE_BOUNDS",
    "RESULTS",
    "Numbers",
    "cache_families",
    "controller_families",
    "fold",
    "master_family",
    "request_family",
]

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


_Kind = Literal["counter", "gauge", "histogram"]


def controller_families(all_numbers: Mapping[str, Numbers], now: float) -> Iterator[Family]:
    """What is known of each controller."""
    runtime, queue = partial(_family, all_numbers, _runtime), partial(_family, all_numbers, _queue)
    yield _results(all_numbers)
    yield from (runtime(*row) for row in _RUNTIME)
    yield from (queue(*row) for row in _QUEUE)
    ages = {name: [0.0, *one.ages(now)] for name, one in all_numbers.items()}
    for name, text, total in _AGES:
        yield Family(name, "gauge", text, [Sample(total(ages[one]), _queue(one)) for one in all_numbers])
    for name, text, bounds, labels, pick in _TIMES:
        samples: list[Sample] = []
        for controller, one in all_numbers.items():
            counts, total = pick(one)
            samples += histogram_samples(bounds, fold(bounds, counts), total, labels(controller))
        yield Family(name, "histogram", text, samples)
    yield _reasons(all_numbers)


def cache_families(cluster: str, stats: Iterable[Stats]) -> Iterator[Family]:
    """What is known of each watch of a cluster."""
    found = tuple(stats)
    for name, kind, text, pick in _CACHE:
        samples = [
            Sample(value, {"cluster": cluster, "watch": one.name}) for one in found if (value := pick(one)) is not None
        ]
        yield Family(name, kind, text, samples)


def master_family(name: str, *, is_leader: bool) -> Family:
    """Whether this process leads."""
    text = "Whether this process leads: 1 if it does, 0 if it waits."
    return Family("leader_election_master_status", "gauge", text, [Sample(int(is_leader), {"name": name})])


def request_family(requests: Mapping[tuple[int | None, str, str], int]) -> Family:
    """How many requests were sent, and how they were answered; without a status, not at all."""
    samples = [
        Sample(count, {"code": "<error>" if status is None else str(status), "method": method, "host": host})
        for (status, method, host), count in requests.items()
    ]
    return Family("rest_client_requests_total", "counter", "Requests by status code, method and host.", samples)


def _runtime(controller: str) -> dict[str, str]:
    return {"controller": controller}


def _queue(controller: str) -> dict[str, str]:
    return {"name": controller, "controller": controller}


def _family(
    all_numbers: Mapping[str, Numbers],
    labels: Callable[[str], dict[str, str]],
    *row: Any,
) -> Family:
    name, kind, text, pick = row
    return Family(name, kind, text, [Sample(pick(one), labels(controller)) for controller, one in all_numbers.items()])


def _results(all_numbers: Mapping[str, Numbers]) -> Family:
    samples = [
        Sample(count, {"controller": controller, "result": result})
        for controller, one in all_numbers.items()
        for result, count in one.results.items()
    ]
    return Family("controller_runtime_reconcile_total", "counter", "Reconciles by their result.", samples)


def _reasons(all_numbers: Mapping[str, Numbers]) -> Family:
    samples = [
        Sample(count, {"controller": controller, "reason": reason})
        for controller, one in all_numbers.items()
        for reason, count in one.reasons.items()
    ]
    return Family("levelset_reconcile_reasons_total", "counter", "Why objects were reconciled.", samples)


def _adds(one: Numbers) -> int:
    return one.adds if one.ask_adds is None else one.ask_adds()


def _depth(one: Numbers) -> int:
    return one.depth if one.ask_depth is None else one.ask_depth()


_AGES: Sequence[tuple[str, str, Callable[[list[float]], float]]] = (
    (
        "workqueue_unfinished_work_seconds",
        "Seconds that running reconciles have taken so far, all together.",
        sum,
    ),
    (
        "workqueue_longest_running_processor_seconds",
        "Seconds that the longest running reconcile has taken so far.",
        max,
    ),
)

_RUNTIME: Sequence[tuple[str, _Kind, str, Callable[[Numbers], float]]] = (
    (
        "controller_runtime_reconcile_errors_total",
        "counter",
        "Reconciles that failed, whether or not they are tried again.",
        lambda one: one.errors,
    ),
    (
        "controller_runtime_terminal_reconcile_errors_total",
        "counter",
        "Reconciles that gave up.",
        lambda one: one.terminal,
    ),
    (
        "controller_runtime_reconcile_panics_total",
        "counter",
        "Reconciles that failed with an error that nobody raised on purpose.",
        lambda one: one.panics,
    ),
    (
        "controller_runtime_reconcile_timeouts_total",
        "counter",
        "Reconciles that took longer than they may.",
        lambda one: one.timeouts,
    ),
    (
        "controller_runtime_max_concurrent_reconciles",
        "gauge",
        "How many objects may be reconciled at the same time.",
        lambda one: one.concurrency,
    ),
    (
        "controller_runtime_active_workers",
        "gauge",
        "How many objects are being reconciled now.",
        lambda one: len(one.ages(0.0)),
    ),
    (
        "levelset_hot_loops_total",
        "counter",
        "Objects that were reconciled again and again because of the controller's own writes.",
        lambda one: one.hot_loops,
    ),
)

_QUEUE: Sequence[tuple[str, _Kind, str, Callable[[Numbers], float]]] = (
    ("workqueue_depth", "gauge", "Requests that wait.", _depth),
    ("workqueue_adds_total", "counter", "Requests that were queued.", _adds),
    (
        "workqueue_retries_total",
        "counter",
        "Requests that were queued because a try has failed.",
        lambda one: one.retries,
    ),
)

_TIMES: Sequence[tuple[str, str, tuple[float, ...], Callable[[str], dict[str, str]], Callable[[Numbers], Any]]] = (
    (
        "controller_runtime_reconcile_time_seconds",
        "How long reconciles take.",
        RECONCILE_BOUNDS,
        _runtime,
        lambda one: (one.worked_counts, one.worked),
    ),
    (
        "workqueue_work_duration_seconds",
        "How long a request is worked on.",
        QUEUE_BOUNDS,
        _queue,
        lambda one: (one.worked_counts, one.worked),
    ),
    (
        "workqueue_queue_duration_seconds",
        "How long a request that is due waits for a worker.",
        QUEUE_BOUNDS,
        _queue,
        lambda one: (one.waited_counts, one.waited),
    ),
)

_CACHE: Sequence[tuple[str, _Kind, str, Callable[[Stats], float | None]]] = (
    ("levelset_cache_synced", "gauge", "Whether a watch has its objects.", lambda one: int(one.is_ready)),
    ("levelset_cache_objects", "gauge", "Objects in the cache.", lambda one: one.objects),
    ("levelset_cache_bytes", "gauge", "Bytes of the objects in the cache, as JSON.", lambda one: one.bytes),
    ("levelset_cache_lag_seconds", "gauge", "Seconds since the server last sent something.", lambda one: one.lag),
    ("levelset_cache_events_total", "counter", "Changes that were seen.", lambda one: one.events),
    ("levelset_cache_relists_total", "counter", "Complete lists after the first.", lambda one: one.relists),
    (
        "levelset_cache_reconnects_total",
        "counter",
        "Watches that were opened after the first.",
        lambda one: one.reconnects,
    ),
    ("levelset_cache_errors_total", "counter", "Troubles of a watch.", lambda one: one.errors),
    ("levelset_cache_waiting", "gauge", "Changes that the slowest reader has yet to read.", lambda one: one.waiting),
)
