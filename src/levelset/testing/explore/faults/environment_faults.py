"""Disturbances around a process: of the world outside, by other writers, of the server, the clock and the schedule.

Those that are bound to a user's action (`patch Website/test/blog by user#1`) happen just before it, and those at
`end scenario#1` after the scenario, when the controllers have settled.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from levelset.testing.explore.faults.disturbance import SCENARIO_END, Disturbance, StepName

__all__ = [
    "OUTAGES",
    "ChildDeleted",
    "ChildEdited",
    "ClockSkew",
    "FinalizerRemoved",
    "LabelChanged",
    "NamespaceDeleted",
    "ObjectTouched",
    "Outage",
    "OutsideError",
    "Overlap",
    "PagedList",
    "Pause",
    "Preempt",
    "SlowGarbageCollection",
    "SpecChanged",
    "ThirdParty",
]


@dataclass(frozen=True, slots=True)
class OutsideError(Disturbance):
    """The call to the outside fails with the n-th of the exploration's `outside_errors`, and has no effect."""

    at: StepName
    number: int = 1
    word: ClassVar[str] = "outside-error"

    def __str__(self) -> str:
        return f"{self.at} fails{f' with error {self.number}' if self.number > 1 else ''}"


@dataclass(frozen=True, slots=True)
class PagedList(Disturbance):
    """A live list is read in pages of one object, so many seconds apart: changes happen in between."""

    at: StepName
    seconds: float = 5.0
    word: ClassVar[str] = "paged-list"

    def __str__(self) -> str:
        return f"{self.at} is read in pages, {self.seconds:g} s apart"


@dataclass(frozen=True, slots=True)
class ThirdParty(Disturbance):
    """Another writer changes an object that a controller has written; the controllers must restore it."""

    at: StepName
    target: str

    @property
    def _when(self) -> str:
        return "after the scenario" if self.at == SCENARIO_END else f"before {self.at}"


@dataclass(frozen=True, slots=True)
class ChildDeleted(ThirdParty):
    """Another writer deletes an object that a controller has created."""

    word: ClassVar[str] = "child-deleted"

    def __str__(self) -> str:
        return f"another writer deletes {self.target} {self._when}"


@dataclass(frozen=True, slots=True)
class ChildEdited(ThirdParty):
    """Another writer changes a field that a controller has written."""

    word: ClassVar[str] = "child-edited"

    def __str__(self) -> str:
        return f"another writer edits {self.target} {self._when}"


@dataclass(frozen=True, slots=True)
class LabelChanged(ThirdParty):
    """Another writer changes a label that a controller has written."""

    word: ClassVar[str] = "label-changed"

    def __str__(self) -> str:
        return f"another writer changes a label of {self.target} {self._when}"


@dataclass(frozen=True, slots=True)
class FinalizerRemoved(ThirdParty):
    """Another writer removes the finalizers that a controller has added."""

    word: ClassVar[str] = "finalizer-removed"

    def __str__(self) -> str:
        return f"another writer removes the finalizers of {self.target} {self._when}"


@dataclass(frozen=True, slots=True)
class ObjectTouched(ThirdParty):
    """Another writer sets an annotation of an object of a user and removes it again: nothing may change by that."""

    word: ClassVar[str] = "object-touched"

    def __str__(self) -> str:
        return f"another writer sets an annotation of {self.target} and removes it {self._when}"


@dataclass(frozen=True, slots=True)
class NamespaceDeleted(Disturbance):
    """The namespace of the scenario is deleted: nothing in it may remain, and nothing may be stuck."""

    at: StepName
    word: ClassVar[str] = "namespace-deleted"

    def __str__(self) -> str:
        when = "after the scenario" if self.at == SCENARIO_END else f"before {self.at}"
        return f"the namespace is deleted {when}"


@dataclass(frozen=True, slots=True)
class SlowGarbageCollection(Disturbance):
    """The garbage collector of the server acts so many seconds late, in the whole run."""

    seconds: float = 30.0
    word: ClassVar[str] = "slow-garbage-collection"

    def __str__(self) -> str:
        return f"the garbage collector comes {self.seconds:g} s late"


OUTAGES: Final = {
    "unreachable": "the server is unreachable",
    "restart": "the server restarts: watches end, and their revisions are compacted",
    "compaction": "watches and lists of older revisions get 410",
    "silent": "watches stay open and deliver no events",
    "outside": "calls to the outside fail",
    "webhook": "admission webhooks are down: writes of their kinds get 500, or pass if their failure policy is Ignore",
    "429": "calls get 429 with Retry-After",
    "403": "calls of reconciles get 403",
    "404": "creates of reconciles get 404, as in a namespace that is missing",
    "409": "updates and patches of reconciles get 409",
    "410": "lists and watches get 410",
    "500": "calls of reconciles get 500",
    "504": "calls of reconciles get 504",
}
"""What an outage can be."""


@dataclass(frozen=True, slots=True)
class Outage(Disturbance):
    """From a call on, the server fails in one way for a span of time; `what` is one of `OUTAGES`."""

    at: StepName
    what: str = "unreachable"
    seconds: float = 60.0
    word: ClassVar[str] = "outage"

    def __str__(self) -> str:
        what, _, kind = self.what.partition(" ")
        words = OUTAGES.get(what, self.what)
        return f"{words}{f' ({kind})' if kind else ''} for {self.seconds:g} s from {self.at} on"


@dataclass(frozen=True, slots=True)
class ClockSkew(Disturbance):
    """The clocks of the processes are ahead of that of the server by so many seconds, or behind if negative."""

    seconds: float
    word: ClassVar[str] = "clock-skew"

    def __str__(self) -> str:
        return f"the clock of the process is {abs(self.seconds):g} s {'ahead' if self.seconds > 0 else 'behind'}"


@dataclass(frozen=True, slots=True)
class Pause(Disturbance):
    """The leader is paused at a call for longer than its lease; another leads meanwhile, then the call is sent."""

    at: StepName
    seconds: float = 60.0
    word: ClassVar[str] = "pause"

    def __str__(self) -> str:
        return f"the process is paused for {self.seconds:g} s at {self.at}, and another one leads"


@dataclass(frozen=True, slots=True)
class Overlap(Disturbance):
    """A new process starts at a call, as in a rolling update; the old one ends only so many seconds later."""

    at: StepName
    seconds: float = 30.0
    word: ClassVar[str] = "overlap"

    def __str__(self) -> str:
        return f"a second process runs beside the first from {self.at} on, which ends after {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Preempt(Disturbance):
    """A reconcile is suspended before a call, or after its n-th await, until all others that can run have run."""

    at: StepName
    point: int = 0
    word: ClassVar[str] = "preempt"

    def __str__(self) -> str:
        return f"others run {f'at await {self.point} of' if self.point else 'before'} {self.at}"


@dataclass(frozen=True, slots=True)
class SpecChanged(Disturbance):
    """A user changes a field of a spec after the scenario; the end must be as after a fresh start with that spec.

    `path` is the dotted field and `value` its new value as JSON, empty to remove it. With `back`, the user also
    restores the old value, and the end must be as undisturbed.
    """

    target: str
    path: str
    value: str
    back: int = 0
    word: ClassVar[str] = "spec-changed"

    def __str__(self) -> str:
        what = (
            f"sets {self.path} of {self.target} to {self.value}"
            if self.value
            else f"removes {self.path} of {self.target}"
        )
        return f"the user {what} after the scenario{', and then restores it' if self.back else ''}"
