"""The write-ahead log of the SQLite backend: its estimated length, and which thread should write the next commit.

The log is reused: when it is long enough, a checkpoint copies it into the file, and the next commit starts again at the
log's beginning, on the same disk blocks. A sync of overwritten blocks takes about half as long as one that grows the
file, because only the latter changes file system metadata.
"""

import io
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from levelset.storage.disk_reserve import DiskReserve
from levelset.storage.interface import Change

__all__ = ["CommitPath", "WriteAheadLog", "write_again"]

_PAGE = 4096
_BLOCK = 1024 * 1024
_FRAME = _PAGE + 24
# What a commit writes apart from values: the last pages of both tables and of the index, and at times their parents.
_PAGES_PER_COMMIT = 4
_CHANGES_PER_PAGE = 2
_FIRST_LIMIT = 1_000  # pages: the log may grow to twice as many at a time, if the reserve can
# Bytes of the reserve for the next writes, when the log has been emptied. Deletions write the pages that incremental
# vacuum needs, too: with one megabyte a disk full of objects of 100 kB refused the 38th deletion.
_SPARE = 4 * 1024 * 1024
_MOST_CHANGES = 64
_MOST_BYTES = 256 * 1024
_PATIENCE_PER_CHANGE = 0.000_02
_MOST = 10_000
# A pause of the event loop that is short enough not to matter.
_UNNOTICED = 0.005


class CommitPath(Enum):
    """Which thread writes a group into the log."""

    LOOP = auto()
    """The event loop writes it."""
    THREAD_AND_WAIT = auto()
    """The writer thread writes it, and the event loop waits up to `patience` seconds."""
    THREAD = auto()
    """The writer thread writes it, and the event loop continues."""


class _Policy(NamedTuple):
    longest: int
    """In pages. More frequent checkpoints cost more; rarer ones delay the writes behind them for longer."""
    patience: float
    """How many seconds the event loop may spend on a commit that it makes or waits for."""
    detours: int
    """How many commits are left to the thread after one that took longer."""
    trial: int
    """How many commits in a row must have been quick before the event loop makes them itself."""


# A commit on the event loop cannot be interrupted, so slow ones must be rare. Waiting for the thread can be: little is
# lost, and it is tried again soon.
_UNSYNCED = _Policy(longest=10_000, patience=0.02, detours=1_000, trial=0)
_SYNCED = _Policy(longest=4_000, patience=0.000_5, detours=4, trial=50)


