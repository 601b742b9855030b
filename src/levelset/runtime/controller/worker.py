"""Workers that take due requests and look at their objects: so many at once, never two at one object.

A look happens inside the worker's own task. It may take `timeout` seconds: one watchdog for all workers cancels what
takes longer, without ending the worker. Whatever a look raises ends that look, and nothing else.

One timer for all workers, which cancels what takes too long and leaves the worker alive.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from levelset.aio import Closed, timing
from levelset.errors import Deadline, GiveUp
from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Action, Outcome, Result, await_change
from levelset.runtime.controller.error_policy import Answering
from levelset.runtime.controller.observers import Observer, hears, report_observer
from levelset.runtime.controller.reconcile_history import History
from levelset.runtime.controller.request import REQUEUED, RETRIED, Reason, Request
from levelset.runtime.queue import Due, Scheduler

__all__ = ["GONE", "Looks", "Runner", "Shortcut", "Slot", "Watchdog"]


class Slot:
    """What one worker does at the moment: since when, until when it may, and whether it was too slow.

    Made inside the worker's task.
    """

    __slots__ = ("_task", "began", "deadline", "has_expired")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a slot belongs to a worker's task"
        self._task = task
        self.began: float | None = None
        """Since when it looks at something; None while it does not."""
        self.deadline: float | None = None
        self.has_expired = False

    def expire(self) -> None:
        """Cancels what the worker does; the worker goes on when it has called `settle` or `explain`."""
        self.deadline = None
        self.has_expired = True
        self._task.cancel("the look took too long")

    def settle(self) -> None:
        """After something that expired has ended by itself: takes the cancellation back, unless there is another."""
        if self._task.uncancel():
            raise asyncio.CancelledError

    def explain(self, error: BaseException, timeout: float | None) -> Exception | None:
        """The failure that an error stands for; None for a cancellation of the worker itself, which has to end then."""
        is_ours = self.has_expired and self._task.uncancel() == 0
        if isinstance(error, Exception):
            return _too_slow(timeout, error) if self.has_expired else error
        if is_ours:
            return _too_slow(timeout, None)
        if self._task.cancelling():
            return None
        found = RuntimeError("something that the reconciler waited for was cancelled, and not by the controller")
        found.__cause__ = error
        return found


class Watchdog:
    """Lets each slot have `timeout` seconds; looks up only when the earliest of them may be over."""

    __slots__ = ("_guarded", "_loop", "_timer", "timeout")

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._guarded: set[Slot] = set()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def guard(self, slot: Slot, now: float) -> None:
        """Gives a slot its time, from `now` on, until its deadline is set to None."""
        slot.has_expired = False
        slot.deadline = now + self.timeout
        self._guarded.add(slot)
        if self._timer is None:
            self._timer = self._loop.call_at(slot.deadline, self._look_up)

    def close(self) -> None:
        """Looks up no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._guarded.clear()

    def _look_up(self) -> None:
        self._timer, now = None, self._loop.time()
        for slot in list(self._guarded):
            if slot.deadline is None:
                self._guarded.discard(slot)
            elif slot.deadline <= now:
                self._guarded.discard(slot)
                slot.expire()
        earliest = min((slot.deadline for slot in self._guarded if slot.deadline is not None), default=None)
        if earliest is not None:
            self._timer = self._loop.call_at(earliest, self._look_up)


def _too_slow(timeout: float | None, cause: Exception | None) -> Deadline:
    found = Deadline(f"the look took longer than {timeout} s and was cancelled; do slow work in ctx.background")
    found.__cause__ = cause
    return found


K = TypeVar("K")

GONE: Final = Action()
"""What a look gives when there is no such object; this very value, as it says nothing else."""

Looks = Callable[[Request[Any]], Awaitable[Action | None]]
"""Looks at one object."""


class Shortcut(Protocol):
    """Looks that need nothing around the user's function: begun at once, with a context that is handed on."""

    @property
    def begin(self) -> Callable[[str, Request[Any] | Due[str, Reason]], Any]:
        """Gives the context of such a look at the object with a key; None if this one is no such look."""
        ...

    @property
    def reconcile(self) -> Callable[[Any, Any], Awaitable[Action | None]]:
        """The user's function, called with the object of a context and the context."""
        ...

    async def give_up(self, ctx: Any, error: GiveUp, /) -> None:
        """Is awaited when the user's function has given up."""
        ...


