"""A queue of keys and the task that works it off: what runs inside the server besides answering requests."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from levelset.errors import Conflict

__all__ = ["Worker"]

log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)

_FIRST_DELAY: Final = 0.05
_LONGEST_DELAY: Final = 30.0


class Worker(Generic[Key]):
    """Does something for every key that is added, one at a time and in order; a key waits in the queue only once.

    A key whose work fails comes again after a growing while. `wait_idle` returns when there is nothing left to do now;
    what waits for its next try does not count.
    """

    def __init__(self, name: str, act: Callable[[Key], Awaitable[None]]) -> None:
        self._name = name
        self._act = act
        self._queue: dict[Key, None] = {}
        self._failures: dict[Key, int] = {}
        self._retries: dict[Key, asyncio.TimerHandle] = {}
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way and nothing waits."""
        return self._idle.is_set()

    def add(self, key: Key) -> None:
        """Has the key worked on soon, even if it is being worked on now."""
        self._queue[key] = None
        self._idle.clear()
        self._wake.set()

    def start(self) -> None:
        """Begins to work; what was added before is not lost."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Ends the task; what is under way is cancelled at its next wait."""
        for timer in self._retries.values():
            timer.cancel()
        self._retries.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def wait_idle(self) -> None:
        """Waits until there is nothing left to do."""
        await self._idle.wait()

    async def _run(self) -> None:
        while True:
            while self._queue:
                key = next(iter(self._queue))
                del self._queue[key]
                await self._attempt(key)
                await asyncio.sleep(0)  # a long queue must not hold up those who make requests
            self._idle.set()
            self._wake.clear()
            await self._wake.wait()

    async def _attempt(self, key: Key) -> None:
        try:
            await self._act(key)
        except Conflict:
            self._retry(key)
        except Exception:
            log.exception("background work failed and is tried again", extra={"worker": self._name, "key": str(key)})
            self._retry(key)
        else:
            self._failures.pop(key, None)

    def _retry(self, key: Key) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(_FIRST_DELAY * 2.0 ** min(failures, 20), _LONGEST_DELAY)
        earlier = self._retries.pop(key, None)
        if earlier is not None:
            earlier.cancel()
        self._retries[key] = asyncio.get_running_loop().call_later(delay, self._come_again, key)

    def _come_again(self, key: Key) -> None:
        self._retries.pop(key, None)
        self.add(key)
