"""The lifecycle of a manager: runnables start phase by phase, the first failure stops all, in reverse order.

Servers start first, so that health is served while caches fill, and webhooks before caches, since the first list may
need a conversion. What only a leader does starts last. `RunnablePhases` decides the order, pure; `Runnable` is one
task; `Lifecycle` owns all of them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from enum import IntEnum
from typing import Any, Final

from levelset.aio import Crashed, Unstopped, timing
from levelset.aio.supervisor import Interruption
from levelset.errors import ConfigError, LeaseLost

__all__ = ["Lifecycle", "Phase", "Runnable", "RunnablePhases", "Work"]

Work = Callable[[], Coroutine[Any, Any, object]]
"""Makes the coroutine of a task: a coroutine function."""

Step = Callable[[], Awaitable[object]]

_MIN_CANCEL_WAIT: Final = 5.0
"""A cancelled task has at least so many seconds to end."""

_log: Final = logging.getLogger("levelset.runtime.manager")


class Phase(IntEnum):
    """The phases of a manager's start, in order."""

    SERVERS = 0
    """Health and metrics."""

    WEBHOOKS = 1
    """Webhooks that the API server calls."""

    CACHES = 2
    """The clusters and the informers declared there."""

    OTHERS = 3
    """Controllers and tasks that run in every replica."""

    WARM_UP = 4
    """Leader-only controllers, held: their caches are warm when this replica becomes the leader."""

    LEADERS = 5
    """Leader-only tasks; starts when this replica is elected."""


