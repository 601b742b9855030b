"""Coroutines that need no task: run to their end by an ordinary call, or on from the moment a write has landed.

The write path is written for storages that must be awaited. On one that must not it never pauses, and its answer is
there at once. On one that is told of a landing it pauses once; a task would take three turns of the loop for that.
"""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from levelset.http import Deferred, Response
from levelset.storage import Landing

__all__ = ["Prompt", "run_at_once", "run_promptly"]

T = TypeVar("T")


class Prompt:
    """An answer to be awaited that may as well be run promptly: it never asks which task it runs in."""

    __slots__ = ("coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, Response]) -> None:
        self.coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Response]:
        return self.coroutine.__await__()


def run_at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns or raises; RuntimeError if it turns out to wait for something."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} waited, although all it needs is in memory")


def run_promptly(coroutine: Coroutine[Any, Any, Response]) -> Response | Deferred:
    """Begins now; the response if it is there at once, and otherwise where it will be.

    The coroutine may await futures and `sleep(0)`. It is not cancelled with whoever awaits it.
    """
    try:
        waited = coroutine.send(None)
    except StopIteration as end:
        response: Response = end.value
        return response
    return _Running(coroutine, waited)


class _Running(Deferred):
    """The answer of a coroutine that has begun."""

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, Response], waited: Any) -> None:
        super().__init__()
        self._coroutine = coroutine
        if waited.__class__ is Landing:  # all but always
            waited.when_landed(self._go_on)
        else:
            self._wait_for(waited)

    def _wait_for(self, waited: Any) -> None:
        if isinstance(waited, Landing):
            waited.when_landed(self._go_on)
        elif waited is None:
            self.get_loop().call_soon(self._go_on)
        else:
            waited.add_done_callback(self._go_on)

    def _go_on(self, _: object = None) -> None:
        try:
            waited = self._coroutine.send(None)
        except StopIteration as end:
            self.settle(end.value)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - it is for whoever waits for the answer
            self.fail(error)
        else:
            self._wait_for(waited)
