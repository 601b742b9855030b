"""A simulated disk below the real SQLite: records every write and sync, injects faults, and makes crash images.

SQLite runs on a VFS of apsw that passes everything on to real files. What the disk would hold after a loss of power is
built from the recording: what was synced is there, and of what was not, any sectors may be. After a failed sync the
operating system takes the pages for written, so that a later sync does not write them again ("fsyncgate").
"""

import itertools
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import apsw

__all__ = ["SECTOR", "Crash", "DiskImage", "Fault", "SimulatedDisk", "Step", "cached_files", "flip_bit", "torn"]

SECTOR: Final = 512
"""Bytes that a disk writes as a whole."""

Fault = Literal["full", "error", "short", "lost"]
"""A full disk; an I/O error; a write of which only a part is done, with an error; a sync that does nothing."""
Crash = Literal["nothing", "everything", "prefix", "subset"]
"""What a loss of power leaves of the writes that were not synced."""

_WITH_DIRECTORY: Final = ("-wal", "-journal")
"""With the first sync of these files, SQLite syncs the directory."""
_numbers = itertools.count()


class Step(NamedTuple):
    """One operation on one file, named by what follows the path of the data file: `-wal`, `-revision`."""

    kind: Literal["write", "truncate", "sync", "failed sync", "delete", "synced delete"]
    file: str
    offset: int = 0
    data: bytes = b""


FaultPlan = Callable[[str, str], Fault | None]
"""Decides about the fault of an operation (write, truncate, sync) on a file."""


