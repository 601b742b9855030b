"""Tells when a process has ended, without a thread: by a descriptor of the kernel, else by looking again and again."""

import asyncio
import contextlib
import os
import signal as signals
from collections.abc import Callable

from levelset_machine.identity import identity_of
from levelset_machine.signalling import open_process, send_signal

__all__ = ["ExitWatch"]


class ExitWatch:
    """Watches one process that has this number now.

    `told` is called on the event loop when it has ended; until `close`, or until it has been called. Where the system
    has no descriptors for processes, `has_ended` is asked every `period` seconds. Raises ProcessLookupError if there is
    no such process.
    """

    def __init__(
        self, pid: int, told: Callable[[], None], has_ended: Callable[[], bool], *, period: float = 0.05
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._told = told
        self._has_ended = has_ended
        self._period = period
        self._timer: asyncio.TimerHandle | None = None
        self._handle = open_process(pid)
        # Asked with the handle in hand: nobody else can have been given the number in between unnoticed.
        identity = identity_of(pid)
        if identity is None:
            self.close()
            raise ProcessLookupError(pid)
        self.identity = identity
        if self._handle is not None:
            self._loop.add_reader(self._handle, self._ended)
        else:
            self._timer = self._loop.call_later(0.0, self._look)

    def send(self, signal: int) -> None:
        """Sends a signal to this process; nothing happens if it has ended."""
        if self._handle is None:
            send_signal(self.identity.pid, self.identity.started, signal)
            return
        with contextlib.suppress(ProcessLookupError):
            signals.pidfd_send_signal(self._handle, signal)

    def close(self) -> None:
        """Stops watching; may be called again."""
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
        self._told()

    def _look(self) -> None:
        if self._has_ended():
            self._timer = None
            self._told()
        else:
            self._timer = self._loop.call_later(self._period, self._look)
