"""Says what a command is busy with, once that takes more than a second; only to somebody who sits at a terminal."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Final

from levelset.cli.showing import ago

__all__ = ["PATIENCE", "working"]

PATIENCE: Final = 1.0
"""How many seconds something may take before anybody wonders."""
_WIPE: Final = "\r\x1b[K"

_What = str | Callable[[], str]


@contextmanager
def working(what: _What, *, output: str = "text", after: float | None = None) -> Generator[None, None, None]:
    """Shows `what` and the time that has passed on stderr from a second on, and wipes it out at the end of the block.

    A function says what it is at that moment. Nothing is shown to a program that has asked for JSON (`output`).
    """
    if output == "json" or not sys.stderr.isatty():
        yield
        return
    patience = PATIENCE if after is None else after
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        # In a thread, for the block may as well keep the processor busy.
        show = _in_a_thread(_Line(what), patience)
    else:
        show = _on_the_loop(_Line(what), patience, loop)
    with show:
        yield


class _Line:
    """The line on the screen, if it is there."""

    def __init__(self, what: _What) -> None:
        self._what = what
        self._began = time.monotonic()
        self._is_shown = False

    def show(self) -> None:
        what = self._what() if callable(self._what) else self._what
        passed = f" ({ago(time.monotonic() - self._began)})"
        room = get_terminal_size().columns - len(passed) - 1  # what takes two lines cannot be wiped out
        self._is_shown = True
        _write(f"{_WIPE}{what if len(what) <= room else f'{what[: max(room - 1, 0)]}…'}{passed}")

    def wipe(self) -> None:
        if self._is_shown:
            _write(_WIPE)


@contextmanager
def _on_the_loop(line: _Line, every: float, loop: asyncio.AbstractEventLoop) -> Generator[None, None, None]:
    pending: list[asyncio.TimerHandle] = []

    def tick() -> None:
        line.show()
        pending[:] = [loop.call_later(every, tick)]

    pending.append(loop.call_later(every, tick))
    try:
        yield
    finally:
        pending[0].cancel()
        line.wipe()


@contextmanager
def _in_a_thread(line: _Line, every: float) -> Generator[None, None, None]:
    over = threading.Event()

    def tell() -> None:
        while not over.wait(every):
            line.show()

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
        line.wipe()


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
