"""The one thread that may wait for a disk, so that the event loop never does."""

import sqlite3
import threading
from collections.abc import Callable
from queue import SimpleQueue

__all__ = ["Work", "Writer"]

Work = Callable[[sqlite3.Connection], object]
Report = Callable[[BaseException | None], None]


class Writer:
    """Runs pieces of work on the connection, one after the other, and reports from its thread how each ended."""

    def __init__(self, connection: sqlite3.Connection, *, name: str) -> None:
        self._connection = connection
        # Unbounded, but the storage never has more than one group and the end in it.
        self._work: SimpleQueue[tuple[Work | None, Report]] = SimpleQueue()
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
        return self._outcome(work)

    def submit(self, work: Work, report: Report) -> None:
        """Queues a piece of work."""
        self._submitted += 1
        self._work.put((work, report))

    def stop(self, report: Report) -> None:
        """Closes the connection after all work, and ends the thread."""
        self._submitted += 1
        self._work.put((None, report))

    def _run(self) -> None:
        while True:
            work, report = self._work.get()
            outcome = self._outcome(work or sqlite3.Connection.close)
            self._finished += 1
            report(outcome)
            if work is None:
                return

    def _outcome(self, work: Work) -> BaseException | None:
        try:
            work(self._connection)
        except Exception as error:  # noqa: BLE001 - it is handed to those who wait for the work
            return error
        return None
