"""Plans: the disturbances of one run, each bound to a step or a change.

A plan is a value. Its `id` is a short text without spaces that `Plan.parse` reads back:
`crash-before:patch.Website/default/blog/status#2+conflict:update.Website/default/blog#1`. A run can be repeated from
the id of its plan and its seed alone.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final
from urllib.parse import unquote

from levelset.errors import ConfigError
from levelset.testing.explore.faults.disturbance import Disturbance, StepName, parse_step_name
from levelset.testing.explore.faults.environment_faults import (
    ChildDeleted,
    ChildEdited,
    ClockSkew,
    FinalizerRemoved,
    LabelChanged,
    NamespaceDeleted,
    ObjectTouched,
    Outage,
    OutsideError,
    Overlap,
    PagedList,
    Pause,
    Preempt,
    SlowGarbageCollection,
    SpecChanged,
)

__all__ = [
    "DISTURBANCES",
    "UNDISTURBED",
    "Conflict",
    "CrashAfter",
    "CrashBefore",
    "CrashDuring",
    "Disturbance",
    "Downtime",
    "ErrorResponse",
    "Hold",
    "LostResponse",
    "Plan",
    "Relist",
    "Reorder",
    "Slow",
    "StaleRestart",
    "StepName",
    "Takeover",
]

UNDISTURBED: Final = "undisturbed"


@dataclass(frozen=True, slots=True)
class CrashBefore(Disturbance):
    """The process crashes before the call is sent; its memory is lost, and a new process starts."""

    at: StepName
    word: ClassVar[str] = "crash-before"

    def __str__(self) -> str:
        return f"crash before {self.at}"


@dataclass(frozen=True, slots=True)
class CrashAfter(Disturbance):
    """The process crashes after the call has taken effect, before it gets the response."""

    at: StepName
    word: ClassVar[str] = "crash-after"

    def __str__(self) -> str:
        return f"crash after {self.at}"


@dataclass(frozen=True, slots=True)
class Downtime(Disturbance):
    """The process crashes after the call has taken effect, and the next one starts only after so many seconds.

    The scenario does not wait for it: no process watches what the user does meanwhile.
    """

    at: StepName
    seconds: float = 20.0
    word: ClassVar[str] = "downtime"

    def __str__(self) -> str:
        return f"crash after {self.at}, and no process runs for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class CrashDuring(Disturbance):
    """The process crashes at the n-th await of a reconcile; point 0 is the end of the reconcile."""

    at: StepName
    point: int = 0
    word: ClassVar[str] = "crash-during"

    def __str__(self) -> str:
        return f"crash at {f'await {self.point}' if self.point else 'the end'} of {self.at}"


@dataclass(frozen=True, slots=True)
class Conflict(Disturbance):
    """The call gets 409 Conflict, as after a concurrent write, and has no effect."""

    at: StepName
    word: ClassVar[str] = "conflict"

    def __str__(self) -> str:
        return f"conflict at {self.at}"


@dataclass(frozen=True, slots=True)
class ErrorResponse(Disturbance):
    """The call gets an error response and has no effect."""

    at: StepName
    code: int = 500
    word: ClassVar[str] = "error-response"

    def __str__(self) -> str:
        return f"{self.code} at {self.at}"


@dataclass(frozen=True, slots=True)
class LostResponse(Disturbance):
    """The call takes effect, and its response is lost."""

    at: StepName
    word: ClassVar[str] = "lost-response"

    def __str__(self) -> str:
        return f"response of {self.at} is lost"


@dataclass(frozen=True, slots=True)
class Slow(Disturbance):
    """The call is sent so many seconds later."""

    at: StepName
    seconds: float = 5.0
    word: ClassVar[str] = "slow"

    def __str__(self) -> str:
        return f"{self.at} is sent {self.seconds:g} s later"


@dataclass(frozen=True, slots=True)
class Hold(Disturbance):
    """Watch events of a kind are held back from its n-th change (from 1) for so many seconds."""

    kind: str
    change: int
    seconds: float = 4.0
    word: ClassVar[str] = "hold"

    def __str__(self) -> str:
        return f"caches of {self.kind} are stale from its change {self.change} on for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Relist(Disturbance):
    """As Hold, but the watch expires at the end and is relisted: intermediate states are never seen."""

    kind: str
    change: int
    seconds: float = 20.0
    word: ClassVar[str] = "relist"

    def __str__(self) -> str:
        return f"caches of {self.kind} are stale from its change {self.change} on for {self.seconds:g} s, then relist"


@dataclass(frozen=True, slots=True)
class StaleRestart(Disturbance):
    """The process crashes after a call, and the new one sees all kinds as of `back` changes ago for some seconds."""

    at: StepName
    back: int = 1
    seconds: float = 4.0
    word: ClassVar[str] = "stale-restart"

    def __str__(self) -> str:
        return f"crash after {self.at}, and caches show the state of {self.back} changes ago for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Reorder(Disturbance):
    """Another order of what has no defined order: events of one kind after the others, or reconciles (`workers`).

    `number` selects one of many orders of reconciles.
    """

    what: str
    number: int = 1
    word: ClassVar[str] = "reorder"

    def __str__(self) -> str:
        return (
            f"reconciles in another order ({self.number})"
            if self.what == "workers"
            else f"events of {self.what} arrive last"
        )


@dataclass(frozen=True, slots=True)
class Takeover(Disturbance):
    """The leader is cut off from the server before a call until another process leads; the call is not sent."""

    at: StepName
    word: ClassVar[str] = "takeover"

    def __str__(self) -> str:
        return f"another process becomes the leader at {self.at}"


DISTURBANCES: Final[Mapping[str, type[Disturbance]]] = {
    one.word: one
    for one in (
        CrashBefore,
        CrashAfter,
        Downtime,
        CrashDuring,
        Conflict,
        ErrorResponse,
        LostResponse,
        Slow,
        Hold,
        Relist,
        StaleRestart,
        Reorder,
        Takeover,
        OutsideError,
        PagedList,
        ChildDeleted,
        ChildEdited,
        LabelChanged,
        FinalizerRemoved,
        ObjectTouched,
        NamespaceDeleted,
        SlowGarbageCollection,
        Outage,
        ClockSkew,
        Pause,
        Overlap,
        Preempt,
        SpecChanged,
    )
}
"""All disturbances, by the word with which their ids begin."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The disturbances of one run; the empty plan is the undisturbed run."""

    disturbances: tuple[Disturbance, ...] = ()

    def __len__(self) -> int:
        return len(self.disturbances)

    def __iter__(self) -> Iterator[Disturbance]:
        return iter(self.disturbances)

    @property
    def id(self) -> str:
        """The plan as one text without spaces, for a command line."""
        return "+".join(one.id for one in self.disturbances) or UNDISTURBED

    @staticmethod
    def parse(text: str) -> "Plan":
        """The plan with this id; ConfigError if the text is not a plan."""
        if text == UNDISTURBED:
            return Plan()
        return Plan(tuple(_parse(part, text) for part in text.split("+")))

    def without(self, index: int) -> "Plan":
        """The plan with one disturbance less."""
        return Plan(self.disturbances[:index] + self.disturbances[index + 1 :])

    def __str__(self) -> str:
        return "; ".join(map(str, self.disturbances)) or UNDISTURBED


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "at": parse_step_name,
    "kind": unquote,
    "what": unquote,
    "point": int,
    "code": int,
    "change": int,
    "back": int,
    "number": int,
    "seconds": float,
    "target": unquote,
    "path": unquote,
    "value": unquote,
}


def _parse(part: str, whole: str) -> Disturbance:
    word, *values = part.split(":")
    class_ = DISTURBANCES.get(word)
    if class_ is None:
        known = ", ".join(DISTURBANCES)
        raise ConfigError(f"{whole[:200]!r} is not a plan: unknown disturbance {word[:40]!r}, expected one of {known}")
    try:
        read = [_PARSERS[one.name](value) for one, value in zip(fields(class_), values, strict=True)]
    except (ValueError, TypeError) as error:
        names = ":".join(one.name for one in fields(class_))
        raise ConfigError(f"{part[:200]!r} is not a disturbance: write {word}:{names} ({error})") from error
    make: Any = class_
    made: Disturbance = make(*read)
    return made
