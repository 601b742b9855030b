"""The content of a log: its bytes in a file that only the owner can read, or in memory."""

import asyncio
import hashlib
import logging
import os
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

__all__ = ["Content", "FileContent", "MemoryContent", "open_file", "remove_files"]

_LONGEST_NAME: Final = 200
_NUMBERED: Final = ".log"
_RAW: Final = ".raw"
_log: Final = logging.getLogger(__name__)


class Content(Protocol):
    """The bytes of one log; append-only."""

    is_raw: bool
    """Whether they are the unprocessed output of a program, without line numbers and times."""

    def size(self) -> int:
        """The number of bytes."""
        ...

    def peek(self, offset: int, size: int) -> bytes:
        """Reads synchronously; for the few bytes that opening a log needs."""
        ...

    async def read(self, offset: int, size: int) -> bytes:
        """Reads up to `size` bytes at `offset`."""
        ...

    def append(self, data: bytes) -> None:
        """Appends bytes."""
        ...

    def reopen(self) -> "Content":
        """The same content for a reader, usable until the reader closes it, even if the log is removed."""
        ...

    def close(self) -> None:
        """Releases the file, if any."""
        ...


class MemoryContent:
    """A log in memory."""

    def __init__(self) -> None:
        self.is_raw = False
        self._data = bytearray()

    def size(self) -> int:
        """The number of bytes."""
        return len(self._data)

    def peek(self, offset: int, size: int) -> bytes:
        """Reads synchronously."""
        return bytes(self._data[offset : offset + size])

    async def read(self, offset: int, size: int) -> bytes:
        """Reads up to `size` bytes at `offset`."""
        return self.peek(offset, size)

    def append(self, data: bytes) -> None:
        """Appends bytes."""
        self._data += data

    def reopen(self) -> "MemoryContent":
        """Itself: memory lives as long as it is referenced."""
        return self

    def close(self) -> None:
        """Does nothing."""


class FileContent:
    """A log in a file; `path` is where the file was when it was opened."""

    def __init__(self, descriptor: int, path: Path, *, is_raw: bool) -> None:
        self.descriptor = descriptor
        self.path = path
        self.is_raw = is_raw

    def size(self) -> int:
        """The number of bytes."""
        return os.fstat(self.descriptor).st_size

    def peek(self, offset: int, size: int) -> bytes:
        """Reads synchronously."""
        return os.pread(self.descriptor, size, offset)

    async def read(self, offset: int, size: int) -> bytes:
        """Reads up to `size` bytes at `offset`, in a thread: a disk may block."""
        return await asyncio.to_thread(os.pread, self.descriptor, size, offset)

    def append(self, data: bytes) -> None:
        """Appends bytes without fsync: they survive a crash of this program, not of the machine.

        A full disk loses them with a warning, because a program must not block on its log.
        """
        before = self.size()
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self.descriptor, rest) :]
        except OSError as error:
            # Removes a half-written line, to which the next line would be appended.
            os.ftruncate(self.descriptor, before)
            _log.warning("log lines were lost", extra={"path": str(self.path), "error": str(error)})

    def reopen(self) -> "FileContent":
        """The same file, which stays readable after it was unlinked."""
        return FileContent(os.dup(self.descriptor), self.path, is_raw=self.is_raw)

    def make_raw(self) -> None:
        """Renames the file, so that its suffix says that a program writes to it directly."""
        self.path = self.path.rename(self.path.with_suffix(_RAW))
        self.is_raw = True

    def close(self) -> None:
        """Closes the file."""
        os.close(self.descriptor)


def open_file(folder: Path, key: str, *, create: bool) -> FileContent | None:
    """Opens the file of a log; None if there is none and `create` is False."""
    stem = _file_name(key)
    for suffix in (_RAW, _NUMBERED):
        path = folder / (stem + suffix)
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create and suffix == _NUMBERED else 0)
        try:
            return FileContent(os.open(path, flags, 0o600), path, is_raw=suffix == _RAW)
        except FileNotFoundError:
            continue
    return None


def remove_files(folder: Path, key: str) -> None:
    """Removes the file of a log; open readers can continue."""
    for suffix in (_RAW, _NUMBERED):
        (folder / (_file_name(key) + suffix)).unlink(missing_ok=True)


def _file_name(key: str) -> str:
    name = quote(key, safe="", errors="surrogatepass")
    return name if len(name) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()
