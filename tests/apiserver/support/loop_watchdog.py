"""A watchdog of the event loop: measures how much the process computes while a heartbeat of the loop is due.

It counts processor time of the whole process, not the clock: other processes do not count, and a thread that keeps the
interpreter in one piece (a long call into C) does, since the loop cannot run meanwhile. It works on every event loop.

On a busy machine a thread may compute while the loop could run and has no processor, which looks the same. Linux says
how long the thread of the loop has waited for one, and how long the host took the processors of a virtual machine away:
`undisturbed` repeats a test in which that was so. What really holds the loop does so each time.
"""

import _thread
import asyncio
import functools
import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec

__all__ = ["LIMIT", "LoopWatchdog", "undisturbed", "watch_loop"]

LIMIT = float(os.environ.get("LEVELSET_LOOP_LIMIT", "0.1"))
"""Seconds for which nothing may hold the loop: 0.05 in `make test-robustness`. Here another process has the other
core, and the same work takes up to twice the processor time."""

_INTERVAL = 0.001
_LATE = 0.02
_ATTEMPTS = 5
_DISTURBED = 0.005
"""Seconds without a processor that make a measurement doubtful."""
_TICKS = os.sysconf("SC_CLK_TCK")
P = ParamSpec("P")
_started: "list[LoopWatchdog]" = []
"""The watchdogs of the test that runs."""


class LoopWatchdog:
    """The longest time that the loop was kept from its heartbeat, in seconds of computing."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.culprit = ""
        self.waited = 0.0
        """Seconds of the longest time in which the thread of the loop waited for a processor, or the machine did."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._schedule = f"/proc/self/task/{threading.get_native_id()}/schedstat"
        self._last, self._last_waited = time.process_time(), self._waited()
        self._stack = ""
        self._is_over = False

    def beat(self) -> None:
        """A heartbeat: notes how much was computed since the one before; none after `stop`."""
        if self._is_over:
            return
        now = time.process_time()
        if now - self._last > self.longest:
            self.longest, self.culprit = now - self._last, self._stack
            self.waited = self._waited() - self._last_waited
        self._stack, self._last, self._last_waited = "", time.process_time(), self._waited()
        self._loop.call_later(_INTERVAL, self.beat)

    def _waited(self) -> float:
        try:
            thread, machine = _read(self._schedule), _read("/proc/stat")
        except OSError:  # not Linux
            return 0.0
        return int(thread[1]) / 1e9 + int(machine[8]) / _TICKS  # the ninth word of the line of all processors: stolen

    def sample(self) -> None:
        """Notes, in a thread, what runs when the heartbeat is late."""
        while not self._is_over:
            time.sleep(_LATE / 2)
            if time.process_time() - self._last > _LATE and not self._stack:
                frame = sys._current_frames().get(self._thread)
                self._stack = "".join(traceback.format_stack(frame, 8)) if frame else ""

    def stop(self) -> None:
        """The last heartbeat."""
        self.beat()
        self._is_over = True


def _read(path: str) -> list[bytes]:
    """The first words of a file of the kernel, without the file objects that the guard of blocking calls sees."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, 200, 0).split()
    finally:
        os.close(descriptor)


@contextmanager
def watch_loop() -> Iterator[LoopWatchdog]:
    """Watches the running event loop.

    The garbage collector rests meanwhile: it would walk the objects of all the tests of this process.
    """
    watchdog = LoopWatchdog()
    _started.append(watchdog)
    was_enabled = gc.isenabled()
    gc.disable()
    _thread.start_new_thread(watchdog.sample, ())  # not a Thread, whose start waits, which a loop must not
    watchdog.beat()
    try:
        yield watchdog
    finally:
        watchdog.stop()
        if was_enabled:
            gc.enable()


def undisturbed(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, Coroutine[Any, Any, None]]:
    """Repeats a test in which the loop was held, and waited for a processor meanwhile, up to so many times."""

    @functools.wraps(test)
    async def repeated(*args: P.args, **kwargs: P.kwargs) -> None:
        for _ in range(_ATTEMPTS - 1):
            _started.clear()
            try:
                return await test(*args, **kwargs)
            except AssertionError:
                if not any(one.longest >= LIMIT and one.waited > _DISTURBED for one in _started):
                    raise
        return await test(*args, **kwargs)

    return repeated
