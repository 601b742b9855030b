"""Timeouts of calls, with one timer for all of them.

`asyncio.timeout` creates and cancels a timer for each use: a fifth of the cost of a small request. A call that only
waits for its response needs no entry here: its exchange is found through `pending` when the timer fires.

The timeout of a call is paused while its credentials are fetched: an exec plugin may run, or a user log in, and a call
that cancelled them for being late would never see them finish.
"""

import asyncio
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from typing import Final, Protocol

__all__ = ["Deadline", "Deadlines", "Timed"]

_NEVER: Final = float("inf")
_AFTER_ERROR: Final = 1.0
"""Seconds until what could not be expired is tried again."""


class Timed(Protocol):
    """Something with a deadline."""

    @property
    def when(self) -> float:
        """The deadline, on the clock of the event loop."""
        ...

    def expire(self) -> None:
        """The deadline has passed."""
        ...


class Deadline:
    """The deadline of one call while its task waits for a step before the response.

    `is_sent` says whether the request was sent, and `is_paused` whether the timeout of the call is paused; then `when`
    is the limit of the pause.
    """

    __slots__ = ("_cancelling", "_task", "is_expired", "is_paused", "is_sent", "when")

    def __init__(self, task: "asyncio.Task[object]", when: float, *, is_sent: bool, is_paused: bool) -> None:
        self.when = when
        self.is_sent = is_sent
        self.is_paused = is_paused
        self._task = task
        self._cancelling = task.cancelling()
        self.is_expired = False

    @property
    def is_current(self) -> bool:
        """Whether it belongs to the current task."""
        return self._task is asyncio.current_task()

    def expire(self) -> None:
        """Cancels the task."""
        self.is_expired = True
        self._task.cancel()

    def was_cause(self) -> bool:
        """Whether this deadline alone caused the CancelledError that has just ended the call."""
        return self.is_expired and self.uncancel() <= self._cancelling

    def uncancel(self) -> int:
        """Takes the cancellation back, so that the task can continue; returns how many others are pending."""
        self.is_expired = False
        return self._task.uncancel()


class Deadlines:
    """The deadlines of the calls in flight.

    Those that wait for their response are found through `pending` when the timer fires; the others are in `_open`.
    """

    __slots__ = ("_open", "_pending", "_timer", "next_expiry")

    def __init__(self, pending: Callable[[], Iterable[Timed]] = tuple) -> None:
        self._pending = pending
        self._open: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.next_expiry = _NEVER

    def start(self, when: float, *, is_sent: bool = False, is_paused: bool = False) -> Deadline:
        """Starts a deadline for the current task, which has to `stop` it."""
        task = asyncio.current_task()
        assert task is not None, "calls are sent from tasks"
        deadline = Deadline(task, when, is_sent=is_sent, is_paused=is_paused)
        self._open.add(deadline)
        self.schedule(when)
        return deadline

    def schedule(self, when: float) -> None:
        """Makes sure that expired deadlines are found at `when`; needless if `next_expiry` is earlier."""
        if when < self.next_expiry:
            self._set(asyncio.get_running_loop(), when)

    def move(self, deadline: Deadline, within: float) -> None:
        """Moves a deadline to `within` seconds from now, unless it has expired already."""
        if deadline in self._open:
            deadline.when = asyncio.get_running_loop().time() + within
            self.schedule(deadline.when)

    @contextmanager
    def paused(self, within: float) -> Generator[None, None, None]:
        """Pauses the timeout of the call in this task for at most `within` seconds; an error leaves it paused."""
        mine = [deadline for deadline in self._open if deadline.is_current]
        now = asyncio.get_running_loop().time()
        left = [deadline.when - now for deadline in mine]
        for deadline in mine:
            deadline.is_paused = True
            self.move(deadline, within)
        yield
        for deadline, seconds in zip(mine, left, strict=True):
            deadline.is_paused = False
            self.move(deadline, seconds)

    def expire_paused(self) -> None:
        """Expires the deadlines that are paused."""
        for deadline in [one for one in self._open if one.is_paused]:
            self._open.discard(deadline)
            deadline.expire()

    def stop(self, deadline: Deadline) -> None:
        """Ends a deadline: the step has finished."""
        # The timer stays: most often the next call needs it before it fires.
        self._open.discard(deadline)
        if deadline.is_expired:  # it expired at the moment the step finished
            deadline.uncancel()

    def close(self) -> None:
        """Cancels the timer; calls still in flight have no deadline any more."""
        self._cancel_timer()
        self._open.clear()

    def _fire(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        self._cancel_timer()
        # A timer may fire early by the resolution of the clock.
        now = max(when, loop.time())
        earliest = now + _AFTER_ERROR
        try:
            self._expire(now)
            earliest = 0.0
        finally:
            # Also after an error: the other calls have their deadlines, too.
            left = [max(earliest, one.when) for one in (*self._open, *self._pending())]
            self._set(loop, min(left, default=_NEVER))

    def _expire(self, now: float) -> None:
        """Expires what is due, all of it even if some raise; the last error is raised."""
        deadlines = [one for one in self._open if one.when <= now]
        self._open.difference_update(deadlines)
        exchanges = [one for one in self._pending() if one.when <= now]
        with ExitStack() as stack:
            for one in (*deadlines, *exchanges):
                stack.callback(one.expire)

    def _set(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        self._cancel_timer()
        if when < _NEVER:
            self._timer = loop.call_at(when, self._fire, loop, when)
            self.next_expiry = when

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.next_expiry = _NEVER
