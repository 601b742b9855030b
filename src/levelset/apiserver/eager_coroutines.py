"""Runs coroutines without a task: to their end in a plain call, or resumed by the commit of a write.

The verbs are coroutines, because a write may have to wait for its commit. On a storage in memory they never suspend,
and the response is available at once. On a storage with group commit they suspend once; a task would need three event
loop iterations for that.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from levelset.http import Deferred, Response
from levelset.storage import PendingWrite

__all__ = ["run_eagerly"]

T = TypeVar("T")


def run_eagerly(coroutine: Coroutine[Any, Any, T], respond: Callable[[T], Response]) -> Response | Deferred:
    """Starts the coroutine now; returns the response to its result, deferred if the coroutine suspends.

    The coroutine may await futures and `sleep(0)`. Cancelling the awaiter of the response does not cancel it.
    """
    try:
        waited = coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
    else:
        return _Running(coroutine, waited, respond)
    return respond(result)


class _Running(Deferred):
    """The response to a coroutine that has started and suspended."""

    __slots__ = ("_coroutine", "_respond")

    def __init__(self, coroutine: Coroutine[Any, Any, T], waited: Any, respond: Callable[[T], Response]) -> None:
        super().__init__()
        self._coroutine = coroutine
        self._respond: Callable[[Any], Response] = respond
        self._wait_for(waited)

    def _wait_for(self, waited: Any) -> None:
        if isinstance(waited, PendingWrite):
            waited.when_done(self._resume)
        elif isinstance(waited, Deferred):
            waited.when_settled(self._resume)
        elif waited is None:
            self.get_loop().call_soon(self._resume)
        else:
            waited.add_done_callback(self._resume)

    def _resume(self, _: object = None) -> None:
        try:
            waited = self._coroutine.send(None)
        except StopIteration as end:
            self._finish(end.value)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - raised in the awaiter
            self.fail(error)
        else:
            self._wait_for(waited)

    def _finish(self, result: object) -> None:
        try:
            response = self._respond(result)
        except Exception as error:  # noqa: BLE001 - raised in the awaiter
            self.fail(error)
        else:
            self.settle(response)
