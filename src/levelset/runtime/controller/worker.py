"""The worker loop of a controller: take a due key, reconcile it, put the result back into the queue.

`Controller.concurrency` workers run this loop. The queue (`runtime/queue/work_queue.py`) guarantees that a key is never
handed to two workers at once. A reconcile runs in the worker's task; `Watchdog` cancels it after `timeout` without
ending the worker. Whatever a reconcile raises ends that reconcile only: `error_policy.py` decides when it is retried.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from levelset.aio import Closed, timing
from levelset.errors import Deadline, GiveUp
from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Action, Outcome, Result, await_change
from levelset.runtime.controller.error_policy import ErrorHandler
from levelset.runtime.controller.observers import Observer, log_observer_error, overrides
from levelset.runtime.controller.reconcile_history import ReconcileHistory
from levelset.runtime.controller.request import REQUEUED, RETRIED, Reason, Request
from levelset.runtime.queue import Due, Scheduler

__all__ = ["GONE", "FastPath", "ReconcileRequest", "Slot", "Watchdog", "WorkerPool"]

K = TypeVar("K")

GONE: Final = Action()
"""The action of a reconcile whose object does not exist; recognized by identity."""

ReconcileRequest = Callable[[Request[Any]], Awaitable[Action | None]]
"""Reconciles the object of a request."""

_MAX_STREAK: Final = 64
"""After so many reconciles in a row that never waited, the worker yields to the event loop."""
_AWAIT: Final = await_change()

_log = logging.getLogger(__name__)


class FastPath(Protocol):
    """Reconciles that need only the user's function: the worker awaits it directly, without a coroutine around it."""

    @property
    def begin(self) -> Callable[[str, Request[Any] | Due[str, Reason]], Any]:
        """Returns the context for the object with a key; None if this reconcile must go through `ReconcileRequest`."""
        ...

    @property
    def reconcile(self) -> Callable[[Any, Any], Awaitable[Action | None]]:
        """The user's function, called with the context's object and the context."""
        ...

    async def give_up(self, ctx: Any, error: GiveUp, /) -> None:
        """Is awaited when the user's function has raised GiveUp."""
        ...


