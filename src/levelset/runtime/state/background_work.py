"""Slow work outside of the reconciler: bounded, owned, named after its object, and cancelled with it."""

import asyncio
import functools
import inspect
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count
from typing import Any, Self

from levelset.aio import Closed, Supervisor, WouldBlock
from levelset.objects import Ref

__all__ = ["Handle", "Progress", "WorkFailed", "WorkQueue", "log_failure"]

Work = Coroutine[Any, Any, object]

log = logging.getLogger(__name__)


class Progress(Enum):
    """How far a piece of work has come."""

    QUEUED = auto()
    RUNNING = auto()
    DONE = auto()
    FAILED = auto()
    CANCELLED = auto()


@dataclass(frozen=True, slots=True)
class WorkFailed:
    """A piece of work has raised: for which object, which work, and what."""

    ref: Ref[Any]
    name: str
    error: Exception


def log_failure(failed: WorkFailed) -> None:
    """Writes a failure into the log: what happens unless somebody else wants to know."""
    log.error("%s of %s failed: %r", failed.name, failed.ref, failed.error, exc_info=failed.error)


class Handle(ABC):
    """One piece of work: see how far it is, wait for its end, cancel it."""

    __slots__ = ("_ended", "error", "name", "progress", "ref")

    def __init__(self, ref: Ref[Any], name: str) -> None:
        self.ref = ref
        self.name = name
        self.progress = Progress.QUEUED
        """How far it has come; CANCELLED only when it has ended its cleaning up."""
        self.error: Exception | None = None
        """What it raised, once it has FAILED."""
        self._ended = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Handle {self.name} of {self.ref}: {self.progress.name.lower()}>"

    @property
    def has_ended(self) -> bool:
        """Whether it is over, in whichever way."""
        return self._ended.is_set()

    async def wait(self) -> Progress:
        """Returns when it has ended, in whichever way; raises nothing of what it raised."""
        await self._ended.wait()
        return self.progress

    @abstractmethod
    def cancel(self) -> bool:
        """Takes it from the queue, or cancels it where it is; whether there was anything to cancel."""


class WorkQueue:
    """Does slow work for objects, at most `limit` pieces at once, in the order in which they were started.

    For the length of an `async with`. An object has one piece of work of a name at a time: to start it again while it
    waits or runs gives the one that is there, so that a reconciler may start it at each look. What it finds out goes
    back as a deferred change of its object's state; so should its failure, from `on_error`.

    At the end what waits is dropped, what runs is cancelled, and has `grace` seconds to clean up.
    """

    def __init__(
        self,
        *,
        limit: int = 8,
        most: int = 10_000,
        grace: float = 10.0,
        on_error: Callable[[WorkFailed], object] = log_failure,
        name: str = "work",
    ) -> None:
        if not (limit > 0 and most > 0):
            raise ValueError(f"{name}: {limit=} and {most=} must be above 0")
        self.limit = limit
        self.most = most
        self.name = name
        self.running = 0
        """How many pieces of work run."""
        self._on_error = on_error
        self._tasks = Supervisor(name=name, grace=0.0, firm=grace)
        self._numbers = count(1)
        self._queue: deque[_Job] = deque()
        self._blocked: dict[tuple[Ref[Any], str], _Job] = {}  # by the same work, which is being cancelled
        self._jobs: dict[Ref[Any], list[_Job]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def __len__(self) -> int:
        """How many pieces of work wait or run."""
        return self.queued + self.running

    @property
    def queued(self) -> int:
        """How many pieces of work wait."""
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
    ) -> Handle:
        """Starts work for an object as soon as there is room for it. Never waits.

        Its name is that of the function, unless given. `beside` starts it although the same is waiting or running. One
        that is being cancelled is waited for. Raises WouldBlock if too much is waiting, and Closed at the end.
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

    def handles(self, ref: Ref[Any]) -> list[Handle]:
        """The work for an object that waits or runs, the oldest first."""
        return list(self._jobs.get(ref, ()))

    def cancel(self, ref: Ref[Any], name: str | None = None) -> int:
        """Cancels the work for an object, or that of a name; how many pieces there were to cancel."""
        return sum(job.cancel() for job in list(self._jobs.get(ref, ())) if name in (None, job.name))

    async def close(self) -> None:
        """Drops what waits, cancels what runs, and waits for it, as the end of the block does."""
        self._drop_queued()
        try:
            await self._tasks.stop()
        finally:
            self._finish_unbegun()

    async def wait_idle(self) -> None:
        """Returns when nothing waits or runs."""
        await self._idle.wait()

    def _problem(self, ref: Ref[Any], name: str) -> Exception | None:
        if self._closed:
            return Closed(f"{self.name}: cannot start {name} of {ref}, it is closed")
        if self.queued >= self.most:
            return WouldBlock(f"{self.name}: cannot start {name} of {ref}, {self.queued} others wait; try again later")
        return None

    def _start_more(self) -> None:
        while self._queue and self.running < self.limit and not self._closed:
            job = self._queue.popleft()
            self.running += 1
            job.progress = Progress.RUNNING
            self._tasks.start(f"{job.name} of {job.ref} #{next(self._numbers)}", functools.partial(self._run, job))

    async def _run(self, job: "_Job") -> None:
        try:
            await job.run()
        finally:
            self.running -= 1
            self._finish(job)
            self._start_more()

    def _drop(self, job: "_Job") -> None:
        """Takes a piece of work back that has not begun."""
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
        """Ends those whose tasks were cancelled before their first step: nothing of them has run, not even `_run`."""
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


class _Job(Handle):
    """What the queue knows of a piece of work besides: the work itself, and the task that does it."""

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
        elif self.progress is Progress.QUEUED:
            self._drop(self)
        return True  # else its task has yet to make its first step, and will see it

    async def run(self) -> None:
        """Does the work, and keeps the error for `finish`."""
        self.has_begun = True
        if self.is_cancelled or self._work is None:
            return
        self._task = asyncio.current_task()
        work, self._work = self._work, None
        try:
            await (work() if callable(work) else work)
        except asyncio.CancelledError:
            if not self.is_cancelled:
                self.is_cancelled = True
                raise
        except Exception as error:  # noqa: BLE001 -- whoever asked for the errors is told, in finish
            self.error = error
        else:
            self.is_cancelled = False  # too late: it had nothing left to give up

    def finish(self) -> None:
        """Says that it is over, and how."""
        if self.has_ended:
            return
        _discard(self._work)
        is_cancelled = self.is_cancelled or self._work is not None
        self._work = self._task = None
        self.progress = (
            Progress.FAILED if self.error is not None else Progress.CANCELLED if is_cancelled else Progress.DONE
        )
        self._ended.set()
        if self.error is not None:
            self._tell(WorkFailed(self.ref, self.name, self.error))

    def _tell(self, failed: WorkFailed) -> None:
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
