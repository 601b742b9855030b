"""Sources for the tests of streams, which record what happens to them."""

import asyncio
from collections.abc import AsyncIterator

from levelset.aio import timing

__all__ = ["Source", "timed"]


class Source:
    """An async generator over numbers that remembers whether it was opened and closed, and by which task."""

    def __init__(self, *numbers: int, error: Exception | None = None, endless: bool = False) -> None:
        self.opened = False
        self.closed = False
        self.taken: list[int] = []
        self.tasks: set[str] = set()
        self._numbers = numbers
        self._error = error
        self._endless = endless

    async def read(self) -> AsyncIterator[int]:
        self.opened = True
        self.tasks.add(_task())
        try:
            for number in self._numbers:
                self.taken.append(number)
                yield number
            if self._error is not None:
                raise self._error
            if self._endless:
                await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # closing takes a moment
            self.tasks.add(_task())
            self.closed = True

    def __aiter__(self) -> AsyncIterator[int]:
        return self.read()


async def timed(*steps: tuple[float, int]) -> AsyncIterator[int]:
    """Numbers, each at its time."""
    for when, number in steps:
        await timing.sleep_until(when)
        yield number


def _task() -> str:
    task = asyncio.current_task()
    return task.get_name() if task else ""
