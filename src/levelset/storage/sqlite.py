"""The SQLite storage backend: reads from memory, group commits to one file, acknowledged when they are in the file.

A write is checked against the newest accepted version of its key, gets the next revision and joins the group of this
loop iteration, or the one that gathers while the previous group is being written. When a group is committed, it becomes
visible to reads and watches as a whole, and its writers get their results. If the commit fails, the group is rolled
back together with the group behind it, whose writes were checked against it.
"""

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from levelset.errors import NotFound, ServerFailed
from levelset.storage.disk_reserve import DiskReserve, disk_problem
from levelset.storage.file_permissions import warn_if_exposed
from levelset.storage.group_commit import CommitGroup, PendingWrite, Work, WriterThread
from levelset.storage.history import Limits
from levelset.storage.interface import Change, Conditions, DamagedValue, FutureRevision, Item, Mismatch
from levelset.storage.mvcc import MvccReads, plan_conditions, plan_write
from levelset.storage.revision_mark import RevisionMark
from levelset.storage.sqlite_file import (
    Contents,
    Durability,
    discard_row,
    mark_path,
    open_file,
    prepare_close,
    shrink,
    write_group,
)
from levelset.storage.sqlite_wal import CommitPath, WriteAheadLog

__all__ = ["Durability", "SqliteStorage"]

log = logging.getLogger(__name__)

T = TypeVar("T")

_ENOUGH: Final = 64  # writes in a group: beyond that the cost per write no longer falls
_ALONE: Final = 8  # groups of one in a row: after that, assume a single writer
_SWEEP: Final = 1_000  # rows removed per commit: compaction must not delay the writes behind it
_SPACE_RETRY_SECONDS: Final = 2.0
_SHRINK_SECONDS: Final = 1.0


