"""Looks of controllers as steps: when each begins and ends, how often it waits, and a crash in the middle of one."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from levelset.controller.actions import Outcome
from levelset.controller.controller import Controller
from levelset.controller.requests import Reason
from levelset.errors import ConfigError
from levelset.exploring.plans import At
from levelset.exploring.recording import CAUSE, Recording
from levelset.exploring.traces import Cause
from levelset.objects.identity import Ref

__all__ = ["LookObserver", "Points", "pointed"]

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
