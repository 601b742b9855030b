"""Injects the disturbances of a plan: waits for the step or change each is bound to, and applies it then."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from levelset.aio import timing
from levelset.client.transport.interface import Call, Hook, Response, Send
from levelset.runtime.webhook import AdmissionHook
from levelset.runtime.webhook.webhook_set import Webhooks
from levelset.testing import faults
from levelset.testing.call_info import CallInfo, call_info
from levelset.testing.explore.faults.disturbance import SCENARIO_END
from levelset.testing.explore.faults.environment_faults import (
    ClockSkew,
    NamespaceDeleted,
    Outage,
    PagedList,
    Preempt,
    SpecChanged,
    ThirdParty,
)
from levelset.testing.explore.faults.plan import (
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
from levelset.testing.explore.simulation.trace_recorder import ACTING, PREEMPTED
from levelset.testing.watch_control import DelayedWatches, WatchControl

__all__ = ["CUT_OFF", "FaultInjector", "apply_fault"]

_ADMITTED: Final = frozenset({"apply", "create", "delete", "patch", "update"})
_WEBHOOK: Final = "webhook "
_USER: Final = "user"
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
        self._preempted: dict[tuple[StepName, int], Disturbance] = {}
        self._moments: dict[StepName, list[Disturbance]] = {}
        self._outages: list[tuple[Outage, float]] = []
        """The outages that have begun, each with the time of its end."""
        self._rejecting: set[str] = set()
        """The kinds with a webhook without which no write passes."""
        for one in plan:
            self._register(one)

    def _register(self, one: Disturbance) -> None:
        match one:
            case CrashDuring(at, point):
                self._points[at, point] = one
            case Preempt(at, point) if point:
                self._preempted[at, point] = one
            case Hold(kind, change) | Relist(kind, change):
                self._changes.setdefault((kind, change), []).append(one)
            case ThirdParty(at) | NamespaceDeleted(at):
                self._moments.setdefault(at, []).append(one)
            case SpecChanged():
                self._moments.setdefault(SCENARIO_END, []).append(one)
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

    def is_preempted(self, at: StepName, point: int) -> bool:
        """Whether all others run after this await of a reconcile."""
        found = self._preempted.pop((at, point), None) if self._preempted else None
        if found is not None:
            self.triggered[found] = None
        return found is not None

    def take_moment(self, at: StepName) -> list[Disturbance]:
        """What other writers do at this moment; they call `note` if there was something to do."""
        return self._moments.pop(at, [])

    def has_moment(self, at: StepName) -> bool:
        """Whether other writers act at this moment."""
        return at in self._moments

    def note(self, one: Disturbance) -> None:
        """Notes that a disturbance has happened."""
        self.triggered[one] = None

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

    def start_outage(self, one: Outage, revision: int) -> None:
        """Begins an outage: ends, expires or silences the open watches."""
        self._outages.append((one, timing.now() + one.seconds))
        match one.what:
            case "unreachable" | "429" | "500":
                self._watches.cut()
            case "restart" | "compaction" | "410":
                self._watches.expire()
            case "silent":
                self.hold_back_all(revision, one.seconds)
            case _:
                pass

    @property
    def outage_end(self) -> float:
        """When the last outage that has begun ends; 0.0 if there is none."""
        return max((until for _, until in self._outages), default=0.0)

    def outage_of(self, call: Call, *, is_in_reconcile: bool) -> Hook | None:
        """How a call fails at the moment; None if it does not."""
        if not self._outages:
            return None
        now, what = timing.now(), call_info(call)
        for one, until in self._outages:
            if now < until and not (one.what.startswith(_WEBHOOK) and what.kind not in self._rejecting):
                hook = _outage_hook(one.what, what, is_in_reconcile=is_in_reconcile)
                if hook is not None:
                    return hook
        return None

    def outside_outage(self) -> Outage | None:
        """The outage of the outside at the moment, if there is one."""
        return self._outage("outside") if self._outages else None

    def with_failure_policies(self, webhooks: Webhooks) -> Webhooks:
        """The webhooks; those that may be ignored are not called by the server while they are down."""
        if not any(isinstance(one, Outage) and one.what.startswith(_WEBHOOK) for one in self._plan):
            return webhooks
        self._rejecting = {one.gvk.kind for one in webhooks.hooks if one.failure_policy == "Fail"}
        hooks = [self._ignorable(one) if one.failure_policy == "Ignore" else one for one in webhooks.hooks]
        return Webhooks([*hooks, *webhooks.conversions])

    def _ignorable(self, hook: AdmissionHook) -> AdmissionHook:
        def is_called(_: object) -> bool:
            # Users are not disturbed.
            acting = ACTING.get()
            is_of_user = acting is not None and acting[0] == _USER
            return is_of_user or self._outage(f"{_WEBHOOK}{hook.gvk.kind}") is None

        return msgspec.structs.replace(hook, conditions=[*hook.conditions, is_called])

    def _outage(self, what: str) -> Outage | None:
        now = timing.now()
        return next((one for one, until in self._outages if one.what == what and now < until), None)

    def hold_back_all(self, revision: int, seconds: float) -> None:
        """Holds back all events after a revision for so many seconds."""
        held = self._watches.hold(lambda event: event.revision > revision)
        asyncio.get_running_loop().call_later(seconds, held.release)

    def clock(self, now: Callable[[], datetime]) -> Callable[[], datetime]:
        """The clock of the processes."""
        skew = timedelta(seconds=sum(one.seconds for one in self._plan if isinstance(one, ClockSkew)))
        return (lambda: now() + skew) if skew else now

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


def _outage_hook(what: str, call: CallInfo, *, is_in_reconcile: bool) -> Hook | None:
    """What an outage does with a call; None if it passes."""
    match what:
        case "unreachable" | "restart":
            return faults.drop_request
        case "429":
            return faults.respond_status(429, "too many requests", retry_after=5.0)
        case "410" if call.verb in {"list", "watch"} and not is_in_reconcile:
            return faults.respond_status(410, "too old resource version")
        case "404" if is_in_reconcile and call.verb == "create" and not call.is_bookkeeping:
            return faults.respond_status(404, f'namespaces "{call.namespace}" not found')
        case "409" if is_in_reconcile and call.verb in {"patch", "update"} and not call.is_bookkeeping:
            return faults.respond_conflict
        case "403" | "500" | "504" if is_in_reconcile and not call.is_bookkeeping:
            return faults.respond_status(int(what))
        case _ if what.startswith(_WEBHOOK) and call.kind == what.removeprefix(_WEBHOOK) and call.verb in _ADMITTED:
            return faults.respond_status(500, 'failed calling webhook "of.the.exploration": connection refused')
        case _:
            return None


def _has_kind(kind: str) -> Callable[[Call], bool]:
    return lambda call: call_info(call).kind == kind


async def _list_in_pages(call: Call, send: Send, seconds: float) -> Response:
    """Requests one page with a single object; a later page comes so many seconds later."""
    query = dict(parse_qsl(call.query))
    if "continue" in query:
        await timing.sleep(seconds)
    query["limit"] = "1"
    return await send(msgspec.structs.replace(call, query=urlencode(query, quote_via=quote, safe=":,()!")))


async def apply_fault(what: Disturbance, call: Call, send: Send) -> Response:
    """Applies a disturbance that acts on the wire to a call; sends the call for all others."""
    match what:
        case Conflict():
            return await faults.meet_conflict(call, send)
        case ErrorResponse(_, code):
            return await faults.respond_status(code)(call, send)
        case LostResponse():
            return await faults.lose_response(call, send)
        case PagedList(_, seconds):
            return await _list_in_pages(call, send, seconds)
        case Preempt():
            return await faults.delay_call(before=PREEMPTED)(call, send)
        case Slow(_, seconds):
            return await faults.delay_call(before=seconds)(call, send)
        case _:
            return await send(call)
