"""`Scheduler`: the work queue with a clock; callers enqueue keys, workers wait until one is due.

A waiting worker is woken when a key is ready, and takes one when its task runs next. The key stays in the queue until
then: a worker that is cancelled in between loses nothing, and the next one is woken in its place. A worker that finds
nothing left, because a busy one was faster, waits again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Hashable
from math import inf
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
    all keys together, and `held` starts it on `hold`. A request for a key that `gate` refuses when it would be handed
    out is dropped; the code that admits the key later enqueues it again. The other options are those of `WorkQueue`. A
    worker loops over `take` and `done`; neither suspends while a key is ready, so the work in between must let other
    tasks run.
    """

    __slots__ = (
        "_clock",
        "_closed",
        "_draining",
        "_gate",
        "_held",
        "_idle_waiters",
        "_loop",
        "_queue",
        "_rate",
        "_timer",
        "_timer_at",
        "_waiters",
        "_woken",
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
        gate: Callable[[K], bool] | None = None,
        name: str = "scheduler",
    ) -> None:
        self.name = name
        self._gate = gate
        self.adds = 0
        """The number of new requests by `enqueue_all`; merged ones do not count."""
        self._queue: WorkQueue[K, R] = WorkQueue(debounce=debounce, age=age)
        self._loop = asyncio.get_running_loop()
        self._clock = timing.clock_of(self._loop)
        self._rate = rate
        self._held = held
        self._closed: bool = False
        self._draining: bool = False
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._woken = 0  # workers that were woken and have not run since
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf  # when it fires; not every event loop's handle knows that
        self._idle_waiters: list[asyncio.Future[None]] = []

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
        at = now + after if at is None else at
        new = self._queue.add_all((key,), at, now, priority, reason)
        if self._waiters:
            self._wake(now)
        return new == 1

    def enqueue_all(self, keys: Collection[K], reason: R | None, priority: int, /) -> int:
        """Enqueues each of these keys now, in order, and counts the new requests in `adds`; returns their number."""
        if self._closed:
            return 0
        now = self._clock()
        new = self._queue.add_all(keys, now, now, priority, reason)
        self.adds += new
        if self._waiters:
            self._wake(now)
        return new

    async def take(self) -> Due[K, R]:
        """Waits for a due key; it counts as running until `done`. Waiting workers are woken in FIFO order.

        Raises Closed when no more keys will come. A cancelled call has taken no key.
        """
        add_waiter = self._waiters.append
        while (due := self.take_nowait()) is None:
            if self._is_over():
                raise Closed(f"{self.name} is closed; no more keys will be due")
            waiter: asyncio.Future[None] = self._loop.create_future()
            add_waiter(waiter)
            add_waiter = self._waiters.appendleft  # a worker that was woken for nothing keeps its place
            self._wake(self._clock())
            try:
                await waiter
            except BaseException:
                self._leave(waiter)
                raise
            self._woken -= 1
        if self._waiters:
            self._wake(self._clock())
        return due

    def take_nowait(self, now: float | None = None) -> Due[K, R] | None:
        """Takes a due key; None if there is none, on `hold`, or if the rate does not allow it.

        `now` is the time on the loop's clock, if the caller has just read it.
        """
        if self._held:
            return None
        if now is None:
            now = self._clock()
        if self._rate is not None and not (self._queue.next_at(now) == now and self._rate.take(now)):
            return None
        due = self._queue.take(now)
        return due if due is None or self._gate is None else self._admitted(due, self._gate, now)

    def _admitted(self, due: Due[K, R], gate: Callable[[K], bool], now: float) -> Due[K, R] | None:
        """The first taken key that the gate admits; requests for those before it are dropped."""
        taken: Due[K, R] | None = due
        while taken is not None and not gate(taken.key):
            self._queue.done(taken.key, now)
            taken = self._queue.take(now)
        if taken is None and self._idle_waiters:
            self._wake_idle_waiters()
        return taken

    def done(self, key: K) -> None:
        """Marks a key as done; a request made while it ran becomes due. ValueError if the key is not running."""
        queue = self._queue
        # Only a held request needs the time, and reading the clock costs as much as the rest of this method.
        queue.done(key, self._clock() if queue.held else 0.0)
        if self._draining:
            queue.drop_delayed()
        if self._waiters:
            self._wake(self._clock())
        if self._idle_waiters and not queue.ready:
            self._wake_idle_waiters()

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

    def release(self) -> None:
        """Ends a `hold` and wakes waiting workers for due keys."""
        self._held = False
        self._wake(self._clock())

    def close(self, *, drain: bool) -> None:
        """Closes it: requests are ignored from now on, and delayed ones are dropped.

        With `drain`, keys that are due or were enqueued while they ran can still be taken; then workers get Closed.
        Otherwise, or on `hold`, workers get Closed at once; this also ends a drain. May be called again.
        """
        drain = drain and not self._held and (self._draining or not self._closed)
        self._closed, self._draining = True, drain
        self._queue.next_at(self._clock())
        self._queue.drop_delayed()
        if not drain:
            self._queue.clear()
        self._set_timer(inf)
        self._wake_all()

    async def wait_idle(self, *, with_delayed: bool = False) -> None:
        """Returns when no key is ready or running; `with_delayed`, when none is delayed either."""
        while not self._is_idle() or (with_delayed and self._queue.delayed):
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._idle_waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._idle_waiters:
                    self._idle_waiters.remove(waiter)

    def _leave(self, waiter: "asyncio.Future[None]") -> None:
        """Removes a cancelled worker; if it was woken already, another one is woken in its place."""
        if waiter.done() and not waiter.cancelled():
            self._woken -= 1
        elif waiter in self._waiters:
            self._waiters.remove(waiter)
        self._wake(self._clock())

    def _wake(self, now: float) -> None:
        """Wakes a waiting worker for each key that can be taken; all of them if no more keys will come."""
        queue, waiters, rate = self._queue, self._waiters, self._rate
        at, is_over = queue.next_at(now), self._is_over()
        if self._held and not is_over:
            return
        available = queue.ready if rate is None or not queue.ready else min(queue.ready, rate.available(now))
        while waiters and (is_over or available > self._woken):
            waiter = waiters.popleft()
            if not waiter.done():  # done: cancelled, and its task has not run yet
                waiter.set_result(None)
                self._woken += 1
        if waiters and not self._woken and at is not None:  # a woken worker calls this again when it has run
            self._set_timer(at if at > now or rate is None else now + rate.wait(now))

    def _set_timer(self, at: float) -> None:
        """Makes the timer fire at this time or earlier: firing too early is harmless; `inf` only cancels it."""
        if at < inf and self._timer_at <= at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None if at == inf else self._loop.call_at(at, self._on_timer), at

    def _on_timer(self) -> None:
        self._timer, self._timer_at = None, inf
        try:
            self._wake(self._clock())
        except Exception as error:  # noqa: BLE001 -- a timer has no caller: a worker raises it
            self._fail_worker(error)

    def _fail_worker(self, error: Exception) -> None:
        """Raises an error in the first waiting worker."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(error)
                self._woken += 1
                return
        raise error

    def _is_over(self) -> bool:
        return self._closed and not self._queue.ready and not self._queue.held

    def _is_idle(self) -> bool:
        if self._queue.running:
            return False
        self._queue.next_at(self._clock())
        return not self._queue.ready

    def _wake_all(self) -> None:
        """Wakes workers and idle waiters after requests were removed."""
        self._wake(self._clock())
        if self._idle_waiters:
            self._wake_idle_waiters()

    def _wake_idle_waiters(self) -> None:
        if self._is_idle():
            waiters, self._idle_waiters = self._idle_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
