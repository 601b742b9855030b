"""Notices a stream on which nothing comes any more: whoever waits for too long is woken.

A connection can die without a word. One timer per watch looks after the reader now and then; the reader itself only
notes when it began to wait, since it does so for every batch.
"""

import asyncio

from levelset.aio.interruption import Interruption

__all__ = ["Watchdog"]


class Watchdog:
    """Wakes a reader that waits longer than `limit` seconds; time in which nobody waits does not count."""

    __slots__ = ("_limit", "_loop", "_reading", "_since", "_timer")

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._reading = Interruption()
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def enter(self) -> None:
        """The current task begins to wait; whatever comes of it, it says `leave`."""
        self._reading.enter()
        self._since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_at(self._since + self._limit, self._look)

    def leave(self) -> bool:
        """The waiting is over; whether it was cancelled by us and nobody else."""
        return self._reading.leave()

    def stop(self) -> None:
        """Looks after nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._reading.task is None:
            return  # the next one who waits sets the timer again
        due = self._since + self._limit
        if self._loop.time() >= due:
            self._reading.interrupt()
        else:
            self._timer = self._loop.call_at(due, self._look)
