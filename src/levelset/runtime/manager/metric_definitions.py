"""The counters of a controller, and the names, labels and help texts of all metrics.

Finished reconciles are counted in batches of about a thousand: one loop over many costs a third of as many calls.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from levelset.errors import LevelsetError
from levelset.runtime.cache.informer import Stats
from levelset.runtime.controller.actions import Action, Outcome
from levelset.runtime.controller.reconcile_history import Record
from levelset.runtime.manager.prometheus_text import Family, Sample, histogram_samples

if TYPE_CHECKING:
    from levelset.runtime.manager.sharding.member import MemberReport

__all__ = [
    "BATCH_SIZE",
    "BOUNDS",
    "QUEUE_BOUNDS",
    "RECONCILE_BOUNDS",
    "RESULTS",
    "ControllerMetrics",
    "cache_families",
    "controller_families",
    "fold",
    "master_family",
    "request_family",
    "shard_families",
    "unhandled_family",
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
"""The union of both: durations are counted in these buckets, and folded into either set by a scrape."""

RESULTS: Final = ("success", "error", "requeue", "requeue_after")

BATCH_SIZE: Final = 1024
"""So many outcomes are buffered before they are counted."""

_RESULT_LABELS: Final = {
    "done": "success",
    "gone": "success",
    "requeued": "requeue_after",
    "retry": "requeue_after",
    "conflict": "requeue",
    "failed": "error",
    "timed_out": "error",
    "gave_up": "error",
}
_result_of, _seconds_of, _reasons_of, _waited_of = map(itemgetter, (1, 4, 5, 7))
_MAX_REASONS: Final = 25
_OTHER: Final = "other"


class ControllerMetrics:
    """The counters of one controller, as plain attributes; `read_...` functions replace counters where given."""

    __slots__ = (
        "adds",
        "concurrency",
        "crashes",
        "depth",
        "ended",
        "errors",
        "flush_history",
        "hot_loops",
        "panics",
        "read_ages",
        "read_depth",
        "read_enqueued",
        "reasons",
        "results",
        "retries",
        "running",
        "terminal",
        "timeouts",
        "waited",
        "waited_counts",
        "worked",
        "worked_counts",
    )

    def __init__(self) -> None:
        self.adds = self.retries = self.depth = self.hot_loops = self.crashes = 0
        self.errors = self.terminal = self.panics = self.timeouts = 0
        self.concurrency = 1
        self.read_depth: Callable[[], int] | None = None
        self.read_enqueued: Callable[[], int] | None = None
        self.read_ages: Callable[[], list[float]] | None = None
        self.flush_history: Callable[[], None] | None = None
        self.results: dict[str, int] = dict.fromkeys(RESULTS, 0)
        self.reasons: dict[str, int] = {}
        self.running: dict[int, float] = {}
        self.ended: list[Outcome[Any]] = []
        self.waited = self.worked = 0.0
        self.waited_counts = [0] * (len(BOUNDS) + 1)
        self.worked_counts = [0] * (len(BOUNDS) + 1)

    def ages(self, now: float) -> list[float]:
        """The seconds that each running reconcile has taken so far."""
        return [now - began for began in self.running.values()] if self.read_ages is None else self.read_ages()

    def flush(self) -> None:
        """Counts what is still buffered, here and in the controller's history."""
        if self.flush_history is not None:
            self.flush_history()
        ended, self.ended = self.ended, []
        if ended:
            self.count([("", *msgspec.structs.astuple(one)[1:]) for one in ended])

    def count(self, records: Sequence[Record]) -> None:
        """Counts a batch of at least one reconcile."""
        results, reasons = [*map(_result_of, records)], [*map(_reasons_of, records)]
        self.worked += _count_times([*map(_seconds_of, records)], self.worked_counts)
        self.waited += _count_times([*map(_waited_of, records)], self.waited_counts)
        are_shared = len(set(map(id, reasons))) == 1  # nearly always: then they are counted once for all
        for those, times in [(reasons[0], len(reasons))] if are_shared else zip(reasons, repeat(1), strict=False):
            for reason in those:
                self._count_reason(reason.kind, times)
        done = results.count("done")
        self.results["success"] += done
        if done < len(results):
            for _, result, action, error, *_ in records:
                if result != "done":
                    self._count_result(result, action, error)

    def _count_reason(self, kind: str, times: int) -> None:
        """Adds to the reasons; beyond a limit, further ones become `other`, since users may define their own."""
        known = kind if kind in self.reasons or len(self.reasons) < _MAX_REASONS else _OTHER
        self.reasons[known] = self.reasons.get(known, 0) + times

    def _count_result(self, result: str, action: Action, error: Exception | None) -> None:
        label = _RESULT_LABELS.get(result, "error")
        if result == "requeued" and not action.after:
            label = "requeue"
        self.results[label] += 1
        self.retries += result in {"failed", "timed_out", "conflict", "retry"}
        if label == "error":
            self.errors += 1
            self.terminal += result == "gave_up"
            self.timeouts += result == "timed_out"
            self.panics += result == "failed" and error is not None and not isinstance(error, LevelsetError)


