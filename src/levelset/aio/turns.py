"""Shares an event loop among tasks with pieces of long work: a few pieces in each turn of the loop, the oldest first.

A task that lets others run after each piece (`sleep(0)`) holds the loop no longer than one piece takes; five hundred
such tasks together hold it five hundred times as long, since each gets its turn. With `take_turn` before each piece
they wait for one another instead, and everything else runs in between.
"""

import asyncio
from collections import deque
from typing import Final
from weakref import WeakKeyDictionary

__all__ = ["PIECES", "take_turn"]

PIECES: Final = 1
"""So many pieces begin in one turn of the loop."""


class _Turns:
    """The pieces of one event loop."""

    __slots__ = ("_begun", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._begun = 0
        """The pieces of this turn."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> "asyncio.Future[None] | None":
        """None if a piece may begin now, or what is done when it may."""
        if self._begun == PIECES:
            future = self._loop.create_future()
            self._waiting.append(future)
            return future
        if not self._begun:
            self._loop.call_soon(self._next)
        self._begun += 1
        return None

    def _next(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < PIECES:
            future = self._waiting.popleft()
            if not future.done():  # its task may have been cancelled
                future.set_result(None)
                self._begun += 1
        if self._begun:
            self._loop.call_soon(self._next)


_turns: Final = WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns]()


async def take_turn() -> None:
    """Waits until a piece of long work may begin: at once, unless `PIECES` have begun in this turn of the loop."""
    loop = asyncio.get_running_loop()
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = _Turns(loop)
    if (future := turns.take()) is not None:
        await future
