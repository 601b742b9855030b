"""Slow work outside of the reconciler: bounded, owned by an object, named, and cancelled with it."""

import asyncio
import functools
import inspect
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from enum import Enum, auto
from itertools import count
from typing import Any, Self

import msgspec

from levelset.aio import Closed, Supervisor, WouldBlock
from levelset.aio.supervisor import explain_cancellation
from levelset.objects import Ref

__all__ = ["BackgroundWork", "WorkFailed", "WorkHandle", "WorkProgress", "log_failure"]

Work = Coroutine[Any, Any, object]

log = logging.getLogger(__name__)


class WorkProgress(Enum):
    """The state of a piece of work."""

    QUEUED = auto()
    RUNNING = auto()
    DONE = auto()
    FAILED = auto()
    CANCELLED = auto()


class WorkFailed(msgspec.Struct, frozen=True):
    """The failure of a piece of work: the object, the name of the work, and the error."""

    ref: Ref[Any]
    name: str
    error: Exception


def log_failure(failed: WorkFailed) -> None:
    """Logs a failure: the default `on_error`."""
    log.error("%s of %s failed: %r", failed.name, failed.ref, failed.error, exc_info=failed.error)


class WorkHandle(ABC):
    """One piece of work: inspect it, wait for its end, cancel it."""

    __slots__ = ("_ended", "error", "name", "progress", "ref")

    def __init__(self, ref: Ref[Any], name: str) -> None:
        self.ref = ref
        self.name = name
        self.progress = WorkProgress.QUEUED
        """The state of the work; CANCELLED only after its cleanup has finished."""
        self.error: Exception | None = None
        """The error, once it has FAILED."""
        self._ended = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Handle {self.name} of {self.ref}: {self.progress.name.lower()}>"

    @property
    def has_ended(self) -> bool:
        """Whether it is done, failed or cancelled."""
        return self._ended.is_set()

    async def wait(self) -> WorkProgress:
        """Returns when it is done, failed or cancelled; never raises the error of the work."""
        await self._ended.wait()
        return self.progress

    @abstractmethod
    def cancel(self) -> bool:
        """Removes it from the queue, or cancels its task; returns whether there was anything to cancel."""


