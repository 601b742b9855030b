"""The timeline with a clock and a wake-up: anybody may ask for a key, and workers wait until one is due.

A worker that waits is given a *turn* when there is something for it, and takes the key when it runs next. The key stays
in the timeline until then: a worker that is cancelled between the two loses nothing, and its turn goes to the next.
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
    """Hands due keys to workers: never one key to two of them, and never a key that nobody asked for.

    Made inside the event loop whose clock it uses; not for threads. `rate` limits how often a key is handed out, all
    keys together. The other options are those of WorkQueue. A worker loops over `take` and `done`; neither gives way to
    other tasks while something is ready, which is left to the work in between.
    """

    __slots__ = (
        "_clock",
        "_closed",
        "_draining",
        "_given",
        "_held",
        "_idlers",
        "_is_free",
        "_line",
        "_loop",
        "_rate",
        "_timeline",
        "_timer",
        "asked",
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
        self.asked = 0
        """How many new requests came by `ask` and `ask_all`; what was merged into another is none."""
        self._timeline: WorkQueue[K, R] = WorkQueue(debounce=debounce, age=age)
        self._loop = asyncio.get_running_loop()
        self._clock = timing.clock_of(self._loop)
        self._rate = rate
        self._held = held
        self._closed: bool = False
        self._draining: bool = False
        self._line: deque[asyncio.Future[bool]] = deque()
        self._given = 0  # turns given to workers that have not run since
        self._timer: asyncio.TimerHandle | None = None
        self._idlers: list[asyncio.Future[None]] = []
        # Whether nobody else has a say in who is handed out next. It is put out before anybody gets one, and worked out
        # anew when somebody has none any more: to be out in vain only means that more is asked.
        self._is_free: bool = not held and rate is None

    def __len__(self) -> int:
        """How many requests wait: ready, delayed, or held for a running key."""
        return len(self._timeline)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "held" if self._held else "open"
        return f"<Scheduler {self.name!r}, {state}: {self.ready} ready, {self.delayed} delayed, {self.running} running>"

    @property
    def ready(self) -> int:
        """How many requests are due and could be taken now."""
        self._timeline.next_at(self._clock())
        return self._timeline.ready

    @property
    def delayed(self) -> int:
        """How many requests wait for their time."""
        self._timeline.next_at(self._clock())
        return self._timeline.delayed

    @property
    def running(self) -> int:
        """How many keys were taken and are not done."""
        return self._timeline.running

    @property
    def is_closed(self) -> bool:
        """Whether requests are ignored by now; there may still be keys to take."""
        return self._closed

    def add(
        self, key: K, *, after: float = 0.0, at: float | None = None, priority: int = NORMAL, reason: R | None = None
    ) -> bool:
        """Asks for a key: now, `after` so many seconds, or `at` a time on the loop's clock. Never waits.

        Whether it is a new request; one that is merged into another is not, nor is one that comes after `close`.
        """
        if self._closed:
            return False
        now = self._clock()
        new = self._timeline.add(key, at=now + after if at is None else at, now=now, priority=priority, reason=reason)
        if self._line:
            self._admit()
        return new

    def ask(self, key: K, reason: R | None, priority: int, /) -> bool:
        """Asks for a key now, as `add` does, and counts what is new."""
        if self._closed:
            return False
        new = self._timeline.ask(key, self._clock(), priority, reason)
        if new:
            self.asked += 1
        if self._line:
            self._admit()
        return new

    def ask_all(self, keys: Collection[K], reason: R | None, priority: int, /) -> int:
        """Asks for each of these keys now, in their order, with one look at the clock and one for the workers in line.

        How many of the requests are new.
        """
        if self._closed or not keys:
            return 0
        new = self._timeline.ask_all(keys, self._clock(), priority, reason)
        self.asked += new
        if self._line:
            self._admit()
        return new

    async def take(self) -> Due[K, R]:
        """Waits for a key that is due; it runs until `done`. Workers are served in the order in which they came.

        Raises Closed when nothing more will come. Whoever is cancelled has taken nothing.
        """
        due = self.take_nowait()
        has_waited = False
        while due is None:
            if self._is_over():
                raise Closed(f"{self.name} is closed; nothing more will be due")
            if await self._wait_turn(first=has_waited):
                due = self._take_promised()
            has_waited = True
        return due

    def take_nowait(self, now: float | None = None) -> Due[K, R] | None:
        """Takes a key that is due and not promised to a worker in line; None if there is none, or while it is held.

        Whoever knows what time it is on the loop's clock may say so.
        """
        if self._held or self._line:
            return None
        if now is None:
            now = self._clock()
        if self._rate is None and (self._given == 0 or self._timeline.ready > self._given):
            return self._timeline.take(now)
        return self._hand_out(now) if self._unpromised(now) > 0 else None

    def done(self, key: K) -> None:
        """Ends the run of a key; what was asked for meanwhile becomes due. ValueError if it does not run."""
        timeline = self._timeline
        # The time matters only to a request that is held; to ask for it costs as much as all the rest.
        timeline.done(key, self._clock() if timeline.held else 0.0)
        if self._draining:
            timeline.drop_delayed()
        if self._line:
            self._admit()
        if self._idlers and not timeline.running and not timeline.ready:
            self._wake_idlers()

    def take_after(self, key: K, now: float, /) -> Due[K, R] | None:
        """Ends the run of a key and takes the next that is due at once: `done` and `take_nowait` together."""
        # Not if all that is ready is promised, as far as is known.
        if self._is_free and (not self._given or self._timeline.ready > self._given):
            return self._timeline.take(now, key)
        return self._take_with_care(key, now)

    def cancel(self, key: K) -> bool:
        """Takes back the request for a key; whether there was one. A running key runs on."""
        cancelled = self._timeline.cancel(key)
        self._settle()
        return cancelled

    def is_superseded(self, key: K) -> bool:
        """Whether the key runs, and will run again soon because of a newer request."""
        return self._timeline.is_superseded(key, self._clock())

    def keys(self) -> list[K]:
        """The keys for which a request waits."""
        return self._timeline.keys()

    def running_keys(self) -> list[K]:
        """The keys that were taken and are not done."""
        return self._timeline.running_keys()

    def depths(self) -> dict[int, int]:
        """How many requests are ready, by priority; counted anew each time."""
        self._timeline.next_at(self._clock())
        return self._timeline.depths()

    def next_at(self) -> float | None:
        """When something can be taken, on the loop's clock: now if something is ready; None if nothing waits."""
        return self._timeline.next_at(self._clock())

    def hold(self) -> None:
        """Hands nothing out until `release`; requests are still taken in and merged."""
        self._held = True
        self._is_free = False

    def release(self) -> None:
        """Ends a `hold`; what is due goes to the workers that wait."""
        self._held = False
        self._admit()
        self._reckon()

    def close(self, *, drain: bool) -> None:
        """Ends it: requests are ignored from now on, and what waits for its time is dropped.

        With `drain`, keys that are due, or were asked for while they ran, can still be taken; then workers get Closed.
        Otherwise, or while it is held, workers get Closed at once; this also ends a drain. May be repeated.
        """
        drain = drain and not self._held and (self._draining or not self._closed)
        self._closed, self._draining, self._is_free = True, drain, False
        self._timeline.next_at(self._clock())
        self._timeline.drop_delayed()
        if not drain:
            self._timeline.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._settle()

    async def wait_idle(self, *, with_delayed: bool = False) -> None:
        """Returns when nothing is ready and nothing runs; `with_delayed`, when nothing waits for its time either."""
        while not self._is_idle() or (with_delayed and self._timeline.delayed):
            idler: asyncio.Future[None] = self._loop.create_future()
            self._idlers.append(idler)
            self._is_free = False
            try:
                await idler
            finally:
                if idler in self._idlers:
                    self._idlers.remove(idler)
                self._reckon()

    async def _wait_turn(self, *, first: bool) -> bool:
        """Waits in line, or at its head; whether it is this worker's turn, and not the end."""
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._is_free = False
        if first:
            self._line.appendleft(waiter)
        else:
            self._line.append(waiter)
        self._admit()
        try:
            had_turn = await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                self._given -= waiter.result()
            elif waiter in self._line:
                self._line.remove(waiter)
            self._admit()
            self._reckon()
            raise
        self._given -= had_turn
        return had_turn

    def _take_promised(self) -> Due[K, R] | None:
        """Takes a turn up; None if the key was cancelled, or everything held, since the turn was given."""
        due = None if self._held else self._hand_out(self._clock())
        if self._line:
            self._admit()
        return due

    def _take_with_care(self, ended: K, now: float) -> Due[K, R] | None:
        """Ends the run of a key, tells whoever waits for that, and takes the next unless that is promised."""
        timeline = self._timeline
        timeline.done(ended, now)
        if self._draining:
            timeline.drop_delayed()
        if self._line:
            self._admit()
        if not timeline.ready and self._idlers and not timeline.running:
            self._wake_idlers()
        return self.take_nowait(now)

    def _hand_out(self, now: float) -> Due[K, R] | None:
        due = self._timeline.take(now)
        if due is not None and self._rate is not None:
            self._rate.take(now)
        return due

    def _unpromised(self, now: float) -> int:
        """How many keys could be handed out beyond those for which turns were given."""
        self._timeline.next_at(now)
        ready = self._timeline.ready
        if ready and self._rate is not None:
            ready = min(ready, self._rate.available(now))
        return ready - self._given

    def _admit(self) -> None:
        """Gives turns, as far as there are keys for them, or sends everybody home if there will be none."""
        if not self._line or (self._held and not self._is_over()):
            return
        now = self._clock()
        turns = self._unpromised(now)
        is_over = self._is_over()
        while self._line and (is_over or turns > 0):
            waiter = self._line.popleft()
            if not waiter.done():  # cancelled, and about to leave the line
                waiter.set_result(not is_over)
                self._given += not is_over
                turns -= 1
        if not self._line:
            self._reckon()
        elif not self._given:  # whoever has a turn comes back here when it takes it up, hence no timer before
            self._set_timer(now)

    def _set_timer(self, now: float) -> None:
        at = self._timeline.next_at(now)
        if at is not None and at <= now and self._rate is not None:
            at = now + self._rate.wait(now)
        if at is None or (self._timer is not None and self._timer.when() <= at):
            return  # a timer that is too early does no harm: it ends up here again
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._admit()

    def _is_over(self) -> bool:
        return self._closed and not self._timeline.ready and not self._timeline.held

    def _is_idle(self) -> bool:
        if self._timeline.running:
            return False
        self._timeline.next_at(self._clock())
        return not self._timeline.ready

    def _reckon(self) -> None:
        """Finds out whether anybody has a say in who is handed out next."""
        self._is_free = not (self._line or self._held or self._draining or self._idlers) and self._rate is None

    def _settle(self) -> None:
        """Tells everybody who waits that something has gone."""
        self._admit()
        if self._idlers:
            self._wake_idlers()

    def _wake_idlers(self) -> None:
        if self._is_idle():
            idlers, self._idlers = self._idlers, []
            for idler in idlers:
                if not idler.done():
                    idler.set_result(None)
