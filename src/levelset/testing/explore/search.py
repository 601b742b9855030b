"""The whole of it in one call: plays plans, shrinks those that fail, and reports the ways in which they do.

```python
report = explore(Exploration(scenario, make_controllers, invariants=[one_deployment_each]), budget=200)
assert report.ok, report.story()
```

Explores: plays the scenario undisturbed, makes plans of it, plays as many as the budget allows, and reports.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from levelset.errors import ConfigError
from levelset.testing.explore.exploration import Controllers, Exploration, Invariant, Scenario, name_of
from levelset.testing.explore.judge import Mask, judge, learn_mask
from levelset.testing.explore.plan_generation import derive
from levelset.testing.explore.plans import At, Disturbance, Plan
from levelset.testing.explore.report import COMMAND, Failure, Report, Tried, tell, way_of
from levelset.testing.explore.run_result import Finding, Played, Run, describe_parting
from levelset.testing.explore.shrink import shrink
from levelset.testing.explore.simulation import play

__all__ = ["Explorer", "Progress", "Reference", "RunProgress", "explore", "explore_plans", "replay", "retell"]

RunProgress = Callable[[Played], object]
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
    explorer: Explorer, *, budget: int | None = 200, seconds: float | None = None, progress: RunProgress | None = None
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


Progress = Callable[[int, int, int], object]
"""Is told how many plans were played, of how many, and how many of them failed."""

_COUNTED: Final = 10_000
_WAYS: Final = 20
"""So many ways to fail are shrunk and shown; one more says nothing that these do not."""


def explore(
    what: Exploration | Scenario,
    controllers: Controllers | None = None,
    /,
    *,
    invariants: Sequence[Invariant] = (),
    budget: int | None = 200,
    within: float | None = None,
    seed: int = 1,
    target: str = "",
    command: Sequence[str] = COMMAND,
    progress: Progress | None = None,
) -> Report:
    """Plays a scenario once undisturbed and then with one disturbance after the other, and reports what breaks.

    `budget` is how many plans are played at most, None for all; `within` how many seconds are spent on them. The same
    seed plays the same runs. `target` is how a command line finds this exploration, for the commands that replay, and
    `command` the words of these.
    """
    found = _exploration(what, controllers, invariants)
    if budget is not None and budget < 0:
        raise ConfigError(f"budget={budget}: give how many plans to play, or None for all")
    began = time.monotonic()
    explorer = Explorer(found, seed)
    whole = sum(1 for _ in islice(explorer.plans(), _COUNTED)) if explorer.reference.played.ok else 0
    limit = whole if budget is None else min(budget, whole)
    tried: list[Tried] = []
    ways: dict[tuple[str, ...], Failure] = {}
    failed = 0
    for played in explore_plans(explorer, budget=budget, seconds=within):
        if not len(played.plan):
            continue
        tried.append(Tried(played.plan, tuple(dict.fromkeys(one.rule for one in played.findings))))
        failed += not played.ok
        if not played.ok:
            _note(ways, played, explorer)
        if progress is not None:
            progress(len(tried), limit, failed)
    return Report(
        name=name_of(found),
        seed=seed,
        undisturbed=explorer.reference.played,
        tried=tuple(tried),
        failures=tuple(ways.values()),
        derived=whole,
        seconds=time.monotonic() - began,
        target=target,
        command=tuple(command),
        notes=tuple(_notes(explorer)),
    )


def replay(what: Exploration, plan: Plan | str, /, *, seed: int = 1) -> Played:
    """Plays one plan again, exactly as it was; the plan may be given by its id."""
    wanted = Plan.parse(plan) if isinstance(plan, str) else plan
    return Explorer(what, seed).play(wanted)


def retell(what: Exploration, plan: str, /, *, seed: int = 1) -> str:
    """The story of one plan, played again; the empty text if nothing breaks by it."""
    explorer = Explorer(what, seed)
    played = explorer.play(Plan.parse(plan))
    if not played.ok:
        return tell(name_of(what), played, explorer.reference.played)
    return f"this never came to pass: {', '.join(played.missed)}" if played.missed else ""


def _exploration(
    what: Exploration | Scenario, controllers: Controllers | None, invariants: Sequence[Invariant]
) -> Exploration:
    if isinstance(what, Exploration):
        if controllers is not None or invariants:
            raise ConfigError(
                "explore(exploration) takes controllers and invariants from the Exploration; put them there"
            )
        return what
    if controllers is None:
        raise ConfigError("explore(scenario) needs controllers: explore(scenario, lambda: [make()])")
    return Exploration(what, controllers, invariants=invariants)


def _notes(explorer: Explorer) -> Iterator[str]:
    """What makes the result say less than it seems to."""
    run = explorer.reference.run
    if not explorer.reference.played.ok:
        return
    if not any(one.cause is not None for one in run.trace.writes()):
        yield "undisturbed, no controller has written anything: there is not much to disturb"
    for said, error in run.failing.items():
        yield f"undisturbed, {said} fails in the end: {type(error).__name__}: {error}"


def _note(ways: dict[tuple[str, ...], Failure], played: Played, explorer: Explorer) -> None:
    """Adds a failure to those of its way, or begins a new one with the shortest plan that shows it."""
    known = next((way for way, one in ways.items() if way_of(played) in {way, way_of(one.shown)}), None)
    if known is None and len(ways) < _WAYS:
        shown = shrink(played, explorer.play)
        known = way_of(shown)
        if known not in ways:
            ways[known] = Failure(shown, played.plan)
            return
    if known is not None:
        ways[known] = ways[known].and_by(played.plan)
