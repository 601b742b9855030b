"""Ends a run with all that belongs to it: asks, waits, kills, and looks until nothing is left."""

import asyncio
import os
import signal as signals
from collections.abc import Iterable
from typing import Final, Protocol

from levelset.aio import timing
from levelset_machine.entries import Entry
from levelset_machine.identity import Identity, is_alive
from levelset_machine.runner import Run, StopFailed
from levelset_machine.signalling import send_signal
from levelset_machine.table import read_table
from levelset_machine.trees import families, living

__all__ = ["Stoppable", "Tables", "stop_run"]

_AFTER_KILL: Final = 6.0
_AFTER_GRACE: Final = 9.0
"""How long killing may take altogether: with the usual grace of 6 seconds this makes 15."""
_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.1


class Stoppable(Run, Protocol):
    """A run to which signals can be sent."""

    @property
    def marker(self) -> str:
        """What the environment of its processes says; empty if nothing."""
        ...

    def send(self, signal: int) -> None:
        """Sends a signal to its process, and never to another one."""
        ...


class Tables:
    """Tables of all processes; those who ask at the same time share one, as it takes a while with many processes."""

    def __init__(self) -> None:
        self._asked = 0
        self._covered = 0
        self._table = list[Entry]()
        self._lock = asyncio.Lock()

    async def fresh(self) -> list[Entry]:
        """A table whose reading began after this was called."""
        self._asked += 1
        mine = self._asked
        async with self._lock:
            if self._covered < mine:
                covered = self._asked
                self._table = await asyncio.to_thread(read_table, markers=True)
                self._covered = covered
            return self._table


async def stop_run(
    run: Stoppable, tables: Tables, *, grace: float, signal: int, patience: float = _AFTER_GRACE
) -> None:
    """Returns when nothing of the run is left; raises StopFailed if something survives the killing for too long."""
    deadline = timing.now() + grace + patience
    # Seen before the first signal: when a parent is gone, its children cannot be told from others any more.
    seen = set[Identity]()
    if run.ended is None:
        seen = await _members(run, tables)
        await _stop_root(run, grace=grace, signal=signal, after_kill=min(patience, _AFTER_KILL))
    pause = _FIRST_PAUSE
    while True:
        seen |= await _members(run, tables)
        left = {one for one in seen if is_alive(one)}
        if not left and run.ended is not None:
            return
        if timing.now() > deadline:
            raise StopFailed(_words(run, left), tuple(sorted(left, key=lambda one: one.pid)))
        for one in left:
            send_signal(one.pid, one.started, signals.SIGKILL)
        await timing.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


async def _stop_root(run: Stoppable, *, grace: float, signal: int, after_kill: float) -> None:
    run.send(signal)
    if not await _ends_within(run, grace):
        run.send(signals.SIGKILL)
        await _ends_within(run, after_kill)


async def _ends_within(run: Run, seconds: float) -> bool:
    try:
        async with timing.within(seconds):
            await run.wait()
    except TimeoutError:
        return False
    return True


async def _members(run: Stoppable, tables: Tables) -> set[Identity]:
    """The living ones; never ourselves, whatever the table says."""
    mine = run.marker
    found = families(await tables.fresh(), {run.identity.pid: run.identity.started}, mine.__eq__ if mine else None)
    return {Identity(pid, started) for pid, started in living(found) if pid != os.getpid()}


def _words(run: Run, left: Iterable[Identity]) -> str:
    numbers = ", ".join(str(one.pid) for one in sorted(left, key=lambda one: one.pid)) or str(run.identity.pid)
    return (
        f"process {run.identity.pid} was killed, but this is still running: {numbers}; "
        "whoever owns it must end it (another user's process, or one that hangs in the kernel)"
    )
