"""Coroutines that never wait, run to their end by an ordinary call.

The write path is written for storages that must be awaited. On one that must not it never pauses, so that its answer
is there at once, and the request needs no task.
"""

from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["run_at_once"]

T = TypeVar("T")


def run_at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns or raises; RuntimeError if it turns out to wait for something."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} waited, although all it needs is in memory")
