"""What is done to a controller in one run: a plan of disturbances, each bound to a step or a change that it waits for.

A plan is a value, and its `id` says all of it in one short text without spaces, which `Plan.parse` reads back:
`crash-before:patch.Website/default/blog/status#2+conflict:update.Website/default/blog#1`. So a run can be repeated from
its id and its seed, and nothing has to be kept.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final
from urllib.parse import quote, unquote

from levelset.errors import ConfigError

__all__ = [
    "DISTURBANCES",
    "UNDISTURBED",
    "At",
    "Away",
    "Conflict",
    "CrashAfter",
    "CrashBefore",
    "CrashDuring",
    "Disturbance",
    "Hold",
    "LostAnswer",
    "OlderAfterRestart",
    "Plan",
    "Refusal",
    "Reorder",
    "Skip",
    "Slow",
    "Takeover",
]

_SAFE: Final = "/~@,!=$"
UNDISTURBED: Final = "undisturbed"


@dataclass(frozen=True, slots=True, order=True)
class At:
    """A step by its name: the n-th call (from 1) among those that say the same, whatever process makes it.

    `said` is the verb and the object: `patch Website/default/blog/status`. An object whose name the server made up is
    called by what that begins with, and `~`: `delete ConfigMap/default/fleet-~`. A look at an object by a controller
    is a step too: `look websites/Website/default/blog`.
    """

    said: str
    number: int = 1

    def __str__(self) -> str:
        return f"{self.said}#{self.number}"

    @property
    def verb(self) -> str:
        """The first word."""
        return self.said.split(" ", 1)[0]

    @property
    def kind(self) -> str:
        """The kind of the object."""
        rest = self.said.split(" ", 1)[-1].split("/")
        return rest[1] if self.verb == "look" and len(rest) > 1 else rest[0]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One thing that goes wrong."""

    word: ClassVar[str] = ""

    @property
    def id(self) -> str:
        """The disturbance as a short text without spaces."""
        return ":".join([self.word, *(_written(getattr(self, one.name)) for one in fields(self))])

    @property
    def step(self) -> "At | None":
        """The step that it is bound to, if it is bound to one."""
        at: At | None = getattr(self, "at", None)
        return at

    def __str__(self) -> str:
        return self.id


@dataclass(frozen=True, slots=True)
class CrashBefore(Disturbance):
    """The process is gone before the call is sent; all memory is lost, and a new process starts."""

    at: At
    word: ClassVar[str] = "crash-before"

    def __str__(self) -> str:
        return f"crash before {self.at}"


@dataclass(frozen=True, slots=True)
class CrashAfter(Disturbance):
    """The process is gone when the call has taken effect, before it has the answer."""

    at: At
    word: ClassVar[str] = "crash-after"

    def __str__(self) -> str:
        return f"crash after {self.at}"


@dataclass(frozen=True, slots=True)
class Away(Disturbance):
    """The process is gone when the call has taken effect, and it takes so many seconds until there is another one.

    People do not wait for that: what they do meanwhile is seen by nobody.
    """

    at: At
    seconds: float = 20.0
    word: ClassVar[str] = "away"

    def __str__(self) -> str:
        return f"crash after {self.at}, and nobody is there for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class CrashDuring(Disturbance):
    """The process is gone while a look waits for something for the n-th time; point 0 is the end of the look."""

    at: At
    point: int = 0
    word: ClassVar[str] = "crash-during"

    def __str__(self) -> str:
        return f"crash at {f'await {self.point}' if self.point else 'the end'} of {self.at}"


@dataclass(frozen=True, slots=True)
class Conflict(Disturbance):
    """The call is answered with 409 Conflict, as if somebody else had been first; nothing happens."""

    at: At
    word: ClassVar[str] = "conflict"

    def __str__(self) -> str:
        return f"conflict at {self.at}"


@dataclass(frozen=True, slots=True)
class Refusal(Disturbance):
    """The call is answered with an error; nothing happens."""

    at: At
    code: int = 500
    word: ClassVar[str] = "refusal"

    def __str__(self) -> str:
        return f"{self.code} at {self.at}"


@dataclass(frozen=True, slots=True)
class LostAnswer(Disturbance):
    """The call takes effect, and its answer is lost."""

    at: At
    word: ClassVar[str] = "lost-answer"

    def __str__(self) -> str:
        return f"answer lost of {self.at}"


