"""Explores: plays the scenario undisturbed, makes plans of it, plays as many as the budget allows, and reports."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from levelset.exploring.comparing import Mask, learn_mask
from levelset.exploring.deriving import derive
from levelset.exploring.exploration import Exploration
from levelset.exploring.findings import Finding, Played, describe_parting
from levelset.exploring.judging import judge
from levelset.exploring.plans import At, Disturbance, Plan
from levelset.exploring.runs import Run
from levelset.exploring.staging import play

__all__ = ["Explorer", "Progress", "Reference", "explore_plans"]

Progress = Callable[[Played], object]
"""Is told of each run."""


@dataclass(frozen=True)
class Reference:
    """The undisturbed run, which all others are compared with, and what differs even between undisturbed runs."""

    run: Run
    mask: Mask
    played: Played
    is_long: bool = False
    """Whether it was played for as long as a disturbed run may take; that is done when one seems to have failed."""


@dataclass
class Explorer:
    """Plays plans of one exploration with one seed.

    `reference` is played once, when it is first asked for. A plan that is played again gives the same run.
    """

    exploration: Exploration
    seed: int = 1
    _reference: Reference | None = field(default=None, repr=False)
    _steps: dict[Disturbance, frozenset[At]] = field(default_factory=dict[Disturbance, frozenset[At]], repr=False)
    """The steps of the runs with one disturbance that were played."""

    @property
    def reference(self) -> Reference:
        """The undisturbed run."""
        if self._reference is None:
            run = play(self.exploration, seed=self.seed)
            findings = judge(run) or tuple(self._check(run))
            other = run if findings else play(self.exploration, seed=self.seed + 1)
            mask = learn_mask(run.end, other.end, self.exploration.ignored)
            self._reference = Reference(run, mask, _played(run, findings))
        return self._reference

    def _check(self, run: Run) -> Iterator[Finding]:
        """What only other undisturbed runs show: that it is not the same each time, or never ends."""
        again = play(self.exploration, seed=self.seed)
        if again.trace.text() != run.trace.text():
            yield describe_parting(run.trace, again.trace, is_fixed=not callable(self.exploration.controllers))
        if run.unfinished:
            longer = play(self.exploration, seed=self.seed, is_long=True).unfinished
            for at in (one for one in run.unfinished if one in longer):
                words = f"{at.said} has not ended after {self.exploration.within:g} seconds"
                yield Finding("hangs", words, run.trace.find(at))

    def _look_on(self) -> bool:
        """Plays the undisturbed run for as long as a disturbed one may take; whether that shows other ends."""
        found = self.reference
        if found.is_long:
            return False
        ends = play(self.exploration, seed=self.seed, is_long=True).ends
        more = [one for one in ends if one not in found.run.ends]
        found.run.ends += more
        self._reference = replace(found, is_long=True)
        return bool(more)

    def plans(self) -> Iterator[Plan]:
        """All plans, the most telling first; no pair of which one is known to keep the other from happening."""
        one = self.exploration
        made = derive(self.reference.run, has_outside=one.outside is not None, leader=one.leader, older=one.older)
        return filter(self._may_happen, made)

    def _may_happen(self, plan: Plan) -> bool:
        """Whether each disturbance still finds its step when the others have come; as far as anybody knows."""
        for one in plan:
            for other in plan:
                known = self._steps.get(one)
                if other is not one and known is not None and other.step is not None and other.step not in known:
                    return False
        return True

    def play(self, plan: Plan) -> Played:
        """Plays one plan and judges it."""
        if not len(plan):
            return self.reference.played
        found = self.reference
        run = play(self.exploration, plan, seed=self.seed, baseline=found.run, mask=found.mask)
        if len(plan) == 1:
            self._steps[plan.disturbances[0]] = frozenset(step.name for step in run.trace)
        findings = judge(run, found.run, mask=found.mask)
        if not found.played.ok:
            return _played(run, (*found.played.findings, *findings))
        if findings and self._look_on():
            return self.play(plan)
        return _played(run, findings)


def explore_plans(
    explorer: Explorer, *, budget: int | None = 200, seconds: float | None = None, progress: Progress | None = None
) -> Iterator[Played]:
    """Plays plan after plan, the undisturbed run first; ends with the budget, the time, or the plans.

    If the undisturbed run is wrong already, nothing else is played: whatever came of it would say nothing.
    """
    began = time.monotonic()
    first = explorer.reference.played
    if progress is not None:
        progress(first)
    yield first
    if not first.ok:
        return
    for plan in islice(explorer.plans(), budget):
        if seconds is not None and time.monotonic() - began > seconds:
            return
        played = explorer.play(plan)
        if progress is not None:
            progress(played)
        yield played


def _played(run: Run, findings: Any) -> Played:
    return Played(run.plan, run.seed, run.trace, tuple(findings), tuple(run.missed), run.seconds)
