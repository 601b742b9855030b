"""What processes and the machine use: processor time and memory.

Only Linux tells it without a program; elsewhere there is nothing.
"""

import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

from msgspec import Struct

__all__ = ["MachineUsage", "SessionUsage", "read_machine_usage", "read_session_usage"]

_TABLE: Final = Path("/proc")
_SESSION, _TIMES, _START, _RESIDENT = 3, slice(11, 15), 19, 21  # after the name, in /proc/PID/stat
_IDLE: Final = slice(3, 5)
_TICKS: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class SessionUsage(Struct, frozen=True):
    """What the processes of a session use together."""

    cpu_seconds: float
    """Of all its processes, and of those that these have waited for."""
    memory: int
    """Resident bytes; what several processes share counts for each of them."""
    seconds: float
    """How long the oldest of them has been running."""


class MachineUsage(Struct, frozen=True):
    """What everything on the machine uses."""

    cpu_seconds: float
    """Since it was started."""
    memory: int
    """Bytes that are not available to a new program."""


def read_session_usage(sessions: Collection[int], table: Path = _TABLE) -> dict[int, SessionUsage]:
    """The usage by session, of those that have a process; reads the whole table, so call it in a thread."""
    if not sys.platform.startswith("linux") or not sessions:
        return {}
    uptime = float((table / "uptime").read_bytes().split()[0])
    found: dict[int, SessionUsage] = {}
    for place in table.iterdir():
        if not place.name.isdigit():
            continue
        try:
            text = (place / "stat").read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        fields = text[text.rfind(b")") + 2 :].split()  # the name before may contain anything
        if len(fields) <= _RESIDENT or int(fields[_SESSION]) not in sessions:
            continue
        session = int(fields[_SESSION])
        so_far = found.get(session, SessionUsage(0.0, 0, 0.0))
        found[session] = SessionUsage(
            so_far.cpu_seconds + sum(map(int, fields[_TIMES])) / _TICKS,
            so_far.memory + int(fields[_RESIDENT]) * _PAGE,
            max(so_far.seconds, uptime - int(fields[_START]) / _TICKS),
        )
    return found


def read_machine_usage(table: Path = _TABLE) -> MachineUsage | None:
    """The usage of the machine; None where it cannot be read."""
    if not sys.platform.startswith("linux"):
        return None
    times = [int(one) for one in (table / "stat").read_bytes().split(b"\n", 1)[0].split()[1:9]]
    sizes = {line.split(b":")[0]: line.split() for line in (table / "meminfo").read_bytes().splitlines() if line}
    used = int(sizes[b"MemTotal"][1]) - int(sizes[b"MemAvailable"][1])
    return MachineUsage((sum(times) - sum(times[_IDLE])) / _TICKS, used * 1024)
