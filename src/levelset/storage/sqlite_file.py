"""The data file of the SQLite backend: its schema and upgrades, how it is opened and verified, and how it is written.

The table `items` holds the current values, and `changes` the history as an undo log: what each write replaced. A value
is in `items` or in the row of the write that replaced it, so that every value is in the file once. Every row has a
checksum. A row of `items` that does not have the right one is a damaged object: it is reported by its key, and
everything else remains usable. A damaged row of `changes` costs the history: clients that watch list again.
"""

import errno
import os
import sqlite3
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from random import SystemRandom
from typing import Any, Final, Literal, NamedTuple, get_args

from levelset.errors import ConfigError
from levelset.storage.interface import Change, Item
from levelset.storage.revision_mark import Mark, boot_id, read_mark
from levelset.storage.sqlite_wal import write_again

__all__ = [
    "Contents",
    "Durability",
    "connect_read_only",
    "discard_row",
    "mark_path",
    "open_file",
    "prepare_close",
    "read_contents",
    "read_head",
    "read_rows",
    "shrink",
    "write_group",
]

Durability = Literal["normal", "full"]

_APPLICATION: Final = 0x6C767374  # "lvst": distinguishes our files from those of other programs
_SCHEMA_VERSION: Final = 2
_MOVED_PAGES: Final = 512
_SCHEMA: Final = """
CREATE TABLE items (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, value BLOB NOT NULL,
    revision INTEGER NOT NULL, created INTEGER NOT NULL, version INTEGER NOT NULL, checksum INTEGER NOT NULL
);
CREATE TABLE changes (
    revision INTEGER PRIMARY KEY, key TEXT NOT NULL, deleted INTEGER NOT NULL,
    old_value BLOB, old_revision INTEGER, old_created INTEGER, old_version INTEGER, checksum INTEGER NOT NULL
);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO meta VALUES ('compacted', 0);
"""
_INSERT: Final = "INSERT INTO changes VALUES %s"
_DELETE: Final = "DELETE FROM items WHERE key IN (VALUES %s)"
_UPSERT: Final = (
    "INSERT INTO items (key, value, revision, created, version, checksum) VALUES %s"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value, revision = excluded.revision,"
    " created = excluded.created, version = excluded.version, checksum = excluded.checksum"
)
_SELECT_ITEMS: Final = "SELECT id, key, value, revision, created, version, checksum FROM items"
# To decode each key by a function of Python, and to encode it again, would take a third longer.
_SELECT_ENCODED_ITEMS: Final = _SELECT_ITEMS.replace("key", "CAST(key AS BLOB)")
_DIGESTS: Final = 2**64
_ENCODING: Final = ("utf-8", "surrogateescape")  # of keys: damage may leave any bytes
# The rows of a group go into few statements: after each one the thread has to win the interpreter lock back, which
# can take milliseconds while the event loop is busy. 64 rows of eight columns are below every SQLite's limits.
_ROWS: Final = 64
_NO_CHECKPOINT_ON_CLOSE: Final = 1006  # SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, which Python 3.11 does not have
# Deletions must be possible on a full disk, and SQLite's message about the permissions is better.
_LEFT_TO_SQLITE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM})
_ADVICE: Final = {
    "SQLITE_BUSY": "is in use by another process; stop that one, or choose another file",
    "SQLITE_CANTOPEN": "cannot be opened; check that its directory exists and that you may write there",
    "SQLITE_FULL": "cannot be written, because the disk is full; free some space",
    "SQLITE_IOERR": "cannot be read or written, because the disk fails: check it, then start again",
    "SQLITE_NOTADB": "is not a levelset data file; it was left as it is, choose another path",
    "SQLITE_READONLY": "may not be written; change its permissions, or choose another path",
}


class Contents(NamedTuple):
    """The contents of a file; change rows up to `swept` have been removed."""

    items: list[Item]
    changes: list[Change]
    compacted: int
    swept: int
    file_id: int
    damaged: Mapping[str, int]
    """The rows of objects that are not as they were written, by their keys."""
    digest: int
    """The sum of the checksums of the items, modulo 2**64."""
    lost: int = 0
    """How many acknowledged writes a loss of power has taken."""


def mark_path(path: Path) -> Path:
    """The file that holds the high-water mark of a data file."""
    return path.with_name(f"{path.name}-revision")


