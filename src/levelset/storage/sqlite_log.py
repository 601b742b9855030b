"""The log beside the SQLite file: how long it is, and whether one more write into it can be expected to be quick."""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from levelset.storage.interface import Change

__all__ = ["Log"]

_PAGE = 4096
# Copying the log back less often is worth up to half as much again; 40 MB is what the log grows to.
_LONGEST = 10_000
# What a change adds at most besides its values: a page of each of the two tables and of the index, and their parents.
_PAGES_PER_CHANGE = 6
_MOST_CHANGES = 64
_MOST_BYTES = 256 * 1024
_SLOW = 0.02
_DETOURS = 1_000


class Log:
    """Where commits go first.

    Appending to it without a sync is a copy into the memory of the operating system and takes some ten microseconds,
    less than handing it to another thread. What does wait for a disk is left to the thread: any commit with full
    durability, copying the log back into the file, the first commit after that, large groups; and for a while
    everything, if a commit was slow against all expectation.
    """

    __slots__ = ("_detours", "_is_synced", "_longest", "_pages", "_path")

    def __init__(self, path: Path, *, is_synced: bool, longest: int = _LONGEST) -> None:
        self._path = Path(f"{path.absolute()}-wal")
        self._is_synced = is_synced
        self._longest = longest
        # At most so many; 0 means that nothing is known, or that the next commit begins the log and syncs it.
        self._pages = 0
        self._detours = 0

    def is_quick(self, changes: Sequence[Change]) -> bool:
        """Whether these changes can be written without waiting for a disk."""
        if self._is_synced or not 0 < self._pages < self._longest or len(changes) > _MOST_CHANGES:
            return False
        if self._detours:
            self._detours -= 1
            return False
        return sum(map(_weight, changes)) <= _MOST_BYTES

    def grow(self, changes: Sequence[Change], seconds: float) -> None:
        """Takes note of a commit that was expected to be quick, and how long it took."""
        self._pages += sum(map(_weight, changes)) // _PAGE + _PAGES_PER_CHANGE * len(changes)
        if seconds > _SLOW:
            self._detours = _DETOURS

    def tend(self, connection: sqlite3.Connection) -> None:
        """Looks how long the log is, and copies it back into the file if that is too long; for the writer thread."""
        self._pages = self._measure()
        if self._pages < self._longest:
            return
        # What is in the log is safe there; if there is no room in the file now, there may be later.
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._pages = self._measure()

    def _measure(self) -> int:
        with suppress(OSError):
            return self._path.stat().st_size // _PAGE
        return 0


def _weight(change: Change) -> int:
    before, after = change.before, change.after
    return (0 if before is None else len(before.value)) + (0 if after is None else len(after.value))