class WorkerPool(Generic[K]):
    """The workers of one controller: each is a task that runs `work` until the scheduler is closed.

    `ref_of` makes the ref of a key; most successful reconciles never need one. `deliver`, if given, is awaited with
    each outcome, which slows the workers down to the pace of its consumer. `fast_path` starts reconciles that need
    nothing around the user's function; all others go through `reconcile_request`.
    """

    def __init__(
        self,
        scheduler: Scheduler[str, Reason],
        reconcile_request: ReconcileRequest,
        *,
        name: str,
        ref_of: Callable[[str], Ref[Any]],
        error_handler: ErrorHandler,
        observer: Observer,
        history: ReconcileHistory[K],
        timeout: float | None = None,
        deliver: Callable[[Outcome[K]], Awaitable[None]] | None = None,
        fast_path: FastPath | None = None,
    ) -> None:
        self.name = name
        self.history = history
        self._scheduler = scheduler
        self._reconcile_request = reconcile_request
        self._ref_of = ref_of
        self._fast_path: FastPath = _NoFastPath() if fast_path is None else fast_path
        self._error_handler = error_handler
        self._observer = observer
        self._deliver = deliver
        self._clock = timing.clock_of(asyncio.get_running_loop())
        self._timeout = timeout
        self._watchdog = None if timeout is None else Watchdog(timeout)
        self._reports_start = overrides(observer, "started")
        self._needs_preparation = timeout is not None or self._reports_start
        self._is_observed = self._is_reported = overrides(observer, "finished")
        self._logs_debug = False
        self._slots: list[Slot] = []

    async def work(self) -> None:
        """Runs one worker until the scheduler is closed; a cancellation ends the running reconcile, too."""
        # The hottest loop of the library (once per reconcile): attributes are looked up once, rare cases are elsewhere.
        slot, clock, now, streak = self._open_slot(), self._clock, 0.0, 0
        begin, reconcile = self._fast_path.begin, self._fast_path.reconcile
        reconcile_request = self._reconcile_request
        take_after, retrying = self._scheduler.take_after, self._error_handler.retrying
        needs_preparation = self._needs_preparation
        pending, max_streak = self.history.pending, _MAX_STREAK if self._deliver is None else 0
        due: Due[str, Reason] | None = None
        while True:
            if due is None:
                due = await self._next(streak, slot)
                if due is None:
                    return
                streak, now = 0, clock()
            streak += 1
            key = due.key
            slot.began = began = now
            # An object that is not being retried needs no Request: its queue entry stands for one.
            request: Request[Any] | Due[str, Reason] = self._counted(due) if retrying else due
            ctx = error = None
            try:
                if needs_preparation:
                    request = self._prepare(request, slot, began)
                try:
                    ctx = begin(key, request)
                    action = await (
                        reconcile_request(self._request(request)) if ctx is None else reconcile(ctx.object, ctx)
                    )
                    if slot.has_expired:
                        slot.settle()
                except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 -- none of them ends the worker
                    action, error = None, await self._explain(raised, ctx, slot)
                now = clock()
                if action is None and error is None and request is due:
                    # The common case. The history makes an Outcome of these four when it is read.
                    pending += (key, now - began, due.reasons, began - due.since if began > due.since else 0.0)
                else:
                    known = request if ctx is None else ctx.request  # which the user's function may have made already
                    end = self._conclude(due, known, action, error, slot=slot, now=now)
                    pending += (end, end.seconds, end.reasons, end.waited)
                if self._is_reported:
                    self._report(self.history.newest())
            except BaseException:
                self._end(key, slot)
                raise
            if streak < max_streak:
                due = take_after(key, now)
            else:
                self._end(key, slot)
                due, now = await self._deliver_and_take(streak), clock()

    def ages(self) -> list[float]:
        """The seconds that each running reconcile has taken so far."""
        now = self._clock()
        return [now - slot.began for slot in self._slots if slot.began is not None]

    def close(self) -> None:
        """Stops the watchdog."""
        if self._watchdog is not None:
            self._watchdog.close()

    def _end(self, key: str, slot: "Slot") -> None:
        slot.began = slot.deadline = None
        self._scheduler.done(key)

    def _report(self, outcome: Outcome[Any]) -> None:
        """Reports an outcome to the observer and the debug log."""
        try:
            self._observer.finished(self.name, outcome.ref, outcome, outcome.seconds)
        except Exception as raised:  # noqa: BLE001 -- observers must not break the controller
            log_observer_error(self._observer, raised)
        if self._logs_debug:
            _log.debug("%s: %s (%s)", self.name, outcome, "; ".join(map(str, outcome.reasons)))

    async def _deliver_and_take(self, streak: int) -> Due[str, Reason] | None:
        """Delivers the outcome, if there is a consumer, and takes the next due key unless it is time to yield."""
        if self._deliver is not None:
            await self._deliver(self.history.newest())
        return self._scheduler.take_nowait() if streak < _MAX_STREAK else None

    async def _next(self, streak: int, slot: "Slot") -> Due[str, Reason] | None:
        """Yields if this worker has run for long, then waits for a due key; None once the scheduler is closed."""
        slot.began = slot.deadline = None
        self._flush_history()
        if streak >= _MAX_STREAK:
            await asyncio.sleep(0)
        try:
            due = await self._scheduler.take()
        except Closed:
            return None
        self._check_log_level()
        return due

    def _flush_history(self) -> None:
        if len(self.history.pending) >= self.history.max_pending:
            self.history.flush()

    async def _explain(self, error: BaseException, ctx: Any, slot: "Slot") -> Exception:
        """The failure of a reconcile; raises the cancellation of the worker itself."""
        try:
            if ctx is not None and isinstance(error, GiveUp):
                await self._fast_path.give_up(ctx, error)
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 -- the last error counts
            error = raised
        found = slot.explain(error, self._timeout)
        if found is None:
            raise error
        return found

    def _open_slot(self) -> "Slot":
        slot = Slot()
        self._slots.append(slot)
        self._check_log_level()
        return slot

    def _check_log_level(self) -> None:
        self._logs_debug = _log.isEnabledFor(logging.DEBUG)
        self._is_reported = self._is_observed or self._logs_debug

    def _counted(self, due: Due[str, Reason]) -> Request[Any]:
        """The request of a queue entry, with the number of failures of its object."""
        ref = self._ref_of(due.key)
        return Request(ref, due.reasons, due.priority, self._error_handler.failures.count(ref))

    def _request(self, given: Request[Any] | Due[str, Reason]) -> Request[Any]:
        """The request; one is made of a queue entry, whose object has not failed."""
        return given if isinstance(given, Request) else Request(self._ref_of(given.key), given.reasons, given.priority)

    def _prepare(
        self, given: Request[Any] | Due[str, Reason], slot: "Slot", now: float
    ) -> Request[Any] | Due[str, Reason]:
        """Starts the timeout of a reconcile and reports its start, if there is a timeout or an observer.

        Observers may identify a reconcile by the identity of its ref: `finished` gets the same ref object.
        """
        if self._watchdog is not None:
            self._watchdog.guard(slot, now)
        if not self._reports_start:
            return given
        request = self._request(given)
        try:
            self._observer.started(self.name, request.ref, request.reasons)
        except Exception as error:  # noqa: BLE001 -- observers must not break the controller
            log_observer_error(self._observer, error)
        return request

    def _conclude(
        self,
        due: Due[str, Reason],
        request_or_due: Request[Any] | Due[str, Reason],
        given: Action | None,
        error: Exception | None,
        *,
        slot: "Slot",
        now: float,
    ) -> Outcome[K]:
        """The outcome of a reconcile; requeues the key if the action or the error handler says so."""
        self._flush_history()  # an error holds the frames of its reconcile, so no more of them than the history keeps
        request = self._request(request_or_due)
        ref, began = request.ref, now if slot.began is None else slot.began
        action: Action = _AWAIT
        result: Result = "done"
        if error is None and given is not None:
            action, result = given, _result(given)
            if result == "failed":
                error = TypeError(f"the reconciler returned {given!r}; return requeue(...), await_change() or None")
        if error is None:
            self._error_handler.record_success(ref)
        else:
            result, action = self._error_handler.next_action(error, request, now=now)
            result = "timed_out" if slot.has_expired else result
            self._log_failure(ref, result, action, error)
        if action.after is not None:
            priority = due.priority if action.priority is None else action.priority
            reason = REQUEUED if error is None else RETRIED
            self._scheduler.add(due.key, after=action.after, priority=priority, reason=reason)
        return Outcome(
            ref, result, action, error, now - began, due.reasons, request.attempt, max(0.0, began - due.since)
        )

    def _log_failure(self, ref: Ref[Any], result: Result, action: Action, error: Exception) -> None:
        extra = {"controller": self.name, "ref": str(ref), "result": result}
        match result:
            case "conflict" | "retry":
                _log.debug("%s: %s, %s: %s", ref, result, action, error, extra=extra)
            case "gave_up":
                _log.error("%s: gave up until something changes: %s", ref, error, extra=extra, exc_info=error)
            case _:
                _log.warning("%s: failed, %s: %s", ref, action, error, extra=extra, exc_info=error)


