"""The SQLite file: its schema, opening and reading it, and writing a group of changes in one transaction.

`items` holds the present. `changes` holds the past as an undo log: what each write replaced. The value that a write
put is in `items`, or in the row of the write that replaced it, so that every value is in the file once.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from levelset.errors import ConfigError
from levelset.storage.interface import Change, Item

__all__ = ["Contents", "Durability", "open_file", "write_group"]

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
