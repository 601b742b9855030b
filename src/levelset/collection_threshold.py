"""Settings of Python's garbage collector for processes that hold many long-lived objects.

A module of its own, because the `levelset` command imports it before all that it needs itself.
"""

import gc
from typing import Final

__all__ = ["raise_threshold"]

# Python collects its youngest objects after every 700 allocations (3.13: 2,000). Imports, caches and decoded objects
# allocate hundreds of thousands that stay: collections that free nothing took a tenth of a start, and a third of the
# time to read 2,000 typed Pods. One of 20,000 objects takes about a millisecond.
_THRESHOLD: Final = 20_000


def raise_threshold() -> None:
    """Makes collections rarer, unless the program has disabled them or made them rarer already."""
    youngest, *older = gc.get_threshold()
    if 0 < youngest < _THRESHOLD:
        gc.set_threshold(_THRESHOLD, *older)
