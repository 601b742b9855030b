"""Where the bytes of a log are: in a file that only its owner may read, or in memory."""

import asyncio
import hashlib
import logging
import os
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

__all__ = ["Bytes", "FileBytes", "MemoryBytes", "open_bytes", "remove_files"]

_LONGEST_NAME: Final = 200
_KEPT: Final = ".log"
_RAW: Final = ".raw"
_log: Final = logging.getLogger(__name__)


class Bytes(Protocol):
    """The bytes of one log, which only ever grow."""

    is_raw: bool
    """Whether they are a program's own output, and not lines with number and time."""

    def size(self) -> int:
        """How many there are."""
        ...

    def peek(self, offset: int, size: int) -> bytes:
        """Some of them, at once; for the few that are needed to begin with."""
        ...

    async def read(self, offset: int, size: int) -> bytes:
        """Some of them."""
        ...

    def append(self, data: bytes) -> None:
        """Adds some."""
        ...

    def another(self) -> "Bytes":
        """The same bytes for a reader, who has them until he closes this, even if the log is removed."""
        ...

    def close(self) -> None:
        """Gives up what is needed to get at them."""
        ...


class MemoryBytes:
    """A log in memory: for tests, and for whoever needs no file."""

    def __init__(self) -> None:
        self.is_raw = False
        self._data = bytearray()

    def size(self) -> int:
        """How many bytes there are."""
        return len(self._data)

    def peek(self, offset: int, size: int) -> bytes:
        """Some of them."""
        return bytes(self._data[offset : offset + size])

    async def read(self, offset: int, size: int) -> bytes:
        """Some of them."""
        return self.peek(offset, size)

    def append(self, data: bytes) -> None:
        """Adds some."""
        self._data += data

    def another(self) -> "MemoryBytes":
        """Itself: memory is there for as long as somebody looks at it."""
        return self

    def close(self) -> None:
        """Nothing is held."""


class FileBytes:
    """A log in a file; `path` says where it was when it was opened."""

    def __init__(self, descriptor: int, path: Path, *, is_raw: bool) -> None:
        self.descriptor = descriptor
        self.path = path
        self.is_raw = is_raw

    def size(self) -> int:
        """How many bytes there are."""
        return os.fstat(self.descriptor).st_size

    def peek(self, offset: int, size: int) -> bytes:
        """Some of them."""
        return os.pread(self.descriptor, size, offset)

    async def read(self, offset: int, size: int) -> bytes:
        """Some of them; a disk may make us wait."""
        return await asyncio.to_thread(os.pread, self.descriptor, size, offset)

    def append(self, data: bytes) -> None:
        """Adds some, without waiting for the disk: they are safe if this program dies, not if the machine does.

        A full disk loses them, and a warning says so: a program must not stand still because of its log.
        """
        before = self.size()
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self.descriptor, rest) :]
        except OSError as error:
            # No half a line stays behind, which the next one would be glued to.
            os.ftruncate(self.descriptor, before)
            _log.warning("lines of a log were lost", extra={"path": str(self.path), "error": str(error)})

    def another(self) -> "FileBytes":
        """The same file, which stays readable after its name is gone."""
        return FileBytes(os.dup(self.descriptor), self.path, is_raw=self.is_raw)

    def make_raw(self) -> None:
        """Says, by the file's name, that a program writes here by itself."""
        self.path = self.path.rename(self.path.with_suffix(_RAW))
        self.is_raw = True

    def close(self) -> None:
        """Closes the file."""
        os.close(self.descriptor)


def open_bytes(folder: Path, key: str, *, make: bool) -> FileBytes | None:
    """The file of a log; None if there is none and none is to be made."""
    stem = _file_name(key)
    for suffix in (_RAW, _KEPT):
        path = folder / (stem + suffix)
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if make and suffix == _KEPT else 0)
        try:
            return FileBytes(os.open(path, flags, 0o600), path, is_raw=suffix == _RAW)
        except FileNotFoundError:
            continue
    return None


def remove_files(folder: Path, key: str) -> None:
    """Removes the file of a log; who reads it may read on."""
    for suffix in (_RAW, _KEPT):
        (folder / (_file_name(key) + suffix)).unlink(missing_ok=True)


def _file_name(key: str) -> str:
    name = quote(key, safe="", errors="surrogatepass")
    return name if len(name) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()
