"""Where expensive work of requests runs, so that it does not hold the event loop."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

__all__ = ["ExpensiveWork"]

T = TypeVar("T")


class ExpensiveWork:
    """Runs work in a thread, one at a time: several would leave the event loop too little of the interpreter's time.

    With `is_inline` the work runs on the event loop. Tests set it: the first object of a kind, for which its schema is
    compiled, then takes the same way through the event loop as those of later runs in the same process.
    """

    __slots__ = ("_lock", "is_inline")

    def __init__(self) -> None:
        self.is_inline = False
        self._lock = asyncio.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """The result of the work. A caller that is cancelled does not end it: the next one waits for the thread."""
        if self.is_inline:
            return work()
        await self._lock.acquire()
        try:
            running = asyncio.get_running_loop().run_in_executor(None, work)
        except BaseException:
            self._lock.release()
            raise
        running.add_done_callback(self._release)
        await asyncio.wait([running])
        return running.result()

    def _release(self, ended: asyncio.Future[T]) -> None:
        self._lock.release()
        if not ended.cancelled():
            ended.exception()  # retrieved, also if the caller is gone
