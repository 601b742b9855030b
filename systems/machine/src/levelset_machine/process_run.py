"""One process on this machine, from its birth to its end and the end of its output."""

import asyncio
import subprocess
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from levelset_machine.exits import ExitWatch
from levelset_machine.identity import Identity
from levelset_machine.pumping import Pump
from levelset_machine.runner import Ended

__all__ = ["ProcessRun", "exit_code"]

_LINGER: Final = 0.5
"""Seconds for which the children of a process that has ended may add to its log."""
_UNKNOWN: Final = 255


def exit_code(returned: int) -> int:
    """What shells say of an end: 128+N for signal N, which Python calls -N."""
    return 128 - returned if returned < 0 else returned


class ProcessRun:
    """A run of a Machine. It has no `child` if somebody else is its parent, and no `marker` if it is persistent."""

    def __init__(
        self,
        now: Callable[[], datetime],
        *,
        child: "subprocess.Popen[bytes] | None",
        marker: str,
        is_persistent: bool,
    ) -> None:
        self.marker = marker
        self.is_persistent = is_persistent
        self._now = now
        self._child = child
        self._watch: ExitWatch | None = None
        self._pumps: Sequence[Pump] = ()
        self._ended: Ended | None = None
        self._waiting = set[asyncio.Future[Ended]]()
        self._identity: Identity | None = None

    @property
    def identity(self) -> Identity:
        """Which process it is."""
        if self._identity is None:
            raise RuntimeError("this run has not begun; `begin` says which process it is")
        return self._identity

    @property
    def ended(self) -> Ended | None:
        """How it ended; None while it runs."""
        return self._ended

    async def wait(self) -> Ended:
        """Returns when it has ended and all that it wrote is in its log."""
        if self._ended is not None:
            return self._ended
        waiter: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            return await waiter
        finally:
            self._waiting.discard(waiter)

    def begin(self, watch: ExitWatch, pumps: Sequence[Pump]) -> None:
        """Its process is watched, and its output carried, from now on."""
        self._watch = watch
        self._identity = watch.identity
        self._pumps = pumps

    def send(self, signal: int) -> None:
        """Sends a signal to its process; nothing happens if it has ended."""
        if self._watch is not None:
            self._watch.send(signal)

    def finish(self) -> None:
        """Its process has ended: takes its code, and what it wrote last."""
        returned = None if self._child is None else self._child.wait()
        self._unwatch()
        for pump in self._pumps:
            pump.drain()
        if not all(pump.is_over for pump in self._pumps):
            asyncio.get_running_loop().call_later(_LINGER, self._release)
        code = _UNKNOWN if returned is None else exit_code(returned)
        self._ended = Ended(code, self._now(), is_known=returned is not None)
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(self._ended)
        self._waiting.clear()

    def leave(self) -> "subprocess.Popen[bytes] | None":
        """Stops looking after a process that goes on; gives the child that nobody collects now."""
        self._unwatch()
        for pump in self._pumps:
            pump.close()
        return self._child

    def _release(self) -> None:
        for pump in self._pumps:
            pump.release()

    def _unwatch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
