"""The program of the guard process: when its manager is gone, it ends all processes that the manager left running.

The manager reports its processes over a pipe, one line each: `+<pid> <started>` and `-<pid>`. The end of the pipe means
that the manager has exited; `bye` before it, that the manager has stopped everything itself. It imports only small
modules, because every manager runs one of these.
"""

import contextlib
import os
import select
import signal as signals
import sys
import time
from collections.abc import Iterable
from typing import Final

from levelset_machine.process.table import (
    alive_keys,
    open_process,
    process_name,
    read_entry,
    read_table,
    run_members,
    send_signal,
)

__all__ = ["Ended", "Register", "end_all", "main", "names_text"]

_GRACE: Final = 1.0
_TIMEOUT: Final = 10.0
_PAUSE: Final = 0.02
_MOST_NAMES: Final = 10
Ended = dict[tuple[int, int], str]
"""Names of processes, by their pid and start time."""


class Register:
    """The processes to end, as the lines of the pipe report them."""

    def __init__(self) -> None:
        self.roots = dict[int, int]()
        """Start times by pid."""
        self.is_tidy = False
        """Whether the manager has reported that it leaves nothing behind."""
        self._rest = b""

    def add(self, data: bytes) -> None:
        """Takes bytes of the pipe, which may end inside a line."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        if line == b"bye":
            self.is_tidy = True
        elif line[:1] == b"+":
            pid, _, started = line[1:].partition(b" ")
            self.roots[int(pid)] = int(started)
        elif line[:1] == b"-":
            self.roots.pop(int(line[1:]), None)


def main(arguments: list[str]) -> None:
    """Waits for the end of the manager; the arguments are a token, the manager's pid and its start time."""
    for signal in (signals.SIGHUP, signals.SIGINT):  # closing the manager's terminal must not end the guard
        signals.signal(signal, signals.SIG_IGN)
    token, pid, started = arguments[0], int(arguments[1]), int(arguments[2])
    register = Register()
    _follow(register, pid, started)
    ended = end_all(register.roots, token, rounds=1 if register.is_tidy else 3)
    if ended:
        why = "programs of this session had left running" if register.is_tidy else "a killed session had left running"
        _report(f"levelset guard: ended {len(ended)} processes that {why}: {names_text(ended)}\n")


def names_text(ended: Ended) -> str:
    """The first processes by pid and name, for a log."""
    shown = [f"{pid} {name}".rstrip() for (pid, _), name in sorted(ended.items())[:_MOST_NAMES]]
    return ", ".join([*shown, "..."] if len(ended) > _MOST_NAMES else shown)


def end_all(roots: dict[int, int], token: str, *, rounds: int = 3) -> Ended:
    """Ends these processes, all that belongs to them, and all whose marker begins with the token; returns them.

    Sends SIGTERM first and SIGKILL after a second, and reads the table again until nothing was found `rounds` times: a
    process that was being forked when the manager died has no marker yet.
    """
    seen = Ended()
    _terminate(_find(roots, token, seen))
    began = time.monotonic()
    while _alive(seen) and time.monotonic() - began < _GRACE:
        time.sleep(_PAUSE)
    has_killed = False
    while rounds > 0 and time.monotonic() - began < _TIMEOUT:
        known = set(seen)
        left = _find(roots, token, seen) | _alive(seen)
        if has_killed and (new := seen.keys() - known):
            # They fork while they are killed: all are stopped first, as a killed one leaves its place to another.
            _send(new, signals.SIGSTOP)
            continue
        _send(left, signals.SIGKILL)
        has_killed = has_killed or bool(left)
        rounds -= not left
        if rounds > 0:
            time.sleep(_PAUSE)
    return seen


def _follow(register: Register, pid: int, started: int) -> None:
    """Returns when the pipe or the manager has ended: a forked copy of the manager may hold the pipe open."""
    os.set_blocking(0, False)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    handle = _watch(poll, pid, started)
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        if 0 in ready and not _read_all(register):
            return
        if handle in ready:
            _read_all(register)
            return


def _watch(poll: "select.poll", pid: int, started: int) -> int | None:
    """Polls the manager's pidfd too, where there are any; if it has exited already, the pipe has ended."""
    try:
        handle = open_process(pid)
    except ProcessLookupError:
        return None
    entry = read_entry(pid)
    if handle is not None and entry is not None and entry.started == started:
        poll.register(handle, select.POLLIN)
    return handle


def _read_all(register: Register) -> bool:
    """Reads what is in the pipe; returns whether it is still open."""
    while True:
        try:
            data = os.read(0, 65536)
        except BlockingIOError:
            return True
        if not data:
            return False
        register.add(data)


def _terminate(found: set[tuple[int, int]]) -> None:
    _send(found, signals.SIGTERM)
    # A stopped process does not receive SIGTERM before it is continued.
    _send(found, signals.SIGCONT)


def _send(keys: Iterable[tuple[int, int]], signal: int) -> None:
    for pid, started in keys:
        send_signal(pid, started, signal)


def _find(roots: dict[int, int], token: str, seen: Ended) -> set[tuple[int, int]]:
    found = alive_keys(run_members(read_table(markers=True), roots, lambda marker: marker.startswith(f"{token}.")))
    found = {(pid, started) for pid, started in found if pid != os.getpid()}
    for key in found - seen.keys():
        seen[key] = process_name(key[0])
    return found


def _alive(seen: Ended) -> set[tuple[int, int]]:
    entries = ((pid, started, read_entry(pid)) for pid, started in seen)
    return {
        (pid, started)
        for pid, started, entry in entries
        if entry is not None and entry.started == started and entry.is_alive
    }


def _report(text: str) -> None:
    """Writes to the stderr that the guard has from its manager, unless that would block."""
    poll = select.poll()
    poll.register(2, select.POLLOUT)
    with contextlib.suppress(OSError):  # a terminal or a pipe that was closed
        if any(event & select.POLLOUT for _, event in poll.poll(0)):
            os.write(2, text.encode(errors="replace"))


if __name__ == "__main__":
    main(sys.argv[1:])
