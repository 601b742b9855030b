"""What webhooks do, in numbers: requests, how long they took, and how many are under way, by the path they came to."""

import inspect
from bisect import bisect_left
from collections.abc import Iterable
from time import perf_counter
from typing import Final

from levelset.manager.exposition import Family, Sample, histogram_samples
from levelset.web import Handler, Request, Response

__all__ = ["WebhookNumbers"]

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
