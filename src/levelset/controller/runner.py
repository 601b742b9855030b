"""Workers that take due requests and look at their objects: so many at once, never two at one object.

A look happens inside the worker's own task. It may take `timeout` seconds: one watchdog for all workers cancels what
takes longer, without ending the worker. Whatever a look raises ends that look, and nothing else.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

from levelset.aio import Closed
from levelset.controller.actions import Action, Outcome, Result, await_change
from levelset.controller.answering import Answering
from levelset.controller.history import History
from levelset.controller.observing import Observer, report_observer
from levelset.controller.requests import REQUEUED, RETRIED, Reason, Request
from levelset.controller.watchdog import Slot, Watchdog
from levelset.objects.identity import Ref
from levelset.schedule import Due, Scheduler

__all__ = ["GONE", "Looks", "Runner"]

K = TypeVar("K")

GONE: Final = Action()
"""What a look gives when there is no such object; this very value, as it says nothing else."""

Looks = Callable[[Request[Any]], Awaitable[Action | None]]
"""Looks at one object."""

_STREAK: Final = 64
"""So many looks in a row that never waited, and others get a turn."""
_AWAIT: Final = await_change()

_log = logging.getLogger(__name__)


class Runner(Generic[K]):
    """Has `look` called for what the scheduler hands out, and puts back what wants to be looked at again.

    `work` is the life of one worker, ended by the end of the scheduler. `deliver`, if given, is awaited with each
    outcome, and so slows the workers down to the pace of whoever reads them.
    """

    def __init__(
        self,
        scheduler: Scheduler[Ref[Any], Reason],
        look: Looks,
        *,
        name: str,
        answering: Answering,
        observer: Observer,
        history: History[K],
        timeout: float | None = None,
        deliver: Callable[[Outcome[K]], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self.history = history
        self._scheduler = scheduler
        self._look = look
        self._answering = answering
        self._observer = observer
        self._deliver = deliver
        self._clock = asyncio.get_running_loop().time
        self._timeout = timeout
        self._watchdog = None if timeout is None else Watchdog(timeout)

    async def work(self) -> None:
        """Works until the scheduler is closed; a cancellation ends the look that is under way, too."""
        # The hottest lines of the house: what they call is looked up once, and what goes wrong is handled elsewhere.
        slot, streak, watchdog = Slot(), 0, self._watchdog
        scheduler, look, clock, troubled = self._scheduler, self._look, self._clock, self._answering.troubled
        while True:
            due = scheduler.take_nowait() if streak < _STREAK else None
            if due is None:
                due = await self._next(streak)
                if due is None:
                    return
                streak = 0
            streak += 1
            key = due.key
            slot.began = began = clock()
            attempt = self._answering.failures.count(key) if troubled else 0
            request: Request[Any] = Request(key, due.reasons, due.priority, attempt)
            action: Action | None = None
            error: Exception | None = None
            try:
                self._tell_started(key, due.reasons)
                if watchdog is not None:
                    watchdog.guard(slot, began)
                try:
                    action = await look(request)
                    if slot.has_expired:
                        slot.settle()
                except (Exception, asyncio.CancelledError) as raised:
                    error = slot.explain(raised, self._timeout)
                    if error is None:
                        raise
                slot.deadline = None
                outcome = self._conclude(due, request, action, error, slot)
            finally:
                slot.deadline = None
                scheduler.done(key)
            if self._deliver is not None:
                await self._deliver(outcome)

    def close(self) -> None:
        """Puts the watchdog to sleep."""
        if self._watchdog is not None:
            self._watchdog.close()

    async def _next(self, streak: int) -> Due[Ref[Any], Reason] | None:
        """Lets others run if this worker has run for long, and waits for something that is due; None at the end."""
        if streak >= _STREAK:
            await asyncio.sleep(0)
        try:
            return await self._scheduler.take()
        except Closed:
            return None

    def _tell_started(self, ref: Ref[Any], reasons: tuple[Reason, ...]) -> None:
        try:
            self._observer.started(self.name, ref, reasons)
        except Exception as error:  # noqa: BLE001 -- who watches must not disturb
            report_observer(self._observer, error)

    def _conclude(
        self,
        due: Due[Ref[Any], Reason],
        request: Request[Any],
        given: Action | None,
        error: Exception | None,
        slot: Slot,
    ) -> Outcome[K]:
        """Decides when to look again, and tells everybody what came of it."""
        ref, began, ended = due.key, slot.began, self._clock()
        action: Action = _AWAIT
        result: Result = "done"
        if error is None and given is not None:
            action, result = given, _result(given)
            if result == "failed":
                error = TypeError(f"the reconciler returned {given!r}; return requeue(...), await_change() or nothing")
        if error is None:
            if self._answering.troubled:
                self._answering.succeed(ref)
        else:
            result, action = self._answering.answer(error, request, now=ended)
            result = "timed_out" if slot.has_expired else result
            self._log_failure(ref, result, action, error)
        if action.after is not None:
            priority = due.priority if action.priority is None else action.priority
            reason = REQUEUED if error is None else RETRIED
            self._scheduler.add(ref, after=action.after, priority=priority, reason=reason)
        outcome: Outcome[Any] = Outcome(
            ref, result, action, error, ended - began, due.reasons, request.attempt, began - due.since
        )
        self.history.add(outcome)
        try:
            self._observer.finished(self.name, ref, outcome, ended - began)
        except Exception as raised:  # noqa: BLE001 -- who watches must not disturb
            report_observer(self._observer, raised)
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s: %s (%s)", self.name, outcome, "; ".join(map(str, due.reasons)))
        return outcome

    def _log_failure(self, ref: Ref[Any], result: Result, action: Action, error: Exception) -> None:
        extra = {"controller": self.name, "ref": str(ref), "result": result}
        match result:
            case "conflict" | "retry":
                _log.debug("%s: %s, %s: %s", ref, result, action, error, extra=extra)
            case "gave_up":
                _log.error("%s: given up until something changes: %s", ref, error, extra=extra, exc_info=error)
            case _:
                _log.warning("%s: failed, %s: %s", ref, action, error, extra=extra, exc_info=error)


def _result(given: object) -> Result:
    """What a reconciler says by what it returned; anything but an Action is a failure."""
    if given is GONE:
        return "gone"
    if not isinstance(given, Action):
        return "failed"
    return "done" if given.after is None else "requeued"
