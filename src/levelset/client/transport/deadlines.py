"""Ends calls that take too long, with one timer for all of them.

A timeout of asyncio's own makes and cancels a timer for each use: a fifth of the price of a small request. A call that
only waits for its answer is not even known here by its task: whatever waits for the answer is told that it is late.

The time of a call stands still while credentials are got for it: a program may run for that, or a person log in, and
whoever stops them because a call is late never sees them finish.
"""

import asyncio
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Final, Protocol

__all__ = ["Deadline", "Deadlines", "Timed"]

_FOR_EVER: Final = float("inf")


class Timed(Protocol):
    """Something that has to be done at a certain time."""

    @property
    def when(self) -> float:
        """That time."""
        ...

    def expire(self) -> None:
        """It was not done."""
        ...


class Deadline:
    """Until when one call, in one task, has to be done with what it waits for.

    `is_sent` tells whether its request has left, and `is_still` whether its time stands still; then `when` is the limit
    of that.
    """

    __slots__ = ("_cancelling", "_task", "is_over", "is_sent", "is_still", "when")

    def __init__(self, task: "asyncio.Task[object]", when: float, *, is_sent: bool, is_still: bool) -> None:
        self.when = when
        self.is_sent = is_sent
        self.is_still = is_still
        self._task = task
        self._cancelling = task.cancelling()
        self.is_over = False

    @property
    def is_mine(self) -> bool:
        """Whether it is that of the task that asks."""
        return self._task is asyncio.current_task()

    def expire(self) -> None:
        """Interrupts the task."""
        self.is_over = True
        self._task.cancel()

    def was_cause(self) -> bool:
        """Whether only this deadline was the reason, to be asked when the call has ended with CancelledError."""
        return self.is_over and self.forgive() <= self._cancelling

    def forgive(self) -> int:
        """Takes the interruption back, so that the task can go on; how often others still want it to end."""
        self.is_over = False
        return self._task.uncancel()


class Deadlines:
    """The deadlines of the calls that are under way.

    Those that wait for their answer are looked for when it is time: `answers` finds them. The others are in `_open`.
    """

    __slots__ = ("_answers", "_open", "_timer", "rings")

    def __init__(self, answers: Callable[[], Iterable[Timed]] = tuple) -> None:
        self._answers = answers
        self._open: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.rings = _FOR_EVER

    def start(self, when: float, *, is_sent: bool = False, is_still: bool = False) -> Deadline:
        """A deadline for the current task, which has to `stop` it."""
        task = asyncio.current_task()
        assert task is not None, "a call is made in a task"
        deadline = Deadline(task, when, is_sent=is_sent, is_still=is_still)
        self._open.add(deadline)
        self.look_at(when)
        return deadline

    def look_at(self, when: float) -> None:
        """Looks at that time, or before, whether anything is late; nobody need ask who knows that it `rings` before."""
        if when < self.rings:
            self._set(asyncio.get_running_loop(), when)

    def move(self, deadline: Deadline, within: float) -> None:
        """Has the call end so many seconds from now, unless it is over already."""
        if deadline in self._open:
            deadline.when = asyncio.get_running_loop().time() + within
            self.look_at(deadline.when)

    @contextmanager
    def still(self, within: float) -> Generator[None, None, None]:
        """Stops the time of the call in this task, for so many seconds at most; if it fails meanwhile, it stays so."""
        mine = [deadline for deadline in self._open if deadline.is_mine]
        now = asyncio.get_running_loop().time()
        left = [deadline.when - now for deadline in mine]
        for deadline in mine:
            deadline.is_still = True
            self.move(deadline, within)
        yield
        for deadline, seconds in zip(mine, left, strict=True):
            deadline.is_still = False
            self.move(deadline, seconds)

    def end_still(self) -> None:
        """Ends the calls whose time stands still."""
        for deadline in [one for one in self._open if one.is_still]:
            self._open.discard(deadline)
            deadline.expire()

    def stop(self, deadline: Deadline) -> None:
        """The call is done with what it waited for."""
        # The timer stays: most often the next call needs it before it rings.
        self._open.discard(deadline)
        if deadline.is_over:  # it has ended some other way in the same moment
            deadline.forgive()

    def close(self) -> None:
        """Lets go of the timer; calls that are still under way have no deadline any more."""
        self._silence()
        self._open.clear()

    def _ring(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        self._silence()
        # A timer may ring early by the resolution of the clock.
        now = max(when, loop.time())
        for deadline in [one for one in self._open if one.when <= now]:
            self._open.discard(deadline)
            deadline.expire()
        for answer in [one for one in self._answers() if one.when <= now]:
            answer.expire()
        self._set(loop, min([one.when for one in (*self._open, *self._answers())], default=_FOR_EVER))

    def _set(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        self._silence()
        if when < _FOR_EVER:
            self._timer = loop.call_at(when, self._ring, loop, when)
            self.rings = when

    def _silence(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.rings = _FOR_EVER
