"""`Counter`, `Gauge` and `Histogram`: metrics of a program's own, served with those of the manager.

```python
published = Counter("sites_published_total", "Sites that were published.", ["region"])


async def reconcile(site: Website, ctx: Context) -> None:
    published.labels(site.spec.region).inc()
```

They have the shape of prometheus-client's classes. A metric is defined once, at module level, and belongs to
`REGISTRY`, which every manager of the process serves, unless another `registry` is given. Names, labels and buckets are
checked at the definition. Values may be changed from any thread.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from time import perf_counter
from typing import ClassVar, Final, Generic, Literal, TypeVar

from levelset.errors import ConfigError
from levelset.objects.lazy_pattern import Pattern
from levelset.runtime.manager.prometheus_text import REGISTRY, Family, Registry, Sample, histogram_samples

__all__ = [
    "DEFAULT_BUCKETS",
    "REGISTRY",
    "Counter",
    "CounterValue",
    "Gauge",
    "GaugeValue",
    "Histogram",
    "HistogramValue",
]

DEFAULT_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""The buckets of a Histogram unless given, in seconds; those of prometheus-client."""

_NAME: Final = Pattern(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = Pattern(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_RESERVED: Final = ("controller_runtime_", "leader_election_", "levelset_", "rest_client_", "workqueue_")


class CounterValue:
    """The value of a counter for one set of labels; it only grows."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._value = 0.0

    def inc(self, amount: float = 1) -> None:
        """Adds to the counter; ValueError for a negative amount."""
        if not amount >= 0:
            raise ValueError(f"inc({amount}): a counter only grows; use a Gauge for a value that falls")
        with self._lock:
            self._value += amount

    def samples(self, labels: dict[str, str]) -> list[Sample]:
        """Its sample for a scrape."""
        return [Sample(self._value, labels)]


class GaugeValue:
    """The value of a gauge for one set of labels."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._value = 0.0
        self._read: Callable[[], float] | None = None

    def set(self, value: float) -> None:
        """Sets the gauge."""
        with self._lock:
            self._value, self._read = float(value), None

    def inc(self, amount: float = 1) -> None:
        """Adds to the gauge."""
        with self._lock:
            self._value += amount

    def dec(self, amount: float = 1) -> None:
        """Subtracts from the gauge."""
        self.inc(-amount)

    def set_function(self, function: Callable[[], float]) -> None:
        """Has each scrape call a function for the value."""
        self._read = function

    @contextmanager
    def track_inprogress(self) -> Generator[None, None, None]:
        """Counts the blocks that are running."""
        self.inc()
        try:
            yield
        finally:
            self.dec()

    def samples(self, labels: dict[str, str]) -> list[Sample]:
        """Its sample for a scrape."""
        return [Sample(self._value if self._read is None else float(self._read()), labels)]


class HistogramValue:
    """The observations of a histogram for one set of labels."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._lock = Lock()
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, amount: float) -> None:
        """Counts one observation."""
        with self._lock:
            self._counts[bisect_left(self._bounds, amount)] += 1
            self._sum += amount

    @contextmanager
    def time(self) -> Generator[None, None, None]:
        """Observes how many seconds a block took, also if it raises."""
        began = perf_counter()
        try:
            yield
        finally:
            self.observe(perf_counter() - began)

    def samples(self, labels: dict[str, str]) -> list[Sample]:
        """Its samples for a scrape."""
        with self._lock:
            return histogram_samples(self._bounds, tuple(self._counts), self._sum, labels)


V = TypeVar("V", CounterValue, GaugeValue, HistogramValue)


class _Metric(ABC, Generic[V]):
    """What all three have in common: a name, a help text, and one value for each set of labels."""

    kind: ClassVar[Literal["counter", "gauge", "histogram"]]

    def __init__(self, name: str, documentation: str, labelnames: Iterable[str], registry: Registry) -> None:
        what = f"{type(self).__name__}({name!r})"
        self.name = _checked_name(name, what)
        self.documentation = documentation
        self.labelnames = _checked_labels(labelnames, what, is_histogram=self.kind == "histogram")
        self._values: dict[tuple[str, ...], V] = {}
        self._define_in(registry, what)
        if not self.labelnames:
            self._values.setdefault((), self._new_value())

    def labels(self, *values: object, **named: object) -> V:
        """The value for these labels, in the order of `labelnames` or by name; ConfigError if they do not fit."""
        if values and named:
            raise ConfigError(f"{self.name}.labels(): pass values by position or by name, not both")
        if len(values or named) != len(self.labelnames) or (named and set(named) != set(self.labelnames)):
            raise ConfigError(f"{self.name}.labels({_shown(values, named)}): its labels are {_listed(self.labelnames)}")
        chosen = values or tuple(named[one] for one in self.labelnames)
        key = tuple(map(str, chosen))
        found = self._values.get(key)
        return self._values.setdefault(key, self._new_value()) if found is None else found

    def remove(self, *values: object) -> None:
        """Stops serving the value for these labels, such as those of an object that is gone."""
        self._values.pop(tuple(map(str, values)), None)

    def clear(self) -> None:
        """Stops serving all values that have labels."""
        if self.labelnames:
            self._values.clear()

    def families(self) -> list[Family]:
        """The metric as it is served now."""
        samples: list[Sample] = []
        for key, value in tuple(self._values.items()):
            samples += value.samples(dict(zip(self.labelnames, key, strict=True)))
        return [Family(self.name, self.kind, self.documentation, samples)]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({_listed(self.labelnames)})>"

    @abstractmethod
    def _new_value(self) -> V:
        """The value of a new combination of labels."""

    @property
    def _only(self) -> V:
        """The value of a metric without labels."""
        if self.labelnames:
            labels = ", ".join(f"{one}=..." for one in self.labelnames)
            raise ConfigError(f"{self.name} has labels: call {self.name}.labels({labels}) first")
        return self._values[()]

    def _define_in(self, registry: Registry, what: str) -> None:
        first = registry.define(self.name, self)
        if first is self:
            registry.add(self.families)
        elif isinstance(first, type(self)) and first._shape() == self._shape():
            self._values = first._values  # a module that was loaded again goes on counting
        else:
            raise ConfigError(f"{what}: this name is defined already, as {first!r}; choose another name")

    def _shape(self) -> tuple[object, ...]:
        """What two definitions of the same metric have in common."""
        return (self.labelnames,)


class Counter(_Metric[CounterValue]):
    """A number that only grows, such as the sites that were published; served with the suffix `_total`."""

    kind = "counter"

    def __init__(
        self, name: str, documentation: str, labelnames: Iterable[str] = (), *, registry: Registry = REGISTRY
    ) -> None:
        super().__init__(f"{name.removesuffix('_total')}_total", documentation, labelnames, registry)

    def inc(self, amount: float = 1) -> None:
        """Adds to a counter without labels; ValueError for a negative amount."""
        self._only.inc(amount)

    def _new_value(self) -> CounterValue:
        return CounterValue()


class Gauge(_Metric[GaugeValue]):
    """A number that rises and falls, such as the sites that are served now."""

    kind = "gauge"

    def __init__(
        self, name: str, documentation: str, labelnames: Iterable[str] = (), *, registry: Registry = REGISTRY
    ) -> None:
        super().__init__(name, documentation, labelnames, registry)

    def set(self, value: float) -> None:
        """Sets a gauge without labels."""
        self._only.set(value)

    def inc(self, amount: float = 1) -> None:
        """Adds to a gauge without labels."""
        self._only.inc(amount)

    def dec(self, amount: float = 1) -> None:
        """Subtracts from a gauge without labels."""
        self._only.dec(amount)

    def set_function(self, function: Callable[[], float]) -> None:
        """Has each scrape call a function for the value of a gauge without labels."""
        self._only.set_function(function)

    def track_inprogress(self) -> AbstractContextManager[None]:
        """Counts the blocks that are running, in a gauge without labels."""
        return self._only.track_inprogress()

    def _new_value(self) -> GaugeValue:
        return GaugeValue()


class Histogram(_Metric[HistogramValue]):
    """How observations are distributed over buckets, such as the seconds that a build took."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        documentation: str,
        labelnames: Iterable[str] = (),
        *,
        buckets: Sequence[float] = DEFAULT_BUCKETS,
        registry: Registry = REGISTRY,
    ) -> None:
        self.buckets = _checked_buckets(buckets, f"Histogram({name!r})")
        super().__init__(name, documentation, labelnames, registry)

    def observe(self, amount: float) -> None:
        """Counts one observation in a histogram without labels."""
        self._only.observe(amount)

    def time(self) -> AbstractContextManager[None]:
        """Observes how many seconds a block took, in a histogram without labels."""
        return self._only.time()

    def _new_value(self) -> HistogramValue:
        return HistogramValue(self.buckets)

    def _shape(self) -> tuple[object, ...]:
        return self.labelnames, self.buckets


def _checked_name(name: str, what: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"{what}: a metric name has letters, digits, _ and :, and does not begin with a digit")
    for prefix in _RESERVED:
        if name.startswith(prefix):
            raise ConfigError(f"{what}: names with {prefix} are levelset's own; begin with the name of your operator")
    return name


def _checked_labels(names: Iterable[str], what: str, *, is_histogram: bool) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ConfigError(f"{what}: labelnames={names!r} is a text; pass a list, such as [{names!r}]")
    found = tuple(names)
    for name in found:
        if _LABEL.fullmatch(name) is None or (is_histogram and name == "le"):
            rule = "letters, digits and _, does not begin with a digit or __, and is not le in a histogram"
            raise ConfigError(f"{what}: label {name!r}: a label name has {rule}")
    if len(set(found)) < len(found):
        raise ConfigError(f"{what}: labelnames={list(found)}: each name must be there once")
    return found


def _checked_buckets(buckets: Sequence[float], what: str) -> tuple[float, ...]:
    finite = tuple(float(one) for one in buckets if one != math.inf)  # the last bucket is always there
    if not finite or list(finite) != sorted(set(finite)) or not all(map(math.isfinite, finite)):
        raise ConfigError(f"{what}: buckets={list(buckets)}: pass upper bounds in ascending order, each once")
    return finite


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _shown(values: Sequence[object], named: dict[str, object]) -> str:
    return ", ".join([*map(repr, values), *(f"{name}={value!r}" for name, value in named.items())])
