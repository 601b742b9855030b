"""The work queue of the server's own controllers: a queue of keys and the task that processes it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable
from contextvars import Context, copy_context
from typing import Final, Generic, TypeVar

from levelset.aio.supervisor import explain_cancellation
from levelset.errors import Conflict

__all__ = ["KeyQueue"]

log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)

_MIN_DELAY_SECONDS: Final = 0.05
_MAX_DELAY_SECONDS: Final = 30.0
_RESUMED_AT_ONCE: Final = 1_000


class KeyQueue(Generic[Key]):
    """Processes every added key, one at a time and in order; a key is in the queue at most once.

    A key whose processing fails is retried with exponential backoff, from 50 ms to 30 s. `wait_idle` does not wait for
    keys that are backing off.
    """

    def __init__(self, name: str, process: Callable[[Key], Awaitable[None]]) -> None:
        self._name = name
        self._process = process
        self._queue: dict[Key, None] = {}
        self._failures: dict[Key, int] = {}
        self._retries: dict[Key, asyncio.TimerHandle] = {}
        self._task: asyncio.Task[None] | None = None
        self._context: Context | None = None
        """The context of the task; None unless it is started."""
        self._is_paused = False
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_idle(self) -> bool:
        """Whether no key is queued or being processed."""
        return self._idle.is_set()

    def add(self, key: Key) -> None:
        """Enqueues the key, also if it is being processed now; a paused queue ignores it."""
        if self._is_paused:
            return
        self._queue[key] = None
        self._idle.clear()
        self._wake.set()
        if self._task is None and self._context is not None:
            self._begin(self._context)

    def start(self) -> None:
        """Processes keys from now on, and those that were added before; the task is created for the first key."""
        if self._context is None:
            self._context = copy_context()
            if self._queue:
                self._begin(self._context)

    def _begin(self, context: Context) -> None:
        # In the context of the start: the first key may be added by a request.
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name, context=context)

    async def stop(self) -> None:
        """Cancels the task and all pending retries."""
        for timer in self._retries.values():
            timer.cancel()
        self._retries.clear()
        task, self._task, self._context = self._task, None, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def pause(self) -> None:
        """Drops all keys, and ignores those that are added: another server processes them."""
        self._is_paused = True
        self._queue.clear()
        self._failures.clear()
        for timer in self._retries.values():
            timer.cancel()
        self._retries.clear()

    async def resume(self, keys: Iterable[Key]) -> None:
        """Ends a pause: enqueues these keys, without holding the event loop, and those that are added."""
        self._is_paused = False
        for number, key in enumerate(keys):
            self.add(key)
            if number % _RESUMED_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def wait_idle(self) -> None:
        """Waits until no key is queued or being processed."""
        await self._idle.wait()

    async def _run(self) -> None:
        while True:
            while self._queue:
                key = next(iter(self._queue))
                del self._queue[key]
                await self._attempt(key)
                await asyncio.sleep(0)  # a long queue must not starve requests
            self._idle.set()
            self._wake.clear()
            await self._wake.wait()

    async def _attempt(self, key: Key) -> None:
        try:
            await self._process(key)
        except Conflict:
            self._retry(key)
        except asyncio.CancelledError as error:
            log.exception(
                "reconcile failed, will retry",
                extra={"queue": self._name, "key": str(key)},
                exc_info=explain_cancellation(error),
            )
            self._retry(key)
        except Exception:
            log.exception("reconcile failed, will retry", extra={"queue": self._name, "key": str(key)})
            self._retry(key)
        else:
            self._failures.pop(key, None)

    def _retry(self, key: Key) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(_MIN_DELAY_SECONDS * 2.0 ** min(failures, 20), _MAX_DELAY_SECONDS)
        earlier = self._retries.pop(key, None)
        if earlier is not None:
            earlier.cancel()
        self._retries[key] = asyncio.get_running_loop().call_later(delay, self._requeue, key)

    def _requeue(self, key: Key) -> None:
        self._retries.pop(key, None)
        self.add(key)
