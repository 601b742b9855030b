"""`Scheduler`: the work queue with a clock; callers enqueue keys, workers wait until one is due.

A waiting worker is *promised* a key when one is ready, and takes it when its task runs next. The key stays in the queue
until then: a worker that is cancelled in between loses nothing, and its promise goes to the next waiter.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

from levelset.aio import Closed, timing
from levelset.runtime.queue.rate_limits import TokenBucket
from levelset.runtime.queue.work_queue import NORMAL, Due, WorkQueue

__all__ = ["Scheduler"]

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")


class Scheduler(Generic[K, R]):
    """Hands due keys to workers, never one key to two workers at once.

    Create it inside the event loop whose clock it uses; not thread-safe. `rate` limits how often keys are handed out,
    all keys together, and `held` starts it on `hold`. The other options are those of `WorkQueue`. A worker loops over
    `take` and `done`; neither suspends while a key is ready, so the work in between must let other tasks run.
    """

    __slots__ = (
        "_clock",
        "_closed",
        "_draining",
        "_held",
        "_idle_waiters",
        "_is_unrestricted",
        "_loop",
        "_promised",
        "_queue",
        "_rate",
        "_timer",
        "_waiters",
        "adds",
        "name",
    )

    def __init__(
        self,
        *,
        debounce: float = 0.0,
        age: float = 30.0,
        rate: TokenBucket | None = None,
        held: bool = False,
        name: str = "scheduler",
    ) -> None:
        self.name = name
        self.adds = 0
        """The number of new requests by `enqueue` and `enqueue_all`; merged ones do not count."""
        self._queue: WorkQueue[K, R] = WorkQueue(debounce=debounce, age=age)
        self._loop = asyncio.get_running_loop()
        self._clock = timing.clock_of(self._loop)
        self._rate = rate
        self._held = held
        self._closed: bool = False
        self._draining: bool = False
        self._waiters: deque[asyncio.Future[bool]] = deque()
        self._promised = 0  # keys promised to workers that have not run since
        self._timer: asyncio.TimerHandle | None = None
        self._idle_waiters: list[asyncio.Future[None]] = []
        # The fast path of `take_after`: no waiters, hold, drain, idle waiters or rate limit to consider. Cleared
        # conservatively: a false negative only costs the slower path.
        self._is_unrestricted: bool = not held and rate is None

    def __len__(self) -> int:
        """The number of queued requests: ready, delayed, or held for a running key."""
        return len(self._queue)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "held" if self._held else "open"
        return f"<Scheduler {self.name!r}, {state}: {self.ready} ready, {self.delayed} delayed, {self.running} running>"

    @property
    def ready(self) -> int:
        """The number of requests that are due and can be taken now."""
        self._queue.next_at(self._clock())
        return self._queue.ready

    @property
    def delayed(self) -> int:
        """The number of requests whose time has not come."""
        self._queue.next_at(self._clock())
        return self._queue.delayed

    @property
    def running(self) -> int:
        """The number of keys that were taken and are not done."""
        return self._queue.running

    @property
    def is_closed(self) -> bool:
        """Whether it is closed and ignores requests; while it drains there may still be keys to take."""
        return self._closed

    def add(
        self, key: K, *, after: float = 0.0, at: float | None = None, priority: int = NORMAL, reason: R | None = None
    ) -> bool:
        """Enqueues a key: now, `after` so many seconds, or `at` a time on the loop's clock. Never waits.

        Returns whether it is a new request: False if it was merged into another, or ignored after `close`.
        """
        if self._closed:
            return False
        now = self._clock()
        new = self._queue.add(key, at=now + after if at is None else at, now=now, priority=priority, reason=reason)
        if self._waiters:
            self._wake_waiters()
        return new

    def enqueue(self, key: K, reason: R | None, priority: int, /) -> bool:
        """Enqueues a key now, as `add` does, and counts a new request in `adds`."""
        if self._closed:
            return False
        new = self._queue.enqueue(key, self._clock(), priority, reason)
        if new:
            self.adds += 1
        if self._waiters:
            self._wake_waiters()
        return new

    def enqueue_all(self, keys: Collection[K], reason: R | None, priority: int, /) -> int:
        """Enqueues each of these keys now, in order; reads the clock and wakes workers only once.

        Returns the number of new requests.
        """
        if self._closed or not keys:
            return 0
        new = self._queue.enqueue_all(keys, self._clock(), priority, reason)
        self.adds += new
        if self._waiters:
            self._wake_waiters()
        return new

    async def take(self) -> Due[K, R]:
        """Waits for a due key; it counts as running until `done`. Waiting workers are served in FIFO order.

        Raises Closed when no more keys will come. A cancelled call has taken no key.
        """
        due = self.take_nowait()
        has_waited = False
        while due is None:
            if self._is_over():
                raise Closed(f"{self.name} is closed; no more keys will be due")
            if await self._wait_for_key(first=has_waited):
                due = self._take_promised()
            has_waited = True
        return due

    def take_nowait(self, now: float | None = None) -> Due[K, R] | None:
        """Takes a due key that is not promised to a waiting worker; None if there is none, or on `hold`.

        `now` is the time on the loop's clock, if the caller has read it already.
        """
        if self._held or self._waiters:
            return None
        if now is None:
            now = self._clock()
        if self._rate is None and (self._promised == 0 or self._queue.ready > self._promised):
            return self._queue.take(now)
        return self._hand_out(now) if self._unpromised(now) > 0 else None

    def done(self, key: K) -> None:
        """Marks a key as done; a request made while it ran becomes due. ValueError if the key is not running."""
        queue = self._queue
        # Only a held request needs the time, and reading the clock costs as much as the rest of this method.
        queue.done(key, self._clock() if queue.held else 0.0)
        if self._draining:
            queue.drop_delayed()
        if self._waiters:
            self._wake_waiters()
        if self._idle_waiters and not queue.running and not queue.ready:
            self._wake_idle_waiters()

    def take_after(self, key: K, now: float, /) -> Due[K, R] | None:
        """Marks a key as done and takes the next due one: `done` and `take_nowait` in one call."""
        # The fast path only if there are more ready keys than promised ones.
        if self._is_unrestricted and (not self._promised or self._queue.ready > self._promised):
            return self._queue.take(now, key)
        return self._take_after_slow(key, now)

    def cancel(self, key: K) -> bool:
        """Removes the request for a key; returns whether there was one. A running key keeps running."""
        cancelled = self._queue.cancel(key)
        self._wake_all()
        return cancelled

    def is_superseded(self, key: K) -> bool:
        """Whether the key is running, and will run again soon because of a newer request."""
        return self._queue.is_superseded(key, self._clock())

    def keys(self) -> list[K]:
        """The keys with a queued request."""
        return self._queue.keys()

    def running_keys(self) -> list[K]:
        """The keys that were taken and are not done."""
        return self._queue.running_keys()

    def depths(self) -> dict[int, int]:
        """The number of ready requests by priority; computed at each call."""
        self._queue.next_at(self._clock())
        return self._queue.depths()

    def next_at(self) -> float | None:
        """When a key can be taken, on the loop's clock: now if one is ready; None if the queue is empty."""
        return self._queue.next_at(self._clock())

    def hold(self) -> None:
        """Hands out no keys until `release`; requests are still queued and merged."""
        self._held = True
        self._is_unrestricted = False

    def release(self) -> None:
        """Ends a `hold` and wakes waiting workers for due keys."""
        self._held = False
        self._wake_waiters()
        self._update_unrestricted()

    def close(self, *, drain: bool) -> None:
        """Closes it: requests are ignored from now on, and delayed ones are dropped.

        With `drain`, keys that are due or were enqueued while they ran can still be taken; then workers get Closed.
        Otherwise, or on `hold`, workers get Closed at once; this also ends a drain. May be called again.
        """
        drain = drain and not self._held and (self._draining or not self._closed)
        self._closed, self._draining, self._is_unrestricted = True, drain, False
        self._queue.next_at(self._clock())
        self._queue.drop_delayed()
        if not drain:
            self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wake_all()

    async def wait_idle(self, *, with_delayed: bool = False) -> None:
        """Returns when no key is ready or running; `with_delayed`, when none is delayed either."""
        while not self._is_idle() or (with_delayed and self._queue.delayed):
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._idle_waiters.append(waiter)
            self._is_unrestricted = False
            try:
                await waiter
            finally:
                if waiter in self._idle_waiters:
                    self._idle_waiters.remove(waiter)
                self._update_unrestricted()

    async def _wait_for_key(self, *, first: bool) -> bool:
        """Waits as the last waiter, or the `first`; returns whether a key was promised, False at the end."""
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._is_unrestricted = False
        if first:
            self._waiters.appendleft(waiter)
        else:
            self._waiters.append(waiter)
        self._wake_waiters()
        try:
            has_key = await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                self._promised -= waiter.result()
            elif waiter in self._waiters:
                self._waiters.remove(waiter)
            self._wake_waiters()
            self._update_unrestricted()
            raise
        self._promised -= has_key
        return has_key

    def _take_promised(self) -> Due[K, R] | None:
        """Takes the promised key; None if it was cancelled, or `hold` was called, since the promise."""
        due = None if self._held else self._hand_out(self._clock())
        if self._waiters:
            self._wake_waiters()
        return due

    def _take_after_slow(self, ended: K, now: float) -> Due[K, R] | None:
        """The general case of `take_after`: also wakes waiters, and leaves promised keys to them."""
        queue = self._queue
        queue.done(ended, now)
        if self._draining:
            queue.drop_delayed()
        if self._waiters:
            self._wake_waiters()
        if not queue.ready and self._idle_waiters and not queue.running:
            self._wake_idle_waiters()
        return self.take_nowait(now)

    def _hand_out(self, now: float) -> Due[K, R] | None:
        due = self._queue.take(now)
        if due is not None and self._rate is not None:
            self._rate.take(now)
        return due

    def _unpromised(self, now: float) -> int:
        """The number of keys that could be handed out beyond those that are promised."""
        self._queue.next_at(now)
        ready = self._queue.ready
        if ready and self._rate is not None:
            ready = min(ready, self._rate.available(now))
        return ready - self._promised

    def _wake_waiters(self) -> None:
        """Promises ready keys to waiting workers, or ends their wait if there will be no more keys."""
        if not self._waiters or (self._held and not self._is_over()):
            return
        now = self._clock()
        available = self._unpromised(now)
        is_over = self._is_over()
        while self._waiters and (is_over or available > 0):
            waiter = self._waiters.popleft()
            if not waiter.done():  # done: cancelled, and its task has not run yet
                waiter.set_result(not is_over)
                self._promised += not is_over
                available -= 1
        if not self._waiters:
            self._update_unrestricted()
        elif not self._promised:  # a worker with a promise calls this again when it takes its key: no timer before
            self._set_timer(now)

    def _set_timer(self, now: float) -> None:
        at = self._queue.next_at(now)
        if at is not None and at <= now and self._rate is not None:
            at = now + self._rate.wait(now)
        if at is None or (self._timer is not None and self._timer.when() <= at):
            return  # a timer that fires too early is harmless: it ends up here again
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._wake_waiters()

    def _is_over(self) -> bool:
        return self._closed and not self._queue.ready and not self._queue.held

    def _is_idle(self) -> bool:
        if self._queue.running:
            return False
        self._queue.next_at(self._clock())
        return not self._queue.ready

    def _update_unrestricted(self) -> None:
        is_restricted = self._waiters or self._held or self._draining or self._idle_waiters
        self._is_unrestricted = not is_restricted and self._rate is None

    def _wake_all(self) -> None:
        """Wakes workers and idle waiters after requests were removed."""
        self._wake_waiters()
        if self._idle_waiters:
            self._wake_idle_waiters()

    def _wake_idle_waiters(self) -> None:
        if self._is_idle():
            waiters, self._idle_waiters = self._idle_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
