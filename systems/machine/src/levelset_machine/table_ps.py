"""Reads the table of processes where there is no `/proc`, from what `ps` prints: as well as that can be done.

Starts are only known to the second, sessions are taken to be process groups, and environments are not shown at all.
"""

import os
from typing import Final

from levelset_machine.entries import Entry

__all__ = ["parse_ps", "read_ps"]

_COLUMNS: Final = "pid=,ppid=,pgid=,stat=,lstart="
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def read_ps(pid: int | None = None) -> list[Entry]:
    """All processes, or the one with this number; waits for `ps` to end."""
    which = ["-A"] if pid is None else ["-p", str(pid)]
    ours, theirs = os.pipe()
    try:
        child = os.posix_spawn(
            "/bin/ps",
            ["ps", *which, "-o", _COLUMNS],
            {"LC_ALL": "C", "TZ": "UTC0"},
            file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 1)],
        )
    except OSError:  # not even that is there: nothing is known of anybody
        os.close(ours)
        return []
    finally:
        os.close(theirs)
    with open(ours, "rb") as printed:  # noqa: PTH123  (a descriptor has no path)
        text = printed.read()
    os.waitpid(child, 0)
    return [entry for entry in parse_ps(text.decode(errors="replace")) if entry.pid != child]


def parse_ps(text: str) -> list[Entry]:
    """The processes that `ps` has printed; a line that is none is passed over."""
    return [entry for line in text.splitlines() if (entry := _parse_line(line.split())) is not None]


def _parse_line(words: list[str]) -> Entry | None:
    try:
        pid, parent, group, state, _, month, day, clock, year = words
        hour, minute, second = clock.split(":")
        days = (int(year) * 12 + _MONTHS.index(month)) * 31 + int(day)
        started = ((days * 24 + int(hour)) * 60 + int(minute)) * 60 + int(second)
        return Entry(int(pid), started, int(parent), int(group), state[:1])
    except ValueError:
        return None
