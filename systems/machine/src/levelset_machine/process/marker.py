"""The marker of a run, which all its processes carry: in their environment, and in a resource limit on Linux.

A process can clear its environment, fork twice and leave its session; then neither its parent, nor its session, nor its
variables say which run it belongs to. Resource limits are inherited by fork and preserved by exec, and the one for file
locks has had no effect since Linux 2.4.25: its soft value carries the marker as a number. See decision 0033.

The guard process loads this file, so it imports only small modules of the standard library.
"""

import contextlib
import resource
import secrets
import sys
from collections.abc import Generator
from typing import Final

__all__ = ["MARKER", "inherited_marker", "limit_of_marker", "new_token", "read_limit_marker", "run_marker"]

MARKER: Final = "LEVELSET_RUN"
"""The environment variable that names the run of a process; descendants inherit it, also in other sessions."""

_HAS_PRLIMIT: Final = sys.platform.startswith("linux") and hasattr(resource, "prlimit")
_RLIMIT_LOCKS: Final = 10
"""A constant of Linux for which the standard library has no name."""
_TOKEN_BYTES: Final = 5
_COUNT_BITS: Final = 22


def new_token() -> str:
    """A random name for a machine: the first part of the markers of its runs."""
    return secrets.token_hex(_TOKEN_BYTES)


def run_marker(token: str, count: int) -> str:
    """The marker of a machine's n-th run."""
    return f"{token}.{count}"


def limit_of_marker(marker: str) -> int | None:
    """The marker as the value of a resource limit; None if it is none of `run_marker`, or its count is too large."""
    token, _, count = marker.partition(".")
    try:
        number, low = int(token, 16), int(count)
    except ValueError:
        return None
    if len(token) != 2 * _TOKEN_BYTES or not 0 < low < 1 << _COUNT_BITS:
        return None
    return number << _COUNT_BITS | low


def read_limit_marker(pid: int) -> str:
    """The marker in the resource limit of a process; empty if it has none, or belongs to another user."""
    if not _HAS_PRLIMIT:
        return ""
    try:
        soft, _ = resource.prlimit(pid, _RLIMIT_LOCKS)
    except OSError:  # exited, or another user's, which we may not signal either
        return ""
    if soft < 1 << _COUNT_BITS:  # also RLIM_INFINITY, which is -1
        return ""
    return run_marker(f"{soft >> _COUNT_BITS:0{2 * _TOKEN_BYTES}x}", soft & ((1 << _COUNT_BITS) - 1))


@contextlib.contextmanager
def inherited_marker(marker: str) -> Generator[None, None, None]:
    """Processes that are started in the block have the marker in their resource limit, from their first instruction on.

    It sets the limit of this process, so a process that another thread starts meanwhile gets it too: a machine excludes
    its own children that it has not started as a part of the run.
    """
    value = limit_of_marker(marker)
    if value is None or not _HAS_PRLIMIT:
        yield
        return
    before, hard = resource.getrlimit(_RLIMIT_LOCKS)
    try:
        resource.setrlimit(_RLIMIT_LOCKS, (value, hard))
    except (OSError, ValueError):  # a hard limit below it: the environment variable has to do
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(_RLIMIT_LOCKS, (before, hard))
