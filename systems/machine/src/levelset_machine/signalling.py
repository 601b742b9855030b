"""Sends a signal to one process and never to a later one with the same number.

Only the standard library's smallest parts are used here, because the guard process loads this file too.
"""

import os
import signal as signals

from levelset_machine.table import read_entry

__all__ = ["open_process", "send_signal"]


def send_signal(pid: int, started: int, signal: int) -> bool:
    """Whether the signal was sent; not so if the process is gone, or is somebody else's."""
    try:
        handle = open_process(pid)
    except ProcessLookupError:
        return False
    # The number cannot change hands any more, as far as the handle is concerned: now look who has it.
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
    """A descriptor that stands for the process that has this number now; None where the system has no such thing.

    Raises ProcessLookupError if there is no such process.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:  # an old kernel, a sandbox that forbids it, or no descriptor left: there are other ways
        return None
