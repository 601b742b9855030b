"""The SQLite storage backend: reads from memory, group commits to one file, acknowledged when they are in the file.

A write is checked against the newest accepted version of its key, gets the next revision and joins the group of this
loop iteration, or the one that gathers while the previous group is being written. When a group is committed, it becomes
visible to reads and watches as a whole, and its writers get their results. If the commit fails, the group is rolled
back together with the group behind it, whose writes were checked against it.

In the file, the table `items` holds the current values, and `changes` the history as an undo log: what each write
replaced. A value is in `items` or in the row of the write that replaced it, so that every value is in the file once.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar, get_args

from levelset.errors import ConfigError, NotFound, ServerFailed
from levelset.storage.group_commit import CommitGroup, PendingWrite, Work, WriterThread
from levelset.storage.history import Limits
from levelset.storage.interface import Change, FutureRevision, Item, Mismatch
from levelset.storage.mvcc import MvccReads, plan_write
from levelset.storage.sqlite_wal import CommitPath, WriteAheadLog

__all__ = ["Contents", "Durability", "SqliteStorage", "open_file", "write_group"]

Durability = Literal["normal", "full"]

_APPLICATION = 0x6C767374  # "lvst": distinguishes our files from those of other programs
_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE items (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, value BLOB NOT NULL,
    revision INTEGER NOT NULL, created INTEGER NOT NULL, version INTEGER NOT NULL
);
CREATE TABLE changes (
    revision INTEGER PRIMARY KEY, key TEXT NOT NULL, deleted INTEGER NOT NULL,
    old_value BLOB, old_revision INTEGER, old_created INTEGER, old_version INTEGER
);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO meta VALUES ('compacted', 0);
"""
_INSERT = "INSERT INTO changes VALUES %s"
_DELETE = "DELETE FROM items WHERE key IN (VALUES %s)"
_UPSERT = (
    "INSERT INTO items (key, value, revision, created, version) VALUES %s"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value, revision = excluded.revision,"
    " created = excluded.created, version = excluded.version"
)
# The rows of a group go into few statements: after each one the thread has to win the interpreter lock back, which
# can take milliseconds while the event loop is busy. 64 rows of seven columns are below every SQLite's limits.
_ROWS = 64
_ADVICE = {
    "SQLITE_BUSY": "is in use by another process; stop that one, or choose another file",
    "SQLITE_CANTOPEN": "cannot be opened; check that its directory exists and that you may write there",
    "SQLITE_NOTADB": "is not a levelset data file; it was left as it is, choose another path",
    "SQLITE_READONLY": "may not be written; change its permissions, or choose another path",
}


class Contents(NamedTuple):
    """The contents of a file; change rows up to `swept` have been removed."""

    items: list[Item]
    changes: list[Change]
    compacted: int
    swept: int


def open_file(path: Path, durability: Durability) -> tuple[sqlite3.Connection, Contents]:
    """An exclusive connection and the contents of the file; raises `ConfigError` and does not change the file then."""
    if durability not in get_args(Durability):
        raise ConfigError(f"{path}: durability is 'normal' or 'full', not {durability!r}")
    connection: sqlite3.Connection | None = None
    try:
        connection = _connect(path)
        _check_version(path, connection)
        _configure(connection, durability)
        return connection, _read(connection)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, (sqlite3.Error, OSError, ValueError)):
            raise ConfigError(f"{path} {_advice(error)}: {error}") from error
        raise


