"""The Prometheus text format: metric families, their samples, and a registry of collectors.

Our own code, because it is small, without a dependency or a lock, and leaves it to each collector how it counts:
controllers count in plain attributes, and only a scrape pays for names and labels. Registries and collectors of
prometheus-client are accepted by their `collect`.
"""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Literal, Protocol, cast

import msgspec

from levelset.errors import ConfigError

__all__ = [
    "CONTENT_TYPE",
    "REGISTRY",
    "ClientCollector",
    "Collector",
    "Family",
    "MetricKind",
    "Registry",
    "Sample",
    "client_families",
    "histogram_samples",
    "render",
]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]

MetricKind = Literal["counter", "gauge", "histogram", "summary", "untyped"]
"""The types of the text format."""

_log = logging.getLogger(__name__)


class Sample(msgspec.Struct, frozen=True):
    """One sample of a family: value, labels, and for a histogram the suffix of the name."""

    value: float
    labels: Labels
    suffix: str = ""


class Family(msgspec.Struct, frozen=True):
    """All samples of one metric name."""

    name: str
    kind: MetricKind
    help: str
    samples: Sequence[Sample]


Collector = Callable[[], Iterable[Family]]
"""Returns its current families; is called at each scrape."""


class ClientCollector(Protocol):
    """A registry or a collector of prometheus-client, or anything else with its `collect`."""

    def collect(self) -> Iterable[Any]:
        """Its metrics: objects with `name`, `documentation`, `type` and `samples`."""
        ...


class Registry:
    """Collectors, and what they return at a scrape.

    A manager has one of its own, `manager.metrics.registry`; `REGISTRY` holds what is defined at module level.
    """

    def __init__(self) -> None:
        self._collectors: list[Collector] = []
        self._defined: dict[str, object] = {}

    def add(self, collector: "Collector | Registry | ClientCollector") -> Callable[[], None]:
        """Adds a collector; returns a function that removes it.

        A collector is a function that returns families, another Registry, or a registry or collector of
        prometheus-client. If it raises, the scrape goes without its metrics and the error is logged.
        """
        function = _function_of(collector)
        self._collectors.append(function)
        return lambda: self._collectors.remove(function) if function in self._collectors else None

    def define(self, name: str, metric: object) -> object:
        """Defines a metric of this name; returns the metric that was defined first, which may be another one."""
        return self._defined.setdefault(name, metric)

    def families(self) -> Sequence[Family]:
        """The current families of all collectors, sorted by name; samples of the same name are merged."""
        found: dict[str, Family] = {}
        for collector in tuple(self._collectors):
            for family in _collect(collector):
                known = found.get(family.name)
                samples = family.samples if known is None else [*known.samples, *family.samples]
                found[family.name] = Family(family.name, family.kind, family.help, samples)
        return [found[name] for name in sorted(found)]

    def get_sample_value(self, name: str, labels: Labels | None = None) -> float | None:
        """The current value of a sample by its full name, such as `shop_sold_total`; None without one. For tests."""
        wanted = dict(labels or {})
        for family in self.families():
            if name.startswith(family.name):
                for one in family.samples:
                    if family.name + one.suffix == name and one.labels == wanted:
                        return one.value
        return None

    def render(self) -> str:
        """The text of a scrape."""
        return render(self.families())


REGISTRY: Final = Registry()
"""The registry of metrics that are defined at module level; every manager of the process serves it."""


def _function_of(collector: object) -> Collector:
    if isinstance(collector, Registry):
        return collector.families
    collect = getattr(collector, "collect", None)
    if callable(collect):
        return lambda: client_families(cast("Callable[[], Iterable[Any]]", collect)())
    if callable(collector):
        return cast("Collector", collector)
    ways = "a function that returns families, a Registry, or a registry or collector of prometheus-client"
    raise ConfigError(f"{collector!r} is not a collector of metrics; pass {ways}")


def _collect(collector: Collector) -> Sequence[Family]:
    try:
        return list(collector())
    except Exception:  # noqa: BLE001 -- it calls user code
        _log.exception("a collector of metrics failed; this scrape goes without its metrics")
        return []


_CLIENT_KINDS: Final[Mapping[str, MetricKind]] = {
    "counter": "counter",
    "gauge": "gauge",
    "histogram": "histogram",
    "gaugehistogram": "histogram",
    "summary": "summary",
    "info": "gauge",
    "stateset": "gauge",
}
_CLIENT_SUFFIXES: Final = {"counter": "_total", "info": "_info"}
_OPEN_METRICS_SUFFIXES: Final = ("_created", "_gsum", "_gcount")


def client_families(metrics: Iterable[Any]) -> Iterable[Family]:
    """The metrics of prometheus-client as families, named as its own text format names them.

    The samples that only OpenMetrics has (`_created`, `_gsum`, `_gcount`) become gauges of their own, as there.
    """
    for metric in metrics:
        name = metric.name + _CLIENT_SUFFIXES.get(metric.type, "")
        own: list[Sample] = []
        extra: dict[str, list[Sample]] = {}
        for sample in metric.samples:
            suffix = sample.name.removeprefix(metric.name)
            if suffix in _OPEN_METRICS_SUFFIXES:
                extra.setdefault(sample.name, []).append(Sample(sample.value, sample.labels))
            else:
                own.append(Sample(sample.value, sample.labels, sample.name.removeprefix(name)))
        yield Family(name, _CLIENT_KINDS.get(metric.type, "untyped"), metric.documentation, own)
        yield from (Family(one, "gauge", metric.documentation, samples) for one, samples in extra.items())


def render(families: Iterable[Family]) -> str:
    """The families in the Prometheus text format."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escaped(family.help)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines.extend(f"{family.name}{one.suffix}{_labels(one.labels)} {_number(one.value)}" for one in family.samples)
    return "\n".join([*lines, ""])


def histogram_samples(bounds: Sequence[float], counts: Sequence[int], total: float, labels: Labels) -> list[Sample]:
    """The samples of a histogram; `counts` are per bucket, the last for values above all bounds."""
    sums = list(accumulate(counts))
    names = [*map(_number, bounds), "+Inf"]
    samples = [Sample(below, {**labels, "le": name}, "_bucket") for name, below in zip(names, sums, strict=True)]
    return [*samples, Sample(total, labels, "_sum"), Sample(sums[-1], labels, "_count")]


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_quoted(value)}"' for name, value in labels.items()) + "}"


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
