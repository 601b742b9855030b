"""The search: runs the scenario undisturbed, derives plans, runs them, shrinks failing ones, and reports.

```python
report = explore(Exploration(scenario, make_controllers, invariants=[one_deployment_each]), budget=200)
assert report.ok, report.story()
```
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
from levelset.testing.explore.plans import Disturbance, Plan, StaleRestart, StepName
from levelset.testing.explore.report import COMMAND, Failure, PlanResult, Report, failure_mode, write_story
from levelset.testing.explore.run_result import Finding, Run, RunResult, describe_divergence
from levelset.testing.explore.shrink import shrink
from levelset.testing.explore.simulation import play

__all__ = ["Explorer", "Progress", "Reference", "RunProgress", "explore", "explore_plans", "replay", "replay_story"]

RunProgress = Callable[[RunResult], object]
"""Called with the result of each run."""


@dataclass(frozen=True)
class Reference:
    """The undisturbed run, with which all others are compared, and the mask of fields that vary by seed."""

    run: Run
    mask: Mask
    played: RunResult
    is_long: bool = False
    """Whether it was extended to the duration of a disturbed run, which is done when one seems to fail."""


@dataclass
class Explorer:
    """Runs plans of one exploration with one seed.

    `reference` is run once, on first use. Running a plan again gives the same result.
    """

    exploration: Exploration
    seed: int = 1
    _reference: Reference | None = field(default=None, repr=False)
    _steps: dict[Disturbance, frozenset[StepName]] = field(
        default_factory=dict[Disturbance, frozenset[StepName]], repr=False
    )
    """The steps of the runs with a single disturbance."""

    @property
    def reference(self) -> Reference:
        """The undisturbed run."""
        if self._reference is None:
            run = play(self.exploration, seed=self.seed)
            findings = judge(run) or tuple(self._check(run))
            other = run if findings else play(self.exploration, seed=self.seed + 1)
            mask = learn_mask(run.end, other.end, self.exploration.ignored)
            self._reference = Reference(run, mask, _run_result(run, findings))
        return self._reference

    def _check(self, run: Run) -> Iterator[Finding]:
        """The findings that only further undisturbed runs show: nondeterminism and hanging reconciles."""
        again = play(self.exploration, seed=self.seed)
        if again.trace.text() != run.trace.text():
            yield describe_divergence(run.trace, again.trace, is_fixed=not callable(self.exploration.controllers))
        if run.unfinished:
            longer = play(self.exploration, seed=self.seed, is_long=True).unfinished
            for at in (one for one in run.unfinished if one in longer):
                words = f"{at.action} has not finished after {self.exploration.within:g} seconds"
                yield Finding("hangs", words, run.trace.find(at))

    def _extend_reference(self) -> bool:
        """Extends the undisturbed run to the duration of a disturbed one; returns whether that adds end states."""
        found = self.reference
        if found.is_long:
            return False
        ends = play(self.exploration, seed=self.seed, is_long=True).ends
        more = [one for one in ends if one not in found.run.ends]
        found.run.ends += more
        self._reference = replace(found, is_long=True)
        return bool(more)

    def plans(self) -> Iterator[Plan]:
        """All plans, the most significant first, without pairs of which one is known to prevent the other."""
        one = self.exploration
        made = derive(
            self.reference.run,
            has_outside=one.outside is not None,
            leader=one.leader,
            stale_restarts=one.stale_restarts,
        )
        return filter(self._may_happen, made)

    def _may_happen(self, plan: Plan) -> bool:
        """Whether each disturbance finds its step in the known runs of the others."""
        for one in plan:
            for other in plan:
                known = self._steps.get(one)
                if other is not one and known is not None and other.step is not None and other.step not in known:
                    return False
        return True

    def play(self, plan: Plan) -> RunResult:
        """Runs one plan and judges it."""
        if not len(plan):
            return self.reference.played
        found = self.reference
        run = play(self.exploration, plan, seed=self.seed, baseline=found.run, mask=found.mask)
        if len(plan) == 1:
            self._steps[plan.disturbances[0]] = frozenset(step.name for step in run.trace)
        findings = judge(run, found.run, mask=found.mask)
        if not found.played.ok:
            return _run_result(run, (*found.played.findings, *findings))
        if findings and self._extend_reference():
            return self.play(plan)
        return _run_result(run, findings)


def explore_plans(
    explorer: Explorer, *, budget: int | None = 200, seconds: float | None = None, progress: RunProgress | None = None
) -> Iterator[RunResult]:
    """Runs plan after plan, the undisturbed run first, until the budget, the time or the plans are used up.

    If the undisturbed run has findings, no plan is run: its results would be meaningless.
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


