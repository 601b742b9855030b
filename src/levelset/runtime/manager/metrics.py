"""The metrics of a manager: names and labels of controller-runtime, plus some of our own.

Dashboards and alerts for controller-runtime work unchanged. Counting is cheap, as it happens for every reconcile; names
and labels are only produced by a scrape (`metric_definitions.py`, `prometheus_text.py`).
"""

import inspect
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal

from levelset.client.transport.interface import CallCounter, CallCounts, Hook
from levelset.http import Handler, Request, Response
from levelset.objects.ref import Ref
from levelset.runtime.cache.informer import Stats
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.reconcile_history import CountReconciles
from levelset.runtime.controller.request import Reason
from levelset.runtime.manager.metric_definitions import (
    BATCH_SIZE,
    ControllerMetrics,
    cache_families,
    controller_families,
    master_family,
    request_family,
    shard_families,
    unhandled_family,
)
from levelset.runtime.manager.prometheus_text import Family, Registry, Sample, histogram_samples

if TYPE_CHECKING:
    from levelset.runtime.manager.sharding.member import MemberReport

__all__ = ["Metrics", "UnhandledSource", "WebhookMetrics"]

UnhandledSource = Literal["callback", "task"]


class Metrics:
    """The metrics of all controllers; an Observer, with a registry that users may add collectors to.

    An exception that is not a LevelsetError counts as a panic.
    """

    def __init__(self) -> None:
        self.registry = Registry()
        self._by_controller: dict[str, ControllerMetrics] = {}
        self._requests: CallCounts = defaultdict(int)
        self._unhandled: dict[str, int] = {"callback": 0, "task": 0}
        self.registry.add(self._controllers)
        self.registry.add(lambda: [request_family(self._requests), unhandled_family(self._unhandled)])

    def add_controller(
        self,
        name: str,
        *,
        concurrency: int = 1,
        depth: Callable[[], int] | None = None,
        enqueued: Callable[[], int] | None = None,
        ages: Callable[[], list[float]] | None = None,
        flush: Callable[[], None] | None = None,
    ) -> None:
        """Exports this controller from now on, starting with zeros.

        At a scrape, `depth` returns how many requests are due, `enqueued` how many there were so far, and `ages` the
        seconds of each running reconcile; what is not given is counted from the observer's calls. `flush` is called
        before, to have finished reconciles counted.
        """
        counted = self._of(name)
        counted.concurrency, counted.read_depth = concurrency, depth
        counted.read_enqueued, counted.read_ages, counted.flush_history = enqueued, ages, flush

    def counter(self, name: str) -> CountReconciles:
        """The function that counts finished reconciles of one controller, in batches."""
        return self._of(name).count

    def remove_controller(self, name: str) -> None:
        """Stops exporting a controller."""
        self._by_controller.pop(name, None)

    def add_cluster(self, name: str, stats: Callable[[], Iterable[Stats]]) -> Callable[[], None]:
        """Exports the watches of a cluster; returns a function that stops it."""
        return self.registry.add(lambda: cache_families(name, stats()))

    def add_election(self, name: str, is_leader: Callable[[], bool]) -> None:
        """Exports whether this process leads."""
        self.registry.add(lambda: [master_family(name, is_leader=is_leader())])

    def add_shards(
        self,
        name: str,
        members: "Callable[[], Sequence[MemberReport]]",
        counts: Callable[[], Mapping[str, tuple[int, int, int]]],
        handovers: Callable[[], int],
    ) -> None:
        """Exports the members of the shards, and by controller the objects that this one owns, has gained and lost."""
        self.registry.add(lambda: shard_families(name, members(), counts(), handovers()))

    def count_hot_loop(self, name: str) -> None:
        """Counts one more hot loop of a controller."""
        self._of(name).hot_loops += 1

    def count_crash(self, name: str) -> None:
        """Counts an error in a controller itself that it has survived."""
        self._of(name).crashes += 1

    def count_unhandled(self, source: "UnhandledSource") -> None:
        """Counts an error that reached the event loop: of a callback, or of a task that no code awaits."""
        self._unhandled[source] += 1

    def counting(self, host: str) -> Hook:
        """A wire hook that counts the requests of a client to `host`."""
        return CallCounter(self._requests, host)

    @property
    def requests(self) -> CallCounts:
        """The API requests so far, by status, method and host; read only."""
        return self._requests

    def queued(self, name: str, depth: int, /) -> None:
        """Counts a queued request."""
        counted = self._by_controller.get(name) or self._of(name)
        counted.adds += 1
        counted.depth = depth

    def started(self, name: str, ref: Ref[Any], _: tuple[Reason, ...], /) -> None:
        """Notes the start of a reconcile."""
        counted = self._by_controller.get(name) or self._of(name)
        # By identity, since `finished` gets the same ref object: hashing it would cost as much as all the rest.
        counted.running[id(ref)] = perf_counter()

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], _: float, /) -> None:
        """Buffers the outcome; outcomes are counted in batches."""
        counted = self._by_controller.get(name) or self._of(name)
        counted.running.pop(id(ref), None)
        ended = counted.ended
        ended.append(outcome)
        if len(ended) >= BATCH_SIZE:
            counted.flush()

    def _controllers(self) -> Iterable[Family]:
        for counted in list(self._by_controller.values()):
            counted.flush()
        return controller_families(self._by_controller, perf_counter())

    def _of(self, name: str) -> ControllerMetrics:
        return self._by_controller.setdefault(name, ControllerMetrics())


