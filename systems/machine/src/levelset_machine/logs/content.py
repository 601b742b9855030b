"""The content of a log: its bytes at offsets that never change, of which a rotation drops the oldest; in memory here.

An offset counts from the first byte that was ever written. `start` is the offset of the first byte that is left.
"""

from typing import Final, Protocol

from msgspec import Struct

from levelset.errors import ConfigError

__all__ = ["Content", "LogRotation", "LogSource", "MemoryContent"]

_MIB: Final = 1 << 20


class LogRotation(Struct, frozen=True, kw_only=True):
    """How much of a log is retained: `files` files of up to `size` bytes, as the kubelet does by default.

    When the current file is full, it is renamed, and the oldest one is removed. A line is never split, and is in a file
    of its own if it is longer than `size`.
    """

    size: int = 10 * _MIB
    files: int = 5

    def __post_init__(self) -> None:
        if self.size < 1 or self.files < 1:
            raise ConfigError(f"log rotation: size and files must be at least 1, and are {self.size} and {self.files}")

    @property
    def total(self) -> int:
        """The most bytes of one log."""
        return self.size * self.files


class LogSource(Protocol):
    """The bytes of one log for a reader."""

    @property
    def is_raw(self) -> bool:
        """Whether they are the unprocessed output of a program, without line numbers and times."""
        ...

    @property
    def start(self) -> int:
        """The offset of the first byte that was not dropped; a line begins there."""
        ...

    @property
    def lines_before(self) -> int:
        """The number of lines before `start`; 0 unless `is_raw`, because stored lines carry their number."""
        ...

    def size(self) -> int:
        """The offset after the last byte."""
        ...

    async def read(self, offset: int, size: int) -> bytes:
        """Reads up to `size` bytes at `offset`; empty at the end, and if the bytes were dropped."""
        ...

    def close(self) -> None:
        """Releases the files, if any."""
        ...


class Content(LogSource, Protocol):
    """The bytes of one log for its writers; append-only."""

    def peek(self, offset: int, size: int) -> bytes:
        """Reads synchronously; for the few bytes that opening a log needs."""
        ...

    def append(self, data: bytes) -> None:
        """Appends bytes: whole lines, unless the last one is not finished."""
        ...

    def reopen(self) -> LogSource:
        """The same content for a reader, usable until the reader closes it, even if the log is removed."""
        ...

    def remove(self) -> None:
        """Says that the log was removed: nothing of it may appear under its name again."""
        ...


class MemoryContent:
    """A log in memory."""

    is_raw = False
    lines_before = 0

    def __init__(self, rotation: LogRotation) -> None:
        self._rotation = rotation
        self._data = bytearray()
        self._start = 0

    @property
    def start(self) -> int:
        """The offset of the first byte that was not dropped."""
        return self._start

    def size(self) -> int:
        """The offset after the last byte."""
        return self._start + len(self._data)

    def peek(self, offset: int, size: int) -> bytes:
        """Reads synchronously."""
        position = offset - self._start
        return bytes(self._data[position : position + size]) if position >= 0 else b""

    async def read(self, offset: int, size: int) -> bytes:
        """Reads up to `size` bytes at `offset`."""
        return self.peek(offset, size)

    def append(self, data: bytes) -> None:
        """Appends bytes; drops the oldest lines, as many as fit into a file, when there are too many."""
        self._data += data
        excess = len(self._data) - self._rotation.total
        if excess > 0:
            drop = max(excess, min(self._rotation.size, len(self._data) - len(data)))
            end = self._data.find(b"\n", drop - 1) + 1
            if 0 < end < len(self._data):
                del self._data[:end]
                self._start += end

    def reopen(self) -> "MemoryContent":
        """Itself: memory lives as long as it is referenced."""
        return self

    def remove(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""
