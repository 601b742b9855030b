"""Says what a command is busy with, once that takes more than a second; only to somebody who sits at a terminal."""

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from levelset.cli.showing import ago

__all__ = ["working"]

_PATIENCE: Final = 1.0
_WIPE: Final = "\r\x1b[K"


@contextmanager
def working(what: str, *, after: float = _PATIENCE) -> Generator[None, None, None]:
    """Shows `what` and the time that has passed on stderr from a second on, and wipes it out at the end of the block.

    It does so in a thread, for the block may as well wait for a server as keep the processor busy.
    """
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    teller = threading.Thread(target=_tell, args=(what, over, after), name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _tell(what: str, over: threading.Event, after: float) -> None:
    began = time.monotonic()
    if over.wait(after):
        return
    while True:
        _write(f"{_WIPE}{what} ({ago(time.monotonic() - began)})")
        if over.wait(after):
            break
    _write(_WIPE)


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