class BackgroundWork:
    """Runs slow work for objects, at most `limit` pieces at once, in FIFO order.

    Used in an `async with`. An object has one piece of work of a name at a time: starting it again while it is queued
    or running returns the existing handle, so a reconciler may start it at every reconcile. Report results back as a
    deferred change of the object's state, and failures too, from `on_error`.

    At the end queued work is dropped, and running work is cancelled and has `grace` seconds to clean up. At most
    `max_queued` pieces are queued.
    """

    def __init__(
        self,
        *,
        limit: int = 8,
        max_queued: int = 10_000,
        grace: float = 10.0,
        on_error: Callable[[WorkFailed], object] = log_failure,
        name: str = "work",
    ) -> None:
        if not (limit > 0 and max_queued > 0):
            raise ValueError(f"{name}: {limit=} and {max_queued=} must be above 0")
        self.limit = limit
        self.max_queued = max_queued
        self.name = name
        self.running = 0
        """The number of running pieces of work."""
        self._on_error = on_error
        self._tasks = Supervisor(name=name, grace=0.0, cancel_within=grace)
        self._numbers = count(1)
        self._queue: deque[_Job] = deque()
        # Jobs that wait until an earlier job of the same object and name has finished its cancellation.
        self._blocked: dict[tuple[Ref[Any], str], _Job] = {}
        self._jobs: dict[Ref[Any], list[_Job]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def __len__(self) -> int:
        """The number of queued and running pieces of work."""
        return self.queued + self.running

    @property
    def queued(self) -> int:
        """The number of queued pieces of work."""
        return len(self._queue) + len(self._blocked)

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._drop_queued()
        try:
            await self._tasks.__aexit__(kind, error, trace)
        finally:
            self._finish_unbegun()

    def start(
        self,
        ref: Ref[Any],
        work: Work | Callable[[], Work],
        *,
        name: str | None = None,
        beside: bool = False,
        on_error: Callable[[WorkFailed], object] | None = None,
    ) -> WorkHandle:
        """Starts work for an object as soon as fewer than `limit` pieces run. Never waits.

        The default name is that of the function. `beside` starts it even if work of that name is queued or running; it
        starts after one that is being cancelled. Raises WouldBlock if the queue is full, and Closed at the end.
        """
        name = name or _name_of(work)
        there = [job for job in self._jobs.get(ref, ()) if job.name == name]
        present = next((job for job in there if not job.is_cancelled), None)
        if present is not None and not beside:
            _discard(work)
            return present
        problem = self._problem(ref, name)
        if problem is not None:
            _discard(work)
            raise problem
        job = _Job(ref, name, work, on_error or self._on_error, self._drop)
        self._jobs.setdefault(ref, []).append(job)
        self._idle.clear()
        if there and not beside:
            self._blocked[ref, name] = job
        else:
            self._queue.append(job)
            self._start_more()
        return job

    @property
    def refs(self) -> list[Ref[Any]]:
        """The objects with queued or running work."""
        return list(self._jobs)

    def handles(self, ref: Ref[Any]) -> list[WorkHandle]:
        """The queued and running work of an object, the oldest first."""
        return list(self._jobs.get(ref, ()))

    def cancel(self, ref: Ref[Any], name: str | None = None) -> int:
        """Cancels the work of an object, or that of one name; returns how many pieces were cancelled."""
        return sum(job.cancel() for job in list(self._jobs.get(ref, ())) if name in (None, job.name))

    async def close(self) -> None:
        """Drops queued work, cancels running work and waits for it, as the end of the `async with` does."""
        self._drop_queued()
        try:
            await self._tasks.stop()
        finally:
            self._finish_unbegun()

    async def wait_idle(self) -> None:
        """Returns when no work is queued or running."""
        await self._idle.wait()

    def _problem(self, ref: Ref[Any], name: str) -> Exception | None:
        if self._closed:
            return Closed(f"{self.name}: cannot start {name} of {ref}: it is closed")
        if self.queued >= self.max_queued:
            return WouldBlock(f"{self.name}: cannot start {name} of {ref}: {self.queued} are queued; try again later")
        return None

    def _start_more(self) -> None:
        while self._queue and self.running < self.limit and not self._closed:
            job = self._queue.popleft()
            self.running += 1
            job.progress = WorkProgress.RUNNING
            self._tasks.start(f"{job.name} of {job.ref} #{next(self._numbers)}", functools.partial(self._run, job))

    async def _run(self, job: "_Job") -> None:
        try:
            await job.run()
        finally:
            self.running -= 1
            self._finish(job)
            self._start_more()

    def _drop(self, job: "_Job") -> None:
        """Removes a job that has not started."""
        if self._blocked.get((job.ref, job.name)) is job:
            del self._blocked[job.ref, job.name]
        else:
            self._queue.remove(job)
        self._finish(job)

    def _drop_queued(self) -> None:
        self._closed = True
        for job in [*self._queue, *self._blocked.values()]:
            job.cancel()

    def _finish_unbegun(self) -> None:
        """Finishes jobs whose tasks were cancelled before their first step: not even `_run` has run for them."""
        for job in [job for jobs in self._jobs.values() for job in jobs if not job.has_begun]:
            self.running -= 1
            self._finish(job)

    def _finish(self, job: "_Job") -> None:
        self._remove(job)
        job.finish()
        self._unblock(job)
        if not self._jobs:
            self._idle.set()

    def _remove(self, job: "_Job") -> None:
        others = [one for one in self._jobs.get(job.ref, ()) if one is not job]
        if others:
            self._jobs[job.ref] = others
        else:
            self._jobs.pop(job.ref, None)

    def _unblock(self, job: "_Job") -> None:
        blocked = self._blocked.get((job.ref, job.name))
        same = [one for one in self._jobs.get(job.ref, ()) if one.name == job.name]
        if blocked is not None and same == [blocked]:
            del self._blocked[job.ref, job.name]
            self._queue.appendleft(blocked)


class _Job(WorkHandle):
    """A handle with the work itself and the task that runs it."""

    __slots__ = ("_drop", "_on_error", "_task", "_work", "has_begun", "is_cancelled")

    def __init__(
        self,
        ref: Ref[Any],
        name: str,
        work: Work | Callable[[], Work],
        on_error: Callable[[WorkFailed], object],
        drop: "Callable[[_Job], None]",
    ) -> None:
        super().__init__(ref, name)
        self.is_cancelled = False
        self.has_begun = False
        self._work: Work | Callable[[], Work] | None = work
        self._on_error = on_error
        self._drop = drop
        self._task: asyncio.Task[Any] | None = None

    def cancel(self) -> bool:
        if self.is_cancelled or self.has_ended:
            return False
        self.is_cancelled = True
        if self._task is not None:
            self._task.cancel()
        elif self.progress is WorkProgress.QUEUED:
            self._drop(self)
        return True  # in the remaining case the task has not taken its first step yet, and checks `is_cancelled`

    async def run(self) -> None:
        """Runs the work and stores its error for `finish`."""
        self.has_begun = True
        if self.is_cancelled or self._work is None:
            return
        self._task = asyncio.current_task()
        work, self._work = self._work, None
        try:
            await (work() if callable(work) else work)
        except asyncio.CancelledError as error:
            if not self.is_cancelled:
                self.error = self._explain(error)
        except Exception as error:  # noqa: BLE001 -- reported to `on_error` by `finish`
            self.error = error
        else:
            self.is_cancelled = False  # the cancellation came too late: the work is done

    def _explain(self, error: asyncio.CancelledError) -> Exception:
        """The failure of work that awaited something cancelled; raises the cancellation of the task itself."""
        try:
            return explain_cancellation(error)
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise

    def finish(self) -> None:
        """Sets the final state, wakes waiters and reports an error."""
        if self.has_ended:
            return
        _discard(self._work)
        is_cancelled = self.is_cancelled or self._work is not None
        self._work = self._task = None
        self.progress = (
            WorkProgress.FAILED
            if self.error is not None
            else WorkProgress.CANCELLED
            if is_cancelled
            else WorkProgress.DONE
        )
        self._ended.set()
        if self.error is not None:
            self._report(WorkFailed(self.ref, self.name, self.error))

    def _report(self, failed: WorkFailed) -> None:
        try:
            self._on_error(failed)
        except Exception:
            log.exception("on_error of %s of %s failed itself", self.name, self.ref)
            log_failure(failed)


def _name_of(work: Work | Callable[[], Work]) -> str:
    function = work.func if isinstance(work, functools.partial) else work
    return getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]


def _discard(work: Work | Callable[[], Work] | None) -> None:
    if inspect.iscoroutine(work):
        work.close()  # never awaited, on purpose