class SimulatedDisk:
    """The files of one data file and everything that was done to them, in order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.steps: list[Step] = []
        self.faults: FaultPlan = lambda _operation, _file: None
        self.vfs_name = f"levelset-simulated-{next(_numbers)}"
        self._vfs = _RecordingVfs(self)
        self._lock = threading.Lock()

    def connect(self, path: Path) -> apsw.Connection:
        """A connection of apsw on this disk."""
        return apsw.Connection(str(path), vfs=self.vfs_name, statementcachesize=64)

    def add(self, kind: Any, file: str | Path, offset: int = 0, data: bytes = b"") -> None:
        """Records one operation."""
        with self._lock:
            self.steps.append(Step(kind, self.suffix(file), offset, data))

    def suffix(self, file: str | Path) -> str:
        """The short name of a file of this disk."""
        return str(file).removeprefix(str(self.path))

    def close(self) -> None:
        """Unregisters the VFS; connections must be closed before."""
        with suppress(ValueError):  # closed twice
            self._vfs.unregister()


class DiskImage:
    """What is on the disk and what is only in the memory of the operating system, at one point of a recording."""

    def __init__(self) -> None:
        self.synced: dict[str, bytearray] = {}
        self.pending: dict[str, list[Step]] = {}
        self._deleted: dict[str, bytearray] = {}  # without a sync of the directory

    def apply(self, step: Step) -> None:
        """Does one step."""
        match step.kind:
            case "write" | "truncate":
                self.pending.setdefault(step.file, []).append(step)
            case "sync":
                if step.file not in self.synced and step.file in _WITH_DIRECTORY:
                    self._deleted.clear()
                content = self.synced.setdefault(step.file, bytearray())
                for one in self.pending.pop(step.file, ()):
                    _apply(content, one)
            case "failed sync":  # the pages count as written, and are not
                self.pending.pop(step.file, None)
                self.synced.setdefault(step.file, bytearray())
            case "delete" | "synced delete":
                self.pending.pop(step.file, None)
                content = self.synced.pop(step.file, bytearray())
                if step.kind == "delete":
                    self._deleted[step.file] = content

    def power_cut(self, crash: Crash, dice: random.Random) -> dict[str, bytes]:
        """The files after a loss of power."""
        files = {name: bytearray(content) for name, content in self.synced.items()}
        for name, content in self._deleted.items():
            if crash != "everything" and dice.random() < 0.5:
                files.setdefault(name, bytearray(content))
        for name, steps in self.pending.items():
            survivors = list(_survivors(steps, crash, dice))
            if survivors or name in files:
                content = files.setdefault(name, bytearray())
                for step in survivors:
                    _apply(content, step)
        return {name: bytes(content) for name, content in files.items()}


def cached_files(steps: Iterable[Step]) -> dict[str, bytes]:
    """The files as other processes see them, and as the death of the process leaves them: synced or not."""
    files: dict[str, bytearray] = {}
    for step in steps:
        if "delete" in step.kind:
            files.pop(step.file, None)
        elif step.kind in {"write", "truncate"}:
            _apply(files.setdefault(step.file, bytearray()), step)
    return {name: bytes(content) for name, content in files.items()}


def torn(step: Step, dice: random.Random) -> Iterator[Step]:
    """Some of the sectors of a write, as a disk that loses power in the middle leaves them."""
    if step.kind != "write":
        yield step
        return
    end = step.offset + len(step.data)
    edges = [step.offset, *range((step.offset // SECTOR + 1) * SECTOR, end, SECTOR), end]
    is_prefix, stop = dice.random() < 0.5, dice.randrange(len(edges))
    for number, (first, last) in enumerate(itertools.pairwise(edges)):
        if number < stop if is_prefix else dice.random() < 0.5:
            yield step._replace(offset=first, data=step.data[first - step.offset : last - step.offset])


def flip_bit(files: dict[str, bytes], dice: random.Random) -> str:
    """Changes one bit of one file, not of the mark; returns which."""
    name = dice.choice(sorted(name for name, content in files.items() if content and name != "-revision"))
    content = bytearray(files[name])
    place = dice.randrange(len(content))
    content[place] ^= 1 << dice.randrange(8)
    files[name] = bytes(content)
    return f"{name or 'the file'} at {place}"


def _survivors(steps: list[Step], crash: Crash, dice: random.Random) -> Iterator[Step]:
    match crash:
        case "nothing":
            return
        case "everything":
            yield from steps
        case "prefix":
            count = dice.randrange(len(steps))
            yield from steps[:count]
            yield from torn(steps[count], dice)
        case "subset":
            for step in steps:
                fate = dice.random()
                if fate < 0.4:
                    yield step
                elif fate < 0.6:
                    yield from torn(step, dice)


def _apply(content: bytearray, step: Step) -> None:
    if step.kind == "truncate":
        del content[step.offset :]
        content.extend(bytes(step.offset - len(content)))
        return
    content.extend(bytes(max(0, step.offset - len(content))))
    content[step.offset : step.offset + len(step.data)] = step.data


class _RecordingVfs(apsw.VFS):
    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        super().__init__(disk.vfs_name, base="")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        if name is None:
            return super().xOpen(name, flags)
        filename = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        return _RecordingFile(self._disk, name, filename, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self._disk.add("synced delete" if syncdir else "delete", filename)

    def excepthook(self, etype: Any, evalue: Any, etraceback: Any) -> bool:
        """Injected errors that SQLite does not pass on, as while rolling back: they are expected."""
        return True


class _RecordingFile(apsw.VFSFile):
    def __init__(self, disk: SimulatedDisk, name: Any, filename: str, flags: list[int]) -> None:
        self._disk = disk
        self._filename = filename
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        fault = self._fault("write")
        if fault == "short":
            data = bytes(data[: len(data) // 2])
        if fault is None or fault == "short":
            self._disk.add("write", self._filename, offset, bytes(data))
            super().xWrite(data, offset)
        _raise(fault, apsw.SQLITE_IOERR_WRITE)

    def xTruncate(self, newsize: int) -> None:
        fault = self._fault("truncate")
        if fault is None:
            self._disk.add("truncate", self._filename, newsize)
            super().xTruncate(newsize)
        _raise(fault, apsw.SQLITE_IOERR_TRUNCATE)

    def xSync(self, flags: int) -> None:
        fault = self._fault("sync")
        if fault is None:  # the simulated disk is what counts, and syncing the real one would take long
            self._disk.add("sync", self._filename)
        elif fault != "lost":
            self._disk.add("failed sync", self._filename)
            _raise("error", apsw.SQLITE_IOERR_FSYNC)

    def excepthook(self, etype: Any, evalue: Any, etraceback: Any) -> bool:
        """As that of the VFS."""
        return True

    def _fault(self, operation: str) -> Fault | None:
        return self._disk.faults(operation, self._disk.suffix(self._filename))


def _raise(fault: Fault | None, code: int) -> None:
    if fault is None or fault == "lost":
        return
    error: Any = apsw.FullError("no space left") if fault == "full" else apsw.IOError("disk I/O error")
    error.extendedresult = apsw.SQLITE_FULL if fault == "full" else code
    raise error
