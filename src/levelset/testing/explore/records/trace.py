"""The trace of a run: every call, reconcile, delivered event and crash as a step, with its cause.

A step is named by its action and by how often that action happened before in any process, so that a name means the same
in a run that was disturbed earlier. `trace_recorder.py` names and adds the steps.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from levelset.testing.explore.faults.plan import StepName

__all__ = [
    "Act",
    "Cause",
    "Step",
    "Trace",
]

Act = Literal["call", "crash", "disturb", "event", "reconcile", "reconciled", "user", "start"]
"""The type of a step: `call` of a process or the `user`, `reconcile` started or finished (`reconciled`), `event`
delivered, process `start` or `crash`, `disturb` (a disturbance that is not bound to a call)."""


class Cause(msgspec.Struct, frozen=True):
    """The reconcile that made a call: its controller, object, number (from 1) and reasons.

    `attempt` is the number of failed reconciles of the object by the same process directly before it.
    """

    controller: str
    ref: str
    number: int
    attempt: int = 0
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.controller}/{self.ref}#{self.number}"


class Step(msgspec.Struct, frozen=True):
    """One step of a run.

    `number` counts from 1, `at` is the virtual second. `process` is `user`, `server`, or `a.1`, the first process of
    the slot `a`; after a crash the next is `a.2`. `name` is the name by which plans refer to the step. `revision` is
    that of the storage after the step, and `made` the number of revisions it created. `seen` is the revision of an
    event, or of the object that was reconciled. `outcome` is the status of a response (`201`), an error, or the result
    of a reconcile.
    """

    number: int
    at: float
    process: str
    act: Act
    name: StepName
    cause: Cause | None = None
    outcome: str = ""
    revision: int = 0
    made: int = 0
    seen: int = 0
    is_write: bool = False
    disturbance: str = ""
    points: int = 0
    """Of a reconcile: the number of its awaits."""
    alias: str = ""
    """The full name of an object whose generated name is shown by its prefix."""
    site: str = ""
    """The line of the controller's source from which a call or a crash at an await comes, as `path:line`."""

    @property
    def verb(self) -> str:
        """The verb of a call, or the act."""
        return self.name.verb if self.act in {"call", "user"} else self.act

    @property
    def kind(self) -> str:
        """The kind of its object."""
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
        """All steps, one per line; the same run gives the same text on every machine."""
        return "".join(f"{step.line()}\n" for step in self.steps)

    @property
    def digest(self) -> str:
        """A short hash of the text."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:16]

    def find(self, name: StepName) -> Step | None:
        """The step with this name."""
        return next(
            (step for step in self.steps if step.name == name and step.act not in {"reconciled", "disturb"}), None
        )

    def writes(self) -> list[Step]:
        """The writes of controllers that reached the server, Events and Leases left out."""
        return [one for one in self.steps if one.act == "call" and one.is_write]
