"""The Prometheus text format: metric families, their samples, and a registry of collectors.

Our own code, because it is forty lines without a dependency or a lock, and leaves it to each collector how it counts:
controllers count in plain attributes, and only a scrape pays for names and labels.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal

__all__ = ["CONTENT_TYPE", "Collector", "Family", "Registry", "Sample", "histogram_samples", "render"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a family: value, labels, and for a histogram the suffix of the name."""

    value: float
    labels: Labels
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """All samples of one metric name."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Sequence[Sample]


Collector = Callable[[], Iterable[Family]]
"""Returns its current families; is called at each scrape."""


class Registry:
    """The collectors of one manager; there is no global registry."""

    def __init__(self) -> None:
        self._collectors: list[Collector] = []

    def add(self, collector: Collector) -> Callable[[], None]:
        """Adds a collector; returns a function that removes it."""
        self._collectors.append(collector)
        return lambda: self._collectors.remove(collector) if collector in self._collectors else None

    def families(self) -> Sequence[Family]:
        """The current families of all collectors, sorted by name; samples of the same name are merged."""
        found: dict[str, Family] = {}
        for collector in tuple(self._collectors):
            for family in collector():
                known = found.get(family.name)
                samples = family.samples if known is None else [*known.samples, *family.samples]
                found[family.name] = Family(family.name, family.kind, family.help, samples)
        return [found[name] for name in sorted(found)]

    def render(self) -> str:
        """The text of a scrape."""
        return render(self.families())


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
