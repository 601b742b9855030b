"""A log in one file to which a persistent program writes directly, also when this program has exited.

The program holds the file open, so it can neither be renamed nor truncated without losing what is written meanwhile. A
rotation punches a hole instead: the file system frees the blocks of the oldest lines, while all offsets, and what the
program appends, stay as they are. The file `web.raw.start` says where the rest begins: its offset, the number of lines
before it, and the inode of the file that is meant.
"""

import asyncio
import ctypes
import logging
import os
from pathlib import Path
from typing import Final

from levelset_machine.logs.content import LogRotation
from levelset_machine.logs.file_content import SUFFIX, unlink

__all__ = ["RAW_SUFFIX", "RawContent", "open_raw", "remove_raw"]

RAW_SUFFIX: Final = ".raw"
"""The suffix of the file of such a log."""
_START: Final = ".start"
_BLOCK: Final = 1 << 20
_KEEP_SIZE: Final = 1
_PUNCH_HOLE: Final = 2
_log: Final = logging.getLogger(__name__)


def open_raw(stem: str, rotation: LogRotation) -> "RawContent | None":
    """Opens the file of a log that programs write directly; None if there is none."""
    path = stem + RAW_SUFFIX
    try:
        return RawContent(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC), path, rotation)
    except FileNotFoundError:
        return None


def remove_raw(stem: str) -> bool:
    """Removes the files of a log; open readers can continue. Returns whether there was one."""
    if not unlink(stem + RAW_SUFFIX):
        return False
    unlink(stem + RAW_SUFFIX + _START)
    return True


class _Start:
    """Where the rest of a log begins; shared by its writer and its readers."""

    def __init__(self, path: str, inode: int) -> None:
        self.path = path
        self.inode = inode
        self.offset, self.lines = _read_start(path + _START, inode)
        self.can_punch = True

    def save(self, offset: int, lines: int) -> None:
        """Stores the offset and the number of lines before it, and has all readers use it."""
        path = self.path + _START
        new = Path(f"{path}.new")
        new.write_text(f"{offset} {lines} {self.inode}\n", encoding="ascii")
        new.replace(path)
        if _inode(self.path) != self.inode:  # the log was removed meanwhile
            unlink(path)
        self.lines, self.offset = lines, offset

    def restore(self, offset: int, lines: int) -> None:
        """Undoes `save`, if nothing was dropped."""
        self.lines, self.offset = lines, offset
        unlink(self.path + _START)


class RawContent:
    """The unprocessed output of a program in a file; used by its writer, and by each reader a copy."""

    is_raw = True

    def __init__(self, descriptor: int, path: str, rotation: LogRotation, start: _Start | None = None) -> None:
        self.descriptor = descriptor
        self.path = path
        self._rotation = rotation
        self._start = start or _Start(path, os.fstat(descriptor).st_ino)

    @classmethod
    def made_of(cls, descriptor: int, path: str, rotation: LogRotation) -> "RawContent":
        """Renames an empty file, so that its suffix says that a program writes to it directly."""
        raw = path.removesuffix(SUFFIX) + RAW_SUFFIX
        os.rename(path, raw)  # noqa: PTH104  (text)
        return cls(descriptor, raw, rotation)

    @property
    def start(self) -> int:
        """The offset of the first byte that was not dropped."""
        return self._start.offset

    @property
    def lines_before(self) -> int:
        """The number of lines before `start`."""
        return self._start.lines

    def size(self) -> int:
        """The offset after the last byte."""
        return os.fstat(self.descriptor).st_size

    def peek(self, offset: int, size: int) -> bytes:
        """Reads synchronously."""
        data = os.pread(self.descriptor, size, offset)
        # Read before this was checked: `trim` moves the start first, and then punches the hole, which reads as zeros.
        return data if offset >= self._start.offset else b""

    async def read(self, offset: int, size: int) -> bytes:
        """Reads up to `size` bytes at `offset`, in a thread: a disk may block."""
        return await asyncio.to_thread(self.peek, offset, size)

    def append(self, data: bytes) -> None:
        """Appends bytes, as the program itself does."""
        try:
            os.write(self.descriptor, data)
        except OSError as error:
            _log.warning("log lines were lost", extra={"path": self.path, "error": str(error)})

    def reopen(self) -> "RawContent":
        """The same file, which stays readable after it was unlinked."""
        return RawContent(os.dup(self.descriptor), self.path, self._rotation, self._start)

    def remove(self) -> None:
        """Does nothing: the file has its content under any name."""

    def close(self) -> None:
        """Closes the file."""
        os.close(self.descriptor)

    @property
    def is_full(self) -> bool:
        """Whether `trim` has something to drop."""
        return self._start.can_punch and self.size() - self._start.offset > self._rotation.total

    def trim(self) -> None:
        """Drops the oldest lines if the log is too large. Blocks, and may run in a thread beside readers."""
        if not self.is_full:
            return
        old = self._start.offset, self._start.lines
        end = self._line_start(self.size() - self._rotation.total + self._rotation.size)
        try:
            self._start.save(end, old[1] + self._count_lines(old[0], end))
            _punch(self.descriptor, end)
        except OSError as error:
            self._start.can_punch = False
            self._start.restore(*old)
            _log.warning(
                "the log of a persistent program cannot be rotated on this file system, and grows without bound",
                extra={"path": self.path, "error": str(error)},
            )

    def _line_start(self, offset: int) -> int:
        """The first offset from this one on at which a line begins; this one if there is none near."""
        found = os.pread(self.descriptor, _BLOCK, offset - 1).find(b"\n")
        return offset + found if found >= 0 else offset

    def _count_lines(self, begin: int, end: int) -> int:
        return sum(
            os.pread(self.descriptor, min(_BLOCK, end - offset), offset).count(b"\n")
            for offset in range(begin, end, _BLOCK)
        )


def _read_start(path: str, inode: int) -> tuple[int, int]:
    try:
        offset, lines, meant = (int(word) for word in Path(path).read_text(encoding="ascii").split())
    except (FileNotFoundError, ValueError):
        return 0, 0
    return (offset, lines) if meant == inode else (0, 0)


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino  # noqa: PTH116  (text)
    except FileNotFoundError:
        return None


def _punch(descriptor: int, size: int) -> None:
    """Frees the blocks of the first bytes of a file; raises OSError where that is not supported."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "fallocate64"):
        raise OSError("the operating system cannot punch holes into files")
    call = libc.fallocate64
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if call(descriptor, _KEEP_SIZE | _PUNCH_HOLE, 0, size) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