def open_file(path: Path, durability: Durability) -> tuple[sqlite3.Connection, Contents]:
    """An exclusive connection and the contents of the file; raises `ConfigError` and does not change the file then."""
    if durability not in get_args(Durability):
        raise ConfigError(f"{path}: durability is 'normal' or 'full', not {durability!r}")
    connection: sqlite3.Connection | None = None
    try:
        path = _private_file(path)
        mark = read_mark(mark_path(path))
        lost = _check_log(path, mark)
        _make_log_durable(path)
        connection = _connect(path)
        _check_version(path, connection)
        _configure(connection, durability)
        _empty_log(connection)
        if lost and mark is not None:
            _jump(connection, mark.revision)
        contents = read_contents(connection)
        if mark is not None and not lost:
            _check_items(contents, mark)
        return connection, contents._replace(lost=lost)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, (sqlite3.Error, OSError, ValueError)):
            raise ConfigError(f"{path} {_advice(path, error)}: {error}") from error
        raise


def read_contents(connection: sqlite3.Connection) -> Contents:
    """Everything in the file, verified; damaged objects are only named. Raises sqlite3.Error and ValueError."""
    connection.text_factory = _text
    compacted = _number(connection, "SELECT value FROM meta WHERE name = 'compacted'")
    file_id = _number(connection, "SELECT value FROM meta WHERE name = 'file_id'")
    swept = _number(connection, "SELECT coalesce(min(revision) - 1, ?) FROM changes", compacted)
    head = read_head(connection)
    items, damaged, digest = _read_items(connection)
    # The history cannot be rebuilt around an object that is not there.
    changes = None if damaged else _read_changes(connection, items, compacted)
    if changes is None:
        return Contents(items, [], head, swept, file_id, damaged, digest)
    newest = max((item.revision for item in items), default=0)
    expected = range(compacted + 1, compacted + len(changes) + 1)
    if newest >= expected.stop or any(
        change.revision != number for change, number in zip(changes, expected, strict=True)
    ):
        raise sqlite3.DatabaseError("its revisions have gaps")
    return Contents(items, changes, compacted, swept, file_id, damaged, digest)


def write_group(connection: sqlite3.Connection, changes: Sequence[Change], *, compacted: int, sweep_to: int) -> int:
    """Makes all changes durable, or none of them; also removes change rows up to `sweep_to`.

    Returns how much they add to the sum of the checksums of the items.
    """
    with _transaction(connection):
        added = _insert(connection, changes)
        if sweep_to:
            connection.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (compacted,))
            connection.execute("DELETE FROM changes WHERE revision <= ?", (sweep_to,))
    return added


def shrink(connection: sqlite3.Connection) -> bool:
    """Moves up to 512 pages from the end of the file to free ones; whether the file can become shorter.

    It does with the next checkpoint. False if there are no free pages, or the file is older than this.
    """
    before = _number(connection, "PRAGMA freelist_count")
    if before:
        connection.execute(f"PRAGMA incremental_vacuum({_MOVED_PAGES})").fetchall()
    return _number(connection, "PRAGMA freelist_count") < before


def discard_row(connection: sqlite3.Connection, row: int, *, compacted: int) -> None:
    """Removes the row of a damaged object, with the history, which cannot be rebuilt without it."""
    with _transaction(connection):
        connection.execute("DELETE FROM items WHERE id = ?", (row,))
        connection.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (compacted,))
        connection.execute("DELETE FROM changes WHERE revision <= ?", (compacted,))


