"""Records a run: names each call and each reconcile, and adds their steps to the trace.

`with_crash_points` wraps controllers, so that a plan can crash a process at any await of a reconcile.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from levelset.client.transport.interface import Call, Response
from levelset.errors import ConfigError
from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.request import Reason
from levelset.testing.call_info import BOOKKEEPING_KINDS, CallInfo, call_info, is_write
from levelset.testing.explore.faults.plan import StepName
from levelset.testing.explore.judging.endless_loops import overridden_fields
from levelset.testing.explore.outside_world import ProcessCrashed
from levelset.testing.explore.records.call_sites import await_site, call_site
from levelset.testing.explore.records.trace import Cause, Step, Trace
from levelset.testing.watch_control import WatchedEvent

__all__ = [
    "ACTING",
    "CAUSE",
    "GENERATED",
    "LEASE",
    "PREEMPTED",
    "RECONCILE_FUNCTIONS",
    "CrashPoint",
    "ReconcileObserver",
    "Recording",
    "is_ignored",
    "with_crash_points",
]


GENERATED: Final = "~"
"""Replaces the generated part of a name."""


LEASE: Final = "explored"
"""The name of the Lease for leader election."""


CAUSE: Final[ContextVar[Cause | None]] = ContextVar("cause", default=None)
"""The current reconcile."""


ACTING: Final[ContextVar[tuple[str, StepName] | None]] = ContextVar("acting", default=None)
"""The process and the call that the server is handling."""


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    generateName: str = ""  # noqa: N815  # the name in the API
    namespace: str = ""


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata = _Metadata()


_objects: Final = msgspec.json.Decoder(_Object)


class Recording:
    """Records the trace of a run; `now` and `revision` return the current time and revision."""

    def __init__(self, now: Callable[[], float], revision: Callable[[], int]) -> None:
        self.trace = Trace()
        self.prefixes: dict[tuple[str, str, str], str] = {}
        """The prefixes of generated names, by kind, namespace and name."""
        self.generated: dict[str, str] = {}
        """The same by name alone."""
        self.failing: dict[str, Exception] = {}
        """The errors of reconciles that failed the last time, by action."""
        self.failures: list[tuple[StepName, Exception]] = []
        """The first failures of reconciles, with their errors; not all: an error holds the frames it came through."""
        self.open: dict[StepName, str] = {}
        """The running reconciles, each with its process."""
        self.overridden: list[tuple[StepName, Sequence[str]]] = []
        """The writes of which a webhook has changed fields."""
        self.has_webhooks = False
        self.awaits: dict[str, None] | None = None
        """The lines at which reconciles have awaited, as an ordered set; None if they are not recorded."""
        self.now = now
        self._revision = revision
        self._counts: Counter[str] = Counter()

    def name_call(self, call: Call, *, by: str = "") -> tuple[StepName, str]:
        """The step name of a call, and the full name of its object if the name is generated."""
        what = call_info(call)
        action, alias = self._describe(what, call)
        if by:
            action = f"{action} by {by}"
        self._counts[action] += 1
        return StepName(action, self._counts[action]), alias

    def note_overridden(self, name: StepName, call: Call, response: Response) -> None:
        """Notes which fields of a write a webhook has changed."""
        if self.has_webhooks and is_write(call) and response.status < _FIRST_ERROR and response.body:
            fields = overridden_fields(call.body, response.body)
            if fields:
                self.overridden.append((name, fields))

    def name(self, action: str) -> StepName:
        """The step name of another action."""
        self._counts[action] += 1
        return StepName(action, self._counts[action])

    def shown(self, ref: Ref[Any]) -> str:
        """An object as it is named in steps."""
        name = self._shown_name(ref.kind, ref.namespace or "", ref.name)
        return "/".join(part for part in (ref.kind, ref.namespace, name) if part)

    def note_generated(self, kind: str, namespace: str, name: str, prefix: str) -> None:
        """Notes a generated name and its prefix."""
        self.prefixes[kind, namespace, name] = self.generated[name] = prefix

    def add(self, process: str, act: Any, name: StepName, **more: Any) -> Step:
        """Adds a step that has just ended."""
        if act == "call" and more.get("cause") is not None:
            more["site"] = call_site()
        elif act == "disturb" and (reconcile := _RECONCILE.get()) is not None:
            more["site"] = await_site(reconcile.awaited)
        step = Step(
            number=len(self.trace.steps) + 1,
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
        """Adds an event that was delivered to a process; bookmarks are skipped."""
        if event.type == "BOOKMARK" or (event.group, event.kind) in BOOKKEEPING_KINDS:
            return
        where = self._shown_name(event.kind, event.namespace or "", event.name)
        action = f"event {'/'.join(part for part in (event.kind, event.namespace, where) if part)}"
        alias = event.name if where != event.name else ""
        self.add(process, "event", self.name(action), outcome=event.type, seen=event.revision, alias=alias)

    def _describe(self, what: CallInfo, call: Call) -> tuple[str, str]:
        name = what.name
        if name is None and what.verb == "create":
            name = _new_name(call.body)
        if name is None:
            pages = "pages" if what.verb == "list" and "limit=" in call.query and CAUSE.get() is not None else ""
            return f"{what.verb} {'/'.join(part for part in (what.kind, what.namespace, pages) if part)}", ""
        shown = self._shown_name(what.kind, what.namespace or "", name)
        path = "/".join(part for part in (what.kind, what.namespace, shown, what.subresource) if part)
        return f"{what.verb} {path}", name if shown != name else ""

    def _shown_name(self, kind: str, namespace: str, name: str) -> str:
        prefix = self.prefixes.get((kind, namespace, name))
        return name if prefix is None else prefix + GENERATED


def is_ignored(what: CallInfo) -> bool:
    """Whether a call is neither disturbed nor judged: calls without objects, and those for Events and Leases."""
    return not what.kind or what.is_bookkeeping


def _new_name(body: bytes) -> str:
    try:
        metadata = _objects.decode(body).metadata
    except msgspec.MsgspecError:
        return ""
    return metadata.name or metadata.generateName + GENERATED


CrashPoint = Callable[[StepName, int], bool]
"""Called at the n-th await of a reconcile (0: at its end); returns whether the process crashes there."""


_MAX_AWAITS: Final = 5000
"""More awaits in one reconcile are taken for an endless loop."""


_MOST_FAILURES: Final = 20
_FIRST_ERROR: Final = 300


PREEMPTED: Final = 0.05
"""Seconds in which all others run while a reconcile is preempted: in virtual time, whatever they need."""


RECONCILE_FUNCTIONS: Final = ("reconcile", "cleanup", "gone")
"""The attributes of a controller that are functions of the user, called in reconciles."""


@dataclass(slots=True)
class _Reconcile:
    name: StepName
    seen: int = 0
    points: int = 0
    awaited: Any = None
    """The coroutine of the reconciler."""
    awaits: dict[str, None] | None = None
    """Where the lines of its awaits are recorded, if they are."""


_RECONCILE: Final[ContextVar[_Reconcile | None]] = ContextVar("reconcile", default=None)


class ReconcileObserver:
    """Records the reconciles of one process, and sets the cause of the calls inside them."""

    def __init__(
        self,
        recording: Recording,
        process: str,
        count: Callable[[StepName], object],
        is_dead: Callable[[], bool] = lambda: False,
    ) -> None:
        self._recording = recording
        self._process = process
        self._count = count
        self._is_dead = is_dead
        self._failed: dict[tuple[str, Ref[Any]], int] = {}
        """The number of consecutive failures of each object."""

    def queued(self, name: str, depth: int, /) -> None:
        """Ignored: only reconciles are steps."""

    def started(self, name: str, ref: Ref[Any], reasons: tuple[Reason, ...], /) -> None:
        """A reconcile starts, in the current task."""
        if self._is_dead():
            CAUSE.set(None)
            _RECONCILE.set(None)
            return  # calls of a killed process are not recorded
        shown = self._recording.shown(ref)
        at = self._recording.name(f"reconcile {name}/{shown}")
        cause = Cause(name, shown, at.number, self._failed.get((name, ref), 0), tuple(map(str, reasons)))
        CAUSE.set(cause)
        _RECONCILE.set(_Reconcile(at, awaits=self._recording.awaits))
        self._recording.open[at] = self._process
        self._recording.add(self._process, "reconcile", at, cause=cause)
        self._count(at)

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], seconds: float, /) -> None:  # noqa: ARG002
        """The reconcile has finished."""
        reconcile, cause = _RECONCILE.get(), CAUSE.get()
        CAUSE.set(None)
        if reconcile is not None:
            self._note_result(name, ref, outcome, reconcile.name)
            result = outcome.result if outcome.error is None else f"{outcome.result} {type(outcome.error).__name__}"
            self._recording.add(
                self._process,
                "reconciled",
                reconcile.name,
                cause=cause,
                outcome=result,
                seen=reconcile.seen,
                points=reconcile.points,
            )

    def _note_result(self, name: str, ref: Ref[Any], outcome: Outcome[Any], reconcile: StepName) -> None:
        recording = self._recording
        recording.open.pop(reconcile, None)
        if outcome.error is not None and outcome.is_error and len(recording.failures) < _MOST_FAILURES:
            recording.failures.append((reconcile, outcome.error))
        if outcome.error is not None and outcome.result in {"failed", "timed_out"}:
            self._failed[name, ref] = outcome.attempt + 1
            recording.failing[reconcile.action] = outcome.error
        elif outcome.result != "conflict":
            self._failed.pop((name, ref), None)
            recording.failing.pop(reconcile.action, None)


def with_crash_points(
    controllers: Sequence[Controller[Any]],
    is_over: CrashPoint,
    delay: Callable[[], float] | None = None,
    is_preempted: CrashPoint = lambda _at, _point: False,
) -> list[Controller[Any]]:
    """The controllers, with `is_over` called at each await of a reconcile, and reconciles delayed by `delay`.

    After an await for which `is_preempted` returns True, a reconcile continues only when all others have run.
    """
    return [_with_crash_points(one, is_over, delay, is_preempted) for one in controllers]


def _with_crash_points(
    controller: Controller[Any], is_over: CrashPoint, delay: Callable[[], float] | None, is_preempted: CrashPoint
) -> Controller[Any]:
    made: Any = object.__new__(type(controller))
    for name, value in vars(controller).items():
        is_wrapped = name in RECONCILE_FUNCTIONS and value is not None
        object.__setattr__(made, name, _wrapped(value, is_over, delay, is_preempted) if is_wrapped else value)
    found: Controller[Any] = made
    return found


def _wrapped(function: Any, is_over: CrashPoint, delay: Callable[[], float] | None, is_preempted: CrashPoint) -> Any:
    async def reconciling(what: Any, ctx: Any) -> Any:
        reconcile = _RECONCILE.get() or _Reconcile(StepName("reconcile"))
        version = "" if isinstance(what, Ref) else what.metadata.resource_version
        reconcile.seen = int(version) if version.isdigit() else 0
        if delay is not None:
            await asyncio.sleep(delay())
        made = function(what, ctx)
        if not hasattr(made, "__await__"):
            raise ConfigError(f"{getattr(function, '__qualname__', function)!r} is a plain function; write `async def`")
        try:
            result = await _CountedAwait(made, reconcile, is_over, is_preempted)
        except ProcessCrashed:
            result = await asyncio.get_running_loop().create_future()  # until the process is killed
        if is_over(reconcile.name, 0):
            await asyncio.get_running_loop().create_future()  # never returns: the process has crashed
        return result

    return reconciling


class _CountedAwait:
    """Awaits an awaitable, and counts how often it suspends."""

    __slots__ = ("_awaited", "_is_over", "_is_preempted", "_reconcile")

    def __init__(self, awaited: Any, reconcile: _Reconcile, is_over: CrashPoint, is_preempted: CrashPoint) -> None:
        self._is_preempted = is_preempted
        self._awaited = awaited
        self._reconcile = reconcile
        self._is_over = is_over

    def __await__(self) -> Generator[Any, Any, Any]:
        steps, reconcile = self._awaited.__await__(), self._reconcile
        reconcile.awaited = self._awaited
        sent: Any = None
        error: BaseException | None = None
        while True:
            try:
                waits = steps.send(sent) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            reconcile.points += 1
            if reconcile.awaits is not None:
                reconcile.awaits[await_site(self._awaited)] = None
            if reconcile.points > _MAX_AWAITS:
                error = RuntimeError(
                    f"{reconcile.name}: {reconcile.points} awaits in one reconcile; it seems to loop for ever"
                )
                continue
            # The process may crash here: the awaited operation continues, and the reconcile is cancelled in the middle.
            self._is_over(reconcile.name, reconcile.points)
            sent, error = None, None
            try:
                sent = yield waits
                if self._is_preempted(reconcile.name, reconcile.points):
                    yield from asyncio.sleep(PREEMPTED).__await__()
            except BaseException as raised:  # noqa: BLE001 -- it is thrown into the awaitable
                error = raised
