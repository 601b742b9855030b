"""The worker loop of a controller: take a due key, reconcile it, put the result back into the queue.

`Controller.concurrency` workers run this loop. The queue (`runtime/queue/work_queue.py`) guarantees that a key is never
handed to two workers at once. A reconcile runs in the worker's task; `Watchdog` cancels it after `timeout` without
ending the worker. Whatever a reconcile raises ends that reconcile only: `error_policy.py` decides when it is retried.
What the bookkeeping around it raises (a user's `backoff`, a bug) is a crash: logged with the object, counted, and the
object is retried. An error of the queue itself ends `work`; the running controller restarts it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, Generic, TypeVar

from levelset.aio import Backoff, Closed, timing
from levelset.errors import Deadline, GiveUp
from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Action, Outcome, Result, await_change
from levelset.runtime.controller.error_policy import ErrorHandler
from levelset.runtime.controller.failure_log import FailureLog
from levelset.runtime.controller.observers import Observer, log_observer_error, overrides
from levelset.runtime.controller.reconcile_history import ReconcileHistory, Record
from levelset.runtime.controller.request import REQUEUED, RETRIED, Reason, Request
from levelset.runtime.controller.traced_tasks import RECONCILE, RunningReconcile, TracedTask, Tracer
from levelset.runtime.queue import Due, Scheduler

__all__ = ["GONE", "GiveUpHandler", "OnCrash", "Slot", "StartReconcile", "Watchdog", "WorkerPool"]

K = TypeVar("K")

GONE: Final = Action()
"""The action of a reconcile whose object does not exist; recognized by identity."""

RequestOrDue = Request[Any] | Due[str, Reason]
"""A request; an entry of the queue stands for the request of an object that has not failed."""
StartReconcile = Callable[[str, RequestOrDue, "Slot"], Awaitable[Action | None]]
"""Starts to reconcile the object with a key, sets the context in the slot, and returns what the worker awaits."""
OnCrash = Callable[[Exception], object]
"""Is called with an error in the controller itself, after it was logged."""
GiveUpHandler = Callable[[Any, GiveUp], Awaitable[None]]
"""Is called with the context of a reconcile that raised GiveUp."""

_MAX_STREAK: Final = 64
"""After so many reconciles in a row that never waited, the worker yields to the event loop."""
_CRASH_BACKOFF: Final = Backoff(first=1.0, cap=60.0)
"""The delay before an object is reconciled again after a crash; the controller's own backoff may be its cause."""
_AWAIT: Final = await_change()
_DONE: Final[Result] = "done"

_log = logging.getLogger(__name__)