class Runnable:
    """One thing that a manager runs: `work` in a named task, from `start` until it ends or is stopped.

    A subclass may override `stop_gracefully`; without it, stopping cancels the task at once, and its cleanup has the
    rest of the time. `ended` is called with an error that ended the task; an error while it is being stopped is raised
    by `stop`.
    """

    def __init__(self, name: str, work: Work, *, ended: Callable[["Runnable", Exception], None]) -> None:
        self.name = name
        self._work = work
        self._ended = ended
        self._task: asyncio.Task[object] | None = None
        self._is_stopped = self._has_failed = False

    @property
    def is_running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Starts the task; may be called once."""
        self._task = asyncio.get_running_loop().create_task(self._work(), name=f"manager/{self.name}")
        self._task.add_done_callback(self._on_task_done)

    async def stop_gracefully(self, within: float | None) -> None:
        """Lets the work end by itself within so many seconds; does nothing unless overridden."""

    async def stop(self, within: float | None) -> None:
        """Stops the task and returns when it has ended; `within` None waits as long as it takes.

        Raises what the task failed with meanwhile, or Unstopped if it ignores its cancellation.
        """
        self._is_stopped = True
        task = self._task
        if task is None:
            return
        until = timing.deadline(within)
        try:
            if not task.done():
                await self.stop_gracefully(within)
        finally:
            task.cancel()
            await self._wait_end(task, timing.remaining(until))
        if not self._has_failed and not task.cancelled() and isinstance(error := task.exception(), Exception):
            raise error

    async def _wait_end(self, task: "asyncio.Task[object]", left: float | None) -> None:
        seconds = None if left is None else max(left, _MIN_CANCEL_WAIT)
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise Unstopped("manager", [self.name], seconds or 0.0)

    def cancel(self) -> None:
        """Cancels the task without waiting for it."""
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()

    def _on_task_done(self, task: "asyncio.Task[object]") -> None:
        if task.cancelled():
            if not self._is_stopped:
                self._ended(self, RuntimeError(f"{self.name} was cancelled, but not by its manager"))
            return
        error = task.exception()
        if error is None or self._is_stopped:
            return
        error.add_note(f"in {self.name!r} of the manager")
        # The event loop itself raises KeyboardInterrupt and SystemExit.
        if isinstance(error, Exception):
            self._has_failed = True
            self._ended(self, error)


class RunnablePhases:
    """The runnables of a manager by name and phase, and whether each may start now; pure.

    `reached` is the last phase that has begun, None before the start.
    """

    def __init__(self) -> None:
        self._runnables: dict[str, Phase] = {}
        self.reached: Phase | None = None
        self.is_stopping = False

    def __contains__(self, name: str) -> bool:
        return name in self._runnables

    def add(self, name: str, phase: Phase) -> bool:
        """Adds a runnable; returns whether to start it now. ConfigError for a name that is taken."""
        if self.is_stopping:
            raise ConfigError(f"cannot add {name!r}: the manager is stopping; create another one")
        if not name:
            raise ConfigError("a runnable needs a name: logs and metrics show it")
        if name in self._runnables:
            raise ConfigError(f"this manager already runs a {name!r}; give one of them another name")
        self._runnables[name] = phase
        return self.reached is not None and phase <= self.reached

    def remove(self, name: str) -> None:
        """Removes a runnable, if there is one of that name."""
        self._runnables.pop(name, None)

    def begin(self, phase: Phase) -> list[str]:
        """Begins the next phase; returns the names to start, in the order in which they were added."""
        if self.is_stopping:
            return []
        expected = Phase.SERVERS if self.reached is None else Phase(self.reached + 1)
        if phase is not expected:
            raise RuntimeError(f"phase {phase.name} cannot begin now: {expected.name} comes first")
        self.reached = phase
        return self._in_phase(phase)

    def stop(self) -> list[tuple[Phase, list[str]]]:
        """Rejects additions from now on; returns the names to stop, phase by phase, in the order of stopping."""
        self.is_stopping = True
        last_first = [(phase, self._in_phase(phase)[::-1]) for phase in reversed(Phase)]
        return [(phase, names) for phase, names in last_first if names]

    def _in_phase(self, phase: Phase) -> list[str]:
        return [name for name, when in self._runnables.items() if when is phase]


class Lifecycle:
    """Owns the runnables of a manager.

    `steps_before_caches` are awaited when all controllers and tasks have ended, before clusters are closed;
    `final_steps` when everything has. What they raise is collected with the other errors. `grace` is how many seconds
    running work may take when the manager stops; None is as long as it takes.
    """

    def __init__(self, *, grace: float | None) -> None:
        self.grace = grace
        self.runnables: dict[str, Runnable] = {}
        self.errors: list[Exception] = []
        self.steps_before_caches: list[Step] = []
        self.final_steps: list[Step] = []
        self.stop_wanted = asyncio.Event()
        self._phases = RunnablePhases()
        self._helpers: list[Runnable] = []
        self._block = Interruption()
        self._stopping: asyncio.Task[None] | None = None
        self._until: float | None = None
        self.suppresses_cancellation = False
        """Whether the cancellation that ended the block came from a failure here, and must not propagate."""

    @property
    def reached(self) -> Phase | None:
        """The last phase that has begun."""
        return self._phases.reached

    def enter(self) -> None:
        """Marks the current task as the block that a failure interrupts."""
        self._block.enter()

    def add(self, runnable: Runnable, phase: Phase) -> bool:
        """Adds a runnable; returns whether to start it now. ConfigError as in `RunnablePhases.add`."""
        is_due = self._phases.add(runnable.name, phase)
        self.runnables[runnable.name] = runnable
        return is_due

    def remove(self, name: str) -> None:
        """Removes a runnable that has been stopped."""
        self._phases.remove(name)
        self.runnables.pop(name, None)

    def begin(self, phase: Phase) -> Sequence[Runnable]:
        """Begins a phase; returns the runnables to start in it, none once the manager stops."""
        return [self.runnables[name] for name in self._phases.begin(phase)]

    def start_helper(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Runs a task of the manager itself; its failure stops everything, too."""

        async def run() -> object:
            return await work()

        runnable = Runnable(name, run, ended=self.record_failure)
        self._helpers.append(runnable)
        runnable.start()

    def record_failure(self, runnable: Runnable, error: Exception) -> None:
        """Stops everything after a failure; without grace if the Lease was lost."""
        self.errors.append(error)
        extra = {"runnable": runnable.name, "error": str(error)}
        _log.error("a runnable of the manager failed: %s", runnable.name, extra=extra, exc_info=error)
        if isinstance(error, LeaseLost):
            self.stop_now()
        self.begin_stop()
        self._block.interrupt()

    def stop_now(self) -> None:
        """Stops without grace: cancels all running work at once."""
        self.begin_stop()
        self.grace, self._until = 0.0, timing.now()
        for phase, names in self._phases.stop():
            for name in names if phase >= Phase.OTHERS else ():
                self.runnables[name].cancel()

    def begin_stop(self) -> None:
        """Starts to stop everything, unless that has begun."""
        if self._stopping is None:
            self._until = timing.deadline(self.grace)
            self.stop_wanted.set()
            self._phases.stop()
            self._stopping = asyncio.get_running_loop().create_task(self._stop_all(), name="manager/stopping")

    async def wait_stopped(self) -> None:
        """Returns when everything has stopped; `begin_stop` must come first."""
        assert self._stopping is not None, "begin_stop comes first"
        await asyncio.wait([self._stopping])

    @property
    def _is_stopped(self) -> bool:
        return self._stopping is not None and self._stopping.done()

    async def finish(self, error: BaseException | None) -> None:
        """Leaves the block: returns when everything has stopped, or raises the collected errors."""
        self.suppresses_cancellation = self._block.leave() and isinstance(error, asyncio.CancelledError)
        self.begin_stop()
        cancelled: asyncio.CancelledError | None = None
        while not self._is_stopped:
            try:
                await self.wait_stopped()
            except asyncio.CancelledError as again:
                cancelled = again
                self.stop_now()
        if self.errors:
            first = [error] if isinstance(error, Exception) else []
            raise Crashed(f"{len(self.errors)} runnables of the manager failed", [*first, *self.errors])
        if cancelled is not None:
            raise cancelled

    async def _stop_all(self) -> None:
        batches = self._phases.stop()
        first, last = self._split_helpers()
        await self._stop(first)
        for phase, names in batches:
            if phase >= Phase.OTHERS:
                await self._stop([self.runnables[name] for name in names if name in self.runnables])
        await self._run_steps(self.steps_before_caches)
        for phase, names in batches:
            if phase < Phase.OTHERS:
                await self._stop([self.runnables[name] for name in names if name in self.runnables])
        await self._stop(last)
        await self._run_steps(self.final_steps)

    def _split_helpers(self) -> tuple[Sequence[Runnable], Sequence[Runnable]]:
        """Helpers that start runnables stop first; the election goes on until nothing needs the Lease any more."""
        last = [one for one in self._helpers if one.name == "election"]
        return [one for one in self._helpers if one not in last], last

    async def _stop(self, runnables: Sequence[Runnable]) -> None:
        left = timing.remaining(self._until)
        outcomes = await asyncio.gather(*(one.stop(left) for one in runnables), return_exceptions=True)
        self.errors += [one for one in outcomes if isinstance(one, Exception)]

    async def _run_steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            try:
                await step()
            except Exception as error:  # noqa: BLE001 -- raised at the end, with all others
                self.errors.append(error)
