"""Runs coroutines without a task: to their end in a plain call, or resumed by the commit of a write.

The verbs are coroutines, because a write may have to wait for its commit. On a storage in memory they never suspend,
and the response is available at once. On a storage with group commit they suspend once; a task would need three event
loop iterations for that.
"""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine as awaitable
from typing import Any, cast

from levelset.http import Deferred, Response
from levelset.storage import PendingWrite

__all__ = ["run_eagerly"]

_Work = Coroutine[Any, Any, Response]
_Driver = Generator[Any, Any, None]


def run_eagerly(work: _Work) -> Response | Deferred:
    """Starts the coroutine now; returns its response, deferred if the coroutine suspends.

    The coroutine may await futures and `sleep(0)`. Cancelling the awaiter of the response does not cancel it.
    """
    try:
        driver = _idle_drivers.pop()
    except IndexError:
        driver = cast("_Driver", _drive())
        driver.send(None)
    outcome: Any = driver.send(work)
    if isinstance(outcome, Response):
        _idle_drivers.append(driver)
        return outcome
    return _Running(driver, outcome)


@awaitable
def _drive() -> _Driver:
    """Runs one coroutine after the other: yields what they wait for, and then their responses.

    A coroutine that is run by itself ends with an exception, which takes longer than all the rest of running it.
    """
    work: _Work = yield
    while True:
        work = yield (yield from work)


_idle_drivers: list[_Driver] = []


class _Running(Deferred):
    """The response of a coroutine that has started and suspended."""

    __slots__ = ("_driver",)

    def __init__(self, driver: _Driver, waited: Any) -> None:
        super().__init__()
        self._driver = driver
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
            outcome: Any = self._driver.send(None)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - raised in the awaiter
            self.fail(error)
            return
        if isinstance(outcome, Response):
            self.settle(outcome)
        else:
            self._wait_for(outcome)