class WorkerPool(Generic[K]):
    """The workers of one controller: each is a task that runs `work` until the scheduler is closed.

    `ref_of` makes the ref of a key; most successful reconciles never need one. `deliver`, if given, is awaited with
    each outcome, which slows the workers down to the pace of its consumer.
    """

    def __init__(
        self,
        scheduler: Scheduler[str, Reason],
        start: StartReconcile,
        *,
        name: str,
        ref_of: Callable[[str], Ref[Any]],
        error_handler: ErrorHandler,
        observer: Observer,
        history: ReconcileHistory[K],
        give_up: GiveUpHandler | None = None,
        on_crash: OnCrash | None = None,
        timeout: float | None = None,
        deliver: Callable[[Outcome[K]], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self.history = history
        self._scheduler = scheduler
        self._start = self._unmarked = start
        self._give_up = give_up
        self._on_crash = on_crash
        self._crash_delays = _CRASH_BACKOFF.delays()
        self._ref_of = ref_of
        self._error_handler = error_handler
        self._observer = observer
        self._deliver = deliver
        self._clock = timing.clock_of(asyncio.get_running_loop())
        self._failures = FailureLog(name, self._clock)
        self._timeout = timeout
        self._watchdog = None if timeout is None else Watchdog(timeout)
        self._reports_start = overrides(observer, "started")
        self._reports_end = overrides(observer, "finished") or deliver is not None
        self._needs_preparation = timeout is not None or self._reports_start
        self._slots: list[Slot] = []
        self.tracer: Tracer | None = None
        """Records or replays the reconciles that start from now on."""

    async def work(self) -> None:
        """Runs one worker until the scheduler is closed; a cancellation ends the running reconcile, too."""
        slot = Slot()
        self._slots.append(slot)
        due: Due[str, Reason] | None = None
        try:
            while True:
                tracer = self.tracer
                work = self._work(slot, tracer, due)
                due = await (work if tracer is None else tracer.follow(work))
                if due is None:
                    return
        finally:
            self._slots.remove(slot)

    async def _work(self, slot: "Slot", tracer: Tracer | None, due: Due[str, Reason] | None) -> Due[str, Reason] | None:
        """Reconciles until the scheduler is closed, or the tracer is another one: then it returns the key it has."""
        # The hottest loop of the library, once per reconcile: attributes are looked up once.
        streak, clock, pending = 0, self._clock, self.history.pending
        scheduler, deliver = self._scheduler, self._deliver
        retrying, needs_preparation = self._error_handler.retrying, self._needs_preparation
        while (due := due or await self._next(streak)) is not None and self.tracer is tracer:
            streak, now, reports = 0, clock(), self._reports_end or _log.isEnabledFor(logging.DEBUG)
            start = self._start
            while due is not None:
                streak += 1
                slot.key = key = due.key
                slot.began, result, attempt = now, _DONE, 0
                request: RequestOrDue = due
                action = error = outcome = traced = None
                try:
                    if needs_preparation or retrying:
                        request = self._prepare(due, slot)
                    if tracer is not None:
                        traced = tracer.begin(self.name, key, request, now)
                    try:
                        action = await start(key, request, slot)
                        if slot.has_expired:
                            slot.settle()
                    except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 -- none of them ends the worker
                        error = await self._explain(raised, slot)
                    began, now, since = now, clock(), due.since
                    if action is not None or error is not None or request is not due:
                        result, action, error, attempt = self._settle(due, request, action, error, slot)
                    waited = began - since if began > since else 0.0
                    record = key, result, action or _AWAIT, error, now - began, due.reasons, attempt, waited, now
                    pending.append(record)
                    if tracer is not None and traced is not None:
                        tracer.finished(traced, record)
                    if reports:
                        outcome = self._report(record, request)
                except Exception as crash:  # noqa: BLE001 -- the object must not be lost, nor the worker end
                    self._recover(due, crash, traced)
                finally:
                    slot.began = slot.deadline = slot.ctx = None
                    slot.has_expired = False
                    scheduler.done(key)
                if deliver is not None and outcome is not None:
                    await deliver(outcome)
                    now = clock()  # the consumer may have taken long
                due = scheduler.take_nowait(now) if streak < _MAX_STREAK and self.tracer is tracer else None
        return due

    def ages(self) -> list[float]:
        """The seconds that each running reconcile has taken so far."""
        now = self._clock()
        return [now - slot.began for slot in self._slots if slot.began is not None]

    def mark(self, *, is_on: bool) -> None:
        """Has the reconciles that start from now on set `RECONCILE`, or not. While it is off it costs nothing."""
        self._start = self._marked if is_on else self._unmarked

    def _marked(self, key: str, request: RequestOrDue, slot: "Slot") -> Awaitable[Action | None]:
        RECONCILE.set(RunningReconcile(self.name, key, slot.began or 0.0))
        return self._unmarked(key, request, slot)

    def cancel(self, keys: Collection[str], reason: str) -> None:
        """Cancels the running reconciles of these objects; their workers continue with others."""
        for slot in self._slots:
            if slot.began is not None and slot.key in keys and not slot.has_expired:
                slot.expire(reason)

    def close(self) -> None:
        """Stops the watchdog."""
        if self._watchdog is not None:
            self._watchdog.close()

    async def _next(self, streak: int) -> Due[str, Reason] | None:
        """Lets other tasks run after a long streak, then waits for a due key; None once the scheduler is closed."""
        if len(self.history.pending) >= self.history.max_pending:
            self.history.flush()
        if streak >= _MAX_STREAK:
            await asyncio.sleep(0)
        try:
            return await self._scheduler.take()
        except Closed:
            return None

    def _prepare(self, due: Due[str, Reason], slot: "Slot") -> Request[Any]:
        """The request of a queue entry; starts the timeout and reports the start, if there is one or an observer."""
        request = self._request(due)
        if self._watchdog is not None:
            self._watchdog.guard(slot)
        if self._reports_start:
            try:
                self._observer.started(self.name, request.ref, request.reasons)
            except Exception as error:  # noqa: BLE001 -- observers must not break the controller
                log_observer_error(self._observer, error)
        return request

    def _request(self, given: RequestOrDue) -> Request[Any]:
        """The request; made of a queue entry with the number of failures of its object."""
        if isinstance(given, Request):
            return given
        ref = self._ref_of(given.key)
        return Request(ref, given.reasons, given.priority, self._error_handler.failures.count(ref))

    async def _explain(self, error: BaseException, slot: "Slot") -> Exception:
        """The failure of a reconcile; raises the cancellation of the worker itself."""
        try:
            if slot.ctx is not None and self._give_up is not None and isinstance(error, GiveUp):
                await self._give_up(slot.ctx, error)
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 -- the last error counts
            error = raised
        found = slot.explain(error, self._timeout)
        if found is None:
            raise error
        return found

    def _settle(
        self,
        due: Due[str, Reason],
        request_or_due: RequestOrDue,
        action: Action | None,
        error: Exception | None,
        slot: "Slot",
    ) -> tuple[Result, Action | None, Exception | None, int]:
        """The result of a reconcile that failed, returned an action or was a retry; requeues the key if need be."""
        request = self._request(request_or_due)
        result: Result = _DONE if action is None else _result(action)
        if result == "failed":
            error = TypeError(f"the reconciler returned {action!r}; return requeue(...), await_change() or None")
        if error is None:
            self._error_handler.record_success(request.ref)
        else:
            self.history.flush()  # an error holds the frames of its reconcile: no more of them than the history keeps
            result, action = self._error_handler.next_action(error, request, now=self._clock())
            result = "timed_out" if slot.has_expired else result
            self._failures.add(request.ref, result, action, error)
        if action is not None and action.after is not None:
            priority = due.priority if action.priority is None else action.priority
            reason = REQUEUED if error is None else RETRIED
            self._scheduler.add(due.key, after=action.after, priority=priority, reason=reason)
        return result, action, error, request.attempt

    def _recover(self, due: Due[str, Reason], crash: Exception, traced: TracedTask | None) -> None:
        """After a crash outside of the reconciler: logs and counts it, and requeues the object."""
        now = self._clock()
        action = Action(self._crash_delays.next_delay(now))
        extra = {"controller": self.name, "ref": due.key, "result": "failed"}
        message = "%s: the controller crashed while it reconciled %s, %s: %s"
        _log.error(message, self.name, self._name_of(due.key), action, crash, extra=extra, exc_info=crash)
        self._scheduler.add(due.key, after=action.after or 0.0, priority=due.priority, reason=RETRIED)
        record: Record = due.key, "failed", action, crash, 0.0, due.reasons, 0, 0.0, now
        self.history.pending.append(record)
        if traced is not None:
            traced.tracer.finished(traced, record)
        if self._on_crash is not None:
            self._on_crash(crash)

    def _name_of(self, key: str) -> str:
        try:
            return str(self._ref_of(key))
        except Exception:  # noqa: BLE001 -- it may be the cause of the crash
            return key

    def _report(self, record: Record, request: RequestOrDue) -> Outcome[Any]:
        """Reports an outcome to the observer and the debug log.

        Observers may identify a reconcile by its ref: it is the same object as in `started`.
        """
        ref = request.ref if isinstance(request, Request) else self._ref_of(record[0])
        outcome: Outcome[Any] = Outcome(ref, *record[1:])
        try:
            self._observer.finished(self.name, ref, outcome, outcome.seconds)
        except Exception as raised:  # noqa: BLE001 -- observers must not break the controller
            log_observer_error(self._observer, raised)
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s: %s (%s)", self.name, outcome, "; ".join(map(str, outcome.reasons)))
        return outcome


class Slot:
    """The state of one worker: when its reconcile began, its context, its deadline, and whether that has expired.

    Must be created inside the worker's task.
    """

    __slots__ = ("_reason", "_task", "began", "ctx", "deadline", "has_expired", "key")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a slot belongs to a worker's task"
        self._task = task
        self._reason: str | None = None
        self.key = ""
        """The key of the object that is being reconciled, or was last."""
        self.began: float | None = None
        """When the running reconcile began; None while the worker is idle."""
        self.ctx: Any = None
        """The context of the running reconcile; None before it is made, and if the object does not exist."""
        self.deadline: float | None = None
        self.has_expired = False

    def expire(self, reason: str | None = None) -> None:
        """Cancels the reconcile; the worker continues after it has called `settle` or `explain`.

        Without a reason, it took longer than the controller's timeout.
        """
        self.deadline = None
        self.has_expired = True
        self._reason = reason
        self._task.cancel(reason or "the reconcile took too long")

    def settle(self) -> None:
        """Takes the cancellation back after a reconcile that expired but still returned."""
        if self._task.cancelling() > 1:  # the worker was cancelled, too; `explain` takes back ours
            raise asyncio.CancelledError
        self._task.uncancel()

    def explain(self, error: BaseException, timeout: float | None) -> Exception | None:
        """The failure that an error stands for; None if the worker itself was cancelled and has to end."""
        is_ours = self.has_expired and self._task.uncancel() == 0
        if isinstance(error, Exception):
            return self._cancelled(timeout, error) if self.has_expired else error
        if is_ours:
            return self._cancelled(timeout, None)
        if self._task.cancelling():
            return None
        found = RuntimeError("something that the reconciler awaited was cancelled, and not by the controller")
        found.__cause__ = error
        return found

    def _cancelled(self, timeout: float | None, cause: Exception | None) -> Deadline:
        why = f"took longer than {timeout} s and was cancelled; run slow work in ctx.background"
        found = Deadline(f"the reconcile {why if self._reason is None else f'was cancelled: {self._reason}'}")
        found.__cause__ = cause
        return found


class Watchdog:
    """One timer for all workers: expires each slot whose reconcile takes longer than `timeout` seconds."""

    __slots__ = ("_guarded", "_loop", "_timer", "timeout")

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._guarded: set[Slot] = set()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def guard(self, slot: Slot) -> None:
        """Guards a slot from the beginning of its reconcile, until it expires or its deadline is set to None."""
        slot.has_expired = False
        slot.deadline = (self._loop.time() if slot.began is None else slot.began) + self.timeout
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
        self._timer = None
        try:
            self._expire(self._loop.time())
        finally:
            self._set_timer()  # the timeouts of others hold whatever happened to one

    def _expire(self, now: float) -> None:
        for slot in list(self._guarded):
            if slot.deadline is None:
                self._guarded.discard(slot)
            elif slot.deadline <= now:
                self._guarded.discard(slot)
                slot.expire()

    def _set_timer(self) -> None:
        earliest = min((slot.deadline for slot in self._guarded if slot.deadline is not None), default=None)
        if earliest is not None:
            self._timer = self._loop.call_at(earliest, self._check)


def _result(given: object) -> Result:
    """The result of a reconcile that returned a value; anything but an Action is a failure."""
    if given is GONE:
        return "gone"
    if not isinstance(given, Action):
        return "failed"
    return "done" if given.after is None else "requeued"