def write_group(connection: sqlite3.Connection, changes: Sequence[Change], *, compacted: int, sweep_to: int) -> None:
    """Makes all changes durable, or none of them; also removes change rows up to `sweep_to`."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        _insert(connection, changes)
        if sweep_to:
            connection.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (compacted,))
            connection.execute("DELETE FROM changes WHERE revision <= ?", (sweep_to,))
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has rolled back by itself after some errors, a full disk among them.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _connect(path: Path) -> sqlite3.Connection:
    # Objects may be secrets: a new file is readable only by its owner. SQLite gives its log the same mode.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    # An absolute path is never taken for ":memory:" or a "file:" address.
    connection = sqlite3.connect(
        path.absolute(), timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return connection


def _check_version(path: Path, connection: sqlite3.Connection) -> None:
    application = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    if application == _APPLICATION:
        if version > _SCHEMA_VERSION:
            text = f"{path} was written by a newer levelset (data version {version}, this one knows {_SCHEMA_VERSION})"
            raise ConfigError(f"{text}; it was left as it is, use that newer version")
    elif application or version or _number(connection, "SELECT count(*) FROM sqlite_master"):
        text = f"{path} is a database of another program; it was left as it is, choose another path"
        raise ConfigError(text)


def _configure(connection: sqlite3.Connection, durability: Durability) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {durability}")
    # `WriteAheadLog` decides when to checkpoint: SQLite would do it within a commit, on whichever thread makes it.
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    # Some builds overwrite removed rows with zeros, which makes compaction write twice.
    connection.execute("PRAGMA secure_delete = OFF")
    connection.execute("BEGIN IMMEDIATE")
    if not _number(connection, "PRAGMA user_version"):
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _read(connection: sqlite3.Connection) -> Contents:
    compacted = _number(connection, "SELECT value FROM meta WHERE name = 'compacted'")
    swept = _number(connection, "SELECT coalesce(min(revision) - 1, ?) FROM changes", compacted)
    rows = connection.execute("SELECT key, value, revision, created, version FROM items")
    items = [Item(*row) for row in rows]
    rows = connection.execute("SELECT * FROM changes WHERE revision > ? ORDER BY revision DESC", (compacted,))
    changes = list(_replay({item.key: item for item in items}, rows))
    changes.reverse()
    newest = max((item.revision for item in items), default=0)
    expected = range(compacted + 1, compacted + len(changes) + 1)
    if newest >= expected.stop or any(
        change.revision != number for change, number in zip(changes, expected, strict=True)
    ):
        raise sqlite3.DatabaseError("its revisions have gaps")
    return Contents(items, changes, compacted, swept)


def _replay(present: dict[str, Item], rows: Iterable[tuple[Any, ...]]) -> Iterator[Change]:
    """The changes from the newest to the oldest: each one's new value is the old value of the next on its key."""
    for revision, key, deleted, value, old_revision, created, version in rows:
        after = present.pop(key, None)
        if (after is None) != bool(deleted) or (after is not None and after.revision != revision):
            raise sqlite3.DatabaseError(f"change {revision} and the item {key!r} do not fit")
        before = None if old_revision is None else Item(key, value, old_revision, created, version)
        if before is not None:
            present[key] = before
        yield Change(revision, key, before, after)


def _insert(connection: sqlite3.Connection, changes: Sequence[Change]) -> None:
    if len(changes) == 1 and changes[0].after is not None:  # a single writer waits for each write
        connection.execute(_statement(_INSERT, 1, 7), _change_row(changes[0]))
        connection.execute(_statement(_UPSERT, 1, 5), _item_row(changes[0].after))
        return
    for rows in _chunks([_change_row(change) for change in changes]):
        connection.execute(_statement(_INSERT, len(rows), 7), list(chain.from_iterable(rows)))
    final = {change.key: change.after for change in changes}
    for rows in _chunks([_item_row(item) for item in final.values() if item is not None]):
        connection.execute(_statement(_UPSERT, len(rows), 5), list(chain.from_iterable(rows)))
    for rows in _chunks([(key,) for key, item in final.items() if item is None]):
        connection.execute(_statement(_DELETE, len(rows), 1), list(chain.from_iterable(rows)))


def _change_row(change: Change) -> tuple[Any, ...]:
    old, deleted = change.before, change.after is None
    if old is None:
        return (change.revision, change.key, deleted, None, None, None, None)
    return (change.revision, change.key, deleted, old.value, old.revision, old.created, old.version)


def _item_row(item: Item) -> tuple[Any, ...]:
    return (item.key, item.value, item.revision, item.created, item.version)


def _chunks(rows: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    return (rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS))


@cache
def _statement(template: str, rows: int, columns: int) -> str:
    one = f"({','.join('?' * columns)})"
    return template % ",".join([one] * rows)


