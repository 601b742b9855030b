"""The search: runs the scenario undisturbed, derives plans, runs them, shrinks failing ones, and reports.

```python
report = explore(Exploration(scenario, make_controllers, invariants=[one_deployment_each]), budget=200)
assert report.ok, report.story()
```
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from levelset.client.object_types import view_of
from levelset.errors import ConfigError
from levelset.runtime.webhook.webhook_set import Webhooks
from levelset.testing.cluster import Cluster
from levelset.testing.explore.exploration import Controllers, Exploration, Scenario, name_of
from levelset.testing.explore.faults.environment_faults import SpecChanged
from levelset.testing.explore.faults.plan import Disturbance, Plan, StaleRestart, StepName
from levelset.testing.explore.judging.invariants import Invariant, Statement
from levelset.testing.explore.judging.judge import Mask, differences, judge, learn_mask
from levelset.testing.explore.planning.plan_generation import derive
from levelset.testing.explore.planning.plan_outcome import PlanOutcome, outcome_of
from levelset.testing.explore.planning.recoveries import Recoveries
from levelset.testing.explore.records.run_result import (
    Finding,
    Run,
    RunResult,
    StartingState,
    describe_divergence,
    failure_mode,
)
from levelset.testing.explore.reports.call_site_coverage import SiteCounter
from levelset.testing.explore.reports.report import COMMAND, Failure, PlanResult, Report, write_story
from levelset.testing.explore.shrink import shrink
from levelset.testing.explore.simulation.simulation import logging_disabled, play
from levelset.testing.explore.state_file import StateFile
from levelset.testing.explore.worker_processes import InProcess, WorkerPool, can_fork

__all__ = [
    "DEFAULT_BUDGET",
    "Explorer",
    "Progress",
    "Reference",
    "RunProgress",
    "SearchProgress",
    "explore",
    "explore_plans",
    "replay",
    "replay_story",
]

DEFAULT_BUDGET: Final = 200
"""The maximum number of plans, in the command, in pytest and in `explore`."""
_AHEAD: Final = 32
"""How many plans are chosen before the outcome of the first of them is known: so many can run at once."""

_SHALLOW: Final = 30
_DEEPER: Final = 4
"""After so many plans, each fourth one is followed by one that is derived from a disturbed run."""

RunProgress = Callable[[RunResult], object]
"""Called with the result of each run."""


@dataclass(frozen=True)
class Reference:
    """The undisturbed run, with which all others are compared, and the mask of fields that vary by seed."""

    run: Run
    mask: Mask
    played: RunResult


@dataclass
class Explorer:
    """Runs plans of one exploration with one seed.

    `reference` is run once, on first use. Running a plan again gives the same result.
    """

    exploration: Exploration
    seed: int = 1
    _reference: Reference | None = field(default=None, repr=False)
    _long: Run | None = field(default=None, repr=False)
    _start: StartingState | None = field(default=None, repr=False)
    _steps: dict[Disturbance, frozenset[StepName]] = field(
        default_factory=dict[Disturbance, frozenset[StepName]], repr=False
    )
    """The steps of the runs with a single disturbance."""
    _free_of_history: bool | None = field(default=None, repr=False)
    _recoveries: Recoveries = field(default_factory=Recoveries, repr=False)

    @property
    def reference(self) -> Reference:
        """The undisturbed run."""
        if self._reference is None:
            run = play(self.exploration, seed=self.seed)
            self._start = run.start
            played = self._check(run)
            other = run if played.findings else play(self.exploration, seed=self.seed + 1)
            mask = learn_mask(run.end, other.end, self.exploration.ignored)
            if self._long is not None and played.ok:
                run = self._with_late_end(run, self._long, mask)
                # What is an end of the longer run is one of a disturbed run, too, which may take as long.
                run.ends += [one for one in self._long.ends if one not in run.ends]
            self._reference = Reference(run, mask, played)
        return self._reference

    def _with_late_end(self, run: Run, longer: Run, mask: Mask) -> Run:
        """The run, or the one that was followed for hours if something happens in that time and comes to an end."""
        if not longer.is_at_rest or not differences(longer.end, run.end, mask):
            return run
        longer.late_end, longer.targets = longer.end, run.targets
        return longer

    def _check(self, run: Run) -> RunResult:
        """The undisturbed run with its findings, or a longer one with those that only time shows."""
        findings = self._judge(run) or tuple(self._diverged(run))
        if findings:
            return _run_result(run, findings)
        longer = self._followed()
        found = self._judge(longer)
        return _run_result(longer, found) if found else _run_result(run, tuple(self._hanging(run, longer)))

    def _judge(self, run: Run) -> tuple[Finding, ...]:
        one = self.exploration
        return judge(run, allowed=one.allowed, expected_errors=one.expected_errors)

    def _diverged(self, run: Run) -> Iterator[Finding]:
        again = play(self.exploration, seed=self.seed, start=run.start)
        if again.trace.text() != run.trace.text():
            yield describe_divergence(run.trace, again.trace, is_fixed=not callable(self.exploration.controllers))

    def _hanging(self, run: Run, longer: Run) -> Iterator[Finding]:
        for at in (one for one in run.unfinished if one in longer.unfinished):
            words = f"{at.action} has not finished after {self.exploration.within:g} seconds"
            yield Finding("hangs", words, run.trace.find(at))

    def _followed(self) -> Run:
        """The undisturbed run, followed for as long as a disturbed one: it must come to rest."""
        if self._long is None:
            self._long = play(self.exploration, seed=self.seed, is_long=True, start=self._start)
        return self._long

    def plans(self) -> Iterator[Plan]:
        """All plans, the most significant first, without pairs of which one is known to prevent the other."""
        one, run = self.exploration, self.reference.run
        if run.operations and not self._is_free_of_history():
            run.operations = [one for one in run.operations if one.back]
        made = derive(
            run,
            has_outside=one.outside is not None,
            leader=one.leader or one.shards > 0,
            stale_restarts=one.stale_restarts,
            webhook_kinds=sorted({view_of(kind).gvk.kind for kind in Webhooks(one.webhooks).kinds}),
            outside_errors=len(one.outside_errors),
        )
        return filter(self._may_happen, self._with_deeper(made))

    def _with_deeper(self, plans: Iterator[Plan]) -> Iterator[Plan]:
        """The plans, and between them faults in the recovery from those that were run: where most was new, first."""
        for number, plan in enumerate(plans, 1):
            yield plan
            if number > _SHALLOW and number % _DEEPER == 0:
                yield from self._recoveries.take()

    def _may_happen(self, plan: Plan) -> bool:
        """Whether each disturbance finds its step in the known runs of the others."""
        if not self._steps:  # before the first run: all plans are counted then
            return True
        for one in plan:
            for other in plan:
                known = self._steps.get(one)
                if other is not one and known is not None and other.step is not None and other.step not in known:
                    return False
        return True

    def play(self, plan: Plan) -> RunResult:
        """Runs one plan and judges it."""
        return self.run_plan(plan)[0]

    def run_plan(self, plan: Plan) -> tuple[RunResult, PlanOutcome]:
        """Runs one plan and judges it; neither depends on the plans that were run before."""
        found = self.reference
        if not len(plan):
            return found.played, outcome_of(found.run, found.run, found.played)
        run = play(self.exploration, plan, seed=self.seed, baseline=found.run, mask=found.mask, start=self._start)
        if any(isinstance(one, SpecChanged) and not one.back for one in plan):
            played = _run_result(run, self._judge_operations(run))
            return played, replace(outcome_of(run, found.run, played), states=frozenset(), deeper=())
        findings = judge(run, found.run, mask=found.mask, allowed=self.exploration.allowed)
        played = _run_result(run, findings if found.played.ok else (*found.played.findings, *findings))
        return played, outcome_of(run, found.run, played)

    def note(self, outcome: PlanOutcome) -> None:
        """Uses the outcome of a plan to choose the next ones."""
        if len(outcome.plan) == 1:
            self._steps[outcome.plan.disturbances[0]] = outcome.steps
        self._recoveries.states |= self.reference.run.states
        self._recoveries.add(outcome.plan, outcome.states, outcome.deeper)

    @property
    def states(self) -> int:
        """The number of states that were reached."""
        return len(self._recoveries.states)

    def _judge_operations(self, run: Run) -> tuple[Finding, ...]:
        """Judges changes of specs; the end must be that of a fresh start with what the users then have."""
        found = self.reference
        if run.missed:
            return ()
        fresh = self._start_afresh(run)
        if fresh.error is not None:
            return ()
        base = replace(found.run, ends=fresh.ends, late_end=None)
        return judge(run, base, mask=found.mask, allowed=self.exploration.allowed)

    def _start_afresh(self, run: Run) -> Run:
        """An undisturbed run in which users create at once what they have at the end of this one."""

        async def create_all(user: Cluster) -> None:
            for one in run.user_objects:
                await user.create(one)
            await user.settled()

        fresh = replace(self.exploration, scenario=create_all, invariants=())
        return play(fresh, seed=self.seed, is_long=True, start=self._start)

    def _is_free_of_history(self) -> bool:
        """Whether a fresh start with the final specs of the scenario has its end: then operations can be judged."""
        if self._free_of_history is None:
            run = self.reference.run
            fresh = self._start_afresh(run) if run.user_objects and run.late_end is None else None
            self._free_of_history = fresh is not None and any(
                not differences(one, other, self.reference.mask) for one in fresh.ends for other in run.ends
            )
        return self._free_of_history


def explore_plans(
    explorer: Explorer,
    *,
    budget: int | None = DEFAULT_BUDGET,
    seconds: float | None = None,
    progress: RunProgress | None = None,
) -> Iterator[RunResult]:
    """Runs plan after plan, the undisturbed run first, until the budget, the time or the plans are used up.

    If the undisturbed run has findings, no plan is run: its results would be meaningless.
    """
    until = math.inf if seconds is None else time.monotonic() + seconds
    last = explorer.reference.played
    if progress is not None:
        progress(last)
    yield last
    if not last.ok:
        return

    def run(plan: Plan) -> PlanOutcome:
        nonlocal last
        last, outcome = explorer.run_plan(plan)
        return outcome

    for _ in _search(explorer, InProcess(run), budget=budget, until=until):
        if progress is not None:
            progress(last)
        yield last


def _search(
    explorer: Explorer,
    runner: InProcess | WorkerPool,
    *,
    budget: int | None,
    until: float,
    stored: StateFile | None = None,
) -> Iterator[PlanOutcome]:
    """Runs the plans, and yields their outcomes in the order of the plans.

    A plan is chosen when the outcomes up to `_AHEAD` plans before it are known, not more and not less: so the plans and
    their order are the same whatever the number of processes that run them.
    """
    plans = islice(explorer.plans(), budget)
    ahead: deque[PlanOutcome | int] = deque()
    while True:
        for plan in islice(plans, _AHEAD - len(ahead)):
            known = None if stored is None else stored.take(plan.id)
            ahead.append(runner.submit(plan) if known is None else known)
        if not ahead or time.monotonic() > until:
            return
        first = ahead.popleft()
        outcome = runner.result(first) if isinstance(first, int) else first
        if stored is not None and isinstance(first, int):
            stored.add(outcome)
        explorer.note(outcome)
        yield outcome


def _run_result(run: Run, findings: Any) -> RunResult:
    return RunResult(run.plan, run.seed, run.trace, tuple(findings), tuple(run.missed), run.seconds)


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """How far an exploration is: plans run, their total, those that failed, failure modes and states reached."""

    played: int
    total: int
    failed: int
    modes: int
    states: int
    seconds: float
    """The real time since the first plan."""

    @property
    def per_second(self) -> float:
        """The number of plans run in a second."""
        return self.played / self.seconds if self.seconds > 0 else 0.0


Progress = Callable[[SearchProgress], object]
"""Called after each plan."""

_COUNTED: Final = 10_000
_OUTSIDE: Final = "outside"
"""The verb of calls to the world outside of the API."""
_MAX_MODES: Final = 20
"""The maximum number of failure modes that are shrunk and reported."""


def explore(
    what: Exploration | Scenario,
    controllers: Controllers | None = None,
    /,
    *,
    invariants: Sequence[Invariant | Statement] = (),
    budget: int | None = DEFAULT_BUDGET,
    within: float | None = None,
    seed: int = 1,
    jobs: int = 1,
    state: Path | None = None,
    target: str = "",
    command: Sequence[str] = COMMAND,
    progress: Progress | None = None,
) -> Report:
    """Runs a scenario once undisturbed and then with one plan of disturbances after the other; reports the failures.

    `budget` is the maximum number of plans, None for all; `within` the maximum number of real seconds. The same `seed`
    gives the same runs. `jobs` is the number of processes that run plans: the findings and their order are the same for
    any number. `state` is a file in which the outcomes are noted, so that an exploration that was interrupted continues
    where it was. `invariants` are those of a scenario that is no Exploration. `progress` is called with the
    state of the search after each run. `target` is the name of this exploration on a command line and `command` the
    arguments of the command that replays a plan.
    """
    found = _exploration(what, controllers, invariants)
    if budget is not None and budget < 0:
        raise ConfigError(f"budget={budget}: pass the maximum number of plans, or None for all")
    if jobs < 1:
        raise ConfigError(f"jobs={jobs}: pass the number of processes that run plans, at least 1")
    began = time.monotonic()
    with logging_disabled():
        search = _Search(Explorer(found, seed), budget, progress)
        search.run(jobs, state, until=math.inf if within is None else began + within)
    explorer, tried = search.explorer, search.tried
    return Report(
        name=name_of(found),
        seed=seed,
        undisturbed=explorer.reference.played,
        tried=tuple(tried),
        failures=tuple(search.modes.values()),
        derived=max(search.derived, len(tried)),
        seconds=time.monotonic() - began,
        target=target,
        command=tuple(command),
        notes=(*_notes(explorer), *_stale_restart_notes(tried)),
        warnings=tuple(_warnings(explorer)),
        coverage=search.sites.coverage(),
    )


class _Search:
    """One exploration: what was run and found so far."""

    def __init__(self, explorer: Explorer, budget: int | None, progress: Progress | None) -> None:
        self.explorer = explorer
        self.tried: list[PlanResult] = []
        self.modes: dict[tuple[str, ...], Failure] = {}
        self.failed = 0
        self.derived = 0
        found = explorer.reference
        if found.played.ok:
            self.derived = sum(1 for _ in islice(explorer.plans(), _COUNTED))
        self.sites = SiteCounter(found.run)
        self.sites.add(outcome_of(found.run, found.run, found.played).sites)
        self._budget = budget
        self._progress = progress
        self._last: RunResult | None = None

    def run(self, jobs: int, state: Path | None, *, until: float) -> None:
        """Runs the plans, unless the undisturbed run has findings: the results would be meaningless."""
        found = self.explorer.reference.played
        if not found.ok:
            return
        one = self.explorer
        stored = None
        if state is not None:
            stored = StateFile(state, name=name_of(one.exploration), seed=one.seed, digest=found.trace.digest)
        runner = WorkerPool(_Outcomes(one), jobs) if jobs > 1 and can_fork() else InProcess(self._play)
        began = time.monotonic()
        try:
            for outcome in _search(one, runner, budget=self._budget, until=until, stored=stored):
                self._add(outcome, time.monotonic() - began)
        finally:
            runner.close()

    def _play(self, plan: Plan) -> PlanOutcome:
        self._last, outcome = self.explorer.run_plan(plan)
        return outcome

    def _add(self, outcome: PlanOutcome, seconds: float) -> None:
        self.tried.append(PlanResult(outcome.plan, outcome.rules))
        self.sites.add(outcome.sites)
        if outcome.rules:
            self.failed += 1
            _add_failure(self.modes, outcome, self.explorer, self._last)
        if self._progress is not None:
            total = self.derived if self._budget is None else min(self._budget, self.derived)
            states, modes = self.explorer.states, len(self.modes)
            self._progress(SearchProgress(len(self.tried), total, self.failed, modes, states, seconds))


class _Outcomes:
    """Runs plans in a worker process."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer

    def __call__(self, plan: Plan) -> PlanOutcome:
        """Runs a plan."""
        return self._explorer.run_plan(plan)[1]


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
    what: Exploration | Scenario, controllers: Controllers | None, invariants: Sequence[Invariant | Statement]
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
    for action, error in run.failing.items():
        yield f"in the undisturbed run {action} fails at the end: {type(error).__name__}: {error}"


