"""An event loop whose clock is set from outside, for replays: it runs until every task waits, and then returns.

Timers do not fire because time passes: `fire_next` fires the next one, when the recording needs it. Sockets, pipes and
processes are refused as in virtual time; threads work, and the loop stops meanwhile.
"""

import asyncio
import selectors
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple, Unpack

from levelset.testing.virtual_time import REFUSED, ThreadJobs, refusal

__all__ = ["HeldLoop"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class HeldLoop(asyncio.SelectorEventLoop):
    """An event loop that is driven by `drain`; its clock starts at 0.0 and never runs by itself."""

    def __init__(self) -> None:
        self._holding = _HoldingSelector(self)
        super().__init__(self._holding)
        self._jobs = ThreadJobs()
        self.on_thread: Callable[[], object] | None = None
        """Called when a function is about to run in a thread."""
        for name in REFUSED:
            setattr(self, name, refusal(name))

    def time(self) -> float:
        """The time that was set, in seconds."""
        return self._holding.now

    def set_time(self, now: float) -> None:
        """Sets the clock, if that is forward."""
        self._holding.now = max(self._holding.now, now)

    def drain(self) -> None:
        """Runs until every task waits for something."""
        self.run_forever()

    def fire_next(self, limit: float) -> bool:
        """Fires the next timer and runs until every task waits; False if there is none up to this time."""
        waiting: Sequence[Any] = vars(self)["_scheduled"]
        times = [timer.when() for timer in waiting if not timer.cancelled()]
        if not times or min(times) > limit:
            return False
        self.set_time(min(times))
        self.drain()
        return True

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        """Runs the function in a thread; the loop stops until it returns."""
        if self.on_thread is not None:
            self.on_thread()
        return self._jobs.add(self, executor, func, *args)

    def settle_jobs(self) -> bool:
        """Waits for all threads; returns whether there were any, so that their results are being delivered."""
        if not self._jobs.is_pending:
            return False
        self._jobs.finish()
        return True

    def close(self) -> None:
        """Closes the loop and stops its thread."""
        self._jobs.close()
        super().close()


class _HoldingSelector(selectors.DefaultSelector):
    """A selector that stops the loop where others would wait."""

    def __init__(self, loop: HeldLoop) -> None:
        super().__init__()
        self.now = 0.0
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        had_jobs = self._loop.settle_jobs()
        ready = super().select(0)
        if not ready and not had_jobs and (timeout is None or timeout > 0):
            self._loop.stop()
        return ready
