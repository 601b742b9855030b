"""The processor time of sessions: of all their processes, and of those that these have waited for.

Only Linux tells it without a program; elsewhere there is none.
"""

import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

__all__ = ["read_cpu_seconds"]

_SESSION, _TIMES = 3, slice(11, 15)
_TICKS: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def read_cpu_seconds(sessions: Collection[int], table: Path = Path("/proc")) -> dict[int, float]:
    """The seconds by session, of those that have a process; reads the whole table, so call it in a thread."""
    found: dict[int, float] = {}
    if not sys.platform.startswith("linux") or not sessions:
        return found
    for place in table.iterdir():
        if not place.name.isdigit():
            continue
        try:
            text = (place / "stat").read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        fields = text[text.rfind(b")") + 2 :].split()  # the name before may contain anything
        if len(fields) < 20 or int(fields[_SESSION]) not in sessions:
            continue
        session = int(fields[_SESSION])
        found[session] = found.get(session, 0.0) + sum(map(int, fields[_TIMES])) / _TICKS
    return found
