"""The whole of it in one call: plays plans, shrinks those that fail, and reports the ways in which they do.

```python
report = explore(Exploration(scenario, make_controllers, invariants=[one_deployment_each]), budget=200)
assert report.ok, report.story()
```
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from levelset.errors import ConfigError
from levelset.exploring.exploration import Controllers, Exploration, Invariant, Scenario, name_of
from levelset.exploring.explorer import Explorer, explore_plans
from levelset.exploring.findings import Played
from levelset.exploring.plans import Plan
from levelset.exploring.reports import COMMAND, Failure, Report, Tried, way_of
from levelset.exploring.shrinking import shrink
from levelset.exploring.stories import tell

__all__ = ["Progress", "explore", "replay", "retell"]

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
