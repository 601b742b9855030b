"""The coverage of an exploration: which call sites of reconcilers were crashed, failed, delayed or never reached."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from levelset.testing.explore.planning.plan_outcome import Effect, SiteEffect
from levelset.testing.explore.records.call_sites import CallSite, shown_path
from levelset.testing.explore.records.run_result import Run

__all__ = ["Coverage", "SiteCounter", "SiteCoverage"]


@dataclass(frozen=True, slots=True)
class SiteCoverage:
    """One call site, and in how many runs it was reached, crashed, failed and delayed."""

    path: str
    line: int
    function: str = ""
    reached: int = 0
    crashed: int = 0
    failed: int = 0
    delayed: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Coverage:
    """The call sites of the reconcilers, in the order of their files and lines."""

    sites: tuple[SiteCoverage, ...] = ()

    @property
    def never_reached(self) -> tuple[SiteCoverage, ...]:
        """The call sites that no run has reached."""
        return tuple(one for one in self.sites if not one.reached)

    def summary(self) -> str:
        """One line, and one more with the call sites that were never reached."""
        if not self.sites:
            return ""
        reached = [one for one in self.sites if one.reached]
        counts = ", ".join(
            f"{sum(bool(getattr(one, effect)) for one in reached)} {effect}"
            for effect in ("crashed", "failed", "delayed")
        )
        lines = [f"coverage: {len(reached)} of {len(self.sites)} call sites reached; {counts}"]
        if self.never_reached:
            named = ", ".join(f"{one} ({one.function})" for one in self.never_reached)
            lines.append(f"never reached: {named}")
        return "\n".join(lines)

    def to_tree(self) -> list[dict[str, Any]]:
        """The coverage as plain data."""
        return [asdict(one) for one in self.sites]


class SiteCounter:
    """Counts in how many runs something happened at each call site."""

    def __init__(self, undisturbed: Run) -> None:
        self._static = undisturbed.call_sites
        self._counts: dict[tuple[str, int, str], Counter[Effect]] = {}
        for one in self._static:
            self._counts[one.path, one.line, one.function] = Counter()

    def add(self, sites: Iterable[SiteEffect]) -> None:
        """Adds what happened in one run."""
        found: set[tuple[tuple[str, int, str], Effect]] = {(self._place(site), effect) for site, effect in sites}
        for place, effect in found:
            self._counts.setdefault(place, Counter())[effect] += 1

    def coverage(self) -> Coverage:
        """What was counted."""
        return Coverage(tuple(_site(*place, self._counts[place]) for place in sorted(self._counts)))

    def _place(self, site: str) -> tuple[str, int, str]:
        """The expression with this line: of nested ones the shortest; the line itself if there is none."""
        found: Sequence[CallSite] = [one for one in self._static if one.has(site)]
        if found:
            best = min(found, key=lambda one: (one.last - one.line, -one.line))
            return best.path, best.line, best.function
        path, _, line = site.rpartition(":")
        return path, int(line), ""


def _site(path: str, line: int, function: str, counts: Mapping[Effect, int]) -> SiteCoverage:
    return SiteCoverage(
        shown_path(path),
        line,
        function,
        reached=counts.get("reached", 0),
        crashed=counts.get("crashed", 0),
        failed=counts.get("failed", 0),
        delayed=counts.get("delayed", 0),
    )
