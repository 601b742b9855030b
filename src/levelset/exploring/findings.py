"""What was found wrong in a run, and the run itself as it was played."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from levelset.exploring.plans import Plan
from levelset.exploring.traces import Step, Trace

__all__ = ["RULES", "Finding", "Played", "describe_parting"]

RULES: Final[Mapping[str, str]] = {
    "end state": "the end is not that of the undisturbed run",
    "leaked": "something is left behind",
    "stuck": "something is being deleted and never goes",
    "lost": "something is deleted that should stay",
    "created twice": "something is made twice",
    "two leaders": "two processes write as leaders",
    "endless loop": "it never comes to rest",
    "too many writes": "it writes far more than it should",
    "crashed": "a process ends by itself",
    "failing": "a controller fails although nothing disturbs it",
    "hangs": "a look never ends",
    "unrepeatable": "the same seed gives another run",
    "scenario": "the scenario itself fails",
}
"""What the rules of the house say; an invariant of yours is a rule too, by the name of its function."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong; `rule` is one of `RULES`, or the name of an invariant.

    `sentence` says it with names and numbers. `step` is the step at which it went wrong, or that made the object which
    is wrong, if there is one; `revision` is the revision at which it was seen. `expected` and `actual` are short texts.
    """

    rule: str
    sentence: str
    step: Step | None = None
    revision: int = 0
    expected: str = ""
    actual: str = ""

    def __str__(self) -> str:
        return f"{RULES.get(self.rule, self.rule.replace('_', ' '))}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Played:
    """One run: the plan, the seed, what happened, and what was wrong with it.

    `missed` are the disturbances whose moment never came, because an earlier one changed the course of things.
    """

    plan: Plan
    seed: int
    trace: Trace
    findings: tuple[Finding, ...] = ()
    missed: tuple[str, ...] = ()
    seconds: float = 0.0
    """How many virtual seconds it took."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def describe_parting(one: Trace, other: Trace, *, is_fixed: bool) -> Finding:
    """Two runs should have been the same, and were not: where they part, and what that may come from.

    `is_fixed` says that the controllers are always the same ones.
    """
    pairs = zip_longest(one.steps, other.steps)
    mine, theirs = next(
        pair for pair in pairs if pair[0] is None or pair[1] is None or pair[0].line() != pair[1].line()
    )
    hint = "chance without a seed (uuid, secrets), a real clock, the order of a set, or memory in a module"
    if is_fixed:
        hint += "; or the controllers remember something: give a function that makes new ones, not a list"
    said = f"played twice, this differs: {_step_words(mine)}; {_step_words(theirs)}. It may come from {hint}"
    return Finding("unrepeatable", said, mine)


def _step_words(step: Step | None) -> str:
    return (
        "the end" if step is None else f"step {step.number}, {step.name}{f' -> {step.outcome}' if step.outcome else ''}"
    )