_STREAK: Final = 64
"""So many looks in a row that never waited, and others get a turn."""
_AWAIT: Final = await_change()

_log = logging.getLogger(__name__)


class Runner(Generic[K]):
    """Has `look` called for what the scheduler hands out, and puts back what wants to be looked at again.

    `ref_of` makes the ref of the object with a key, for those who ask for it: for most looks nobody does.

    `work` is the life of one worker, ended by the end of the scheduler. `deliver`, if given, is awaited with each
    outcome, and so slows the workers down to the pace of whoever reads them.
    """

    def __init__(
        self,
        scheduler: Scheduler[str, Reason],
        look: Looks,
        *,
        name: str,
        ref_of: Callable[[str], Ref[Any]],
        answering: Answering,
        observer: Observer,
        history: History[K],
        timeout: float | None = None,
        deliver: Callable[[Outcome[K]], Awaitable[None]] | None = None,
        shortcut: Shortcut | None = None,
    ) -> None:
        self.name = name
        self.history = history
        self._scheduler = scheduler
        self._look = look
        self._ref_of = ref_of
        self._shortcut: Shortcut = _Detour() if shortcut is None else shortcut
        self._answering = answering
        self._observer = observer
        self._deliver = deliver
        self._clock = timing.clock_of(asyncio.get_running_loop())
        self._timeout = timeout
        self._watchdog = None if timeout is None else Watchdog(timeout)
        self._is_announced = hears(observer, "started")
        self._is_guarded = timeout is not None or self._is_announced
        self._is_heard = self._is_talked_about = hears(observer, "finished")
        self._is_debugged = False
        self._slots: list[Slot] = []

    async def work(self) -> None:
        """Works until the scheduler is closed; a cancellation ends the look that is under way, too."""
        # The hottest lines of the house: what they call is looked up once, and what is rare is handled elsewhere.
        slot, clock, now, streak = self._open_slot(), self._clock, 0.0, 0
        begin, reconcile, look = self._shortcut.begin, self._shortcut.reconcile, self._look
        take_after, troubled, is_guarded = self._scheduler.take_after, self._answering.troubled, self._is_guarded
        fresh, longest = self.history.fresh, _STREAK if self._deliver is None else 0
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
            asked: Request[Any] | Due[str, Reason] = self._count(due) if troubled else due
            ctx = error = None
            try:
                if is_guarded:
                    asked = self._prepare(asked, slot, began)
                try:
                    ctx = begin(key, asked)
                    action = await (look(self._request(asked)) if ctx is None else reconcile(ctx.object, ctx))
                    if slot.has_expired:
                        slot.settle()
                except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 -- none of them ends the worker
                    action, error = None, await self._explain(raised, ctx, slot)
                now = clock()
                if action is None and error is None and asked is due:
                    # What the history makes an outcome of, for who asks: of an object that had not failed either.
                    fresh += (key, now - began, due.reasons, began - due.since if began > due.since else 0.0)
                else:
                    known = asked if ctx is None else ctx.asked  # the request, if the user's function has asked for it
                    end = self._conclude(due, known, action, error, slot=slot, now=now)
                    fresh += (end, end.seconds, end.reasons, end.waited)
                if self._is_talked_about:
                    self._tell(self.history.newest())
            except BaseException:
                self._end(key, slot)
                raise
            if streak < longest:
                due = take_after(key, now)
            else:
                self._end(key, slot)
                due, now = await self._hand_on(streak), clock()

    def ages(self) -> list[float]:
        """For how many seconds each look that is under way has gone on."""
        now = self._clock()
        return [now - slot.began for slot in self._slots if slot.began is not None]

    def close(self) -> None:
        """Puts the watchdog to sleep."""
        if self._watchdog is not None:
            self._watchdog.close()

    def _end(self, key: str, slot: Slot) -> None:
        slot.began = slot.deadline = None
        self._scheduler.done(key)

    def _tell(self, outcome: Outcome[Any]) -> None:
        """Tells the observer and the log what came of a look."""
        try:
            self._observer.finished(self.name, outcome.ref, outcome, outcome.seconds)
        except Exception as raised:  # noqa: BLE001 -- who watches must not disturb
            report_observer(self._observer, raised)
        if self._is_debugged:
            _log.debug("%s: %s (%s)", self.name, outcome, "; ".join(map(str, outcome.reasons)))

    async def _hand_on(self, streak: int) -> Due[str, Reason] | None:
        """Delivers an outcome, if somebody waits for it, and takes what is due at once, if it is not others' turn."""
        if self._deliver is not None:
            await self._deliver(self.history.newest())
        return self._scheduler.take_nowait() if streak < _STREAK else None

    async def _next(self, streak: int, slot: Slot) -> Due[str, Reason] | None:
        """Lets others run if this worker has run for long, and waits for something that is due; None at the end.

        The history takes in what is new, if that is much by now: every so many looks is soon enough for that.
        """
        slot.began = slot.deadline = None
        self._settle_many()
        if streak >= _STREAK:
            await asyncio.sleep(0)
        try:
            due = await self._scheduler.take()
        except Closed:
            return None
        self._notice_log()
        return due

    def _settle_many(self) -> None:
        if len(self.history.fresh) >= self.history.most_fresh:
            self.history.settle()

    async def _explain(self, error: BaseException, ctx: Any, slot: Slot) -> Exception:
        """The failure of a look; raises the cancellation of the worker itself."""
        try:
            if ctx is not None and isinstance(error, GiveUp):
                await self._shortcut.give_up(ctx, error)
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 -- the last thing that went wrong counts
            error = raised
        found = slot.explain(error, self._timeout)
        if found is None:
            raise error
        return found

    def _open_slot(self) -> Slot:
        slot = Slot()
        self._slots.append(slot)
        self._notice_log()
        return slot

    def _notice_log(self) -> None:
        self._is_debugged = _log.isEnabledFor(logging.DEBUG)
        self._is_talked_about = self._is_heard or self._is_debugged

    def _count(self, due: Due[str, Reason]) -> Request[Any]:
        """What is due as a request that says how often the object has failed."""
        ref = self._ref_of(due.key)
        return Request(ref, due.reasons, due.priority, self._answering.failures.count(ref))

    def _request(self, asked: Request[Any] | Due[str, Reason]) -> Request[Any]:
        """The request; what is due stands for one to look at an object that has not failed."""
        return asked if isinstance(asked, Request) else Request(self._ref_of(asked.key), asked.reasons, asked.priority)

    def _prepare(
        self, asked: Request[Any] | Due[str, Reason], slot: Slot, now: float
    ) -> Request[Any] | Due[str, Reason]:
        """Says that a look begins, and has an eye on how long it takes, if anybody wants that.

        Who is told of the beginning may know the look by its ref until the end: that is the same one then.
        """
        if self._watchdog is not None:
            self._watchdog.guard(slot, now)
        if not self._is_announced:
            return asked
        request = self._request(asked)
        try:
            self._observer.started(self.name, request.ref, request.reasons)
        except Exception as error:  # noqa: BLE001 -- who watches must not disturb
            report_observer(self._observer, error)
        return request

    def _conclude(
        self,
        due: Due[str, Reason],
        asked: Request[Any] | Due[str, Reason],
        given: Action | None,
        error: Exception | None,
        *,
        slot: Slot,
        now: float,
    ) -> Outcome[K]:
        """Decides when to look again, if there is anything to decide."""
        self._settle_many()  # an outcome may hold an error, and with it all that its look had: no more than asked for
        request = self._request(asked)
        ref, began = request.ref, now if slot.began is None else slot.began
        action: Action = _AWAIT
        result: Result = "done"
        if error is None and given is not None:
            action, result = given, _result(given)
            if result == "failed":
                error = TypeError(f"the reconciler returned {given!r}; return requeue(...), await_change() or nothing")
        if error is None:
            self._answering.succeed(ref)
        else:
            result, action = self._answering.answer(error, request, now=now)
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
                _log.error("%s: given up until something changes: %s", ref, error, extra=extra, exc_info=error)
            case _:
                _log.warning("%s: failed, %s: %s", ref, action, error, extra=extra, exc_info=error)


class _Detour:
    """No shortcut at all: nothing begins here, so nothing goes on here either."""

    def begin(self, _: str, __: Request[Any] | Due[str, Reason]) -> None:
        return None

    async def reconcile(self, _: Any, __: Any, /) -> Action | None:
        raise AssertionError("a look that was not begun")

    async def give_up(self, _: Any, __: GiveUp, /) -> None:
        pass


def _result(given: object) -> Result:
    """What a reconciler says by what it returned; anything but an Action is a failure."""
    if given is GONE:
        return "gone"
    if not isinstance(given, Action):
        return "failed"
    return "done" if given.after is None else "requeued"
