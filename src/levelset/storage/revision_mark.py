"""The high-water mark of a data file: the newest committed revision, in a small file of its own beside it.

SQLite ends its log at the first frame that is not valid: a damaged byte in the log would silently take back every later
commit, and one in the structure of a table would take rows. The mark is outside of both, so that the loss is noticed,
and the revision never goes backwards.

The mark is written after each commit and before its acknowledgement, without a sync: it survives the end of the process
as the log does. After a loss of power it may be older than the log, which does not matter, or newer if the log was not
synced, either; the boot that wrote it tells such a loss from damage.
"""

import os
import struct
import zlib
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Mark", "RevisionMark", "boot_id", "read_mark"]

_SLOT: Final = struct.Struct(">8sQQQQQ36s?")
_CHECKSUM: Final = struct.Struct(">I")
_MAGIC: Final = b"lvstmark"
_SLOT_BYTES: Final = 512  # a disk writes this many bytes as a whole
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Mark(NamedTuple):
    """The newest revision that was committed to a data file, and the circumstances."""

    file_id: int
    """The number that the data file was given when it was made: the mark of another file says nothing."""
    sequence: int
    """Counts the marks of the file: the newest one counts."""
    revision: int
    items: int
    """The number of items at that revision."""
    digest: int
    """The sum of their checksums, modulo 2**64: a lost row changes it."""
    boot: str
    """The boot of the machine that wrote it."""
    is_synced: bool
    """Whether the commit was synced to the disk before."""


def boot_id() -> str:
    """The running boot of this machine; empty where the operating system does not tell."""
    try:
        return _BOOT_ID.read_text("ascii").strip()[:36]
    except OSError:
        return ""


def read_mark(path: Path) -> Mark | None:
    """The newest valid mark of a file; None if there is none, or no slot is valid."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    marks = [_decode(content[start : start + _SLOT_BYTES]) for start in (0, _SLOT_BYTES)]
    return max((mark for mark in marks if mark is not None), key=lambda mark: mark.sequence, default=None)


class RevisionMark:
    """Writes the mark of an open data file, alternately into two slots: a torn write leaves the other one."""

    __slots__ = ("_boot", "_file", "_file_id", "_is_synced", "_sequence")

    def __init__(self, path: Path, file_id: int, *, is_synced: bool) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self._file_id = file_id
        self._boot = boot_id().encode("ascii")
        self._is_synced = is_synced
        newest = read_mark(path)
        self._sequence = 0 if newest is None else newest.sequence

    def record(self, revision: int, items: int, digest: int) -> None:
        """Records a committed revision, with the number of items and the sum of their checksums; raises OSError."""
        self._sequence += 1
        content = _SLOT.pack(
            _MAGIC, self._file_id, self._sequence, revision, items, digest, self._boot, self._is_synced
        )
        place = _SLOT_BYTES * (self._sequence % 2)
        os.pwrite(self._file, content + _CHECKSUM.pack(zlib.crc32(content)), place)

    def close(self) -> None:
        """Closes the file; closing twice is allowed."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _decode(slot: bytes) -> Mark | None:
    content = slot[: _SLOT.size]
    checksum = slot[_SLOT.size : _SLOT.size + _CHECKSUM.size]
    if len(checksum) < _CHECKSUM.size or _CHECKSUM.unpack(checksum)[0] != zlib.crc32(content):
        return None
    magic, file_id, sequence, revision, items, digest, boot, is_synced = _SLOT.unpack(content)
    if magic != _MAGIC:
        return None
    return Mark(file_id, sequence, revision, items, digest, boot.rstrip(b"\0").decode("ascii", "replace"), is_synced)