def _number(connection: sqlite3.Connection, query: str, *values: int) -> int:
    row = connection.execute(query, values).fetchone()
    if row is None or not isinstance(row[0], int):
        raise sqlite3.DatabaseError(f"no number for {query!r}")
    return row[0]


def _advice(error: Exception) -> str:
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", "")
        damaged = "is damaged; restore a copy, or move it away and start again"
        return next((text for code, text in _ADVICE.items() if name.startswith(code)), damaged)
    return _ADVICE["SQLITE_CANTOPEN"]


T = TypeVar("T")

_ENOUGH = 64  # writes in a group: beyond that the cost per write no longer falls
_ALONE = 8  # groups of one in a row: after that, assume a single writer
_SWEEP = 1_000  # rows removed per commit: compaction must not delay the writes behind it


class SqliteStorage(MvccReads):
    """A `Storage` in the file `path`, which the constructor opens, or creates; raises `ConfigError`.

    The history that watches resume from has at most `history_changes` changes, `history_bytes` bytes of superseded
    values, and changes of the last `history_age` seconds of `clock` (None: no limit).

    `durability="normal"` survives the end of the process, even by SIGKILL; a power failure may lose the last commits.
    `"full"` survives that too, and waits for the disk with every group of writes.

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
        self._writer = WriterThread(connection, name=f"levelset storage {self.path.name}")
        self._log = WriteAheadLog(self.path, is_synced=durability == "full")
        if durability == "full":
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
        return await asyncio.to_thread(opened)

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        """As `Storage.put`; returns when the value is in the file."""
        change = await self.start_write(key, value, expected=expected)
        assert change.after is not None  # a put's change always has one
        return change.after

    async def delete(self, key: str, *, expected: int | None) -> Change:
        """As `Storage.delete`; returns when the deletion is in the file."""
        return await self.start_write(key, None, expected=expected)

    def start_write(self, key: str, value: bytes | None, *, expected: int | None) -> PendingWrite:
        """Starts a put, or a deletion (no value), which can no longer be cancelled.

        `Mismatch` and `NotFound` come from this call, or from the result if a write to the key is pending.
        """
        result = PendingWrite()
        self._write(key, value, expected, result)
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
        if self._stopped is None:
            self._stopped = asyncio.get_running_loop().create_future()
            self._writer.stop(self._reporter(lambda _: _resolve(self._stopped)))
        await asyncio.shield(self._stopped)

    def _write(self, key: str, value: bytes | None, expected: int | None, result: PendingWrite) -> None:
        if self._closed:
            raise self._refusal(f"{key!r} was not written")
        pending = self._pending.get(key)
        current = self._mvcc.items.get(key) if pending is None else pending[0].after
        try:
            change = plan_write(current, key, value, expected, self._head)
        except (Mismatch, NotFound):
            if pending is None:
                raise
            # The write that won is not visible yet and may still fail. Raising now would make the caller read the old
            # version and lose again, for ever if it never yields to the event loop.
            pending[1].when_committed(partial(self._write_again, key, value, expected, result))
            return
        self._head = change.revision
        group = self._open_group
        group.changes.append(change)
        self._pending[key] = (change, group)
        self._join(group, result, change)

    def _write_again(self, key: str, value: bytes | None, expected: int | None, result: PendingWrite) -> None:
        try:
            self._write(key, value, expected, result)
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
        work = partial(write_group, changes=group.changes, compacted=compacted, sweep_to=group.swept if sweeping else 0)
        self._committing = group
        match commit_path:
            case CommitPath.LOOP:
                self._write_on_loop(work, group)
            case CommitPath.THREAD_AND_WAIT:
                self._write_and_wait(work, group)
            case CommitPath.THREAD:
                there = partial(self._write_on_thread, work, group.changes)
                self._writer.submit(there, self._reporter(partial(self._finish_commit, group)))

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

    def _finish_commit(self, group: CommitGroup, error: BaseException | None) -> None:
        self._committing = None
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
        behind, self._open_group = self._open_group, CommitGroup()
        self._pending.clear()
        self._head = self.revision
        for one in (group, behind):
            one.finish(error, self.path)

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
