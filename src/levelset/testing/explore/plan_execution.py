"""Injects the disturbances of a plan: waits for the step or change each is bound to, and applies it then."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from levelset.client.transport.interface import Call, Hook, Response, Send
from levelset.testing import faults
from levelset.testing.call_info import call_info
from levelset.testing.explore.plans import (
    Conflict,
    CrashDuring,
    Disturbance,
    ErrorResponse,
    Hold,
    LostResponse,
    Plan,
    Relist,
    Reorder,
    Slow,
    StepName,
)
from levelset.testing.watch_control import DelayedWatches, WatchControl

__all__ = ["CUT_OFF", "FaultInjector", "apply_fault"]

CUT_OFF: Final = 30.0
"""Seconds for which a leader is cut off from the server in a takeover."""
_LAG: Final = 0.05
"""The delay in seconds of the events of a reordered kind, and the maximum delay of a reordered reconcile."""


class FaultInjector:
    """The disturbances of one run; each is injected once.

    `watches` controls the watches of all processes. Effects beyond the wire (a crash, a cut network) are left to the
    process slot, which calls `take` to find out whether a disturbance is due.
    """

    def __init__(self, plan: Plan, watches: WatchControl) -> None:
        self.triggered: dict[Disturbance, None] = {}
        """The injected disturbances, as an ordered set."""
        self._plan = plan
        self._watches = watches
        self._at: dict[StepName, Disturbance] = {}
        self._points: dict[tuple[StepName, int], Disturbance] = {}
        self._changes: dict[tuple[str, int], list[Hold | Relist]] = {}
        for one in plan:
            self._register(one)

    def _register(self, one: Disturbance) -> None:
        match one:
            case CrashDuring(at, point):
                self._points[at, point] = one
            case Hold(kind, change) | Relist(kind, change):
                self._changes.setdefault((kind, change), []).append(one)
            case _ if one.step is not None:
                self._at[one.step] = one
            case _:
                self.triggered[one] = None  # active for the whole run

    @property
    def missed(self) -> tuple[str, ...]:
        """The disturbances whose step or change did not happen."""
        return tuple(one.id for one in self._plan if one not in self.triggered)

    def take(self, at: StepName) -> Disturbance | None:
        """The disturbance of this call, if there is one."""
        found = self._at.pop(at, None)
        if found is not None:
            self.triggered[found] = None
        return found

    def take_point(self, at: StepName, point: int) -> Disturbance | None:
        """The disturbance at this await of a reconcile, if there is one."""
        if not self._points:
            return None
        found = self._points.pop((at, point), None)
        if found is not None:
            self.triggered[found] = None
        return found

    def notice_change(self, kind: str, change: int, revision: int) -> list[Disturbance]:
        """Starts the holds that are bound to the n-th change of a kind; returns them."""
        found = self._changes.pop((kind, change), [])
        for one in found:
            self.triggered[one] = None
            self._hold_back(kind, revision, one.seconds, is_relisted=isinstance(one, Relist))
        return list(found)

    def hold_back_all(self, revision: int, seconds: float) -> None:
        """Holds back all events after a revision for so many seconds."""
        held = self._watches.hold(lambda event: event.revision > revision)
        asyncio.get_running_loop().call_later(seconds, held.release)

    def wire_hooks(self) -> list[Hook]:
        """The wire hooks of each process for the whole run."""
        kinds = [one.what for one in self._plan if isinstance(one, Reorder) and one.what != "workers"]
        return [DelayedWatches(_LAG, _has_kind(kind)) for kind in kinds]

    def delay(self) -> Callable[[], float] | None:
        """A function that returns the delay of each reconcile, if reconciles are reordered."""
        for one in self._plan:
            if isinstance(one, Reorder) and one.what == "workers":
                random = Random(one.number)  # noqa: S311 -- must be repeatable
                return lambda: random.random() * _LAG
        return None

    def _hold_back(self, kind: str, revision: int, seconds: float, *, is_relisted: bool) -> None:
        held = self._watches.hold(lambda event: event.kind == kind and event.revision >= revision)

        def release() -> None:
            if is_relisted:
                self._watches.expire(kind)
            held.release()

        asyncio.get_running_loop().call_later(seconds, release)


def _has_kind(kind: str) -> Callable[[Call], bool]:
    return lambda call: call_info(call).kind == kind


async def apply_fault(what: Disturbance, call: Call, send: Send) -> Response:
    """Applies a disturbance that acts on the wire to a call; sends the call for all others."""
    match what:
        case Conflict():
            return await faults.respond_conflict(call, send)
        case ErrorResponse(_, code):
            return await faults.respond_status(code)(call, send)
        case LostResponse():
            return await faults.lose_response(call, send)
        case Slow(_, seconds):
            return await faults.delay_call(before=seconds)(call, send)
        case _:
            return await send(call)
