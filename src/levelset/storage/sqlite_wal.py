"""The log beside the SQLite file: about how long it is, and who had best write into it next.

The log is a ring: when it is long enough, it is copied back into the file, and the next commit begins it anew on the
same blocks of the disk. A sync of what lies where something lay before takes about half as long as one of what makes
the file longer, because only the latter changes what the file system has to remember.
"""

import io
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from levelset.storage.interface import Change

__all__ = ["Log", "Way"]

_PAGE = 4096
_FRAME = _PAGE + 24
# What a commit writes about besides values: the last pages of both tables and of the index, and at times their parents.
_PAGES_PER_COMMIT = 4
_CHANGES_PER_PAGE = 2
_MOST_CHANGES = 64
_MOST_BYTES = 256 * 1024
_PATIENCE_PER_CHANGE = 0.000_02
_MOST = 10_000
# What the loop loses without anybody's noticing.
_UNNOTICED = 0.005


class Way(Enum):
    """How a group gets into the log."""

    HERE = auto()
    """The loop writes it."""
    WAITING = auto()
    """The thread writes it, and the loop waits for that as long as its patience lasts."""
    THERE = auto()
    """The thread writes it, and the loop goes on."""


class _Manner(NamedTuple):
    longest: int
    """In pages. Copied back more often, a log costs more; less often, it holds up those who write then for longer."""
    patience: float
    """How many seconds the loop can spend on a commit that it makes or waits for."""
    detours: int
    """How many the loop leaves to the thread after one that took longer."""
    trial: int
    """How many must have been quick in a row before the loop makes them itself."""


# A commit that the loop makes cannot be interrupted, so that a slow one must be rare. One that it waits for can: little
# is lost, and it is tried again soon.
_UNSYNCED = _Manner(longest=10_000, patience=0.02, detours=1_000, trial=0)
_SYNCED = _Manner(longest=4_000, patience=0.000_5, detours=4, trial=50)


class Log:
    """Where commits go first.

    Appending to it without a sync is a copy into the memory of the operating system and takes some ten microseconds,
    less than handing it to another thread. With a sync it takes some hundred on a good disk, for which the loop has the
    time, and many thousand on a bad one, for which it has not. Always left to the thread: copying the log back into the
    file, the first commit after that, and large groups.

    Whether the disk is good is tried, and the loop waits for the thread meanwhile. Every commit that took longer than
    `patience` allows is followed by some that the thread makes alone, twice as many if the next one is no better, and
    by a new trial. That takes twice as long if the loop made that commit itself, and so long that somebody noticed.
    """

    __slots__ = ("_detour", "_detours", "_found", "_longest", "_manner", "_pages", "_path", "_quick", "_trial")

    def __init__(self, path: Path, *, is_synced: bool, longest: int | None = None) -> None:
        self._path = Path(f"{path.absolute()}-wal")
        self._manner = _SYNCED if is_synced else _UNSYNCED
        self._longest = longest or self._manner.longest
        # About so many; 0 means that nothing is known, or that the next commit begins the log and syncs it.
        self._pages = 0
        # What is there already, and counts when the first commit is over.
        self._found = self._measure()
        self._detours = self._detour = 0
        self._quick = 0  # in a row
        self._trial = self._manner.trial

    def way(self, changes: Sequence[Change]) -> Way:
        """How these changes had best be written."""
        if self._detours or not 0 < self._pages < self._longest or len(changes) > _MOST_CHANGES:
            return Way.THERE
        if sum(map(_weight, changes)) > _MOST_BYTES:
            return Way.THERE
        return Way.HERE if self._quick >= self._trial else Way.WAITING

    def patience(self, changes: Sequence[Change]) -> float:
        """How many seconds the loop can spend on writing them."""
        return self._manner.patience + _PATIENCE_PER_CHANGE * len(changes)

    def grow(self, changes: Sequence[Change], seconds: float) -> None:
        """Takes note of a commit that the loop made or waited for, and how long it took."""
        self._lengthen(changes)
        if seconds <= self.patience(changes):
            self._quick += 1
            self._detour = 0
            return
        if seconds > _UNNOTICED and self._quick >= self._trial:
            self._trial = min(2 * self._trial, _MOST)
        self._quick = 0
        self._detours = self._detour = min(2 * self._detour or self._manner.detours, _MOST)

    def tend(self, connection: sqlite3.Connection, changes: Sequence[Change]) -> None:
        """Takes note of a commit of the writer thread, and copies a log that is too long back into the file there."""
        if self._detours:
            self._detours -= 1
        self._lengthen(changes)
        if self._pages < self._longest:
            return
        # What is in the log is safe there; if there is no room in the file now, there may be later.
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            self._pages = 0

    def reserve(self, _: object = None) -> None:
        """Gives the log its length on the disk before there is anything in it; for the writer thread, before all else.

        What follows the last commit in a log is not looked at, and zeros could not be taken for one. Where there is not
        enough room for that, it grows with what is written.
        """
        with suppress(OSError), self._path.open("r+b", buffering=0) as file:
            length = file.seek(0, os.SEEK_END)
            try:
                _fill(file, self._longest * _FRAME - length)
            except OSError:
                file.truncate(length)

    def _lengthen(self, changes: Sequence[Change]) -> None:
        self._pages += self._found
        self._found = 0
        self._pages += _PAGES_PER_COMMIT + len(changes) // _CHANGES_PER_PAGE + sum(map(_weight, changes)) // _PAGE

    def _measure(self) -> int:
        with suppress(OSError):
            return self._path.stat().st_size // _PAGE
        return 0


def _fill(file: io.FileIO, missing: int) -> None:
    while missing > 0:
        missing -= file.write(bytes(min(missing, 1024 * 1024)))
    os.fsync(file.fileno())


def _weight(change: Change) -> int:
    before, after = change.before, change.after
    return (0 if before is None else len(before.value)) + (0 if after is None else len(after.value))
