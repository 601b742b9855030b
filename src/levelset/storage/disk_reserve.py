"""Disk space that is set aside, so that objects can still be deleted when the disk is full.

A deletion writes, too: it appends to the log, and the log can be emptied only if the file may grow by as much. etcd
accepts deletions under its NOSPACE alarm for the same reason.
"""

import errno
import os
from pathlib import Path
from typing import Final

__all__ = ["DiskReserve", "disk_problem"]

_MIN_FREE_BYTES: Final = 64 * 1024
_WITHOUT_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class DiskReserve:
    """A file that holds disk space, beside the data file; `release` gives the space to the writes that free some."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def take(self, size: int) -> bool:
        """Sets so many bytes aside; False if the disk does not have them, and the reserve is what it was before."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            file = os.open(self._path, flags, 0o600)
        except OSError:
            return False
        try:
            return _fill(file, size)
        finally:
            os.close(file)

    def release(self) -> None:
        """Gives the space back to the file system."""
        try:
            os.truncate(self._path, 0)
        except OSError:
            return

    def remove(self) -> None:
        """Removes the file."""
        self._path.unlink(missing_ok=True)


def _fill(file: int, size: int) -> bool:
    before = os.fstat(file).st_size
    if size <= before:
        return True
    try:
        _allocate(file, size)
    except OSError as error:
        os.ftruncate(file, before)
        # A file system that cannot allocate in advance has no reserve; that is no lack of space.
        return error.errno not in _WITHOUT_SPACE
    return True


def _allocate(file: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    for start in range(0, size, 1024 * 1024):  # macOS
        os.pwrite(file, bytes(min(1024 * 1024, size - start)), start)


def disk_problem(path: Path) -> str | None:
    """Why nothing can be written beside this file: the disk is full, or read-only; None if it can."""
    try:
        found = os.statvfs(path.absolute().parent)
    except OSError as error:
        return f"the directory of {path} cannot be read: {error.strerror or error}"
    if found.f_flag & os.ST_RDONLY:
        return f"{path} is on a read-only file system"
    if found.f_blocks and found.f_bavail * found.f_frsize < _MIN_FREE_BYTES:
        return f"the disk of {path} is full"
    return None