def _count_times(times: Sequence[float], counts: list[int]) -> float:
    """Adds durations to the buckets, and returns their sum.

    They are sorted first, so that one bisection per bucket is enough.
    """
    ordered, before = sorted(times), 0
    for place in range(bisect_left(BOUNDS, ordered[0]), bisect_left(BOUNDS, ordered[-1])):
        at = bisect_right(ordered, BOUNDS[place], before)
        counts[place] += at - before
        before = at
    counts[bisect_left(BOUNDS, ordered[-1])] += len(ordered) - before
    return sum(times)


def fold(bounds: tuple[float, ...], counts: list[int]) -> list[int]:
    """The counts by `BOUNDS` folded into the buckets of a subset of them."""
    folded = [0] * (len(bounds) + 1)
    place = 0
    for bound, count in zip(BOUNDS, counts, strict=False):
        while place < len(bounds) and bounds[place] < bound:
            place += 1
        folded[place] += count
    folded[-1] += counts[-1]
    return folded


_Kind = Literal["counter", "gauge", "histogram"]


def controller_families(controllers: Mapping[str, ControllerMetrics], now: float) -> Iterator[Family]:
    """The metric families of all controllers."""
    runtime, queue = partial(_family, controllers, _runtime), partial(_family, controllers, _queue)
    yield _results(controllers)
    yield from (runtime(*row) for row in _RUNTIME)
    yield from (queue(*row) for row in _QUEUE)
    ages = {name: [0.0, *one.ages(now)] for name, one in controllers.items()}
    for name, text, total in _AGES:
        yield Family(name, "gauge", text, [Sample(total(ages[one]), _queue(one)) for one in controllers])
    for name, text, bounds, labels, pick in _TIMES:
        samples: list[Sample] = []
        for controller, one in controllers.items():
            counts, total = pick(one)
            samples += histogram_samples(bounds, fold(bounds, counts), total, labels(controller))
        yield Family(name, "histogram", text, samples)
    yield _reasons(controllers)


def cache_families(cluster: str, stats: Iterable[Stats]) -> Iterator[Family]:
    """The metric families of the watches of a cluster."""
    found = tuple(stats)
    for name, kind, text, pick in _CACHE:
        samples = [
            Sample(value, {"cluster": cluster, "watch": one.name}) for one in found if (value := pick(one)) is not None
        ]
        yield Family(name, kind, text, samples)


def unhandled_family(counts: Mapping[str, int]) -> Family:
    """The metric of errors that reached the event loop, of tasks or of callbacks."""
    text = "Errors of callbacks, and of tasks that no code awaits, that reached the event loop."
    return Family(
        "levelset_unhandled_errors_total",
        "counter",
        text,
        [Sample(count, {"source": one}) for one, count in counts.items()],
    )


def master_family(name: str, *, is_leader: bool) -> Family:
    """The family that says whether this process leads."""
    text = "Whether this process is the leader: 1 if it is, 0 if it waits."
    return Family("leader_election_master_status", "gauge", text, [Sample(int(is_leader), {"name": name})])


def shard_families(
    name: str, members: "Sequence[MemberReport]", counts: Mapping[str, tuple[int, int, int]], handovers: int
) -> Iterator[Family]:
    """The members of the shards, and by controller the objects that this one owns, has gained and lost."""
    labels = {"name": name}
    yield Family("levelset_shard_members", "gauge", "Members that this one knows.", [Sample(len(members), labels)])
    keys = [Sample(one.keys, {**labels, "member": one.name}) for one in members]
    yield Family("levelset_shard_member_keys", "gauge", "Objects of each member, as it last published.", keys)
    text = "How often the members have changed."
    yield Family("levelset_shard_changes_total", "counter", text, [Sample(handovers, labels)])
    owned = [Sample(count[0], {**labels, "controller": one}) for one, count in counts.items()]
    yield Family("levelset_shard_keys", "gauge", "Objects that this member owns.", owned)
    moved = [
        Sample(count[index], {**labels, "controller": one, "direction": direction})
        for one, count in counts.items()
        for index, direction in ((1, "gained"), (2, "lost"))
    ]
    yield Family("levelset_shard_handovers_total", "counter", "Objects that have come here or gone away.", moved)