def _run_result(run: Run, findings: Any) -> RunResult:
    return RunResult(run.plan, run.seed, run.trace, tuple(findings), tuple(run.missed), run.seconds)


Progress = Callable[[int, int, int], object]
"""Called with the number of plans run, the total, and the number that failed."""

_COUNTED: Final = 10_000
_MAX_MODES: Final = 20
"""The maximum number of failure modes that are shrunk and reported."""


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
    """Runs a scenario once undisturbed and then with one plan of disturbances after the other; reports the failures.

    `budget` is the maximum number of plans, None for all; `within` the maximum number of real seconds. The same `seed`
    gives the same runs. `invariants` are those of a scenario that is no Exploration. `progress` is called with the
    state of the search after each run. `target` is the name of this exploration on a command line and `command` the
    arguments of the command that replays a plan.
    """
    found = _exploration(what, controllers, invariants)
    if budget is not None and budget < 0:
        raise ConfigError(f"budget={budget}: pass the maximum number of plans, or None for all")
    began = time.monotonic()
    explorer = Explorer(found, seed)
    whole = sum(1 for _ in islice(explorer.plans(), _COUNTED)) if explorer.reference.played.ok else 0
    limit = whole if budget is None else min(budget, whole)
    tried: list[PlanResult] = []
    modes: dict[tuple[str, ...], Failure] = {}
    failed = 0
    for played in explore_plans(explorer, budget=budget, seconds=within):
        if not len(played.plan):
            continue
        tried.append(PlanResult(played.plan, tuple(dict.fromkeys(one.rule for one in played.findings))))
        failed += not played.ok
        if not played.ok:
            _add_failure(modes, played, explorer)
        if progress is not None:
            progress(len(tried), limit, failed)
    return Report(
        name=name_of(found),
        seed=seed,
        undisturbed=explorer.reference.played,
        tried=tuple(tried),
        failures=tuple(modes.values()),
        derived=whole,
        seconds=time.monotonic() - began,
        target=target,
        command=tuple(command),
        notes=(*_notes(explorer), *_stale_restart_notes(tried)),
    )


def replay(what: Exploration, plan: Plan | str, /, *, seed: int = 1) -> RunResult:
    """Runs one plan again, deterministically; the plan may be given by its id."""
    wanted = Plan.parse(plan) if isinstance(plan, str) else plan
    return Explorer(what, seed).play(wanted)


def replay_story(what: Exploration, plan: str, /, *, seed: int = 1) -> str:
    """The story of one plan, run again; empty if it has no findings."""
    explorer = Explorer(what, seed)
    played = explorer.play(Plan.parse(plan))
    if not played.ok:
        return write_story(name_of(what), played, explorer.reference.played)
    return f"these disturbances were not reached: {', '.join(played.missed)}" if played.missed else ""


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
    """Limits of the result that the user should know."""
    run = explorer.reference.run
    if not explorer.reference.played.ok:
        return
    if not any(one.cause is not None for one in run.trace.writes()):
        yield "no controller writes in the undisturbed run: there is not much to disturb"
    for action, error in run.failing.items():
        yield f"in the undisturbed run {action} fails at the end: {type(error).__name__}: {error}"


def _stale_restart_notes(tried: Sequence[PlanResult]) -> Iterator[str]:
    """What to do if every plan that fails has a stale restart, which levelset's own caches do not show."""
    failed = [one.plan for one in tried if not one.ok]
    if failed and all(any(one.word == StaleRestart.word for one in plan) for plan in failed):
        yield (
            "only plans with a stale restart fail: a new process saw an older state first. The caches of levelset "
            "start with the newest, so if the controller may rely on that, pass stale_restarts=False to the "
            "Exploration, with a comment; else decide from names or owner references, not from counts"
        )


def _add_failure(modes: dict[tuple[str, ...], Failure], played: RunResult, explorer: Explorer) -> None:
    """Adds a failure to its failure mode, or starts a new mode with the shortest plan that shows it."""
    known = next((mode for mode, one in modes.items() if failure_mode(played) in {mode, failure_mode(one.shown)}), None)
    if known is None and len(modes) < _MAX_MODES:
        shown = shrink(played, explorer.play)
        known = failure_mode(shown)
        if known not in modes:
            modes[known] = Failure(shown, played.plan)
            return
    if known is not None:
        modes[known] = modes[known].and_by(played.plan)
