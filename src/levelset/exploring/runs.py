"""What came of one run, before anybody judges it: who changed what, what broke, and what was there in the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from levelset.exploring.normalising import Normal
from levelset.exploring.plans import At, Plan
from levelset.exploring.states import Key
from levelset.exploring.traces import Trace

__all__ = ["Broken", "Change", "Ended", "Run"]


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
