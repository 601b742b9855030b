"""The metrics of the last hour, sampled every few seconds and stored in memory: what the charts show.

A sample has the totals of the controllers and of the API requests; `series` turns neighbouring samples into rates. All
of it is bounded: `MOST_SAMPLES` samples, of at most `MOST_CONTROLLERS` controllers each.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec

from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.running_controller import RunningController

__all__ = ["MOST_SAMPLES", "ControllerSample", "MetricsHistory", "Sample", "estimated", "is_growing", "sample_of"]

INTERVAL: Final = 5.0
"""The seconds between two samples."""
MOST_SAMPLES: Final = 720
"""The number of samples: those of the last hour."""
MOST_CONTROLLERS: Final = 100
GROWING_FOR: Final = 12
"""A queue grows if it did so over this many samples: a minute."""
GROWING_DEPTH: Final = 20
"""A shorter queue is never called growing."""


class ControllerSample(msgspec.Struct, frozen=True, gc=False):
    """One controller at one moment; `errors` and the durations are those since the sample before."""

    waiting: int
    running: int
    reconciles: int
    errors: int = 0
    median: float | None = None
    p95: float | None = None
    p99: float | None = None


class Sample(msgspec.Struct, frozen=True):
    """All controllers and the API requests at one moment, in seconds since 1970."""

    at: float
    controllers: Mapping[str, ControllerSample]
    requests: int = 0
    failed_requests: int = 0


def sample_of(
    controllers: Mapping[str, RunningController[Any]],
    requests: Mapping[Any, int],
    last: Sample | None,
    *,
    at: float,
    own: int = 0,
) -> Sample:
    """The sample of this moment; `last` is the one before it, and `own` how many requests the dashboard has sent."""
    shown = dict(list(controllers.items())[:MOST_CONTROLLERS])
    before = dict[str, ControllerSample]() if last is None else last.controllers
    failed = sum(count for (status, *_), count in requests.items() if status is None or status >= 500)
    return Sample(
        at,
        {name: _controller_sample(one, before.get(name)) for name, one in shown.items()},
        max(0, sum(requests.values()) - own),
        failed,
    )


class MetricsHistory:
    """The last samples."""

    def __init__(self, most: int = MOST_SAMPLES) -> None:
        self._samples: deque[Sample] = deque(maxlen=most)

    @property
    def last(self) -> Sample | None:
        """The newest sample."""
        return self._samples[-1] if self._samples else None

    def add(self, sample: Sample) -> None:
        """Adds a sample; drops the oldest if there are too many."""
        self._samples.append(sample)

    def growing(self) -> dict[str, tuple[int, int]]:
        """The controllers whose queue has grown for a minute: its length then and now."""
        if len(self._samples) <= GROWING_FOR:
            return {}
        recent = list(self._samples)[-GROWING_FOR - 1 :]
        found: dict[str, tuple[int, int]] = {}
        for name in recent[-1].controllers:
            depths = [one.controllers[name].waiting for one in recent if name in one.controllers]
            if len(depths) == len(recent) and is_growing(depths):
                found[name] = (depths[0], depths[-1])
        return found

    def series(self, last: int = MOST_SAMPLES) -> dict[str, Any]:
        """The series that the charts show: times, and for each controller its depth, rates and durations.

        Those of the `last` samples.
        """
        samples = list(self._samples)[-last:]
        names = list(samples[-1].controllers) if samples else list[str]()
        return {
            "times": [round(one.at, 1) for one in samples],
            "controllers": {name: _controller_series(samples, name) for name in names},
            "requests": _rates(samples, [one.requests for one in samples]),
            "failedRequests": _rates(samples, [one.failed_requests for one in samples]),
        }


def is_growing(depths: Sequence[int]) -> bool:
    """Whether a queue of these lengths grows: it is long, doubled, and shrank less often than it grew."""
    steps = [after - before for before, after in pairwise(depths)]
    grew, shrank = sum(one > 0 for one in steps), sum(one < 0 for one in steps)
    return depths[-1] >= GROWING_DEPTH and depths[-1] >= 2 * depths[0] and grew > 2 * shrank


def estimated(count: int, *, among: int, total: int) -> int:
    """How many there were of `total`, when `count` were found among the last, which is all that a history has."""
    return count if total <= among else round(count * total / max(1, among))


def _controller_sample(controller: RunningController[Any], last: ControllerSample | None) -> ControllerSample:
    stats = controller.stats()
    new = stats.reconciles - (0 if last is None else last.reconciles)
    outcomes: Sequence[Outcome[Any]] = controller.history[-new:] if new > 0 else ()
    seconds = sorted(one.seconds for one in outcomes)
    return ControllerSample(
        waiting=stats.ready,
        running=stats.running,
        reconciles=stats.reconciles,
        errors=estimated(sum(one.is_error for one in outcomes), among=len(outcomes), total=new),
        median=_percentile(seconds, 0.5),
        p95=_percentile(seconds, 0.95),
        p99=_percentile(seconds, 0.99),
    )


def _percentile(ordered: Sequence[float], part: float) -> float | None:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None


def _controller_series(samples: Sequence[Sample], name: str) -> dict[str, Any]:
    nothing = ControllerSample(0, 0, 0)
    mine = [one.controllers.get(name, nothing) for one in samples]
    seconds = _steps(samples)
    return {
        "waiting": [one.waiting for one in mine],
        "running": [one.running for one in mine],
        "reconciles": _rates(samples, [one.reconciles for one in mine]),
        "errors": [round(one.errors / each, 3) for one, each in zip(mine, seconds, strict=True)],
        "median": [one.median for one in mine],
        "p95": [one.p95 for one in mine],
        "p99": [one.p99 for one in mine],
    }


def _rates(samples: Sequence[Sample], totals: Sequence[int]) -> list[float]:
    """The change of a total per second; a total that was reset counts as nothing. The first has none before it."""
    before = [totals[0], *totals[:-1]] if totals else []
    seconds = _steps(samples)
    return [round(max(0, now - then) / each, 3) for now, then, each in zip(totals, before, seconds, strict=True)]


def _steps(samples: Sequence[Sample]) -> list[float]:
    times = [one.at for one in samples]
    return [INTERVAL, *(max(0.001, now - then) for then, now in pairwise(times))] if times else []