class _transaction:  # noqa: N801 - reads as the statement it is; a generator would cost each commit a microsecond
    """A transaction that is committed at the end, or rolled back if that or anything before fails."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._connection.execute("COMMIT")
        finally:
            # SQLite has rolled back by itself after some errors, a full disk among them.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def _private_file(path: Path) -> Path:
    """The path of the file itself, which is made if it is missing; raises ConfigError for what is not a file."""
    # Objects may be secrets: a new file is readable only by its owner. SQLite gives its log the same mode.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600))
        return path.absolute()
    try:
        found = path.resolve(strict=True)  # SQLite would make the target of a dangling link, readable by all
    except (OSError, RuntimeError) as error:
        raise ConfigError(
            f"{path} is a symbolic link to {path.readlink()}, which cannot be opened; name the file itself"
        ) from error
    if not stat.S_ISREG(found.stat().st_mode):
        raise ConfigError(f"{path} is not a file; choose another path")
    return found


def _check_log(path: Path, mark: Mark | None) -> int:
    """Raises ConfigError if commits are missing in the log; returns how many a loss of power has taken.

    A read-only connection: closing another one would copy what is left of the log into the file, and remove the log.
    """
    if mark is None or not path.stat().st_size:
        return 0
    log = path.with_name(f"{path.name}-wal")
    with closing(connect_read_only(path)) as connection:
        if _number(connection, "PRAGMA application_id") != _APPLICATION:
            return 0
        if _number(connection, "PRAGMA user_version") < 2:  # such files have no number
            return 0
        file_id = _number(connection, "SELECT value FROM meta WHERE name = 'file_id'")
        head = read_head(connection)
    lost = mark.revision - head
    if file_id != mark.file_id or lost <= 0:
        return 0
    if not mark.is_synced and mark.boot and mark.boot != boot_id():
        return lost
    where = f"its log {log.name} is damaged" if log.exists() else "it is older than that, or its log is missing"
    raise ConfigError(
        f"{path} has lost {lost} acknowledged write{'s' if lost > 1 else ''}: revision {mark.revision} was written, but"
        f" it ends at {head}; {where}. Restore a copy, or continue without them:"
        f" levelset storage repair --accept-loss {path}"
    )


def _make_log_durable(path: Path) -> None:
    """Writes the log that a process left behind once more, and syncs it, before anything is copied out of it.

    After a sync that failed, in that process or in an earlier attempt to open, the operating system takes the pages for
    written: SQLite's own sync would then succeed without writing them, and a loss of power in the middle of copying
    them into the file would leave parts of commits there. The bytes do not change, so that nothing can be torn.
    Raises ConfigError if the disk does not take them; the next attempt begins again.
    """
    log = path.with_name(f"{path.name}-wal")
    if not path.stat().st_size or not log.exists() or not log.stat().st_size:
        return
    # The connection is open meanwhile: no other process can open the file for writing.
    with closing(connect_read_only(path)) as connection:
        try:
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error:  # in use, or interrupted while it was made: the connection that writes will say so
            return
        try:
            write_again(log)
        except OSError as error:
            if error.errno in _LEFT_TO_SQLITE:
                return
            raise ConfigError(
                f"{path} was not opened: its log {log.name} cannot be written to the disk ({error.strerror or error})."
                " Nothing was changed, and nothing acknowledged is lost: check the disk, then start again."
            ) from error


def prepare_close(path: Path, connection: sqlite3.Connection) -> None:
    """Prepares closing a connection after an I/O error: SQLite copies the log into the file then.

    The log is made durable first, as when a file is opened; if that fails, it stays as it is (from Python 3.12 on).
    """
    try:
        write_again(path.with_name(f"{path.name}-wal"))
    except OSError:
        configure: Callable[[int, bool], None] | None = getattr(connection, "setconfig", None)
        if configure is not None:
            configure(_NO_CHECKPOINT_ON_CLOSE, True)


def _check_items(contents: Contents, mark: Mark) -> None:
    """Raises sqlite3.Error if rows are missing; damaged ones are there, and named."""
    head = contents.compacted + len(contents.changes)
    if mark.file_id != contents.file_id or not contents.compacted <= mark.revision <= head:
        return
    later = contents.changes[mark.revision - contents.compacted :]  # those of the last commit, before it was recorded
    count = mark.items + sum((change.before is None) - (change.after is None) for change in later)
    added = sum((0 if one.after is None else _checksum(one.after)) for one in later)
    removed = sum((0 if one.before is None else _checksum(one.before)) for one in later)
    found = len(contents.items)
    if (found, contents.digest) == (count, (mark.digest + added - removed) % _DIGESTS):
        return
    if not contents.damaged or found + len(contents.damaged) != count:
        raise sqlite3.DatabaseError(f"it has {found} objects, and not the {count} that were written")


def connect_read_only(path: Path) -> sqlite3.Connection:
    """A connection that changes neither the file nor its log."""
    # Without a log there is none to read, and SQLite need not make one.
    mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=0, isolation_level=None)
    connection.text_factory = _text
    return connection


def read_head(connection: sqlite3.Connection) -> int:
    """The newest revision in the file."""
    compacted = _number(connection, "SELECT value FROM meta WHERE name = 'compacted'")
    return _number(connection, "SELECT max(coalesce(max(revision), 0), ?) FROM changes", compacted)


def _connect(path: Path) -> sqlite3.Connection:
    # An absolute path is never taken for ":memory:" or a "file:" address.
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256)
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
    if not _number(connection, "PRAGMA user_version"):
        # Only a new file can begin to keep what `shrink` needs (and others must not be written to here); it costs a
        # commit 5 to 7 % more pages.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {durability}")
    # `WriteAheadLog` decides when to checkpoint: SQLite would do it within a commit, on whichever thread makes it.
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    # Some builds overwrite removed rows with zeros, which makes compaction write twice.
    connection.execute("PRAGMA secure_delete = OFF")
    with _transaction(connection):
        version = _number(connection, "PRAGMA user_version")
        if not version:
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            _set_file_id(connection)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        for upgrade in _UPGRADES[version - 1 :] if version else ():
            upgrade(connection)
        if version != _SCHEMA_VERSION:
            connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")


def _empty_log(connection: sqlite3.Connection) -> None:
    """Copies what a process that died left in the log into the file, and syncs it, before anything of it is shown.

    It may have died between a commit and its sync, or the sync may have failed: then the commit is only in the memory
    of the operating system, which may take the pages of the log for written. The log is truncated, which gives the next
    one another salt: with the old one, the remains of an unfinished commit could be completed by the next commit, which
    SQLite writes over them, and come back after a loss of power. The tables of a new file are copied as well: without
    its log, it must not be taken for an empty one.
    """
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error as error:
        # Deletions must be possible on a full disk; the log was synced before it was copied.
        if getattr(error, "sqlite_errorname", "") != "SQLITE_FULL":
            raise


def _upgrade_to_2(connection: sqlite3.Connection) -> None:
    """Adds the checksums and the number of the file."""
    connection.create_function("item_checksum", 5, _item_checksum, deterministic=True)
    connection.create_function("change_checksum", 7, _change_checksum, deterministic=True)
    for table, function, columns in (
        ("items", "item_checksum", "key, value, revision, created, version"),
        ("changes", "change_checksum", "revision, key, deleted, old_value, old_revision, old_created, old_version"),
    ):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
        connection.execute(f"UPDATE {table} SET checksum = {function}({columns})")  # noqa: S608 - all constants
    _set_file_id(connection)


_UPGRADES: Final[tuple[Callable[[sqlite3.Connection], None], ...]] = (_upgrade_to_2,)
"""The upgrades of a file, from version 1 on; each one is run in the transaction of all."""


def _set_file_id(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO meta VALUES ('file_id', ?)", (SystemRandom().getrandbits(62),))


def _jump(connection: sqlite3.Connection, revision: int) -> None:
    """Continues after a revision whose writes are lost: a revision never has two meanings."""
    with _transaction(connection):
        connection.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (revision,))
        connection.execute("DELETE FROM changes")


def read_rows(connection: sqlite3.Connection, order: str) -> Iterator[tuple[str, Item | None]]:
    """The keys and items of the file by age, "ASC" or "DESC"; None for a damaged item. Raises sqlite3.Error."""
    for _, *fields, checksum in connection.execute(f"{_SELECT_ITEMS} ORDER BY id {order}"):
        yield str(fields[0]), Item(*fields) if _is_intact(_item_checksum, fields, checksum) else None


def _read_items(connection: sqlite3.Connection) -> tuple[list[Item], dict[str, int], int]:
    items: list[Item] = []
    damaged: dict[str, int] = {}
    digest = 0
    for row, key, value, revision, created, version, checksum in connection.execute(_SELECT_ENCODED_ITEMS):
        try:
            is_intact = _encoded_checksum(key, value, revision, created, version) == checksum
        except (TypeError, ValueError):  # damage may have changed the type of a field
            is_intact = False
        if is_intact:
            items.append(Item(_text(key), value, revision, created, version))
            digest += checksum
        else:
            damaged[_text(key) if isinstance(key, bytes) else str(key)] = row
    return items, damaged, digest % _DIGESTS


def _read_changes(connection: sqlite3.Connection, items: list[Item], compacted: int) -> list[Change] | None:
    """The history after the compacted revision; None if a row of it is damaged."""
    rows = connection.execute(
        "SELECT * FROM changes WHERE revision > ? ORDER BY revision DESC", (compacted,)
    ).fetchall()
    if not all(_is_intact(_change_checksum, fields, checksum) for *fields, checksum in rows):
        return None
    changes = list(_replay({item.key: item for item in items if item.revision > compacted}, rows))
    changes.reverse()
    return changes


def _replay(present: dict[str, Item], rows: Iterable[tuple[Any, ...]]) -> Iterator[Change]:
    """The changes from the newest to the oldest: each one's new value is the old value of the next on its key."""
    for revision, key, deleted, value, old_revision, created, version, _ in rows:
        after = present.pop(key, None)
        if (after is None) != bool(deleted) or (after is not None and after.revision != revision):
            raise sqlite3.DatabaseError(f"change {revision} and the item {key!r} do not fit")
        before = None if old_revision is None else Item(key, value, old_revision, created, version)
        if before is not None:
            present[key] = before
        yield Change(revision, key, before, after)


