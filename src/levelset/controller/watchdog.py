"""One timer for all workers, which cancels what takes too long and leaves the worker alive."""

import asyncio

from levelset.errors import Deadline

__all__ = ["Slot", "Watchdog"]


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
