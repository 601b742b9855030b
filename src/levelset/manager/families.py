"""The names, labels and help texts of all metrics: how counted numbers are shown."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from levelset.cache.stats import Stats
from levelset.manager.exposition import Family, Sample, histogram_samples
from levelset.manager.numbers import QUEUE_BOUNDS, RECONCILE_BOUNDS, Numbers, fold

__all__ = ["cache_families", "controller_families", "master_family", "request_family"]

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
