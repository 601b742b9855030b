"""The run of one real process: notices its exit, takes its exit code, and drains its output."""

import asyncio
import contextlib
import os
import signal as signals
import subprocess
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from levelset_machine.process.runner import Ended, Identity, identity_of
from levelset_machine.process.streams import Pump
from levelset_machine.process.table import open_process, send_signal

__all__ = ["ExitWatch", "ProcessRun", "exit_code"]

_LINGER: Final = 0.5
"""Seconds for which the children of a process that has ended may add to its log."""
_UNKNOWN: Final = 255


def exit_code(returned: int) -> int:
    """The exit code in the notation of shells: 128+N for signal N, which Python calls -N."""
    return 128 - returned if returned < 0 else returned


class ExitWatch:
    """Notices the exit of the process that has this pid now, without a thread: by a pidfd, else by polling.

    `on_exit` is called once on the event loop, unless `close` was called before. Where the system has no pidfds,
    `has_ended` is called every `period` seconds. Raises ProcessLookupError if there is no such process.
    """

    def __init__(
        self, pid: int, on_exit: Callable[[], None], has_ended: Callable[[], bool], *, period: float = 0.05
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_exit = on_exit
        self._has_ended = has_ended
        self._period = period
        self._timer: asyncio.TimerHandle | None = None
        self._handle = open_process(pid)
        # Read after the handle was opened, so that handle and identity refer to the same process.
        identity = identity_of(pid)
        if identity is None:
            self.close()
            raise ProcessLookupError(pid)
        self.identity = identity
        if self._handle is not None:
            self._loop.add_reader(self._handle, self._ended)
        else:
            self._timer = self._loop.call_later(0.0, self._poll)

    def send(self, signal: int) -> None:
        """Sends a signal to this process; does nothing if it has ended."""
        if self._handle is None:
            send_signal(self.identity.pid, self.identity.started, signal)
            return
        with contextlib.suppress(ProcessLookupError):
            signals.pidfd_send_signal(self._handle, signal)

    def close(self) -> None:
        """Stops watching; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._handle is not None:
            self._loop.remove_reader(self._handle)
            os.close(self._handle)
            self._handle = None

    def _ended(self) -> None:
        if self._handle is not None:
            self._loop.remove_reader(self._handle)
        self._on_exit()

    def _poll(self) -> None:
        if self._has_ended():
            self._timer = None
            self._on_exit()
        else:
            self._timer = self._loop.call_later(self._period, self._poll)


class ProcessRun:
    """A run of a Machine; without `child` if this program is not its parent."""

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
        self._waiters = set[asyncio.Future[Ended]]()
        self._callbacks = list[Callable[[Ended], None]]()
        self._identity: Identity | None = None

    @property
    def identity(self) -> Identity:
        """Which process it is."""
        if self._identity is None:
            raise RuntimeError("this run has no process yet; call `begin` first")
        return self._identity

    @property
    def ended(self) -> Ended | None:
        """How it ended; None while it runs."""
        return self._ended

    async def wait(self) -> Ended:
        """Returns when it has ended and its output is in its log."""
        if self._ended is not None:
            return self._ended
        waiter: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            return await waiter
        finally:
            self._waiters.discard(waiter)

    def begin(self, watch: ExitWatch, pumps: Sequence[Pump]) -> None:
        """Sets the watch of its process and the pumps of its output."""
        self._watch = watch
        self._identity = watch.identity
        self._pumps = pumps

    def send(self, signal: int) -> None:
        """Sends a signal to its process; does nothing if it has ended."""
        if self._watch is not None:
            self._watch.send(signal)

    def finish(self) -> None:
        """Takes the exit code and the rest of the output, when its process has exited."""
        returned = None if self._child is None else self._child.wait()
        self._unwatch()
        for pump in self._pumps:
            pump.drain()
        if not all(pump.is_over for pump in self._pumps):
            asyncio.get_running_loop().call_later(_LINGER, self._release)
        code = _UNKNOWN if returned is None else exit_code(returned)
        self._ended = Ended(code, self._now(), is_known=returned is not None)
        for callback in self._callbacks:
            callback(self._ended)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(self._ended)
        self._waiters.clear()

    def when_ended(self, callback: Callable[[Ended], None]) -> None:
        """Calls `callback` on the event loop once it has ended, before `wait` returns."""
        if self._ended is None:
            self._callbacks.append(callback)
        else:
            callback(self._ended)

    def detach(self) -> "subprocess.Popen[bytes] | None":
        """Stops watching a process that goes on; returns the child that this run no longer reaps."""
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
