"""Termination of a run and all its processes: signal, grace period, SIGKILL, until the process table shows none."""

import asyncio
import logging
import os
import signal as signals
from collections.abc import Iterable
from typing import Final, Protocol

from levelset.aio import timing
from levelset_machine.process.runner import Identity, Run, StopFailed, is_alive
from levelset_machine.process.table import Entry, alive_keys, read_table, run_members, send_signal

__all__ = ["SharedTable", "Stoppable", "ends_within", "stop_run"]

_AFTER_KILL: Final = 6.0
_KILL_TIMEOUT: Final = 9.0
"""How many seconds killing may take without progress: 15 together with the usual grace period of 6."""
_LONGEST_KILL: Final = 10
"""How many such times it may take in all, for a program that forks faster than it is killed."""
_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.1
_log: Final = logging.getLogger(__name__)


class Stoppable(Run, Protocol):
    """A run to which signals can be sent."""

    @property
    def marker(self) -> str:
        """The value of MARKER in the environment of its processes; empty if unset."""
        ...

    def send(self, signal: int) -> None:
        """Sends a signal to its process, and never to a later one with the same pid."""
        ...


class SharedTable:
    """Reads of the process table; concurrent callers share one, because a read is slow with many processes."""

    def __init__(self) -> None:
        self._requested = 0
        self._covered = 0
        self._table = list[Entry]()
        self._lock = asyncio.Lock()

    async def fresh(self) -> list[Entry]:
        """A table whose reading began after this was called."""
        self._requested += 1
        mine = self._requested
        async with self._lock:
            if self._covered < mine:
                covered = self._requested
                self._table = await asyncio.to_thread(read_table, markers=True)
                self._covered = covered
            return self._table


async def stop_run(
    run: Stoppable, tables: SharedTable, *, grace: float, signal: int, kill_timeout: float = _KILL_TIMEOUT
) -> None:
    """Returns when no process of the run is left; raises StopFailed if one survives SIGKILL for `kill_timeout`.

    The time counts from the last progress: on a busy machine it takes long to end many processes.
    """
    limit = timing.now() + grace + _LONGEST_KILL * kill_timeout
    deadline = timing.now() + grace + kill_timeout
    # Collected before the first signal: when a parent has exited, its children are no longer recognizable.
    seen, killed = set[Identity](), set[Identity]()
    if run.ended is None:
        seen = await _members(run, tables)
        await _stop_root(run, grace=grace, signal=signal, after_kill=min(kill_timeout, _AFTER_KILL))
    pause, left = _FIRST_PAUSE, set[Identity]()
    while True:
        found = await _members(run, tables)
        new, before = found - seen, left
        seen |= found
        left = {one for one in seen if is_alive(one)}
        # One that has ended since the table was read may have forked before.
        if not found and not left and run.ended is not None:
            _report(run, killed)
            return
        if new or before - left:
            deadline = min(timing.now() + kill_timeout, limit)
        if timing.now() > deadline:
            raise StopFailed(_message(run, left), tuple(sorted(left, key=lambda one: one.pid)))
        if killed and new:
            # It forks while it is killed. A killed process leaves its place to another one, a stopped one does not:
            # all are stopped first, until no new ones appear.
            _send(new, signals.SIGSTOP)
            continue
        killed |= left
        _send(left, signals.SIGKILL)
        await timing.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


async def ends_within(run: Run, seconds: float) -> bool:
    """Waits for the end of a run; False after this many seconds."""
    try:
        async with timing.within(seconds):
            await run.wait()
    except TimeoutError:
        return False
    return True


async def _stop_root(run: Stoppable, *, grace: float, signal: int, after_kill: float) -> None:
    run.send(signal)
    if not await ends_within(run, grace):
        run.send(signals.SIGKILL)
        await ends_within(run, after_kill)


def _send(identities: Iterable[Identity], signal: int) -> None:
    for one in identities:
        send_signal(one.pid, one.started, signal)


def _report(run: Run, killed: set[Identity]) -> None:
    """Logs how many processes had to be killed because the run's first process did not end them."""
    pids = sorted(one.pid for one in killed - {run.identity})
    if pids:
        _log.info("killed processes that a program left", extra={"program": run.identity.pid, "count": len(pids)})


async def _members(run: Stoppable, tables: SharedTable) -> set[Identity]:
    """The processes of the run that have not exited; never this process itself, whatever the table says."""
    mine, me = run.marker, os.getpid()
    # Our own children that are not this run: one that another thread started with it has inherited its marker. In a
    # container, where this program is process 1, the orphans of the run are our children too.
    table = [one for one in await tables.fresh() if one.parent != me or one.pid == run.identity.pid or me == 1]
    found = run_members(table, {run.identity.pid: run.identity.started}, mine.__eq__ if mine else None)
    return {Identity(pid, started) for pid, started in alive_keys(found) if pid != me}


def _message(run: Run, left: Iterable[Identity]) -> str:
    pids = ", ".join(str(one.pid) for one in sorted(left, key=lambda one: one.pid)) or str(run.identity.pid)
    return (
        f"process {run.identity.pid} was killed, but these processes are still running: {pids}; "
        "they belong to another user, or hang in the kernel: end them by hand"
    )