class Slot:
    """The state of one worker: when its reconcile began, its deadline, and whether that has expired.

    Must be created inside the worker's task.
    """

    __slots__ = ("_task", "began", "deadline", "has_expired")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a slot belongs to a worker's task"
        self._task = task
        self.began: float | None = None
        """When the running reconcile began; None while the worker is idle."""
        self.deadline: float | None = None
        self.has_expired = False

    def expire(self) -> None:
        """Cancels the reconcile; the worker continues after it has called `settle` or `explain`."""
        self.deadline = None
        self.has_expired = True
        self._task.cancel("the reconcile took too long")

    def settle(self) -> None:
        """Takes the cancellation back after a reconcile that expired but still returned."""
        if self._task.uncancel():
            raise asyncio.CancelledError

    def explain(self, error: BaseException, timeout: float | None) -> Exception | None:
        """The failure that an error stands for; None if the worker itself was cancelled and has to end."""
        is_ours = self.has_expired and self._task.uncancel() == 0
        if isinstance(error, Exception):
            return _too_slow(timeout, error) if self.has_expired else error
        if is_ours:
            return _too_slow(timeout, None)
        if self._task.cancelling():
            return None
        found = RuntimeError("something that the reconciler awaited was cancelled, and not by the controller")
        found.__cause__ = error
        return found


class Watchdog:
    """One timer for all workers: expires each slot whose reconcile takes longer than `timeout` seconds."""

    __slots__ = ("_guarded", "_loop", "_timer", "timeout")

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._guarded: set[Slot] = set()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def guard(self, slot: Slot, now: float) -> None:
        """Guards a slot from `now` on, until it expires or its deadline is set to None."""
        slot.has_expired = False
        slot.deadline = now + self.timeout
        self._guarded.add(slot)
        if self._timer is None:
            self._timer = self._loop.call_at(slot.deadline, self._check)

    def close(self) -> None:
        """Stops the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._guarded.clear()

    def _check(self) -> None:
        self._timer, now = None, self._loop.time()
        for slot in list(self._guarded):
            if slot.deadline is None:
                self._guarded.discard(slot)
            elif slot.deadline <= now:
                self._guarded.discard(slot)
                slot.expire()
        earliest = min((slot.deadline for slot in self._guarded if slot.deadline is not None), default=None)
        if earliest is not None:
            self._timer = self._loop.call_at(earliest, self._check)


class _NoFastPath:
    """Sends every reconcile through `ReconcileRequest`."""

    def begin(self, _: str, __: Request[Any] | Due[str, Reason]) -> None:
        return None

    async def reconcile(self, _: Any, __: Any, /) -> Action | None:
        raise AssertionError("begin() never returns a context here")

    async def give_up(self, _: Any, __: GiveUp, /) -> None:
        pass


def _result(given: object) -> Result:
    """The result of a reconcile that returned a value; anything but an Action is a failure."""
    if given is GONE:
        return "gone"
    if not isinstance(given, Action):
        return "failed"
    return "done" if given.after is None else "requeued"


def _too_slow(timeout: float | None, cause: Exception | None) -> Deadline:
    found = Deadline(f"the reconcile took longer than {timeout} s and was cancelled; run slow work in ctx.background")
    found.__cause__ = cause
    return found
