"""What came of one run, before anybody judges it: who changed what, what broke, and what was there in the end.

What was found wrong in a run, and the run itself as it was played.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from levelset.testing.explore.normalize import Normal
from levelset.testing.explore.plans import At, Plan
from levelset.testing.explore.stored_state import Key
from levelset.testing.explore.trace import Step, Trace

__all__ = ["RULES", "Broken", "Change", "Ended", "Finding", "Played", "Run", "describe_parting"]


@dataclass(frozen=True, slots=True)
class Change:
    """One revision: an object came, changed or went, by a call of a process or by the server itself."""

    revision: int
    at: float
    key: Key
    before: str | None
    """The uid of the object before; None if it is new."""
    after: str | None
    """The uid of the object after; None if it is gone."""
    prefix: str
    """What its name begins with, if the server made it up."""
    process: str
    by: At | None
    holder: str = ""
    """Who leads just now."""
    controller: str = ""
    """The controller in whose look it was made, if it was."""
    content: str = ""
    """What an object whose name the server made up says, but for its metadata and status."""

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return self.key[1]


@dataclass(frozen=True, slots=True)
class Broken:
    """An invariant that did not hold at a revision."""

    name: str
    words: str
    change: Change


@dataclass(frozen=True)
class Ended:
    """A process that ended by itself, and why."""

    process: str
    error: BaseException


@dataclass(eq=False)
class Run:
    """What came of one run, before anybody judges it."""

    plan: Plan
    seed: int
    trace: Trace = field(default_factory=Trace)
    changes: Sequence[Change] = ()
    broken: Sequence[Broken] = ()
    ends: list[Normal] = field(default_factory=list[Normal])
    """What was stored at the end, each time somebody looked."""
    late_changes: int = 0
    """How many changes there were in the quiet after the end."""
    ended: Sequence[Ended] = ()
    error: BaseException | None = None
    """What the scenario raised."""
    endless: At | None = None
    """What was done so often that the run was ended."""
    missed: Sequence[str] = ()
    seconds: float = 0.0
    leading: frozenset[str] = frozenset()
    """The controllers that only a leader runs."""
    places: Mapping[Key, str] = field(default_factory=dict[Key, str])
    """Where each object was that ever changed, as ends call it."""
    failing: Mapping[str, Exception] = field(default_factory=dict[str, Exception])
    """Looks that failed the last time somebody looked, and what with."""
    unfinished: Sequence[At] = ()
    """Looks that had begun and not ended when the run was over."""

    def place_of(self, change: Change) -> str:
        """Where the object of a change is, as ends call it."""
        _, kind, namespace, name = change.key
        return self.places.get(change.key) or "/".join(part for part in (kind, namespace, name) if part)

    @property
    def is_endless(self) -> bool:
        """Whether it had to be ended because it would have gone on for ever."""
        return self.endless is not None

    @property
    def end(self) -> Normal:
        """What was stored at the very end."""
        return self.ends[-1] if self.ends else {}


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
