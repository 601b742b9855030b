"""Checks and repairs a data file that no server uses: what is damaged or lost is named, and the rest is saved."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from levelset.errors import ConfigError
from levelset.storage.interface import Change, Item
from levelset.storage.revision_mark import read_mark
from levelset.storage.sqlite_file import connect_read_only, mark_path, open_file, read_head, read_rows, write_group

__all__ = ["FileReport", "check_file", "repair_file", "write_items"]

_ROWS = 500  # per commit of the new file


class FileReport(NamedTuple):
    """What a data file holds."""

    path: Path
    items: int
    """The objects that are intact."""
    revision: int
    """The newest revision in the file."""
    damaged: tuple[str, ...]
    """The keys of the objects that are not as they were written."""
    missing: int
    """How many objects cannot be found at all."""
    lost_writes: int
    """How many acknowledged writes are not in the file: those of a damaged log."""
    problems: tuple[str, ...]
    """What SQLite says of the structure of the file."""

    @property
    def is_intact(self) -> bool:
        """Whether nothing is damaged or lost."""
        return not (self.damaged or self.missing or self.lost_writes or self.problems)


class _Readable(NamedTuple):
    items: dict[str, Item]
    damaged: set[str]
    revision: int


def check_file(path: Path) -> FileReport:
    """Reads the whole file without changing it; raises ConfigError if it is none, or in use."""
    path = _existing(path)
    try:
        _require_unused(path)
        with closing(connect_read_only(path)) as connection:
            read_head(connection)  # raises for what is no data file
            return _report(path, _read(connection), _structure(connection))
    except sqlite3.Error as error:
        raise ConfigError(f"{path} cannot be read: {error}; is it a data file, and does no server use it?") from error


def repair_file(path: Path) -> tuple[FileReport, Path]:
    """Writes what is intact into a new file in the place of the old one; returns what is lost, and where that is.

    The new file continues after the newest revision that was ever acknowledged: clients list again.
    """
    report = check_file(path)
    path = _existing(path)
    with closing(connect_read_only(path)) as connection:
        readable = _read(connection)
    mark = read_mark(mark_path(path))
    newest = max(readable.revision, 0 if mark is None else mark.revision)
    new = path.with_name(f"{path.name}.new")
    for file in _files(new):
        file.unlink(missing_ok=True)
    write_items(new, list(readable.items.values()), newest)
    old = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}")
    for file, target in zip(_files(path), _files(old), strict=True):
        with suppress(FileNotFoundError):
            file.rename(target)
    for file, target in zip(_files(new), _files(path), strict=True):
        with suppress(FileNotFoundError):
            file.rename(target)
    return report, old


def write_items(path: Path, items: Sequence[Item], revision: int) -> None:
    """Writes a new data file at a revision, with items of their own revisions: clients compare them.

    Its history begins there. Raises ConfigError and sqlite3.Error.
    """
    connection, _ = open_file(path, "full")
    try:
        for start in range(0, len(items), _ROWS):
            # Several items may share a revision, but not several rows of the history, which is removed at the end.
            rows = enumerate(items[start : start + _ROWS], start + 1)
            changes = [Change(number, item.key, None, item) for number, item in rows]
            write_group(connection, changes, compacted=0, sweep_to=0)
        write_group(connection, [], compacted=revision, sweep_to=max(revision, len(items)))
    finally:
        connection.close()


def _existing(path: Path) -> Path:
    try:
        return path.resolve(strict=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error


def _require_unused(path: Path) -> None:
    """Raises sqlite3.Error if a server has the file open; a connection that may not write is refused by its lock."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()


def _files(path: Path) -> tuple[Path, ...]:
    return (path, path.with_name(f"{path.name}-wal"), mark_path(path))


def _read(connection: sqlite3.Connection) -> _Readable:
    items: dict[str, Item] = {}
    damaged: set[str] = set()
    # From both ends: a damaged page in the middle ends each of the scans, and not both at the same place.
    for order in ("ASC", "DESC"):
        for key, item in _scan(connection, order):
            if item is None:
                damaged.add(key)
            else:
                items[key] = item
    revision = 0
    with suppress(sqlite3.Error):
        revision = read_head(connection)
    revision = max([revision, *(item.revision for item in items.values())])
    return _Readable(items, damaged - items.keys(), revision)


def _scan(connection: sqlite3.Connection, order: str) -> Iterator[tuple[str, Item | None]]:
    with suppress(sqlite3.Error):
        yield from read_rows(connection, order)


def _structure(connection: sqlite3.Connection) -> tuple[str, ...]:
    try:
        rows = connection.execute("PRAGMA integrity_check(20)").fetchall()
    except sqlite3.Error as error:
        return (str(error),)
    return tuple(str(row[0]) for row in rows if row[0] != "ok")


def _report(path: Path, readable: _Readable, problems: tuple[str, ...]) -> FileReport:
    mark = read_mark(mark_path(path))
    found = len(readable.items) + len(readable.damaged)
    missing = lost = 0
    if mark is not None:
        lost = max(0, mark.revision - readable.revision)
        # With lost writes, the number of objects that there were is not known.
        missing = max(0, mark.items - found) if mark.revision == readable.revision else 0
    damaged = tuple(sorted(readable.damaged))
    return FileReport(path, len(readable.items), readable.revision, damaged, missing, lost, problems)
