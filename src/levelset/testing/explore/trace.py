"""What happened in one run, in order: every call, every look, every delivered event, every crash, with its cause.

Writes down what happens in a run: gives each call and each look its name, and adds the steps to the trace.

A call is named by what it says and by how many calls have said the same before it, whatever process made them, so that
a name means the same in a run that was disturbed before.

Looks of controllers as steps: when each begins and ends, how often it waits, and a crash in the middle of one.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from levelset.client.transport.interface import Call
from levelset.errors import ConfigError
from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.request import Reason
from levelset.testing.call_info import OWN_KINDS, About, about
from levelset.testing.explore.plans import At
from levelset.testing.watch_control import WatchedEvent

__all__ = [
    "ACTING",
    "CAUSE",
    "GENERATED",
    "LEASE",
    "Act",
    "Cause",
    "LookObserver",
    "Points",
    "Recording",
    "Step",
    "Trace",
    "is_silent",
    "pointed",
]

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


GENERATED: Final = "~"
"""Stands for the part of a name that the server made up."""
LEASE: Final = "explored"
"""The name of the Lease that processes are elected by."""

CAUSE: Final[ContextVar[Cause | None]] = ContextVar("cause", default=None)
"""The look inside which this code runs."""
ACTING: Final[ContextVar[tuple[str, At] | None]] = ContextVar("acting", default=None)
"""The process and the call on whose behalf the server works just now."""


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    generateName: str = ""  # noqa: N815  # the name in the API
    namespace: str = ""


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata = _Metadata()


_objects: Final = msgspec.json.Decoder(_Object)


class Recording:
    """The trace of a run while it grows; `now` and `revision` say when something happens."""

    def __init__(self, now: Callable[[], float], revision: Callable[[], int]) -> None:
        self.trace = Trace()
        self.prefixes: dict[tuple[str, str, str], str] = {}
        """What the names that the server made up begin with, by kind, namespace and name."""
        self.generated: dict[str, str] = {}
        """The same by name alone."""
        self.failing: dict[str, Exception] = {}
        """The looks that failed the last time somebody looked, by what they are called without a number."""
        self.open: dict[At, str] = {}
        """The looks that have begun and not ended, each with its process."""
        self.now = now
        self._revision = revision
        self._said: Counter[str] = Counter()

    def name_call(self, call: Call, *, by: str = "") -> tuple[At, str]:
        """The name of a call that is made now, and the real name of its object if that is not in it."""
        what = about(call)
        said, alias = self._say(what, call)
        if by:
            said = f"{said} by {by}"
        self._said[said] += 1
        return At(said, self._said[said]), alias

    def name(self, said: str) -> At:
        """The name of something else that happens now."""
        self._said[said] += 1
        return At(said, self._said[said])

    def shown(self, ref: Ref[Any]) -> str:
        """An object as plans call it."""
        name = self._place(ref.kind, ref.namespace or "", ref.name)
        return "/".join(part for part in (ref.kind, ref.namespace, name) if part)

    def note_generated(self, kind: str, namespace: str, name: str, prefix: str) -> None:
        """The server has made up a name."""
        self.prefixes[kind, namespace, name] = self.generated[name] = prefix

    def add(self, process: str, act: Any, name: At, **more: Any) -> Step:
        """Adds a step that is over now."""
        step = Step(
            number=len(self.trace) + 1,
            at=self.now(),
            process=process,
            act=act,
            name=name,
            revision=self._revision(),
            **more,
        )
        self.trace.steps.append(step)
        return step

    def add_event(self, process: str, event: WatchedEvent) -> None:
        """Adds an event that was handed to a process; bookmarks say nothing."""
        if event.type == "BOOKMARK" or (event.group, event.kind) in OWN_KINDS:
            return
        where = self._place(event.kind, event.namespace or "", event.name)
        said = f"event {'/'.join(part for part in (event.kind, event.namespace, where) if part)}"
        alias = event.name if where != event.name else ""
        self.add(process, "event", self.name(said), outcome=event.type, seen=event.revision, alias=alias)

    def _say(self, what: About, call: Call) -> tuple[str, str]:
        name = what.name
        if name is None and what.verb == "create":
            name = _new_name(call.body)
        if name is None:
            return f"{what.verb} {'/'.join(part for part in (what.kind, what.namespace) if part)}", ""
        shown = self._place(what.kind, what.namespace or "", name)
        path = "/".join(part for part in (what.kind, what.namespace, shown, what.subresource) if part)
        return f"{what.verb} {path}", name if shown != name else ""

    def _place(self, kind: str, namespace: str, name: str) -> str:
        prefix = self.prefixes.get((kind, namespace, name))
        return name if prefix is None else prefix + GENERATED


def is_silent(what: About) -> bool:
    """Whether a call is never disturbed and never judged: Events and Leases tell of the work, and are no part of it."""
    return not what.kind or what.is_own


def _new_name(body: bytes) -> str:
    try:
        metadata = _objects.decode(body).metadata
    except msgspec.MsgspecError:
        return ""
    return metadata.name or metadata.generateName + GENERATED


Points = Callable[[At, int], bool]
"""Is asked when a look waits for the n-th time (0: when it ends); whether the process is gone from now on."""

_MOST_POINTS: Final = 5000
"""Who waits more often than that in one look waits for what does not happen."""
_FUNCTIONS: Final = ("reconcile", "cleanup", "gone")


@dataclass(slots=True)
class _Look:
    name: At
    seen: int = 0
    points: int = 0


_LOOK: Final[ContextVar[_Look | None]] = ContextVar("look", default=None)


class LookObserver:
    """Writes down the looks of one process, and tells the calls inside them what they were made for."""

    def __init__(
        self,
        recording: Recording,
        process: str,
        count: Callable[[At], object],
        is_dead: Callable[[], bool] = lambda: False,
    ) -> None:
        self._recording = recording
        self._process = process
        self._count = count
        self._is_dead = is_dead
        self._failed: dict[tuple[str, Ref[Any]], int] = {}
        """How often looks at an object have failed in a row."""

    def queued(self, name: str, depth: int, /) -> None:
        """Nothing: what counts is what comes of it."""

    def started(self, name: str, ref: Ref[Any], reasons: tuple[Reason, ...], /) -> None:
        """A look begins, in the task that runs this."""
        if self._is_dead():
            CAUSE.set(None)
            _LOOK.set(None)
            return  # what it still does before it is swept away is seen by nobody
        at = self._recording.name(f"look {name}/{self._recording.shown(ref)}")
        cause = Cause(
            name, self._recording.shown(ref), at.number, self._failed.get((name, ref), 0), tuple(map(str, reasons))
        )
        CAUSE.set(cause)
        _LOOK.set(_Look(at))
        self._recording.open[at] = self._process
        self._recording.add(self._process, "look", at, cause=cause)
        self._count(at)

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], seconds: float, /) -> None:  # noqa: ARG002
        """It has ended."""
        look, cause = _LOOK.get(), CAUSE.get()
        CAUSE.set(None)
        if look is not None:
            self._keep_account(name, ref, outcome, look.name)
            said = outcome.result if outcome.error is None else f"{outcome.result} {type(outcome.error).__name__}"
            self._recording.add(
                self._process, "looked", look.name, cause=cause, outcome=said, seen=look.seen, points=look.points
            )

    def _keep_account(self, name: str, ref: Ref[Any], outcome: Outcome[Any], look: At) -> None:
        recording = self._recording
        recording.open.pop(look, None)
        if outcome.error is not None and outcome.result in {"failed", "timed_out"}:
            self._failed[name, ref] = outcome.attempt + 1
            recording.failing[look.said] = outcome.error
        elif outcome.result != "conflict":
            self._failed.pop((name, ref), None)
            recording.failing.pop(look.said, None)


def pointed(
    controllers: Sequence[Controller[Any]], is_over: Points, delay: Callable[[], float] | None = None
) -> list[Controller[Any]]:
    """The same controllers, but `is_over` is asked whenever a look of theirs waits; `delay` makes looks begin later."""
    return [_pointed(one, is_over, delay) for one in controllers]


def _pointed(controller: Controller[Any], is_over: Points, delay: Callable[[], float] | None) -> Controller[Any]:
    made: Any = object.__new__(type(controller))
    for name, value in vars(controller).items():
        is_wrapped = name in _FUNCTIONS and value is not None
        object.__setattr__(made, name, _wrapped(value, is_over, delay) if is_wrapped else value)
    found: Controller[Any] = made
    return found


def _wrapped(function: Any, is_over: Points, delay: Callable[[], float] | None) -> Any:
    async def looking(what: Any, ctx: Any) -> Any:
        look = _LOOK.get() or _Look(At("look"))
        version = "" if isinstance(what, Ref) else what.metadata.resource_version
        look.seen = int(version) if version.isdigit() else 0
        if delay is not None:
            await asyncio.sleep(delay())
        made = function(what, ctx)
        if not hasattr(made, "__await__"):
            raise ConfigError(f"{getattr(function, '__qualname__', function)!r} is a plain function; write `async def`")
        result = await _Pointed(made, look, is_over)
        if is_over(look.name, 0):
            await asyncio.get_running_loop().create_future()  # for ever: this process is gone
        return result

    return looking


class _Pointed:
    """Awaits something, and counts how often that waits."""

    __slots__ = ("_awaited", "_is_over", "_look")

    def __init__(self, awaited: Any, look: _Look, is_over: Points) -> None:
        self._awaited = awaited
        self._look = look
        self._is_over = is_over

    def __await__(self) -> Generator[Any, Any, Any]:
        steps, look = self._awaited.__await__(), self._look
        sent: Any = None
        error: BaseException | None = None
        while True:
            try:
                waits = steps.send(sent) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            look.points += 1
            if look.points > _MOST_POINTS:
                error = RuntimeError(f"{look.name}: it waits again and again, {look.points} times by now, and goes on")
                continue
            # The process dies while it waits: what it waits for goes on, and it is cancelled in the middle.
            self._is_over(look.name, look.points)
            sent, error = None, None
            try:
                sent = yield waits
            except BaseException as raised:  # noqa: BLE001 -- it is thrown on to where it belongs
                error = raised
