"""Group commit: changes that are committed in one transaction, and the thread that writes them.

Writes of the same loop iteration, or made while the previous group is being written, share one commit. Only the writer
thread waits for the disk, so that the event loop does not block, or only for a bounded time.
"""

import asyncio
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from levelset.errors import ServerFailed
from levelset.storage.interface import Change

if TYPE_CHECKING:
    import sqlite3

__all__ = ["CancelledWrite", "CommitGroup", "PendingWrite", "Work", "WriterJob", "WriterThread"]


Work = Callable[["sqlite3.Connection"], object]
Report = Callable[[BaseException | None], None]


class CancelledWrite(asyncio.CancelledError):
    """The task was cancelled while it waited for a write, which was committed; `change` is what it changed.

    Raise a plain `CancelledError` in its place when it is handled: `asyncio.timeout` recognizes no other class.

    What to do: let it pass, as every cancellation; use `change` only to report what was written.
    """

    def __init__(self, change: Change) -> None:
        super().__init__()
        self.change = change


class PendingWrite(asyncio.Future[Change]):
    """The future result of an accepted write, which can no longer be cancelled.

    A task that is cancelled while it awaits this continues to wait, and is cancelled when the write is done: asyncio
    does so if a future refuses to be cancelled. Then `CancelledWrite` is raised if the write was committed.
    """

    _call: Callable[["PendingWrite"], object] | None = None

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - the signature is asyncio's
        """Never cancels."""
        return False

    def __await__(self) -> Generator[Any, None, Change]:
        try:
            return (yield from super().__await__())
        except asyncio.CancelledError:
            if self.exception() is None:  # retrieved, or asyncio would log it
                raise CancelledWrite(self.result()) from None
            raise

    def when_done(self, call: Callable[["PendingWrite"], object]) -> None:
        """Calls `call`, which must not raise, as soon as the write is done, not in the next loop iteration."""
        self._call = call

    def set_result(self, result: Change) -> None:
        """The write is done."""
        super().set_result(result)
        if self._call is not None:
            self._call(self)

    def set_exception(self, exception: type[BaseException] | BaseException) -> None:
        """The write has failed."""
        super().set_exception(exception)
        if self._call is not None:
            self._call(self)


class CommitGroup:
    """The changes of one commit, and the writes to resolve after it.

    Unbounded, because each waiting writer adds one change.
    """

    __slots__ = ("_watching", "changes", "compacted", "is_retried", "pending_writes", "swept", "work")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.pending_writes: list[tuple[asyncio.Future[Any], object]] = []
        self._watching: list[asyncio.Future[None]] = []
        self.compacted = 0
        self.swept = 0
        self.work: Work | None = None
        """What writes it."""
        self.is_retried = False
        """Whether it has failed on a full disk, and is tried once more with the space that was set aside."""

    async def wait_committed(self) -> None:
        """Waits until the group is committed or has failed."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watching.append(over)
        await over

    def when_committed(self, callback: Callable[[], None]) -> None:
        """Calls back in the loop iteration after the group is committed or has failed."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        over.add_done_callback(lambda _: callback())
        self._watching.append(over)

    def finish(self, error: BaseException | None, path: Path) -> None:
        """Resolves the pending writes and wakes the waiters."""
        for pending, outcome in self.pending_writes:
            if pending.done():
                continue
            if error is None:
                pending.set_result(outcome)
            else:
                pending.set_exception(_failure(path, error))
        for over in self._watching:
            if not over.done():
                over.set_result(None)


def _failure(path: Path, error: BaseException) -> ServerFailed:
    remedy = "nothing was changed, free some space or try again"
    if getattr(error, "sqlite_errorname", "").startswith("SQLITE_IOERR"):
        remedy = "check the disk, and restart the server; only then it is known whether the write has happened"
    failure = ServerFailed(f"{path} could not be written: {error}; {remedy}")
    failure.__cause__ = error
    return failure


class WriterJob:
    """A unit of work and its outcome, which the submitter either awaits for a moment or gets reported."""

    __slots__ = ("_is_reported", "_over", "_report", "_work", "error")

    def __init__(self, work: Work, report: Report, *, is_awaited: bool) -> None:
        self._work = work
        self._report = report
        self.error: BaseException | None = None
        # Acquired by the thread that finishes while the submitter waits, or by the submitter when it stops waiting.
        self._is_reported = threading.Lock()
        self._over = threading.Lock()
        (self._over if is_awaited else self._is_reported).acquire()

    def wait(self, seconds: float) -> bool:
        """Whether it finishes within this many seconds; if not, the outcome will be reported."""
        if self._over.acquire(timeout=seconds):
            return True
        if self._is_reported.acquire(blocking=False):
            return False
        self._over.acquire()  # it finished at this very moment
        return True

    def run(self, connection: "sqlite3.Connection") -> None:
        """Does the work; a failure is stored in `error`."""
        try:
            self._work(connection)
        except Exception as error:  # noqa: BLE001 - it is handed to the waiters
            self.error = error

    def report(self) -> None:
        """Wakes the waiting submitter, or reports the outcome."""
        if self._is_reported.acquire(blocking=False):
            self._over.release()
        else:
            self._report(self.error)


class WriterThread:
    """Runs units of work on the connection, one after the other, and reports each outcome from its thread."""

    def __init__(self, connection: "sqlite3.Connection", *, name: str) -> None:
        self._connection = connection
        # Unbounded, but the storage never has more than its preparation, one group and the end in it.
        self._jobs: SimpleQueue[WriterJob | None] = SimpleQueue()
        # Each is counted up by one thread only, so that neither needs a lock.
        self._submitted = self._finished = 0
        # A daemon thread: a process that does not close the storage must still exit; unacknowledged writes may be lost.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        """Whether the thread has nothing to do: only then may another thread use the connection."""
        return self._submitted == self._finished

    def run_here(self, work: Work) -> BaseException | None:
        """Runs a unit of work in the calling thread, which must be the submitting one; returns its error."""
        assert self.is_idle
        try:
            work(self._connection)
        except Exception as error:  # noqa: BLE001 - it is handed to the waiters
            return error
        return None

    def submit(self, work: Work, report: Report) -> None:
        """Queues a unit of work, whose outcome is reported from the thread."""
        self._put(WriterJob(work, report, is_awaited=False))

    def submit_waiting(self, work: Work, report: Report, *, patience: float) -> WriterJob | None:
        """Queues a unit of work and waits up to `patience` seconds; None if the outcome will be reported."""
        job = WriterJob(work, report, is_awaited=True)
        self._put(job)
        return job if job.wait(patience) else None

    def stop(self, report: Report) -> None:
        """Closes the connection after all work, and ends the thread."""
        self.submit(lambda connection: connection.close(), report)
        self._jobs.put(None)

    def _put(self, job: WriterJob) -> None:
        self._submitted += 1
        self._jobs.put(job)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run(self._connection)
            self._finished += 1
            job.report()