def _warnings(explorer: Explorer) -> Iterator[str]:
    """The controllers about which the exploration shows nothing: undisturbed, they change nothing."""
    run = explorer.reference.run
    if not explorer.reference.played.ok:
        return
    called = {one.cause.controller for one in run.trace if one.act == "reconcile" and one.cause is not None}
    acting = {
        one.cause.controller
        for one in run.trace
        if one.cause is not None and one.act == "call" and (one.is_write or one.verb == _OUTSIDE)
    }
    if not run.controllers:
        yield "there are no controllers: the exploration shows nothing"
    for name in run.controllers:
        if name not in called:
            yield f"{name} reconciled nothing in the undisturbed run: the scenario has no object for it"
        elif name not in acting:
            yield f"{name} wrote nothing and touched nothing outside in the undisturbed run: there is little to disturb"


def _stale_restart_notes(tried: Sequence[PlanResult]) -> Iterator[str]:
    """What to do if every plan that fails has a stale restart, which levelset's own caches do not show."""
    failed = [one.plan for one in tried if not one.ok]
    if failed and all(any(one.word == StaleRestart.word for one in plan) for plan in failed):
        yield (
            "only plans with a stale restart fail: a new process saw an older state first. The caches of levelset "
            "start with the newest, so if the controller may rely on that, pass stale_restarts=False to the "
            "Exploration, with a comment; else decide from names or owner references, not from counts"
        )


def _add_failure(
    modes: dict[tuple[str, ...], Failure], outcome: PlanOutcome, explorer: Explorer, last: RunResult | None
) -> None:
    """Adds a failure to its failure mode, or starts a new mode with the shortest plan that shows it."""
    mode, plan = outcome.mode, outcome.plan
    known = next((one for one, failure in modes.items() if mode in {one, failure_mode(failure.shown)}), None)
    if known is None and len(modes) < _MAX_MODES:
        # It was run in another process, or in an earlier one: run it here, to show its steps.
        played = last if last is not None and last.plan == plan else explorer.play(plan)
        shown = shrink(played, explorer.play)
        known = failure_mode(shown)
        if known not in modes:
            modes[known] = Failure(shown, plan)
            return
    if known is not None:
        modes[known] = modes[known].and_by(plan)
