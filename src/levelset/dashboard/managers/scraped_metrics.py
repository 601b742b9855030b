"""The metrics of a manager in a Pod, read from the text that Prometheus would scrape.

The names are those of controller-runtime, which levelset serves, too: a manager that is written in Go is understood as
well, but for its watches. The text is not trusted: it is bounded, and what is malformed is left out.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from levelset.dashboard.views import text_of

__all__ = ["ScrapedController", "ScrapedManager", "parse_metrics", "quantile"]

MOST_CONTROLLERS: Final = 100
MOST_WATCHES: Final = 200
_MOST_BUCKETS: Final = 200

_LINE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?[ \t]+(\S+)")
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")
_PREFIXES: Final = ("controller_runtime_", "workqueue_depth", "leader_election_", "levelset_", "rest_client_requests_")

_Labels = Mapping[str, str]


class ScrapedController(msgspec.Struct):
    """One controller; totals count since the manager has started."""

    waiting: int = 0
    running: int = 0
    workers: int = 0
    reconciles: int = 0
    errors: int = 0
    buckets: dict[float, int] = {}
    """How many reconciles took at most so many seconds."""


class ScrapedManager(msgspec.Struct):
    """What the metrics of one manager say."""

    controllers: dict[str, ScrapedController] = {}
    watches: dict[str, dict[str, Any]] = {}
    is_leader: bool | None = None
    """None without leader election."""
    members: int = 0
    hot_loops: int = 0
    requests: int = 0
    failed_requests: int = 0

    def controller(self, labels: _Labels) -> ScrapedController | None:
        """The controller of a sample; None if it has none, or if there are too many."""
        name = text_of(labels.get("controller") or labels.get("name"))
        if not name or (name not in self.controllers and len(self.controllers) >= MOST_CONTROLLERS):
            return None
        return self.controllers.setdefault(name, ScrapedController())


def parse_metrics(text: str) -> ScrapedManager:
    """What a text says of a manager; empty for any other text."""
    found = ScrapedManager()
    queues: dict[str, int] = {}
    for name, labels, value in _samples(text):
        if name == "workqueue_depth":
            queues[text_of(labels.get("name") or labels.get("controller"))] = int(value)
        elif name.startswith("controller_runtime_"):
            _add_controller(found, name.removeprefix("controller_runtime_"), labels, value)
        else:
            _add_manager(found, name, labels, value)
    for queue, depth in queues.items():  # there are work queues that no controller has
        if queue in found.controllers:
            found.controllers[queue].waiting = depth
    return found


def quantile(part: float, now: Mapping[float, int], before: Mapping[float, int]) -> float | None:
    """The duration that this part of the reconciles between two readings did not exceed; None if there were none.

    Inside of a bucket it is interpolated; beyond the last bound it is that bound, as in Prometheus.
    """
    counts = [(bound, max(0, count - before.get(bound, 0))) for bound, count in sorted(now.items())]
    total = counts[-1][1] if counts else 0
    if total == 0:
        return None
    wanted, lower, below = part * total, 0.0, 0
    for bound, count in counts:
        if count >= wanted:
            if math.isinf(bound):
                return lower
            return lower + (bound - lower) * (wanted - below) / max(1, count - below)
        lower, below = bound, count
    return lower


def _samples(text: str) -> Iterator[tuple[str, _Labels, float]]:
    for line in text.splitlines():
        if not line.startswith(_PREFIXES):
            continue
        found = _LINE.match(line)
        if found is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        if math.isfinite(value):
            yield found[1], _labels(found[2] or ""), value


def _labels(text: str) -> _Labels:
    return {name: _ESCAPED.sub(_unescaped, value) for name, value in _LABEL.findall(text)}


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]


def _add_controller(found: ScrapedManager, name: str, labels: _Labels, value: float) -> None:
    one = found.controller(labels)
    if one is None:
        return
    match name:
        case "reconcile_total":
            one.reconciles += int(value)
        case "reconcile_errors_total":
            one.errors += int(value)
        case "active_workers":
            one.running = int(value)
        case "max_concurrent_reconciles":
            one.workers = int(value)
        case "reconcile_time_seconds_bucket":
            bound = _bound(labels.get("le", ""))
            if bound is not None and len(one.buckets) < _MOST_BUCKETS:
                one.buckets[bound] = one.buckets.get(bound, 0) + int(value)
        case _:
            pass


def _bound(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


_WATCHES: Final = {
    "levelset_cache_synced": "is_ready",
    "levelset_cache_objects": "objects",
    "levelset_cache_bytes": "bytes",
    "levelset_cache_lag_seconds": "lag",
    "levelset_cache_events_total": "events",
    "levelset_cache_relists_total": "relists",
    "levelset_cache_reconnects_total": "reconnects",
    "levelset_cache_errors_total": "errors",
    "levelset_cache_waiting": "waiting",
}


def _add_manager(found: ScrapedManager, name: str, labels: _Labels, value: float) -> None:
    match name:
        case "leader_election_master_status":
            found.is_leader = bool(found.is_leader) or value == 1
        case "levelset_shard_members":
            found.members = int(value)
        case "levelset_hot_loops_total":
            found.hot_loops += int(value)
        case "rest_client_requests_total":
            found.requests += int(value)
            found.failed_requests += int(value) if labels.get("code", "")[:1] in {"5", "<"} else 0
        case _ if name in _WATCHES:
            watch = text_of("/".join(filter(None, (labels.get("cluster"), labels.get("watch")))))
            if watch and (watch in found.watches or len(found.watches) < MOST_WATCHES):
                found.watches.setdefault(watch, {})[_WATCHES[name]] = value
        case _:
            pass