class SqliteStorage(MvccReads):
    """A `Storage` in the file `path`, which the constructor opens, or creates; raises `ConfigError`.

    The history that watches resume from has at most `history_changes` changes, `history_bytes` bytes of superseded
    values, and changes of the last `history_age` seconds of `clock` (None: no limit).

    `durability="normal"` survives the end of the process, even by SIGKILL; a power failure may lose the last commits.
    `"full"` survives that too, and waits for the disk with every group of writes.

    When the disk is full, only deletions are possible, in space that is set aside for them; when the disk fails,
    nothing is written until the file is opened again. `write_problem` says so.

    ```python
    async with SqliteStorage("levelset.db") as storage:
        made = await storage.put("/registry/core/pods/default/a", b"{}", expected=0)
    ```

    The constructor reads the whole file and blocks; on a running loop, `await SqliteStorage.open(path)`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "normal",
        history_changes: int = 100_000,
        history_bytes: int = 64 * 1024 * 1024,
        history_age: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = Path(path)
        connection, contents = open_file(self.path, durability)
        super().__init__(
            items=contents.items,
            changes=contents.changes,
            compacted=contents.compacted,
            limits=Limits(changes=history_changes, bytes=history_bytes, age=history_age),
        )
        self._clock = clock
        self._damaged_rows = dict(contents.damaged)
        self.damaged = self._damaged_rows.keys()
        is_synced = durability == "full"
        self._mark = RevisionMark(mark_path(self.path.resolve()), contents.file_id, is_synced=is_synced)
        self._digest = contents.digest
        self._count = len(contents.items)
        self._recorded = 0
        self._record(self.revision)
        self._reserve = DiskReserve(self.path.with_name(f"{self.path.name}-reserve"))
        self._failure: str | None = None
        self._disk_problem: str | None = None
        self._space_timer: asyncio.TimerHandle | None = None
        _log_losses(self.path, contents)
        warn_if_exposed(
            "Secrets and the key that signs tokens", self.path, self.path.with_name(f"{self.path.name}-wal")
        )
        self._writer = WriterThread(connection, name=f"levelset storage {self.path.name}")
        self._log = WriteAheadLog(self.path, is_synced=is_synced, reserve=self._reserve)
        self._has_reserve = False
        self._take_reserve(connection)
        if not self._has_reserve:
            self.write_problem = f"the disk of {self.path} is full"
        if is_synced:
            self._writer.submit(self._log.reserve, lambda _: None)
        self._swept = contents.swept
        self._head = self.revision
        # The newest accepted version of each key that is not in the file yet, and the group it is in.
        self._pending: dict[str, tuple[Change, CommitGroup]] = {}
        self._open_group = CommitGroup()
        self._committing: CommitGroup | None = None
        self._single_writes = 1  # groups of one, one after the other
        self._wrote_this_iteration = False
        self._stopped: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "normal",
        history_changes: int = 100_000,
        history_bytes: int = 64 * 1024 * 1024,
        history_age: float | None = None,
    ) -> Self:
        """Opens the storage, reading its file in a thread so that the event loop does not block."""
        opened = partial(
            cls,
            path,
            durability=durability,
            history_changes=history_changes,
            history_bytes=history_bytes,
            history_age=history_age,
        )
        storage = await asyncio.to_thread(opened)
        storage._retry_without_reserve()
        return storage

    def find_write_problem(self) -> str | None:
        """Why only deletions are possible now, or nothing at all; also if no write has failed yet.

        The disk is examined by the writer thread, since its file system may hang: the next call has the result.
        """
        if self._writer.is_idle and not self._closed:
            self._writer.submit(self._examine_disk, lambda _: None)
        self._retry_without_reserve()
        return self.write_problem or self._disk_problem

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        """As `Storage.put`; returns when the value is in the file."""
        change = await self.start_write(key, value, expected=expected)
        assert change.after is not None  # a put's change always has one
        return change.after

    async def delete(self, key: str, *, expected: int | None) -> Change:
        """As `Storage.delete`; returns when the deletion is in the file.

        The deletion of a damaged value has no revision of its own: no reader has seen the value.
        """
        if key in self.damaged:
            await self._discard(key)
            return Change(self.revision, key, None, None)
        return await self.start_write(key, None, expected=expected)

    async def transact(self, key: str, value: bytes | None, *, expected: int | None, conditions: Conditions) -> Change:
        """As `TransactionalStorage.transact`; returns when it is in the file."""
        return await self.start_write(key, value, expected=expected, conditions=conditions)

    def start_write(
        self, key: str, value: bytes | None, *, expected: int | None, conditions: Conditions | None = None
    ) -> PendingWrite:
        """Starts a put, or a deletion (no value), which can no longer be cancelled.

        `Mismatch` and `NotFound` come from this call, or from the result if a write to the key is pending.
        """
        result = PendingWrite()
        self._write(key, value, expected, conditions, result)
        return result

    async def compact(self, revision: int) -> None:
        """As `Storage.compact`; returns when it is in the file; the rows are removed in steps."""
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        if revision <= self.compacted:
            return
        if self._closed:
            raise self._refusal(f"history up to {revision} was not compacted")
        group = self._open_group
        group.compacted = max(group.compacted, revision)
        result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._join(group, result, None)
        await result

    async def close(self) -> None:
        """Finishes pending writes, ends all watches, and releases the file."""
        self._closed = True
        while self._committing is not None or self._open_group.pending_writes:
            await (self._committing or self._open_group).wait_committed()
        await super().close()
        if self._space_timer is not None:
            self._space_timer.cancel()
        if self._stopped is None:
            self._stopped = asyncio.get_running_loop().create_future()
            self._writer.submit(lambda _: self._reserve.remove(), lambda _: None)
            if self._failure is not None or self._log.is_suspect:
                self._writer.submit(partial(prepare_close, self.path), lambda _: None)
            self._writer.stop(self._reporter(lambda _: _resolve(self._stopped)))
        await asyncio.shield(self._stopped)
        self._mark.close()

    def _write(
        self, key: str, value: bytes | None, expected: int | None, conditions: Conditions | None, result: PendingWrite
    ) -> None:
        if self._closed or self._failure is not None or key in self.damaged:
            raise self._refused_write(key)
        pending = self._pending.get(key)
        current = self._mvcc.items.get(key) if pending is None else pending[0].after
        group = self._open_group
        try:
            if conditions is None:
                change = plan_write(current, key, value, expected, self._head)
            else:
                plan_write(current, key, value, expected, self._head)
                self._add_conditions(conditions, group)
                change = plan_write(current, key, value, None, self._head)
        except (Mismatch, NotFound) as error:
            pending = self._pending.get(error.key) if isinstance(error, Mismatch) else pending
            if pending is None:
                raise
            # The write that won is not visible yet and may still fail. Raising now would make the caller read the old
            # version and lose again, for ever if it never yields to the event loop.
            pending[1].when_committed(partial(self._write_again, key, value, expected, conditions, result))
            return
        self._head = change.revision
        group.changes.append(change)
        self._pending[key] = (change, group)
        self._join(group, result, change)

    def _add_conditions(self, conditions: Conditions, group: CommitGroup) -> None:
        """Adds claims and releases to a group, each with a revision of its own, since the file has one row for each."""
        for planned in plan_conditions(conditions, self._latest, self._head):
            value = None if planned.after is None else planned.after.value
            change = plan_write(planned.before, planned.key, value, None, self._head)
            self._head = change.revision
            group.changes.append(change)
            self._pending[change.key] = (change, group)

    def _latest(self, key: str) -> Item | None:
        pending = self._pending.get(key)
        return self._mvcc.items.get(key) if pending is None else pending[0].after

    def _write_again(
        self, key: str, value: bytes | None, expected: int | None, conditions: Conditions | None, result: PendingWrite
    ) -> None:
        try:
            self._write(key, value, expected, conditions, result)
        except Exception as error:  # noqa: BLE001 - it is for the waiting caller
            result.set_exception(error)

    def _join(self, group: CommitGroup, result: asyncio.Future[T], outcome: T) -> None:
        group.pending_writes.append((result, outcome))
        if len(group.pending_writes) > 1:
            return
        if self._single_writes < _ALONE or self._wrote_this_iteration or self._commit_path(group) is CommitPath.THREAD:
            self._launch_soon()
        else:
            self._launch_now()

    def _commit_path(self, group: CommitGroup) -> CommitPath:
        """How a group can be written now; only the thread can while it is busy, or has rows to remove."""
        if self._committing is not None or self.compacted > self._swept or group.compacted or not self._writer.is_idle:
            return CommitPath.THREAD
        return self._log.commit_path(group.changes)

    def _launch_now(self) -> None:
        """Commits at once for a single writer, without waiting for others until the loop iteration ends.

        At most once per loop iteration: a caller that writes without a pause must not starve the event loop.
        """
        self._wrote_this_iteration = True
        asyncio.get_running_loop().call_soon(self._end_iteration)
        self._launch()

    def _end_iteration(self) -> None:
        self._wrote_this_iteration = False

    def _launch_soon(self) -> None:
        # At the end of this loop iteration, so that all its writes share one commit.
        asyncio.get_running_loop().call_soon(self._gather, 0)

    def _gather(self, seen: int) -> None:
        """Launches the group when a loop iteration adds nothing to it; a single writer does not wait for that."""
        size = len(self._open_group.pending_writes)
        if seen < size < _ENOUGH and (size > 1 or not self._single_writes):
            asyncio.get_running_loop().call_soon(self._gather, size)
        else:
            self._launch()

    def _launch(self) -> None:
        """Commits the gathered group, unless another one is being written; its completion launches the next."""
        compacted = max(self.compacted, self._open_group.compacted)
        sweeping = compacted > self._swept
        if self._committing is not None or not (self._open_group.pending_writes or (sweeping and not self._closed)):
            return
        group, self._open_group = self._open_group, CommitGroup()
        commit_path = self._commit_path(group)
        self._single_writes = 0 if len(group.pending_writes) > 1 else self._single_writes + 1
        group.compacted = compacted
        group.swept = min(compacted, self._swept + _SWEEP) if sweeping else self._swept
        sweep_to = group.swept if sweeping else 0
        work = partial(self._write_group, changes=group.changes, compacted=compacted, sweep_to=sweep_to)
        self._committing = group
        group.work = work
        match commit_path:
            case CommitPath.LOOP:
                self._write_on_loop(work, group)
            case CommitPath.THREAD_AND_WAIT:
                self._write_and_wait(work, group)
            case CommitPath.THREAD:
                there = partial(self._write_on_thread, work, group.changes)
                self._writer.submit(there, self._reporter(partial(self._finish_commit, group)))

    def _write_group(
        self, connection: sqlite3.Connection, changes: Sequence[Change], *, compacted: int, sweep_to: int
    ) -> None:
        self._digest += write_group(connection, changes, compacted=compacted, sweep_to=sweep_to)
        if changes:
            self._count += sum((change.before is None) - (change.after is None) for change in changes)
            self._record(changes[-1].revision)

    def _record(self, revision: int) -> None:
        """Moves the high-water mark. The commit is done: without the mark, only its loss would not be noticed."""
        self._recorded = revision
        try:
            self._mark.record(revision, self._count, self._digest % 2**64)
        except OSError as error:
            log.warning("%s: the newest revision could not be recorded: %s", self.path, error)

    def _write_on_loop(self, work: Work, group: CommitGroup) -> None:
        """Writes on the event loop, which takes less time than a handover to the thread."""
        began = time.perf_counter()
        error = self._writer.run_here(work)
        self._log.grow(group.changes, time.perf_counter() - began)
        self._finish_commit(group, error)

    def _write_and_wait(self, work: Work, group: CommitGroup) -> None:
        """Writes on the thread and waits for it, for a bounded time."""
        began = time.perf_counter()
        report = self._reporter(partial(self._finish_commit, group))
        job = self._writer.submit_waiting(work, report, patience=self._log.patience(group.changes))
        self._log.grow(group.changes, time.perf_counter() - began)
        if job is not None:
            self._finish_commit(group, job.error)

    def _write_on_thread(self, work: Work, changes: Sequence[Change], connection: sqlite3.Connection) -> None:
        work(connection)
        self._log.tend(connection, changes)

    def _write_with_reserve(self, work: Work | None, connection: sqlite3.Connection) -> None:
        """Writes once more, with the space that was set aside and that of the log."""
        assert work is not None  # set when the group was launched
        self._reserve.release()
        self._log.empty(connection)
        try:
            work(connection)
        finally:
            self._has_reserve = self._reserve.take(self._log.reserve_bytes())

    def _finish_commit(self, group: CommitGroup, error: BaseException | None) -> None:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL" and not group.is_retried:
            group.is_retried = True
            again = partial(self._write_with_reserve, group.work)
            self._writer.submit(again, self._reporter(partial(self._finish_commit, group)))
            return
        self._committing = None
        if not self._has_reserve:
            self._start_without_space()
        if error is None:
            self._make_visible(group)
            if self._open_group.pending_writes or self.compacted > self._swept:
                self._launch_soon()
        else:
            self._roll_back(group, error)

    def _make_visible(self, group: CommitGroup) -> None:
        for change in group.changes:
            self._mvcc.commit(change)
            if self._pending[change.key][0] is change:
                del self._pending[change.key]
        self._swept = group.swept
        history = self._mvcc.history
        history.compact(group.compacted)
        history.forget_older(self._clock())
        group.finish(None, self.path)

    def _roll_back(self, group: CommitGroup, error: BaseException) -> None:
        """Fails a group and the one behind it, whose writes were checked against it."""
        self._find_cause(error)
        behind, self._open_group = self._open_group, CommitGroup()
        self._pending.clear()
        self._head = self.revision
        for one in (group, behind):
            one.finish(error, self.path)

    def _find_cause(self, error: BaseException) -> None:
        name = getattr(error, "sqlite_errorname", "")
        if name != "SQLITE_FULL" and isinstance(error, sqlite3.Error):
            # After a failed sync, the operating system takes the pages for written: another sync would succeed, and
            # prove nothing. Only what is read from the disk again can be relied on.
            self._failure = self.write_problem = f"{self.path} failed ({error}); check the disk, and restart the server"
            log.error("%s; nothing is written until then", self._failure)

    def _start_without_space(self) -> None:
        if self.write_problem is None:
            self.write_problem = f"the disk of {self.path} is full"
            log.error("%s: only deletions are possible until there is space", self.write_problem)
        self._retry_without_reserve()

    def _retry_without_reserve(self) -> None:
        """Tries to take the reserve again from time to time; the disk may be full when the file is opened."""
        if not self._has_reserve and self._space_timer is None and not self._closed:
            self._retry_space_later()

    def _retry_space_later(self) -> None:
        self._space_timer = asyncio.get_running_loop().call_later(_SPACE_RETRY_SECONDS, self._retry_space)

    def _retry_space(self) -> None:
        """Leaves the mode without space as soon as the reserve can be taken again.

        What was deleted is still in the history, so that is given up: clients that watch from before list again.
        """
        self._space_timer = None
        if self._closed or self._failure is not None:
            return
        if self._committing is None and self.compacted < self.revision:
            group = self._open_group
            group.compacted = self.revision
            self._launch_soon()
        self._writer.submit(self._take_reserve, self._reporter(self._end_without_space))

    def _examine_disk(self, _: object) -> None:
        self._disk_problem = disk_problem(self.path)

    def _take_reserve(self, connection: sqlite3.Connection) -> None:
        """Takes the reserve; if the disk has too little, first gives free pages of the file back to it."""
        if not self._reserve.take(self._log.reserve_bytes()):
            self._shorten(connection)
        self._has_reserve = self._reserve.take(self._log.reserve_bytes())

    def _shorten(self, connection: sqlite3.Connection) -> None:
        """Makes the file shorter by its free pages, or by as many as can be moved in a second."""
        ends, is_shorter = time.monotonic() + _SHRINK_SECONDS, True
        while is_shorter and time.monotonic() < ends:
            try:
                is_shorter = shrink(connection)
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorname", "") != "SQLITE_FULL":
                    raise
                is_shorter = False
            self._log.empty(connection)

    def _end_without_space(self, error: BaseException | None) -> None:
        if error is not None:
            self._find_cause(error)
        if self._closed or self._failure is not None:
            return
        if not self._has_reserve:
            self._retry_space_later()
            return
        self.write_problem = None
        log.warning("%s: there is space on the disk again", self.path)

    async def _discard(self, key: str) -> None:
        if self._closed or self._failure is not None:
            raise self._refused_write(key)
        done: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        row, compacted = self._damaged_rows[key], self.compacted

        def work(connection: sqlite3.Connection) -> None:
            discard_row(connection, row, compacted=compacted)
            self._record(self._recorded)  # on the thread of the commits: the mark never goes back

        self._writer.submit(work, self._reporter(lambda error: _resolve_with(done, error)))
        error = await asyncio.shield(done)
        if error is not None:
            raise ServerFailed(f"{self.path} could not be written: {error}; {key!r} was not deleted") from error
        self._damaged_rows.pop(key, None)

    def _refused_write(self, key: str) -> ServerFailed:
        if self._closed:
            return self._refusal(f"{key!r} was not written")
        if self._failure is not None:
            return ServerFailed(f"{self._failure}: {key!r} was not written")
        return DamagedValue(key)

    def _refusal(self, consequence: str) -> ServerFailed:
        return ServerFailed(f"the storage {self.path} is closed: {consequence}")

    def _reporter(self, land: Callable[[BaseException | None], None]) -> Callable[[BaseException | None], None]:
        """The callback of the writer thread: hands the outcome to the event loop, if that is still open."""
        loop = asyncio.get_running_loop()

        def report(error: BaseException | None) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(land, error)

        return report


def _resolve(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)


def _resolve_with(future: asyncio.Future[BaseException | None], error: BaseException | None) -> None:
    if not future.done():
        future.set_result(error)


def _log_losses(path: Path, contents: Contents) -> None:
    if contents.lost:
        log.warning(
            "%s: a loss of power took the last %d writes, which were not synced; clients list again."
            " Use durability 'full' to avoid this.",
            path,
            contents.lost,
        )
    for key in contents.damaged:
        log.error("%s: the stored value of %r is damaged: delete it and create it again, or restore a copy", path, key)
