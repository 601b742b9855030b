"""Writes that go into a file together, and those who wait for it.

The one thread that may wait for a disk, so that the event loop never does, or only as long as it wants to.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from levelset.errors import ServerFailed
from levelset.storage.interface import Change

__all__ = ["Group", "Job", "Work", "Writer"]


class Group:
    """The changes of one commit, and whom to tell of it.

    It has no bound of its own: each waiting writer adds one change.
    """

    __slots__ = ("_watching", "changes", "compacted", "landings", "swept")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.landings: list[tuple[asyncio.Future[Any], object]] = []
        self._watching: list[asyncio.Future[None]] = []
        self.compacted = 0
        self.swept = 0

    async def wait_over(self) -> None:
        """Waits until the group has landed, well or not."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watching.append(over)
        await over

    def when_over(self, callback: Callable[[], None]) -> None:
        """Has `callback` called in the turn of the loop after the group has landed, well or not."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        over.add_done_callback(lambda _: callback())
        self._watching.append(over)

    def finish(self, error: BaseException | None, path: Path) -> None:
        """Tells everybody."""
        for landing, outcome in self.landings:
            if landing.done():
                continue
            if error is None:
                landing.set_result(outcome)
            else:
                landing.set_exception(_failure(path, error))
        for over in self._watching:
            if not over.done():
                over.set_result(None)


def _failure(path: Path, error: BaseException) -> ServerFailed:
    failure = ServerFailed(f"{path} could not be written: {error}; nothing was changed, free some space or try again")
    failure.__cause__ = error
    return failure


Work = Callable[[sqlite3.Connection], object]
Report = Callable[[BaseException | None], None]


class Job:
    """A piece of work, and how it ended. Whoever submits it may wait a moment for the end; if not, it is reported."""

    __slots__ = ("_is_told", "_over", "_report", "_work", "error")

    def __init__(self, work: Work, report: Report, *, is_awaited: bool) -> None:
        self._work = work
        self._report = report
        self.error: BaseException | None = None
        # Taken by whoever is first: the thread that ends the work and finds somebody waiting, or who waits no longer.
        self._is_told = threading.Lock()
        self._over = threading.Lock()
        (self._over if is_awaited else self._is_told).acquire()

    def wait(self, seconds: float) -> bool:
        """Whether it is over within so many seconds. If it is not, it will be reported, and otherwise not."""
        if self._over.acquire(timeout=seconds):
            return True
        if self._is_told.acquire(blocking=False):
            return False
        self._over.acquire()  # it ended in this very moment
        return True

    def run(self, connection: sqlite3.Connection) -> None:
        """Does the work; what goes wrong is kept in `error`."""
        try:
            self._work(connection)
        except Exception as error:  # noqa: BLE001 - it is handed to those who wait for the work
            self.error = error

    def tell(self) -> None:
        """Wakes who waits, or reports."""
        if self._is_told.acquire(blocking=False):
            self._over.release()
        else:
            self._report(self.error)


class Writer:
    """Runs pieces of work on the connection, one after the other, and tells from its thread how each ended."""

    def __init__(self, connection: sqlite3.Connection, *, name: str) -> None:
        self._connection = connection
        # Unbounded, but the storage never has more than its preparation, one group and the end in it.
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        # Each is counted up by one thread only, so that neither needs a lock.
        self._submitted = self._finished = 0
        # A daemon: a process that forgets to close must still end; what was not acknowledged may be lost.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        """Whether the thread has nothing to do: only then may others touch the connection."""
        return self._submitted == self._finished

    def run_here(self, work: Work) -> BaseException | None:
        """Runs a piece of work in the calling thread, which is the one that submits; how it ended."""
        assert self.is_idle
        try:
            work(self._connection)
        except Exception as error:  # noqa: BLE001 - it is handed to those who wait for the work
            return error
        return None

    def submit(self, work: Work, report: Report) -> None:
        """Queues a piece of work, whose end is reported from the thread."""
        self._put(Job(work, report, is_awaited=False))

    def submit_waiting(self, work: Work, report: Report, *, patience: float) -> Job | None:
        """Queues a piece of work and waits for its end, so many seconds at most; None if it will be reported."""
        job = Job(work, report, is_awaited=True)
        self._put(job)
        return job if job.wait(patience) else None

    def stop(self, report: Report) -> None:
        """Closes the connection after all work, and ends the thread."""
        self.submit(sqlite3.Connection.close, report)
        self._jobs.put(None)

    def _put(self, job: Job) -> None:
        self._submitted += 1
        self._jobs.put(job)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run(self._connection)
            self._finished += 1
            job.tell()
