"""The raw outcome of one run (`Run`), and the judged one (`RunResult`) with its findings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

import msgspec

from levelset.storage.interface import Change as StoredChange
from levelset.testing.explore.faults.environment_faults import SpecChanged
from levelset.testing.explore.faults.plan import Plan, StepName
from levelset.testing.explore.records.call_sites import CallSite
from levelset.testing.explore.records.normalize import NormalizedState
from levelset.testing.explore.records.stored_state import Key, Tree
from levelset.testing.explore.records.trace import Step, Trace

__all__ = [
    "RULES",
    "BrokenInvariant",
    "Change",
    "EndedProcess",
    "Finding",
    "Run",
    "RunResult",
    "StartingState",
    "Target",
    "describe_divergence",
    "failure_mode",
]


class Change(msgspec.Struct, frozen=True):
    """One revision: an object was created, changed or deleted, by a call of a process or by the server itself."""

    revision: int
    at: float
    key: Key
    before: str | None
    """The uid of the object before; None if it is new."""
    after: str | None
    """The uid of the object after; None if it is gone."""
    prefix: str
    """The prefix of its name, if it was generated."""
    process: str
    by: StepName | None
    holder: str = ""
    """The process that holds the Lease at that time."""
    controller: str = ""
    """The controller whose reconcile made the change, if any."""
    content: str = ""
    """For an object with a generated name: its content without metadata and status."""
    is_deleting: bool = False
    """Whether the object still exists and is being deleted."""
    tree: Tree | None = None
    """The object as stored, None if it is gone; must not be changed."""

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return self.key[1]


@dataclass(frozen=True, slots=True)
class BrokenInvariant:
    """An invariant that did not hold at a revision; without a change, after a step or when time had passed."""

    name: str
    words: str
    change: Change | None
    step: StepName | None = None
    is_at_end: bool = False
    """Whether it is about the end of the run."""


@dataclass(frozen=True)
class EndedProcess:
    """A process that ended by itself, and why."""

    process: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class Target:
    """An object that another writer could change at a moment: before an action of the user, or after the scenario."""

    at: StepName
    location: str
    is_child: bool = False
    """Whether a controller has created it, and watches or owns it."""
    is_content: bool = False
    """Whether a controller manages fields of it."""
    has_label: bool = False
    """Whether a controller manages labels of it."""
    has_finalizer: bool = False
    """Whether a controller has added a finalizer."""
    is_touchable: bool = False
    """Whether a user has created it and a controller watches its kind."""


@dataclass(frozen=True, slots=True)
class StartingState:
    """What is stored when a run begins, and the state of the server's random numbers: the kinds are installed."""

    changes: tuple[StoredChange, ...]
    """The history of the storage."""
    random: tuple[Any, ...]


@dataclass(eq=False)
class Run:
    """The raw outcome of one run."""

    plan: Plan
    seed: int
    trace: Trace = field(default_factory=Trace)
    start: StartingState | None = field(default=None, repr=False)
    """The state of the server in which it began; other runs with the same seed may begin there."""
    changes: Sequence[Change] = ()
    broken: Sequence[BrokenInvariant] = ()
    ends: list[NormalizedState] = field(default_factory=list[NormalizedState])
    """The stored state at each check of the end."""
    late_changes: int = 0
    """The number of changes after the end."""
    ended: Sequence[EndedProcess] = ()
    error: BaseException | None = None
    """What the scenario raised."""
    endless: StepName | None = None
    """The step that was repeated so often that the run was stopped."""
    missed: Sequence[str] = ()
    seconds: float = 0.0
    leading: frozenset[str] = frozenset()
    """The controllers that run only on the leader."""
    sharing: frozenset[str] = frozenset()
    """The controllers whose objects the processes share."""
    locations: Mapping[Key, str] = field(default_factory=dict[Key, str])
    """The location of each object that ever changed, as in the end states."""
    failing: Mapping[str, Exception] = field(default_factory=dict[str, Exception])
    """The reconciles that failed the last time, with their errors; recorded in undisturbed runs only."""
    failures: Sequence[tuple[StepName, Exception]] = ()
    """The first reconciles that failed, gave up or took too long, with their errors; in undisturbed runs only."""
    controllers: tuple[str, ...] = ()
    """The names of the controllers."""
    generated: Mapping[str, str] = field(default_factory=dict[str, str])
    """The generated names, each with what stands for it: its prefix and `~`."""
    overridden: Sequence[tuple[StepName, Sequence[str]]] = ()
    """The writes of which a webhook has changed fields, with these fields."""
    is_long: bool = False
    """Whether it was followed for the whole time in which controllers have to come to rest."""
    hot_loop: str = ""
    """What kept the run busy for ever while virtual time stood still, if anything did."""
    states: frozenset[int] = frozenset()
    """The states that were reached, as hashes of all objects without times, uids and versions."""
    operations: Sequence[SpecChanged] = ()
    """The changes of specs that a user could make after the scenario; recorded in undisturbed runs only."""
    user_objects: Sequence[Mapping[str, Any]] = ()
    """What users have created and is there at the end, as they would create it."""
    late_end: NormalizedState | None = None
    """The state hours after the scenario, if it differs from that after it and has come to rest."""
    late_until: float = 0.0
    """The time of the last change, in seconds after the scenario."""
    is_at_rest: bool = False
    """Whether nothing was due any more when the run was followed."""
    targets: list[Target] = field(default_factory=list[Target])
    """What other writers could change; recorded in undisturbed runs only."""
    outside_before: NormalizedState = field(default_factory=dict[str, tuple[str, ...]])
    """The public state of the outside before the scenario."""
    namespace: str = ""
    """The namespace of the scenario."""
    call_sites: Sequence[CallSite] = ()
    """The call sites in the source of the controllers; recorded in undisturbed runs only."""
    awaits: Sequence[str] = ()
    """The lines at which reconciles have awaited, as `path:line`; recorded in undisturbed runs only."""
    unfinished: Sequence[StepName] = ()
    """Reconciles that were still running at the end."""

    def location_of(self, change: Change) -> str:
        """The location of the object of a change, as in the end states."""
        _, kind, namespace, name = change.key
        return self.locations.get(change.key) or "/".join(part for part in (kind, namespace, name) if part)

    @property
    def is_endless(self) -> bool:
        """Whether the run was stopped because of an endless loop."""
        return self.endless is not None or bool(self.hot_loop)

    @property
    def end(self) -> NormalizedState:
        """The stored state at the last check."""
        return self.ends[-1] if self.ends else {}


