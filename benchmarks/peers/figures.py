"""The figures of a benchmark by work, peer and measure, saved in a file so that parts can be measured again."""

import json
import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

__all__ = ["Figures", "Spread"]


class Spread(NamedTuple):
    """The median of several turns, the lowest and the highest."""

    median: float
    low: float
    high: float
    turns: int


@dataclass
class Figures:
    """What was measured for one table."""

    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """By peer and measure, one for each turn."""
    versions: dict[str, str] = field(default_factory=dict)
    absent: dict[str, list[str]] = field(default_factory=dict)
    """Why a peer, or a part of its work, was not measured."""
    loads: list[float] = field(default_factory=list)
    """The load of the machine after each turn, this benchmark included."""

    def add(self, peer: str, found: dict[str, float]) -> None:
        for measure, value in found.items():
            self.values.setdefault(peer, {}).setdefault(measure, []).append(value)
        self.loads.append(os.getloadavg()[0])

    def leave_out(self, peer: str, reason: str) -> None:
        reasons = self.absent.setdefault(peer, [])
        if reason not in reasons:
            reasons.append(reason)

    def forget(self, peers: Iterable[str], measures: Sequence[str]) -> None:
        """Drops figures that are measured again."""
        for peer in peers:
            self.absent.pop(peer, None)
            for measure in measures:
                self.values.get(peer, {}).pop(measure, None)

    def spread(self, peer: str, measure: str) -> Spread | None:
        found = self.values.get(peer, {}).get(measure)
        return Spread(statistics.median(found), min(found), max(found), len(found)) if found else None

    @staticmethod
    def load(path: Path, names: Sequence[str]) -> "dict[str, Figures]":
        saved = json.loads(path.read_text()) if path.exists() else {}
        return {name: Figures(**saved.get(name, {})) for name in names}

    @staticmethod
    def save(path: Path, tables: "dict[str, Figures]") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({name: asdict(one) for name, one in tables.items()}, indent=1))