class WriteAheadLog:
    """Decides where the next commit is written, and when the log is checkpointed.

    Appending to it without a sync is a copy into the memory of the operating system and takes some ten microseconds,
    less than a handover to another thread. With a sync it takes some hundred on a fast disk, which the event loop can
    afford, and many thousand on a slow one, which it cannot. Always left to the thread: checkpoints, the first commit
    after one, and large groups.

    The speed of the disk is measured while the event loop waits for the thread. A commit that takes longer than
    `patience` is followed by some that the thread makes alone, twice as many if the next one is slow again, and by
    another trial, which is twice as long if the slow commit was made by the event loop itself.
    """

    __slots__ = (
        "is_suspect",
        *("_detour", "_detours", "_found", "_limit", "_longest", "_pages", "_path", "_policy", "_quick", "_reserve"),
        "_trial",
    )

    def __init__(
        self, path: Path, *, is_synced: bool, longest: int | None = None, reserve: DiskReserve | None = None
    ) -> None:
        self._path = Path(f"{path.absolute()}-wal")
        self._policy = _SYNCED if is_synced else _UNSYNCED
        self._longest = longest or self._policy.longest
        self._reserve = reserve
        # A log with full durability has its whole length from the start.
        self._limit = self._longest if is_synced or reserve is None else min(_FIRST_LIMIT, self._longest)
        # An estimate; 0 means unknown, or that the next commit starts the log and syncs it.
        self._pages = 0
        # The length found on disk, added after the first commit.
        self._found = self._measure()
        self._detours = self._detour = 0
        self.is_suspect = False
        """Whether a checkpoint has failed, so that parts of the log may be in the memory of the system only."""
        self._quick = 0  # in a row
        self._trial = self._policy.trial

    def commit_path(self, changes: Sequence[Change]) -> CommitPath:
        """Which thread should write these changes."""
        if self._detours or not 0 < self._pages < self._limit or len(changes) > _MOST_CHANGES:
            return CommitPath.THREAD
        if sum(map(_weight, changes)) > _MOST_BYTES:
            return CommitPath.THREAD
        return CommitPath.LOOP if self._quick >= self._trial else CommitPath.THREAD_AND_WAIT

    def patience(self, changes: Sequence[Change]) -> float:
        """How many seconds the event loop may spend on writing them."""
        return self._policy.patience + _PATIENCE_PER_CHANGE * len(changes)

    def grow(self, changes: Sequence[Change], seconds: float) -> None:
        """Records a commit that the event loop made or waited for, and its duration."""
        self._lengthen(changes)
        if seconds <= self.patience(changes):
            self._quick += 1
            self._detour = 0
            return
        if seconds > _UNNOTICED and self._quick >= self._trial:
            self._trial = min(2 * self._trial, _MOST)
        self._quick = 0
        self._detours = self._detour = min(2 * self._detour or self._policy.detours, _MOST)

    def tend(self, connection: sqlite3.Connection, changes: Sequence[Change]) -> None:
        """Records a commit of the writer thread, and checkpoints a log that is too long."""
        if self._detours:
            self._detours -= 1
        self._lengthen(changes)
        if self._pages < self._limit or self._raise_limit():
            return
        # If the disk is full now, a later checkpoint may succeed.
        if self._checkpoint(connection, "RESTART"):
            self._pages = 0

    def reserve_bytes(self) -> int:
        """The space to set aside: a checkpoint may make the file longer by as much as the log has."""
        return self._limit * _FRAME + _SPARE

    def empty(self, connection: sqlite3.Connection) -> None:
        """Copies the log into the file, and gives its space back; as far as the disk allows."""
        if self._checkpoint(connection, "TRUNCATE"):
            self._pages = 0
            self._limit = min(_FIRST_LIMIT, self._longest)

    def _checkpoint(self, connection: sqlite3.Connection, mode: str) -> bool:
        """Copies the log into the file; returns whether it could.

        The sync of a log may fail; the operating system takes its pages for written then, so that the next one succeeds
        and proves nothing: it is written again first.
        """
        try:
            if self.is_suspect:
                write_again(self._path)
            self.is_suspect = False
            connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        except OSError:
            return False
        except sqlite3.Error as error:
            self.is_suspect = getattr(error, "sqlite_errorname", "") != "SQLITE_FULL"
            return False
        return True

    def _raise_limit(self) -> bool:
        """Lets the log grow, if the reserve can."""
        if self._limit >= self._longest or self._reserve is None:
            return False
        before, self._limit = self._limit, min(2 * self._limit, self._longest)
        if self._reserve.take(self.reserve_bytes()):
            return True
        self._limit = before
        return False

    def reserve(self, _: object = None) -> None:
        """Preallocates the log on disk; called on the writer thread, before anything else.

        SQLite ignores what follows the last commit in a log, and zeros cannot be mistaken for one. Without enough disk
        space the log grows as it is written.
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


def write_again(log: Path) -> None:
    """Writes the same bytes to a log that nothing else writes, and syncs it; raises OSError.

    After a sync that failed, only what is written again is written at all.
    """
    with log.open("r+b", buffering=0) as file:
        position = 0
        while block := os.pread(file.fileno(), _BLOCK, position):
            position += os.pwrite(file.fileno(), block, position)
        os.fsync(file.fileno())