def _is_intact(checksum_of: Callable[..., int], fields: Sequence[Any], checksum: object) -> bool:
    try:
        return checksum_of(*fields) == checksum
    except (TypeError, ValueError):  # damage may have changed the type of a field
        return False


def _item_checksum(key: str, value: bytes, revision: int, created: int, version: int) -> int:
    return _encoded_checksum(key.encode(*_ENCODING), value, revision, created, version)


def _encoded_checksum(key: bytes, value: bytes, revision: int, created: int, version: int) -> int:
    return zlib.crc32(value, zlib.crc32(b"%b\0%a\0%a\0%a\0" % (key, revision, created, version)))


def _change_checksum(  # noqa: PLR0917 - the columns of the row, in their order
    revision: int,
    key: str,
    deleted: int,
    value: Any,
    old_revision: Any,
    created: Any,
    version: Any,
) -> int:
    if value is old_revision is created is version is None:
        return _mixed_checksum(revision, key, deleted, 0)
    return _mixed_checksum(revision, key, deleted, _item_checksum(key, value, old_revision, created, version))


def _mixed_checksum(revision: int, key: str, deleted: int, old: int) -> int:
    return zlib.crc32(f"{revision}\0{key}\0{deleted}\0".encode(*_ENCODING), old)


def _text(content: bytes) -> str:
    return content.decode(*_ENCODING)


