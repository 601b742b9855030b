"""Those who want to see the log of a program that has not started yet."""

import asyncio
from collections import deque
from typing import Final

__all__ = ["Waiting"]

_REMEMBERED: Final = 1000


class Waiting:
    """Wakes who waits for an Executable, when it has started or never will."""

    def __init__(self) -> None:
        self._waiters: dict[str, set[asyncio.Future[bool]]] = {}
        self._gone: deque[str] = deque(maxlen=_REMEMBERED)

    async def wait(self, uid: str) -> bool:
        """Whether the Executable has started; returns when that is known."""
        if uid in self._gone:
            return False
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        others = self._waiters.setdefault(uid, set())
        others.add(waiter)
        try:
            return await waiter
        finally:
            others.discard(waiter)
            if not others and self._waiters.get(uid) is others:
                del self._waiters[uid]

    def started(self, uid: str) -> None:
        """It has begun to write."""
        self._wake(uid, has_started=True)

    def gone(self, uid: str) -> None:
        """It is gone, or has failed to start."""
        self._gone.append(uid)
        self._wake(uid, has_started=False)

    def close(self) -> None:
        """Nothing will be started any more."""
        for uid in tuple(self._waiters):
            self._wake(uid, has_started=False)

    def _wake(self, uid: str, *, has_started: bool) -> None:
        for waiter in self._waiters.get(uid, ()):
            if not waiter.done():
                waiter.set_result(has_started)
