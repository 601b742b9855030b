"""One piece of work for all who want it at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Sharing"]

T = TypeVar("T")


class Sharing(Generic[T]):
    """Runs a piece of work once for all tasks that ask for it while it is under way; each gets its result or error.

    It runs in the task that asked first. If that one is cancelled, another one of those who wait begins anew.
    """

    def __init__(self) -> None:
        self._pending: dict[Hashable, asyncio.Future[T]] = {}

    async def run(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """The result of the work of this key: that which is under way, or else its own."""
        while (pending := self._pending.get(key)) is not None:
            await asyncio.wait([pending])
            if not pending.cancelled():
                return pending.result()
        return await self._lead(key, work)

    async def _lead(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._pending[key] = outcome
        try:
            result = await work()
        except Exception as error:
            outcome.set_exception(error)
            outcome.exception()  # nobody else may be waiting, and then nobody else would look at it
            raise
        else:
            outcome.set_result(result)
            return result
        finally:
            outcome.cancel()  # does nothing if there is a result or an error
            del self._pending[key]
