"""A watchdog of the event loop: measures the longest callback, in processor time of the loop's own thread."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["LoopWatchdog", "watch_loop"]


class LoopWatchdog:
    """The longest callback that has run, in seconds."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.culprit = ""


@contextmanager
def watch_loop() -> Iterator[LoopWatchdog]:
    """Measures the callbacks of asyncio's own event loop; time that other processes or threads take does not count."""
    watchdog, run = LoopWatchdog(), asyncio.Handle._run

    def measured(handle: Any) -> None:
        began = time.thread_time()
        try:
            run(handle)
        finally:
            took = time.thread_time() - began
            if took > watchdog.longest:
                watchdog.longest, watchdog.culprit = took, repr(handle)

    asyncio.Handle._run = measured  # type: ignore[assignment, method-assign]
    try:
        yield watchdog
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