RULES: Final[Mapping[str, str]] = {
    "end state": "the end state differs from the undisturbed run",
    "leaked": "an object is left behind",
    "not healed": "a change by another writer is not undone",
    "not watched": "a change by another writer is not noticed",
    "stuck": "an object is being deleted and is never removed",
    "lost": "an object is deleted that should not be",
    "created twice": "an object is created twice",
    "two leaders": "two processes write as leaders",
    "two actors": "two processes that share the objects are at one of them",
    "endless loop": "the controllers never settle",
    "too many writes": "the controllers write far more than undisturbed",
    "crashed": "a process ends by itself",
    "failing": "a controller fails in the undisturbed run",
    "hangs": "a reconcile never ends",
    "unrepeatable": "the same seed gives a different run",
    "scenario": "the scenario itself fails",
}
"""The built-in rules; an invariant is a rule too, by the name of its function."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation of a rule; `rule` is one of `RULES`, or the name of an invariant.

    `sentence` describes it with names and numbers. `step` is the step that caused it, or that wrote the wrong object,
    if there is one; `revision` is the revision at which it was found. `expected` and `actual` are short strings.
    """

    rule: str
    sentence: str
    step: Step | None = None
    revision: int = 0
    expected: str = ""
    actual: str = ""
    about: str = ""
    """The kind of the object that it is about; that of the step if empty."""

    @property
    def kind(self) -> str:
        """The kind that it is about, by which `allowed` can select it."""
        return self.about or ("" if self.step is None else self.step.kind)

    def __str__(self) -> str:
        return f"{RULES.get(self.rule, self.rule.replace('_', ' '))}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class RunResult:
    """One judged run: the plan, the seed, the trace and the findings.

    `missed` are the disturbances whose step did not happen, because an earlier one changed the course of the run.
    """

    plan: Plan
    seed: int
    trace: Trace
    findings: tuple[Finding, ...] = ()
    missed: tuple[str, ...] = ()
    seconds: float = 0.0
    """The virtual duration in seconds."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def failure_mode(played: RunResult) -> tuple[str, ...]:
    """The failure mode of a run: the first rule it breaks, with the verb and kind of the step."""
    finding = played.findings[0]
    return finding.rule, "" if finding.step is None else f"{finding.step.verb} {finding.step.kind}"


def describe_divergence(one: Trace, other: Trace, *, is_fixed: bool) -> Finding:
    """The finding for two runs that should be identical and are not: where they diverge, and possible causes.

    `is_fixed` means that the same controller objects were used in both runs.
    """
    pairs = zip_longest(one.steps, other.steps)
    mine, theirs = next(
        pair for pair in pairs if pair[0] is None or pair[1] is None or pair[0].line() != pair[1].line()
    )
    hint = "randomness without a seed (uuid, secrets), a real clock, the order of a set, or module-level state"
    if is_fixed:
        hint += "; or the controllers have state: pass a function that creates new ones, not a list"
    said = (
        f"two runs with the same seed differ: {_describe_step(mine)}; {_describe_step(theirs)}. Possible causes: {hint}"
    )
    return Finding("unrepeatable", said, mine)


def _describe_step(step: Step | None) -> str:
    return (
        "the end" if step is None else f"step {step.number}, {step.name}{f' -> {step.outcome}' if step.outcome else ''}"
    )
