"""A log in files that only the owner can read: the current one, and those that were full before it.

The current file of the log `web` is `web.log`, the one before it `web.log.1`, then `web.log.2`, as with logrotate.
Only this program writes to them, line by line, so a rotation renames files and loses nothing.
"""

import asyncio
import hashlib
import logging
import os
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from levelset_machine.logs.content import LogRotation

# Paths are texts here: with pathlib, opening and removing a log takes a third longer.
__all__ = ["SUFFIX", "FileContent", "FileReader", "file_stem", "open_numbered", "remove_numbered", "unlink"]

_LONGEST_NAME: Final = 200
SUFFIX: Final = ".log"
"""The suffix of the current file."""
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
_log: Final = logging.getLogger(__name__)


@lru_cache(maxsize=256)  # each log is named several times in a row: when it is opened, found, read and removed
def file_stem(folder: str, key: str) -> str:
    """The path of the files of a log without their suffix, for any text as its key."""
    name = quote(key, safe="", errors="surrogatepass")
    return f"{folder}/{name if len(name) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()}"


def open_numbered(stem: str, rotation: LogRotation, *, create: bool) -> "FileContent | None":
    """Opens the files of a log; None if there are none and `create` is False."""
    path = stem + SUFFIX
    try:
        return FileContent(os.open(path, _FLAGS | (os.O_CREAT if create else 0), 0o600), _Files(path), rotation)
    except FileNotFoundError:
        return None


def remove_numbered(stem: str) -> None:
    """Removes all files of a log; open readers can continue."""
    number = 0
    while unlink(_numbered(stem + SUFFIX, number)):
        number += 1


