"""The guard's own program: when the program that it belongs to is gone, it ends all that this one has left running.

It is told over a pipe which processes there are: `+<pid> <started>` and `-<pid>`, a line each. When the pipe ends, the
other program has ended; `bye` says that it has tidied up. It loads as little as possible, so that it costs little.
"""

import os
import select
import signal as signals
import sys
import time
from typing import Final

from levelset_machine.signalling import open_process, send_signal
from levelset_machine.table import read_entry, read_table
from levelset_machine.trees import families, living

__all__ = ["Register", "end_all", "main"]

_GRACE: Final = 1.0
_PATIENCE: Final = 10.0
_PAUSE: Final = 0.02


class Register:
    """Who is to be ended, as the lines of the pipe have told."""

    def __init__(self) -> None:
        self.roots = dict[int, int]()
        """Numbers of processes, with their starts."""
        self.is_tidy = False
        """Whether the other program has said that it leaves nothing behind."""
        self._rest = b""

    def add(self, data: bytes) -> None:
        """Takes some bytes of the pipe, cut wherever."""
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


def main(words: list[str]) -> None:
    """Waits for the end of the program that started this; the words are a token, that program's number and start."""
    for signal in (signals.SIGHUP, signals.SIGINT):  # a terminal that closes is no reason to leave
        signals.signal(signal, signals.SIG_IGN)
    token, pid, started = words[0], int(words[1]), int(words[2])
    register = Register()
    _follow(register, pid, started)
    end_all(register.roots, token, rounds=1 if register.is_tidy else 3)


def _follow(register: Register, pid: int, started: int) -> None:
    """Returns when the pipe has ended, or that program has: it may have left the pipe to a copy of itself."""
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
    """Watches that program itself, too, where that is possible; if it is gone already, the pipe says so."""
    try:
        handle = open_process(pid)
    except ProcessLookupError:
        return None
    entry = read_entry(pid)
    if handle is not None and entry is not None and entry.started == started:
        poll.register(handle, select.POLLIN)
    return handle


def _read_all(register: Register) -> bool:
    """Takes what is in the pipe; whether more can come."""
    while True:
        try:
            data = os.read(0, 65536)
        except BlockingIOError:
            return True
        if not data:
            return False
        register.add(data)


def end_all(roots: dict[int, int], token: str, *, rounds: int = 3) -> None:
    """Ends these processes, all that belongs to them, and all whose marker begins with the token.

    It asks first, kills after a second, and looks again until nothing was found `rounds` times: what was just being
    born when the other program died has no marker yet.
    """
    seen = set[tuple[int, int]]()
    _ask(_find(roots, token, seen))
    began = time.monotonic()
    while _alive(seen) and time.monotonic() - began < _GRACE:
        time.sleep(_PAUSE)
    while rounds > 0 and time.monotonic() - began < _PATIENCE:
        left = _find(roots, token, seen) | _alive(seen)
        for pid, started in left:
            send_signal(pid, started, signals.SIGKILL)
        rounds -= not left
        if rounds > 0:
            time.sleep(_PAUSE)


def _ask(found: set[tuple[int, int]]) -> None:
    for pid, started in found:
        send_signal(pid, started, signals.SIGTERM)
        # What stands still would never hear it.
        send_signal(pid, started, signals.SIGCONT)


def _find(roots: dict[int, int], token: str, seen: set[tuple[int, int]]) -> set[tuple[int, int]]:
    found = living(families(read_table(markers=True), roots, lambda marker: marker.startswith(f"{token}.")))
    found = {(pid, started) for pid, started in found if pid != os.getpid()}
    seen |= found
    return found


def _alive(seen: set[tuple[int, int]]) -> set[tuple[int, int]]:
    entries = ((pid, started, read_entry(pid)) for pid, started in seen)
    return {
        (pid, started)
        for pid, started, entry in entries
        if entry is not None and entry.started == started and entry.is_alive
    }


if __name__ == "__main__":
    main(sys.argv[1:])
