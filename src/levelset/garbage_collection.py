"""Settings of Python's garbage collector for processes that hold many long-lived objects.

A module of its own, because the `levelset` command imports it before all that it needs itself.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

__all__ = ["exempt", "loading", "paused", "raise_threshold"]

# Python collects its youngest objects after every 700 allocations (3.13: 2,000). Imports, caches and decoded objects
# allocate hundreds of thousands that stay: collections that free nothing took a tenth of a start, and a third of the
# time to read 2,000 typed Pods. One of 20,000 objects takes about a millisecond.
_THRESHOLD: Final = 20_000
# The middle generation is collected after 10 collections of the youngest one: of up to 200,000 objects, which holds the
# event loop for 55 ms. After 3 it is 15 ms, and the work in all is the same; the oldest one follows as often as before.
_OLDER: Final = {(10, 10): (3, 33)}


def raise_threshold() -> None:
    """Makes collections rarer, unless the program has disabled them or made them rarer already."""
    youngest, middle, oldest = gc.get_threshold()
    if 0 < youngest < _THRESHOLD:
        gc.set_threshold(_THRESHOLD, *_OLDER.get((middle, oldest), (middle, oldest)))


def exempt(what: str) -> None:
    """Exempts all that exists now from collections: modules, classes and functions stay as long as the process.

    For programs that are about to run until they are stopped, when they have loaded `what`. Does nothing the second
    time, where objects would be exempt that are no longer of the start.
    """
    if what not in _exempted:
        _exempted.add(what)
        gc.freeze()


_exempted: Final[set[str]] = set()


@contextmanager
def loading(what: str) -> Generator[None, None, None]:
    """No collections within the block, which loads or starts a part of the program, and none of what that made.

    Without the second, the first collection after the block would visit all of it at once.
    """
    with paused():
        yield
        exempt(what)


@contextmanager
def paused() -> Generator[None, None, None]:
    """No collections within the block: nearly all that it allocates stays."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
