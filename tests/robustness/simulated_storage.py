"""The real `SqliteStorage` on a simulated disk, without threads, so that a run is the same each time.

Its connection is one of apsw with the few methods of `sqlite3.Connection` that the storage uses. What it writes beside
SQLite (the mark, and the zeros that allocate the log) is recorded, too.
"""

import errno
import io
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import apsw
import pytest

from levelset.storage import group_commit, revision_mark, sqlite, sqlite_file, sqlite_wal
from tests.robustness.simulated_disk import Fault, SimulatedDisk

__all__ = ["SimulatedConnection", "another_boot", "on_disk", "short_log"]

LOG_PAGES = 60
"""So short that a run has several checkpoints."""


class SimulatedConnection:
    """A connection of apsw with the methods and errors of `sqlite3.Connection`."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.text_factory: object = None  # apsw always decodes

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        with _translated_errors():
            return _Rows(list(self._connection.execute(statement, tuple(values))))

    def create_function(self, name: str, arguments: int, function: Callable[..., Any], **_: object) -> None:
        self._connection.create_scalar_function(name, function, arguments)

    def setconfig(self, option: int, value: bool, /) -> None:
        self._connection.config(option, int(value))

    def close(self) -> None:
        with suppress(apsw.Error):  # the errors of the last checkpoint, which sqlite3 does not report, either
            self._connection.close()


class _Rows(list[Any]):
    def fetchone(self) -> Any:
        return self[0] if self else None

    def fetchall(self) -> list[Any]:
        return self


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        code = getattr(error, "extendedresult", 0)
        name = apsw.mapping_extended_result_codes.get(code) or apsw.mapping_result_codes.get(code & 0xFF, "")
        translated = sqlite3.OperationalError(str(error))
        translated.sqlite_errorname = str(name)
        raise translated from error


@contextmanager
def on_disk(disk: SimulatedDisk) -> Iterator[None]:
    """Within it, every `SqliteStorage` that is opened is on the simulated disk."""
    with pytest.MonkeyPatch.context() as patch, short_log():
        patch.setattr(sqlite_file, "_connect", lambda path: _connect(disk, path))
        patch.setattr(sqlite, "RevisionMark", _recording_mark(disk))
        patch.setattr(sqlite, "WriterThread", _WriterWithoutThread)
        patch.setattr(sqlite_wal, "_fill", lambda file, missing: _fill(disk, file, missing))
        for module in (sqlite_file, sqlite_wal):
            patch.setattr(module, "write_again", lambda log: _write_again(disk, log))
        # Which thread writes depends on the duration of commits: here none takes any time.
        patch.setattr(sqlite, "time", SimpleNamespace(perf_counter=lambda: 0.0))
        yield


@contextmanager
def short_log() -> Iterator[None]:
    """Within it, the log is checkpointed often, and little space is set aside."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_SYNCED", "_UNSYNCED"):
            patch.setattr(sqlite_wal, name, getattr(sqlite_wal, name)._replace(longest=LOG_PAGES))
        patch.setattr(sqlite_wal, "_SPARE", 4096)
        yield


@contextmanager
def another_boot() -> Iterator[None]:
    """Within it, the machine has been started again: what was not synced before may be gone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_file, "boot_id", lambda: "another boot")
        yield


def _connect(disk: SimulatedDisk, path: Path) -> sqlite3.Connection:
    connection = SimulatedConnection(disk.connect(path))
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return cast("sqlite3.Connection", connection)


def _recording_mark(disk: SimulatedDisk) -> type[revision_mark.RevisionMark]:
    class RecordingMark(revision_mark.RevisionMark):
        def record(self, revision: int, items: int, digest: int) -> None:
            super().record(revision, items, digest)
            content = Path(f"{disk.path}-revision").read_bytes()
            place = 512 * (self._sequence % 2)
            disk.add("write", "-revision", place, content[place : place + 512])

    return RecordingMark


def _fill(disk: SimulatedDisk, file: io.FileIO, missing: int) -> None:
    if missing > 0:
        disk.add("write", str(file.name), file.seek(0, io.SEEK_END), bytes(missing))
        file.write(bytes(missing))
        disk.add("sync", str(file.name))


class _WriterWithoutThread(group_commit.WriterThread):
    """Does all work at once, and reports it as the thread does."""

    def __init__(self, connection: sqlite3.Connection, *, name: str) -> None:
        self._connection = connection
        self._submitted = self._finished = 0

    def submit(self, work: group_commit.Work, report: Callable[[BaseException | None], None]) -> None:
        report(self.run_here(work))

    def submit_waiting(
        self, work: group_commit.Work, report: Callable[[BaseException | None], None], *, patience: float
    ) -> group_commit.WriterJob:
        job = group_commit.WriterJob(work, report, is_awaited=False)
        job.run(self._connection)
        return job

    def stop(self, report: Callable[[BaseException | None], None]) -> None:
        report(self.run_here(lambda connection: connection.close()))


def _write_again(disk: SimulatedDisk, log: Path) -> None:
    """Writes the log again, as `sqlite_file` does, with the faults of the disk."""
    content = log.read_bytes()
    _strike(disk.faults("write", "-wal"))
    disk.add("write", log, 0, content)
    fault = disk.faults("sync", "-wal")
    if fault != "lost":
        disk.add("sync" if fault is None else "failed sync", log)
    _strike(fault)


def _strike(fault: Fault | None) -> None:
    if fault is not None and fault != "lost":
        raise OSError(errno.ENOSPC if fault == "full" else errno.EIO, "injected")