_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PREFIX: Final = "controller_runtime_webhook"


class WebhookMetrics:
    """Counts the requests of webhooks by path; only known paths, since clients may request any other."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, int], int] = {}
        self._times: dict[str, tuple[list[int], list[float]]] = {}
        self._in_flight: dict[str, int] = {}

    def add(self, paths: Iterable[str]) -> None:
        """Exports these paths from now on, starting with zeros."""
        for path in paths:
            self._in_flight.setdefault(path, 0)
            self._codes.setdefault((path, 200), 0)
            self._times.setdefault(path, ([0] * (len(_BOUNDS) + 1), [0.0]))

    def around(self, handler: Handler) -> Handler:
        """Wraps a handler so that its requests are counted."""

        async def handle(request: Request) -> Response:
            path, began, code = request.path, perf_counter(), 500
            if path not in self._in_flight:
                return await _respond(handler, request)
            self._in_flight[path] += 1
            try:
                response = await _respond(handler, request)
                code = response.status
                return response
            finally:
                self._in_flight[path] -= 1
                self._count(path, code, perf_counter() - began)

        return handle

    def families(self) -> Iterable[Family]:
        """The metric families for a scrape."""
        codes = [Sample(count, {"code": str(code), "webhook": path}) for (path, code), count in self._codes.items()]
        yield Family(f"{_PREFIX}_requests_total", "counter", "Reviews by path and status code.", codes)
        now = [Sample(count, {"webhook": path}) for path, count in self._in_flight.items()]
        yield Family(f"{_PREFIX}_requests_in_flight", "gauge", "Reviews in flight.", now)
        times: list[Sample] = []
        for path, (counts, total) in self._times.items():
            times += histogram_samples(_BOUNDS, counts, total[0], {"webhook": path})
        yield Family(f"{_PREFIX}_latency_seconds", "histogram", "How long a review took.", times)

    def _count(self, path: str, code: int, seconds: float) -> None:
        self._codes[path, code] = self._codes.get((path, code), 0) + 1
        counts, total = self._times[path]
        counts[bisect_left(_BOUNDS, seconds)] += 1
        total[0] += seconds


async def _respond(handler: Handler, request: Request) -> Response:
    made = handler(request)
    return await made if inspect.isawaitable(made) else made
