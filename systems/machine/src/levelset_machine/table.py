"""Reads the kernel's table of processes: who there is, whose child, in which session, since when.

Only the standard library's smallest parts are used here, because the guard process loads this file too.
"""

import os
import sys
from typing import Final

from levelset_machine.entries import MARKER, Entry
from levelset_machine.table_ps import read_ps

__all__ = ["read_entry", "read_table"]

_HAS_FILES: Final = sys.platform.startswith("linux")
_GONE: Final = (FileNotFoundError, ProcessLookupError, PermissionError)


def read_table(*, markers: bool = False) -> list[Entry]:
    """Everything that runs on this machine now; `markers` says whether environments are read, too."""
    if not _HAS_FILES:
        return read_ps()
    found = (read_entry(int(name), marker=markers) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
    return [entry for entry in found if entry is not None]


def read_entry(pid: int, *, marker: bool = False) -> Entry | None:
    """What the kernel knows of one process; None if there is none with this number."""
    if not _HAS_FILES:
        return next(iter(read_ps(pid)), None)
    try:
        text = _read(f"/proc/{pid}/stat")
    except _GONE:
        return None
    # The program's name stands in parentheses, and may itself hold parentheses and spaces.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return Entry(
        pid=pid,
        started=int(fields[19]),
        parent=int(fields[1]),
        session=int(fields[3]),
        state=fields[0].decode(),
        marker=_read_marker(pid) if marker else "",
    )


def _read_marker(pid: int) -> str:
    try:
        environment = b"\0" + _read(f"/proc/{pid}/environ")
    except OSError:  # gone, or somebody else's: then it is not ours to end either
        return ""
    _, found, rest = environment.partition(f"\0{MARKER}=".encode())
    return rest.partition(b"\0")[0].decode(errors="replace") if found else ""


def _read(path: str) -> bytes:
    # What the kernel makes up while it is read waits for no disk.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        parts = list[bytes]()
        while part := os.read(descriptor, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