def request_family(requests: Mapping[tuple[int | None, str, str], int]) -> Family:
    """The family of sent requests by status code; None is a request without a response."""
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
    controllers: Mapping[str, ControllerMetrics],
    labels: Callable[[str], dict[str, str]],
    *row: Any,
) -> Family:
    name, kind, text, pick = row
    return Family(name, kind, text, [Sample(pick(one), labels(controller)) for controller, one in controllers.items()])


def _results(controllers: Mapping[str, ControllerMetrics]) -> Family:
    samples = [
        Sample(count, {"controller": controller, "result": result})
        for controller, one in controllers.items()
        for result, count in one.results.items()
    ]
    return Family("controller_runtime_reconcile_total", "counter", "Reconciles by their result.", samples)


def _reasons(controllers: Mapping[str, ControllerMetrics]) -> Family:
    samples = [
        Sample(count, {"controller": controller, "reason": reason})
        for controller, one in controllers.items()
        for reason, count in one.reasons.items()
    ]
    return Family("levelset_reconcile_reasons_total", "counter", "Why objects were reconciled.", samples)


def _adds(one: ControllerMetrics) -> int:
    return one.adds if one.read_enqueued is None else one.read_enqueued()


def _depth(one: ControllerMetrics) -> int:
    return one.depth if one.read_depth is None else one.read_depth()


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

_RUNTIME: Sequence[tuple[str, _Kind, str, Callable[[ControllerMetrics], float]]] = (
    (
        "controller_runtime_reconcile_errors_total",
        "counter",
        "Reconciles that failed, whether or not they are retried.",
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
        "Reconciles that failed with an unexpected exception.",
        lambda one: one.panics,
    ),
    (
        "controller_runtime_reconcile_timeouts_total",
        "counter",
        "Reconciles that exceeded their timeout.",
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
    (
        "levelset_controller_crashes_total",
        "counter",
        "Errors in workers, timers, sources and event handlers of a controller, after which it went on.",
        lambda one: one.crashes,
    ),
)

_QUEUE: Sequence[tuple[str, _Kind, str, Callable[[ControllerMetrics], float]]] = (
    ("workqueue_depth", "gauge", "Requests that are due.", _depth),
    ("workqueue_adds_total", "counter", "Requests that were enqueued.", _adds),
    (
        "workqueue_retries_total",
        "counter",
        "Requests that were enqueued because a reconcile failed.",
        lambda one: one.retries,
    ),
)

_TIMES: Sequence[
    tuple[str, str, tuple[float, ...], Callable[[str], dict[str, str]], Callable[[ControllerMetrics], Any]]
] = (
    (
        "controller_runtime_reconcile_time_seconds",
        "How long reconciles take.",
        RECONCILE_BOUNDS,
        _runtime,
        lambda one: (one.worked_counts, one.worked),
    ),
    (
        "workqueue_work_duration_seconds",
        "How long processing a request takes.",
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
    ("levelset_cache_synced", "gauge", "Whether a watch has synced.", lambda one: int(one.is_ready)),
    ("levelset_cache_objects", "gauge", "Objects in the cache.", lambda one: one.objects),
    ("levelset_cache_bytes", "gauge", "Bytes of the objects in the cache, as JSON.", lambda one: one.bytes),
    ("levelset_cache_lag_seconds", "gauge", "Seconds since the last event of the API server.", lambda one: one.lag),
    ("levelset_cache_events_total", "counter", "Events that were received.", lambda one: one.events),
    ("levelset_cache_relists_total", "counter", "Lists after the first one.", lambda one: one.relists),
    (
        "levelset_cache_reconnects_total",
        "counter",
        "Watch connections after the first one.",
        lambda one: one.reconnects,
    ),
    ("levelset_cache_errors_total", "counter", "Errors of a watch.", lambda one: one.errors),
    (
        "levelset_cache_waiting",
        "gauge",
        "Changes that the slowest subscriber has not read.",
        lambda one: one.waiting,
    ),
)
