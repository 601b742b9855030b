"""The process table of the machine: reads it, finds the processes of a run in it, and signals one of them.

On Linux the table is `/proc`; elsewhere it is what `ps` prints, where start times are only known to the second,
sessions are taken to be process groups, and environments are not shown.

The guard process loads this file, so it imports only small modules of the standard library.
"""

import os
import signal as signals
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from levelset_machine.process.marker import MARKER, read_limit_marker

__all__ = [
    "Entry",
    "alive_keys",
    "open_process",
    "parse_ps",
    "process_name",
    "read_entry",
    "read_ps",
    "read_table",
    "run_members",
    "send_signal",
]

_HAS_PROC: Final = sys.platform.startswith("linux")
_GONE: Final = (FileNotFoundError, ProcessLookupError, PermissionError)
_PS_COLUMNS: Final = "pid=,ppid=,pgid=,stat=,lstart="
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Entry(NamedTuple):
    """One process of the table."""

    pid: int
    started: int
    """In clock ticks since boot."""
    parent: int
    session: int
    state: str
    """One letter: `R` running, `S` sleeping, `Z` a zombie."""
    marker: str = ""
    """The marker of its run, from its resource limit or its initial environment; empty if neither has one."""

    @property
    def is_alive(self) -> bool:
        """Whether it has not exited; a zombie has."""
        return self.state not in "ZXx"


def read_table(*, markers: bool = False) -> list[Entry]:
    """All processes of the machine; with `markers`, those of their runs are read too."""
    if not _HAS_PROC:
        return read_ps()
    found = (read_entry(int(name), marker=markers) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
    return [entry for entry in found if entry is not None]


def read_entry(pid: int, *, marker: bool = False) -> Entry | None:
    """The process with this pid; None if there is none."""
    if not _HAS_PROC:
        return next(iter(read_ps(pid)), None)
    try:
        text = _read(f"/proc/{pid}/stat")
    except _GONE:
        return None
    # The program's name is in parentheses, and may itself contain parentheses and spaces.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return Entry(
        pid=pid,
        started=int(fields[19]),
        parent=int(fields[1]),
        session=int(fields[3]),
        state=fields[0].decode(),
        marker=(read_limit_marker(pid) or _read_marker(pid)) if marker else "",
    )


def process_name(pid: int) -> str:
    """The name of the program that a process executes; empty if it is gone or the system does not tell."""
    try:
        return _read(f"/proc/{pid}/comm").decode(errors="replace").strip() if _HAS_PROC else ""
    except _GONE:
        return ""


def read_ps(pid: int | None = None) -> list[Entry]:
    """All processes, or the one with this pid, as `ps` prints them; blocks until `ps` has exited."""
    which = ["-A"] if pid is None else ["-p", str(pid)]
    ours, theirs = os.pipe()
    try:
        child = os.posix_spawn(
            "/bin/ps",
            ["ps", *which, "-o", _PS_COLUMNS],
            {"LC_ALL": "C", "TZ": "UTC0"},
            file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 1)],
        )
    except OSError:  # no /bin/ps on this machine: no process is known
        os.close(ours)
        return []
    finally:
        os.close(theirs)
    with open(ours, "rb") as printed:  # noqa: PTH123  (a descriptor has no path)
        text = printed.read()
    os.waitpid(child, 0)
    return [entry for entry in parse_ps(text.decode(errors="replace")) if entry.pid != child]


def parse_ps(text: str) -> list[Entry]:
    """The processes in the output of `ps`; malformed lines are skipped."""
    return [entry for line in text.splitlines() if (entry := _parse_ps_line(line.split())) is not None]


def run_members(
    table: Sequence[Entry], roots: Mapping[int, int], is_marked: Callable[[str], bool] | None = None
) -> list[Entry]:
    """The processes that belong to the runs with these root processes, given as pid and start time.

    These are the roots, the members of the sessions that they lead, the processes whose marker matches, and all
    descendants of these. A pid that was reused has another start time: neither it nor the session it leads is included.
    """
    live_roots = {entry.pid for entry in table if roots.get(entry.pid) == entry.started}
    found = {
        entry.pid: entry
        for entry in table
        if entry.pid in live_roots
        or entry.session in live_roots
        or (is_marked is not None and entry.marker != "" and is_marked(entry.marker))
    }
    return list(_with_descendants(table, found).values())


def alive_keys(entries: Iterable[Entry]) -> set[tuple[int, int]]:
    """Pid and start time of each process that has not exited."""
    return {(entry.pid, entry.started) for entry in entries if entry.is_alive}


def send_signal(pid: int, started: int, signal: int) -> bool:
    """Sends a signal to the process with this pid and start time, never to a later one that reuses the pid.

    Returns whether it was sent: not if the process has exited, or belongs to another user.
    """
    try:
        handle = open_process(pid)
    except ProcessLookupError:
        return False
    # Read after the handle was opened: the handle refers to this process even if the pid is reused from here on.
    entry = read_entry(pid)
    try:
        if entry is None or entry.started != started or not entry.is_alive:
            return False
        if handle is None:
            os.kill(pid, signal)
        else:
            signals.pidfd_send_signal(handle, signal)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def open_process(pid: int) -> int | None:
    """A pidfd of the process that has this pid now; None where the system has no pidfds.

    Raises ProcessLookupError if there is no such process.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:  # an old kernel, a sandbox that forbids it, or no free descriptor: callers poll instead
        return None


def _read_marker(pid: int) -> str:
    try:
        environment = b"\0" + _read(f"/proc/{pid}/environ")
    except OSError:  # exited, or another user's, which we may not signal either
        return ""
    _, found, rest = environment.partition(f"\0{MARKER}=".encode())
    return rest.partition(b"\0")[0].decode(errors="replace") if found else ""


def _read(path: str) -> bytes:
    # Files of /proc are generated by the kernel when read: this never waits for a disk.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        parts = list[bytes]()
        while part := os.read(descriptor, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _parse_ps_line(words: list[str]) -> Entry | None:
    try:
        pid, parent, group, state, _, month, day, clock, year = words
        hour, minute, second = clock.split(":")
        days = (int(year) * 12 + _MONTHS.index(month)) * 31 + int(day)
        started = ((days * 24 + int(hour)) * 60 + int(minute)) * 60 + int(second)
        return Entry(int(pid), started, int(parent), int(group), state[:1])
    except ValueError:
        return None


def _with_descendants(table: Sequence[Entry], found: dict[int, Entry]) -> dict[int, Entry]:
    children = dict[int, list[Entry]]()
    for entry in table:
        children.setdefault(entry.parent, []).append(entry)
    new = list(found)
    while new:
        for child in children.get(new.pop(), ()):
            if child.pid not in found:
                found[child.pid] = child
                new.append(child.pid)
    return found
