"""What happened in one run, in order: every call, every look, every delivered event, every crash, with its cause."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from levelset.exploring.plans import At

__all__ = ["Act", "Cause", "Step", "Trace"]

Act = Literal["call", "crash", "disturb", "event", "look", "looked", "people", "start"]
"""What a step is: `call` to the server, `look` at an object begun and `looked` ended, `event` delivered to a process,
`people` call the server, a process `start`s or `crash`es, and a disturbance comes (`disturb`)."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The look that a call was made in: which controller looked at which object, for the how many-th time, and why.

    `attempt` is how many looks of the same process failed in a row before it.
    """

    controller: str
    ref: str
    number: int
    attempt: int = 0
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.controller}/{self.ref}#{self.number}"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened.

    `number` counts from 1, `at` is the virtual second. `process` is who did it: `people`, `server`, or `a.1`, the first
    process of the place `a`; after a crash the next is `a.2`. `name` is how plans call the step. `revision` is that of
    the storage when it was over, and `made` how many revisions it made. `seen` is the revision of an event, or that of
    the object that a look was given. `outcome` is the status of an answer (`201`), an error, or the result of a look.
    """

    number: int
    at: float
    process: str
    act: Act
    name: At
    cause: Cause | None = None
    outcome: str = ""
    revision: int = 0
    made: int = 0
    seen: int = 0
    is_write: bool = False
    disturbance: str = ""
    points: int = 0
    """Of a look: how often it waited for something."""
    alias: str = ""
    """The real name of an object that the step calls by what its name begins with."""

    @property
    def verb(self) -> str:
        """What was asked of the server, or the act."""
        return self.name.verb if self.act in {"call", "people"} else self.act

    @property
    def kind(self) -> str:
        """The kind of the object that it is about."""
        return self.name.kind

    @property
    def has_effect(self) -> bool:
        """Whether it changed something in the storage."""
        return self.made > 0

    def line(self) -> str:
        """The step as one line of text."""
        parts = [f"{self.number:>4} {self.at:>10.4f} {self.process:<8} {self.act:<7} {self.name}"]
        if self.alias:
            parts.append(f"({self.alias})")
        if self.seen:
            parts.append(f"seen {self.seen}")
        if self.outcome:
            parts.append(f"-> {self.outcome}")
        if self.made:
            parts.append(f"made {self.revision}")
        if self.cause is not None and self.act == "call":
            parts.append(f"in {self.cause}")
        if self.disturbance:
            parts.append(f"! {self.disturbance}")
        return " ".join(parts)


@dataclass(slots=True)
class Trace:
    """The steps of one run."""

    steps: list[Step] = field(default_factory=list[Step])

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def text(self) -> str:
        """All steps, one on each line; the same run gives the same text on every machine."""
        return "".join(f"{step.line()}\n" for step in self.steps)

    @property
    def digest(self) -> str:
        """A short hash of the text."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:16]

    def find(self, name: At) -> Step | None:
        """The step with this name."""
        return next((step for step in self.steps if step.name == name and step.act not in {"looked", "disturb"}), None)

    def writes(self) -> list[Step]:
        """The writes of controllers that reached the server, Events and Leases left out."""
        return [one for one in self.steps if one.act == "call" and one.is_write]
