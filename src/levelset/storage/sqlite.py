"""One SQLite file as storage: reads from memory, writes in groups, each acknowledged when it is in the file.

A write is checked against the newest accepted version of its key, gets the next revision and waits in the group that
gathers in this turn of the loop, or while the group before is being written. When a group is in the file, it becomes
visible to reads and watches as a whole, and its writers get their answers. If it fails, it never happened, nor what was
built upon it.

The SQLite file: its schema, opening and reading it, and writing a group of changes in one transaction.

`items` holds the present. `changes` holds the past as an undo log: what each write replaced. The value that a write
put is in `items`, or in the row of the write that replaced it, so that every value is in the file once.
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
from levelset.storage.group_commit import Group, Work, Writer
from levelset.storage.history import Limits
from levelset.storage.interface import Change, FutureRevision, Item, Landing, Mismatch
from levelset.storage.mvcc import LedgerReads, planned_delete, planned_put
from levelset.storage.sqlite_wal import Log, Way

__all__ = ["Contents", "Durability", "SqliteStorage", "open_file", "write_group"]

Durability = Literal["normal", "full"]

_APPLICATION = 0x6C767374  # "lvst": tells our files from those of other programs
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
    """Everything that was in a file; change rows up to `swept` are no longer there."""

    items: list[Item]
    changes: list[Change]
    compacted: int
    swept: int


def open_file(path: Path, durability: Durability) -> tuple[sqlite3.Connection, Contents]:
    """A connection that nobody else has, and what the file holds; raises `ConfigError` and leaves the file alone."""
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
    """Makes all the changes durable, or none of them; also removes change rows up to `sweep_to`."""
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
    # Objects may be secrets: a new file is its owner's alone. SQLite gives its log the same mode.
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
    # When the log is copied back is up to `Log`: SQLite would do it within a commit, whichever thread makes that.
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
    """The changes from the newest to the oldest: what each one put is what the next one on its key replaced."""
    for revision, key, deleted, value, old_revision, created, version in rows:
        after = present.pop(key, None)
        if (after is None) != bool(deleted) or (after is not None and after.revision != revision):
            raise sqlite3.DatabaseError(f"change {revision} and the item {key!r} do not fit")
        before = None if old_revision is None else Item(key, value, old_revision, created, version)
        if before is not None:
            present[key] = before
        yield Change(revision, key, before, after)


def _insert(connection: sqlite3.Connection, changes: Sequence[Change]) -> None:
    if len(changes) == 1 and changes[0].after is not None:  # who writes alone waits for each write
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
        damaged = "is damaged; restore a copy, or move it away and start anew"
        return next((text for code, text in _ADVICE.items() if name.startswith(code)), damaged)
    return _ADVICE["SQLITE_CANTOPEN"]


T = TypeVar("T")

_ENOUGH = 64  # writes in a group: more of them make none of them cheaper
_ALONE = 8  # groups of one in a row: more are to be expected
_SWEEP = 1_000  # rows removed per commit: compaction must not hold up the writes behind it


class SqliteStorage(LedgerReads):
    """A `Storage` in one file, which is opened (and made) by the constructor; raises `ConfigError`.

    `durability="normal"` survives the end of the process, however violent; a power failure may take the last moments.
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
        self._writer = Writer(connection, name=f"levelset storage {self.path.name}")
        self._log = Log(self.path, is_synced=durability == "full")
        if durability == "full":
            self._writer.submit(self._log.reserve, lambda _: None)
        self._swept = contents.swept
        self._head = self.revision
        # The newest accepted version of each key that is not in the file yet, and the group it is in.
        self._pending: dict[str, tuple[Change, Group]] = {}
        self._gathering = Group()
        self._flying: Group | None = None
        self._solitary = 1  # groups of one, one after the other
        self._wrote_this_turn = False
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
        """The storage, its file opened and read in a thread, so that the loop does not wait for it."""
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
        landing: asyncio.Future[Change] = asyncio.get_running_loop().create_future()
        self._write(key, partial(planned_put, key=key, value=value, expected=expected), landing)
        change = await landing
        assert change.after is not None  # a put's change always has one
        return change.after

    async def delete(self, key: str, *, expected: int | None) -> Change:
        """As `Storage.delete`; returns when the deletion is in the file."""
        landing: asyncio.Future[Change] = asyncio.get_running_loop().create_future()
        self._write(key, partial(planned_delete, key=key, expected=expected), landing)
        return await landing

    def put_landing(self, key: str, value: bytes, *, expected: int | None) -> Landing:
        """As `LandingWriter.put_landing`."""
        landing = Landing()
        self._write(key, partial(planned_put, key=key, value=value, expected=expected), landing)
        return landing

    def delete_landing(self, key: str, *, expected: int | None) -> Landing:
        """As `LandingWriter.delete_landing`."""
        landing = Landing()
        self._write(key, partial(planned_delete, key=key, expected=expected), landing)
        return landing

    async def compact(self, revision: int) -> None:
        """As `Storage.compact`; returns when the file knows it, the rows go little by little."""
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        if revision <= self.compacted:
            return
        if self._closed:
            raise self._refusal(f"history up to {revision} was not compacted")
        group = self._gathering
        group.compacted = max(group.compacted, revision)
        landing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._join(group, landing, None)
        await landing

    async def close(self) -> None:
        """Finishes the writes under way, ends all watches, and releases the file."""
        self._closed = True
        while self._flying is not None or self._gathering.landings:
            await (self._flying or self._gathering).wait_over()
        await super().close()
        if self._stopped is None:
            self._stopped = asyncio.get_running_loop().create_future()
            self._writer.stop(self._reporter(lambda _: _resolve(self._stopped)))
        await asyncio.shield(self._stopped)

    def _write(self, key: str, plan: Callable[..., Change], landing: asyncio.Future[Change]) -> None:
        """Begins a write; cancelling the wait for its landing does not take it back. Raises `Mismatch`, `NotFound`."""
        if self._closed:
            raise self._refusal(f"{key!r} was not written")
        pending = self._pending.get(key)
        current = self._ledger.items.get(key) if pending is None else pending[0].after
        try:
            change = plan(current, revision=self._head + 1)
        except (Mismatch, NotFound):
            if pending is None:
                raise
            # What this write lost against is not visible yet, and may still fail. Answering now would send the
            # loser to read the old version and lose again, for ever if it never lets go of the loop.
            pending[1].when_over(partial(self._write_again, key, plan, landing))
            return
        self._head = change.revision
        group = self._gathering
        group.changes.append(change)
        self._pending[key] = (change, group)
        self._join(group, landing, change)

    def _write_again(self, key: str, plan: Callable[..., Change], landing: asyncio.Future[Change]) -> None:
        if landing.done():  # nobody waits for it any more
            return
        try:
            self._write(key, plan, landing)
        except Exception as error:  # noqa: BLE001 - it is for whoever waits
            landing.set_exception(error)

    def _join(self, group: Group, landing: asyncio.Future[T], outcome: T) -> None:
        group.landings.append((landing, outcome))
        if len(group.landings) > 1:
            return
        if self._solitary < _ALONE or self._wrote_this_turn or self._way(group) is Way.THERE:
            self._launch_soon()
        else:
            self._launch_now()

    def _way(self, group: Group) -> Way:
        """How a group can be written now; only the thread can while it is busy, or has rows to remove."""
        if self._flying is not None or self.compacted > self._swept or group.compacted or not self._writer.is_idle:
            return Way.THERE
        return self._log.way(group.changes)

    def _launch_now(self) -> None:
        """Writes for somebody who has been alone for a while, without waiting for others until the turn ends.

        But once in a turn: who writes again and again without a pause must let the loop go on in between.
        """
        self._wrote_this_turn = True
        asyncio.get_running_loop().call_soon(self._end_turn)
        self._launch()

    def _end_turn(self) -> None:
        self._wrote_this_turn = False

    def _launch_soon(self) -> None:
        # At the end of this turn of the loop, so that all who write in it share one commit.
        asyncio.get_running_loop().call_soon(self._gather, 0)

    def _gather(self, seen: int) -> None:
        """Launches the group when a turn of the loop brings no more to it; who writes alone need not wait for that."""
        size = len(self._gathering.landings)
        if seen < size < _ENOUGH and (size > 1 or not self._solitary):
            asyncio.get_running_loop().call_soon(self._gather, size)
        else:
            self._launch()

    def _launch(self) -> None:
        """Has the gathered group written, unless another one still is; that one's landing launches the next."""
        compacted = max(self.compacted, self._gathering.compacted)
        sweeping = compacted > self._swept
        if self._flying is not None or not (self._gathering.landings or (sweeping and not self._closed)):
            return
        group, self._gathering = self._gathering, Group()
        way = self._way(group)
        self._solitary = 0 if len(group.landings) > 1 else self._solitary + 1
        group.compacted = compacted
        group.swept = min(compacted, self._swept + _SWEEP) if sweeping else self._swept
        work = partial(write_group, changes=group.changes, compacted=compacted, sweep_to=group.swept if sweeping else 0)
        self._flying = group
        match way:
            case Way.HERE:
                self._write_here(work, group)
            case Way.WAITING:
                self._write_waiting(work, group)
            case Way.THERE:
                there = partial(self._write_there, work, group.changes)
                self._writer.submit(there, self._reporter(partial(self._land, group)))

    def _write_here(self, work: Work, group: Group) -> None:
        """Writes at once: it takes less time than telling the thread to."""
        began = time.perf_counter()
        error = self._writer.run_here(work)
        self._log.grow(group.changes, time.perf_counter() - began)
        self._land(group, error)

    def _write_waiting(self, work: Work, group: Group) -> None:
        """Has the thread write and waits for it, but not for long."""
        began = time.perf_counter()
        report = self._reporter(partial(self._land, group))
        job = self._writer.submit_waiting(work, report, patience=self._log.patience(group.changes))
        self._log.grow(group.changes, time.perf_counter() - began)
        if job is not None:
            self._land(group, job.error)

    def _write_there(self, work: Work, changes: Sequence[Change], connection: sqlite3.Connection) -> None:
        work(connection)
        self._log.tend(connection, changes)

    def _land(self, group: Group, error: BaseException | None) -> None:
        self._flying = None
        if error is None:
            self._reveal(group)
            if self._gathering.landings or self.compacted > self._swept:
                self._launch_soon()
        else:
            self._take_back(group, error)

    def _reveal(self, group: Group) -> None:
        for change in group.changes:
            self._ledger.commit(change)
            if self._pending[change.key][0] is change:
                del self._pending[change.key]
        self._swept = group.swept
        history = self._ledger.history
        history.compact(group.compacted)
        history.forget_older(self._clock())
        group.finish(None, self.path)

    def _take_back(self, group: Group, error: BaseException) -> None:
        """Fails a group and the one that gathered behind it, whose writes were checked against it."""
        behind, self._gathering = self._gathering, Group()
        self._pending.clear()
        self._head = self.revision
        for one in (group, behind):
            one.finish(error, self.path)

    def _refusal(self, consequence: str) -> ServerFailed:
        return ServerFailed(f"the storage {self.path} is closed: {consequence}")

    def _reporter(self, land: Callable[[BaseException | None], None]) -> Callable[[BaseException | None], None]:
        """What the writer thread calls: brings the outcome to the loop, if that is still there."""
        loop = asyncio.get_running_loop()

        def report(error: BaseException | None) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(land, error)

        return report


def _resolve(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
