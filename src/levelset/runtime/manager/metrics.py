"""What the controllers of one manager do, in numbers: the names and labels of controller-runtime, and some of our own.

A dashboard or an alert that was made for controller-runtime works here. Counting costs little (it happens a hundred
thousand times a second); putting it into words happens when somebody scrapes.

What webhooks do, in numbers: requests, how long they took, and how many are under way, by the path they came to.
"""

import inspect
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, Final

from levelset.client.transport.interface import Hook, Tallied, Tally
from levelset.http import Handler, Request, Response
from levelset.objects.ref import Ref
from levelset.runtime.cache.informer import Stats
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.reconcile_history import Counts
from levelset.runtime.controller.request import Reason
from levelset.runtime.manager.metric_definitions import (
    MANY,
    Numbers,
    cache_families,
    controller_families,
    master_family,
    request_family,
)
from levelset.runtime.manager.prometheus_text import Family, Registry, Sample, histogram_samples

__all__ = ["Metrics", "WebhookNumbers"]


class Metrics:
    """Counts what controllers do: an Observer, with a registry of its own that others may add to.

    An unexpected error, one that nobody raised on purpose (it is no LevelsetError), counts as a panic.
    """

    def __init__(self) -> None:
        self.registry = Registry()
        self._numbers: dict[str, Numbers] = {}
        self._requests: Tallied = defaultdict(int)
        self.registry.add(self._controllers)
        self.registry.add(lambda: [request_family(self._requests)])

    def add_controller(
        self,
        name: str,
        *,
        concurrency: int = 1,
        depth: Callable[[], int] | None = None,
        asked: Callable[[], int] | None = None,
        ages: Callable[[], list[float]] | None = None,
        settle: Callable[[], None] | None = None,
    ) -> None:
        """Shows this controller from now on, with zeros.

        When somebody looks, `depth` is asked how many requests wait, `asked` how many there were, and `ages` for how
        many seconds each look that is under way has gone on; what is not given is counted as it is told. `settle` has
        everything counted before.
        """
        numbers = self._of(name)
        numbers.concurrency, numbers.ask_depth = concurrency, depth
        numbers.ask_adds, numbers.ask_ages, numbers.settle = asked, ages, settle

    def counter(self, name: str) -> Counts:
        """What counts the looks of one controller, given some at a time; the rest is left to be asked for."""
        return self._of(name).count

    def remove_controller(self, name: str) -> None:
        """Shows it no longer."""
        self._numbers.pop(name, None)

    def add_cluster(self, name: str, stats: Callable[[], Iterable[Stats]]) -> Callable[[], None]:
        """Shows the watches of a cluster; what is returned ends that."""
        return self.registry.add(lambda: cache_families(name, stats()))

    def add_election(self, name: str, is_leader: Callable[[], bool]) -> None:
        """Shows whether this process leads."""
        self.registry.add(lambda: [master_family(name, is_leader=is_leader())])

    def count_hot_loop(self, name: str) -> None:
        """Counts one more object that a controller keeps reconciling because of its own writes."""
        self._of(name).hot_loops += 1

    def counting(self, host: str) -> Hook:
        """A wire hook that counts the requests of a client to `host`."""
        return Tally(self._requests, host)

    def queued(self, name: str, depth: int, /) -> None:
        """Counts a request that waits."""
        numbers = self._numbers.get(name) or self._of(name)
        numbers.adds += 1
        numbers.depth = depth

    def started(self, name: str, ref: Ref[Any], _: tuple[Reason, ...], /) -> None:
        """Notes when a request is taken up."""
        numbers = self._numbers.get(name) or self._of(name)
        # By identity: the same ref comes back in `finished`, and to hash it would take as long as all the rest.
        numbers.running[id(ref)] = perf_counter()

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], _: float, /) -> None:
        """Keeps what came of it, to be counted together with others."""
        numbers = self._numbers.get(name) or self._of(name)
        numbers.running.pop(id(ref), None)
        ended = numbers.ended
        ended.append(outcome)
        if len(ended) >= MANY:
            numbers.take_in()

    def _controllers(self) -> Iterable[Family]:
        for numbers in list(self._numbers.values()):
            numbers.take_in()
        return controller_families(self._numbers, perf_counter())

    def _of(self, name: str) -> Numbers:
        return self._numbers.setdefault(name, Numbers())


_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PREFIX: Final = "controller_runtime_webhook"


class WebhookNumbers:
    """Counts what goes through a handler; only the paths that it is told of, since anybody may ask for any other."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, int], int] = {}
        self._times: dict[str, tuple[list[int], list[float]]] = {}
        self._under_way: dict[str, int] = {}

    def add(self, paths: Iterable[str]) -> None:
        """Shows these paths from now on, with zeros."""
        for path in paths:
            self._under_way.setdefault(path, 0)
            self._codes.setdefault((path, 200), 0)
            self._times.setdefault(path, ([0] * (len(_BOUNDS) + 1), [0.0]))

    def around(self, handler: Handler) -> Handler:
        """The same handler, counted."""

        async def handle(request: Request) -> Response:
            path, began, code = request.path, perf_counter(), 500
            if path not in self._under_way:
                return await _answered(handler, request)
            self._under_way[path] += 1
            try:
                response = await _answered(handler, request)
                code = response.status
                return response
            finally:
                self._under_way[path] -= 1
                self._count(path, code, perf_counter() - began)

        return handle

    def families(self) -> Iterable[Family]:
        """All of it, as it is scraped."""
        codes = [Sample(count, {"code": str(code), "webhook": path}) for (path, code), count in self._codes.items()]
        yield Family(f"{_PREFIX}_requests_total", "counter", "Reviews by path and status code.", codes)
        now = [Sample(count, {"webhook": path}) for path, count in self._under_way.items()]
        yield Family(f"{_PREFIX}_requests_in_flight", "gauge", "Reviews that are being answered.", now)
        times: list[Sample] = []
        for path, (counts, total) in self._times.items():
            times += histogram_samples(_BOUNDS, counts, total[0], {"webhook": path})
        yield Family(f"{_PREFIX}_latency_seconds", "histogram", "How long a review took.", times)

    def _count(self, path: str, code: int, seconds: float) -> None:
        self._codes[path, code] = self._codes.get((path, code), 0) + 1
        counts, total = self._times[path]
        counts[bisect_left(_BOUNDS, seconds)] += 1
        total[0] += seconds


async def _answered(handler: Handler, request: Request) -> Response:
    made = handler(request)
    return await made if inspect.isawaitable(made) else made
