"""Deduplicates concurrent calls: tasks that need the same result at the same time share one call."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["SingleFlight"]

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Runs a function once for all tasks that call `run` with the same key meanwhile; each gets its result or error.

    It runs in the first of those tasks. If that task is cancelled, one of the waiting tasks starts it again.
    """

    def __init__(self) -> None:
        self._in_flight: dict[Hashable, asyncio.Future[T]] = {}

    async def run(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """The result of the call in flight for this key, or of `work` if there is none."""
        while (in_flight := self._in_flight.get(key)) is not None:
            await asyncio.wait([in_flight])
            if not in_flight.cancelled():
                return in_flight.result()
        return await self._lead(key, work)

    async def _lead(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._in_flight[key] = outcome
        try:
            result = await work()
        except Exception as error:
            outcome.set_exception(error)
            outcome.exception()  # marks it as retrieved: perhaps no other task waits for it
            raise
        else:
            outcome.set_result(result)
            return result
        finally:
            outcome.cancel()  # no effect if there is a result or an error
            del self._in_flight[key]