class _Files:
    """Which files a log has, and which offsets are in them; shared by its writer and its readers."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_removed = False
        self.start = 0
        self.lengths = _lengths(path)
        """Of the full files, the oldest first."""

    @property
    def current(self) -> int:
        """The offset at which the current file begins."""
        return self.start + sum(self.lengths)

    def find(self, offset: int) -> tuple[int, str] | None:
        """The file with this offset, and the offset at which it begins; None if it was dropped."""
        begin = self.start
        if offset < begin or self.is_removed:
            return None
        for position, length in enumerate(self.lengths):
            if offset < begin + length:
                return begin, _numbered(self.path, len(self.lengths) - position)
            begin += length
        return begin, self.path

    def rotate(self, size: int, *, keep: int) -> int:
        """Renames the current file, which has this size, and drops the oldest; returns the descriptor of a new one."""
        new = f"{self.path}.new"
        # Opened first: where that fails, on a full disk, nothing has changed.
        descriptor = os.open(new, _FLAGS | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            while self.lengths and len(self.lengths) >= keep:
                unlink(_numbered(self.path, len(self.lengths)))
                self.start += self.lengths.pop(0)
            for number in range(len(self.lengths) if keep else -1, -1, -1):
                os.rename(_numbered(self.path, number), _numbered(self.path, number + 1))  # noqa: PTH104  (text)
            os.rename(new, self.path)  # noqa: PTH104  (text)
        except BaseException:
            os.close(descriptor)
            raise
        if keep:
            self.lengths.append(size)
        else:
            self.start += size
        return descriptor


class FileContent:
    """A log of numbered lines in files; `descriptor` is that of the current one."""

    is_raw = False
    lines_before = 0

    def __init__(self, descriptor: int, files: _Files, rotation: LogRotation) -> None:
        self.descriptor = descriptor
        self._files = files
        self._rotation = rotation
        self._size = os.fstat(descriptor).st_size

    @property
    def path(self) -> str:
        """The current file."""
        return self._files.path

    @property
    def start(self) -> int:
        """The offset of the first byte that was not dropped."""
        return self._files.start

    def size(self) -> int:
        """The offset after the last byte."""
        return self._files.current + self._size

    def peek(self, offset: int, size: int) -> bytes:
        """Reads synchronously, also across files."""
        begin = self._files.current
        if offset >= begin:
            return os.pread(self.descriptor, size, offset - begin)
        reader, data = self.reopen(), b""
        try:
            while len(data) < size and (more := reader.peek(offset + len(data), size - len(data))):
                data += more
        finally:
            reader.close()
        return data

    async def read(self, offset: int, size: int) -> bytes:
        """Reads up to `size` bytes at `offset`."""
        return await asyncio.to_thread(self.peek, offset, size)

    def append(self, data: bytes) -> None:
        """Appends bytes without fsync: they survive a crash of this program, not of the machine.

        A full disk loses them with a warning, because a program must not block on its log.
        """
        while (space := self._rotation.size - self._size) < len(data):
            fitting = max(data.rfind(b"\n", 0, max(space, 0)) + 1, int(data.startswith(b"\n")))
            if fitting == 0 and self._size == 0:  # a line that is longer than a file
                fitting = data.find(b"\n") + 1 or len(data)
            self._write(data[:fitting])
            data = data[fitting:]
            if not data or self._files.is_removed:  # the rest of a removed log is lost: it would grow without bound
                return
            if not self._rotate():
                break
        self._write(data)

    def reopen(self) -> "FileReader":
        """The same files for a reader, which stay readable after they were dropped or removed."""
        return FileReader(self._files, self)

    def remove(self) -> None:
        """The files were unlinked; from now on a file of this name belongs to another log."""
        self._files.is_removed = True

    def close(self) -> None:
        """Closes the current file."""
        os.close(self.descriptor)

    def _rotate(self) -> bool:
        """Begins a new file; False if the rest has to go into the current one."""
        try:
            new = self._files.rotate(self._size, keep=self._rotation.files - 1)
        except OSError as error:
            _log.warning("log was not rotated", extra={"path": self.path, "error": str(error)})
            return False
        os.close(self.descriptor)
        self.descriptor, self._size = new, 0
        return True

    def _write(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):
                written += os.write(self.descriptor, data[written:])
            self._size += written
        except OSError as error:
            # Removes a half-written line, to which the next line would be appended.
            os.ftruncate(self.descriptor, self._size)
            _log.warning("log lines were lost", extra={"path": self.path, "error": str(error)})


class FileReader:
    """The files of a log for one reader: those that exist when it begins, and then each new one."""

    is_raw = False
    lines_before = 0

    def __init__(self, files: _Files, content: FileContent) -> None:
        self._files = files
        self._content = content
        self._opened = list[tuple[int, int]]()
        """Offsets at which files begin, with their descriptors, in order."""
        begin = files.start
        for position, length in enumerate(files.lengths):
            self._open(begin, _numbered(files.path, len(files.lengths) - position))
            begin += length
        self._opened.append((begin, os.dup(content.descriptor)))

    @property
    def start(self) -> int:
        """The offset of the first byte that was not dropped."""
        return self._opened[0][0] if self._opened else self._files.start

    def size(self) -> int:
        """The offset after the last byte."""
        return self._content.size()

    def peek(self, offset: int, size: int) -> bytes:
        """Reads synchronously, up to the end of the file in which the offset is."""
        found = self._find(offset)
        return b"" if found is None else os.pread(found[1], size, offset - found[0])

    async def read(self, offset: int, size: int) -> bytes:
        """Reads in a thread: a disk may block. Files before the offset are closed."""
        found = self._find(offset)
        if found is None:
            return b""
        return await asyncio.to_thread(os.pread, found[1], size, offset - found[0])

    def close(self) -> None:
        """Closes the files."""
        for _, descriptor in self._opened:
            os.close(descriptor)
        self._opened.clear()

    def _find(self, offset: int) -> tuple[int, int] | None:
        """The open file with this offset, and where it begins; opens it if it is new."""
        for begin, descriptor in reversed(self._opened):
            if begin <= offset < begin + os.fstat(descriptor).st_size:
                return begin, descriptor
        wanted = self._files.find(offset)
        if wanted is not None and wanted[0] in dict(self._opened):
            return None  # at the end of the current file
        self.close()  # the files before it were read; `start` is now the oldest that is left
        if wanted is not None:
            self._open(*wanted)
        return self._opened[-1] if self._opened else None

    def _open(self, begin: int, path: str) -> None:
        try:
            self._opened.append((begin, os.open(path, os.O_RDONLY | os.O_CLOEXEC)))
        except FileNotFoundError:  # removed in the meantime
            return


def _numbered(path: str, number: int) -> str:
    return f"{path}.{number}" if number else path


def _lengths(path: str) -> list[int]:
    """The sizes of the full files, the oldest first; reads one name more than there are."""
    found = list[int]()
    while (size := _size(_numbered(path, len(found) + 1))) is not None:
        found.append(size)
    return found[::-1]


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size  # noqa: PTH116  (text)
    except FileNotFoundError:
        return None


def unlink(path: str) -> bool:
    """Removes a file; False if there is none."""
    try:
        os.unlink(path)  # noqa: PTH108  (text)
    except FileNotFoundError:
        return False
    return True