@dataclass(frozen=True, slots=True)
class Slow(Disturbance):
    """The call waits so many seconds before it is sent."""

    at: At
    seconds: float = 5.0
    word: ClassVar[str] = "slow"

    def __str__(self) -> str:
        return f"{self.at} is sent {self.seconds:g} s later"


@dataclass(frozen=True, slots=True)
class Hold(Disturbance):
    """The caches of a kind stop before its n-th change (from 1) for so many seconds; then everything comes."""

    kind: str
    change: int
    seconds: float = 4.0
    word: ClassVar[str] = "hold"

    def __str__(self) -> str:
        return f"{self.kind} is seen as before its change {self.change} for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Skip(Disturbance):
    """As Hold, but what came meanwhile is listed anew at the end: the states in between are never seen."""

    kind: str
    change: int
    seconds: float = 20.0
    word: ClassVar[str] = "skip"

    def __str__(self) -> str:
        return f"{self.kind} is not seen from its change {self.change} on for {self.seconds:g} s, then listed anew"


@dataclass(frozen=True, slots=True)
class OlderAfterRestart(Disturbance):
    """The process is gone after a call, and the new one sees all kinds as so many changes ago, for some seconds."""

    at: At
    back: int = 1
    seconds: float = 4.0
    word: ClassVar[str] = "older"

    def __str__(self) -> str:
        return f"crash after {self.at}, and everything is seen as {self.back} changes ago for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Reorder(Disturbance):
    """What has no order comes in another one: the events of one kind after those of others, or looks (`workers`).

    `number` chooses one of many orders of looks.
    """

    what: str
    number: int = 1
    word: ClassVar[str] = "reorder"

    def __str__(self) -> str:
        return f"looks in another order ({self.number})" if self.what == "workers" else f"{self.what} is seen last"


@dataclass(frozen=True, slots=True)
class Takeover(Disturbance):
    """Before a call the leader is cut off from the server until another process leads; the call is not sent."""

    at: At
    word: ClassVar[str] = "takeover"

    def __str__(self) -> str:
        return f"another process leads from {self.at} on"


DISTURBANCES: Final[Mapping[str, type[Disturbance]]] = {
    one.word: one
    for one in (
        CrashBefore,
        CrashAfter,
        Away,
        CrashDuring,
        Conflict,
        Refusal,
        LostAnswer,
        Slow,
        Hold,
        Skip,
        OlderAfterRestart,
        Reorder,
        Takeover,
    )
}
"""All there are, by the word that they begin with in an id."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The disturbances of one run; none leave it undisturbed."""

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
        """The plan with this id; ConfigError if it is none."""
        if text == UNDISTURBED:
            return Plan()
        return Plan(tuple(_read(part, text) for part in text.split("+")))

    def without(self, index: int) -> "Plan":
        """The plan with one disturbance less."""
        return Plan(self.disturbances[:index] + self.disturbances[index + 1 :])

    def __str__(self) -> str:
        return "; ".join(map(str, self.disturbances)) or UNDISTURBED


def _written(value: Any) -> str:
    if isinstance(value, At):
        return f"{quote(value.said.replace(' ', '.', 1), safe=_SAFE)}#{value.number}"
    return f"{value:g}" if isinstance(value, float) else quote(str(value), safe=_SAFE)


def _read_at(text: str) -> At:
    said, _, number = text.rpartition("#")
    return At(unquote(said).replace(".", " ", 1), int(number))


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "at": _read_at,
    "kind": unquote,
    "what": unquote,
    "point": int,
    "code": int,
    "change": int,
    "back": int,
    "number": int,
    "seconds": float,
}


def _read(part: str, whole: str) -> Disturbance:
    word, *values = part.split(":")
    class_ = DISTURBANCES.get(word)
    if class_ is None:
        raise ConfigError(f"{whole[:200]!r} is no plan: there is no {word[:40]!r}, only {', '.join(DISTURBANCES)}")
    try:
        read = [_READERS[one.name](value) for one, value in zip(fields(class_), values, strict=True)]
    except (ValueError, TypeError) as error:
        names = ":".join(one.name for one in fields(class_))
        raise ConfigError(f"{part[:200]!r} is no disturbance: write {word}:{names} ({error})") from error
    make: Any = class_
    made: Disturbance = make(*read)
    return made
