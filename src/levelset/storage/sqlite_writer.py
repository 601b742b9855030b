"""The one thread that may wait for a disk, so that the event loop never does, or only as long as it wants to."""

import sqlite3
import threading
from collections.abc import Callable
from queue import SimpleQueue

__all__ = ["Job", "Work", "Writer"]

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