def _insert(connection: sqlite3.Connection, changes: Sequence[Change]) -> int:
    if len(changes) == 1 and changes[0].after is not None:  # a single writer waits for each write
        row, removed = _change_row(changes[0])
        connection.execute(_statement(_INSERT, 1, 8), row)
        item = _item_row(changes[0].after)
        connection.execute(_statement(_UPSERT, 1, 6), item)
        return int(item[-1]) - removed
    added = 0
    made: list[tuple[Any, ...]] = []
    for change in changes:
        row, removed = _change_row(change)
        made.append(row)
        added += (0 if change.after is None else _checksum(change.after)) - removed
    for rows in _chunks(made):
        connection.execute(_statement(_INSERT, len(rows), 8), list(chain.from_iterable(rows)))
    final = {change.key: change.after for change in changes}
    for rows in _chunks([_item_row(item) for item in final.values() if item is not None]):
        connection.execute(_statement(_UPSERT, len(rows), 6), list(chain.from_iterable(rows)))
    for rows in _chunks([(key,) for key, item in final.items() if item is None]):
        connection.execute(_statement(_DELETE, len(rows), 1), list(chain.from_iterable(rows)))
    return added


def _change_row(change: Change) -> tuple[tuple[Any, ...], int]:
    """The row of a change, and the checksum of the item that it replaces."""
    old, deleted = change.before, int(change.after is None)
    if old is None:
        checksum = _mixed_checksum(change.revision, change.key, deleted, 0)
        return (change.revision, change.key, deleted, None, None, None, None, checksum), 0
    removed = _checksum(old)
    checksum = _mixed_checksum(change.revision, change.key, deleted, removed)
    fields = (change.revision, change.key, deleted, old.value, old.revision, old.created, old.version, checksum)
    return fields, removed


def _item_row(item: Item) -> tuple[Any, ...]:
    return (item.key, item.value, item.revision, item.created, item.version, _checksum(item))


def _checksum(item: Item) -> int:
    return _item_checksum(item.key, item.value, item.revision, item.created, item.version)


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


def _advice(path: Path, error: Exception) -> str:
    if _is_read_only(path):
        return "is on a read-only file system; remount it, or choose another path"
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", "")
        damaged = f"is damaged; restore a copy, or save what can be read: levelset storage repair --accept-loss {path}"
        return next((text for code, text in _ADVICE.items() if name.startswith(code)), damaged)
    return _ADVICE["SQLITE_CANTOPEN"]


def _is_read_only(path: Path) -> bool:
    try:
        return bool(os.statvfs(path.absolute().parent).f_flag & os.ST_RDONLY)
    except OSError:
        return False
