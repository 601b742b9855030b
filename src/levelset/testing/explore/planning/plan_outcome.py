"""The outcome of one plan as the search needs it: small, sent between processes, and written to a state file."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from levelset.testing.explore.faults.plan import Plan, StepName
from levelset.testing.explore.planning.recoveries import deeper_plans
from levelset.testing.explore.records.run_result import Run, RunResult, failure_mode

__all__ = ["Effect", "PlanOutcome", "SiteEffect", "outcome_of"]

Effect = Literal["reached", "crashed", "failed", "delayed"]
"""What happened at a call site in a run."""
SiteEffect = tuple[str, Effect]

_EFFECTS: Final[dict[str, Effect]] = {
    "conflict": "failed",
    "crash-after": "crashed",
    "crash-before": "crashed",
    "crash-during": "crashed",
    "downtime": "crashed",
    "error-response": "failed",
    "lost-response": "failed",
    "outage": "failed",
    "outside-error": "failed",
    "overlap": "crashed",
    "paged-list": "delayed",
    "pause": "delayed",
    "preempt": "delayed",
    "slow": "delayed",
    "stale-restart": "crashed",
    "takeover": "failed",
}


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """The outcome of one plan.

    `rules` are those that it broke, and `mode` is its failure mode. `steps` are the names of its steps, for plans with
    a single disturbance. `states` are those it reached, `deeper` the plans with one more fault in the recovery, and
    `sites` what happened at which line of the controllers.
    """

    plan: Plan
    rules: tuple[str, ...] = ()
    mode: tuple[str, ...] = ()
    steps: frozenset[StepName] = frozenset()
    states: frozenset[int] = frozenset()
    deeper: tuple[Plan, ...] = ()
    sites: frozenset[SiteEffect] = frozenset()

    def to_tree(self) -> dict[str, Any]:
        """The outcome as plain data."""
        return {
            "plan": self.plan.id,
            "rules": list(self.rules),
            "mode": list(self.mode),
            "steps": sorted([one.action, one.number] for one in self.steps),
            "states": sorted(self.states),
            "deeper": [one.id for one in self.deeper],
            "sites": sorted(map(list, self.sites)),
        }

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> "PlanOutcome":
        """The outcome that `to_tree` has written."""
        return cls(
            plan=Plan.parse(tree["plan"]),
            rules=tuple(tree["rules"]),
            mode=tuple(tree["mode"]),
            steps=frozenset(StepName(action, number) for action, number in tree["steps"]),
            states=frozenset(tree["states"]),
            deeper=tuple(map(Plan.parse, tree["deeper"])),
            sites=frozenset((site, effect) for site, effect in tree["sites"]),
        )


def outcome_of(run: Run, baseline: Run, played: RunResult) -> PlanOutcome:
    """The outcome of a run that was compared with the undisturbed one."""
    return PlanOutcome(
        plan=played.plan,
        rules=tuple(dict.fromkeys(one.rule for one in played.findings)),
        mode=failure_mode(played) if played.findings else (),
        steps=frozenset(step.name for step in run.trace) if len(played.plan) == 1 else frozenset(),
        states=run.states,
        deeper=tuple(deeper_plans(run, baseline)),
        sites=frozenset(_effects(run)),
    )


def _effects(run: Run) -> Iterator[SiteEffect]:
    for step in run.trace:
        if step.site:
            yield step.site, "reached"
            found = _EFFECTS.get(step.disturbance.partition(":")[0])
            if found is not None:
                yield step.site, found
    for site in run.awaits:
        if site:
            yield site, "reached"
