"""`WorkQueue`: a deduplicating queue of keys with delays and priorities. Pure: it is given the time.

A key has at most one queued request, which is *delayed* until its time or *ready* to be taken; a taken key is
*running*. Requests for a queued key are merged into its request, and the earliest time wins: a timer, a request for a
later time, is replaced by an earlier request and is then no reason for it. A request for a running key is *held* and
queued when the key is done, so that a key never runs twice at once.

Ready keys wait in one FIFO queue for each priority, delayed keys in one heap. A key that leaves early (higher priority,
earlier time, cancelled) is not searched for: its old entry becomes stale, is skipped when it comes up, and is removed
when stale entries are in the majority.
"""

import heapq
import math
from collections import deque
from collections.abc import Hashable, Iterable
from itertools import count
from typing import Final, Generic, TypeVar

import msgspec

__all__ = [
    "LOW",
    "MAX_DELAY",
    "NORMAL",
    "DelayedEntry",
    "Due",
    "Entry",
    "WorkQueue",
    "drop_stale",
    "is_stale",
]

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

NORMAL: Final = 0
"""The default priority."""
LOW: Final = -100
"""The priority of bulk requests, such as the first list or a resync."""

MAX_DELAY: Final = 180 * 86400.0
"""The longest delay of a request in seconds; longer ones are cut to it."""

_MAX_LEVELS: Final = 16  # beyond that, empty priority levels are dropped
_MIN_STALE: Final = 64  # fewer stale entries are never compacted


class Due(msgspec.Struct, Generic[K, R], eq=False):
    """A request for a key; the queue merges others into it until it is taken, and never changes it afterwards."""

    key: K
    priority: int
    """The highest priority of the merged requests."""
    reasons: tuple[R, ...]
    """The reasons of the merged requests in order, each once; the first `max_reasons`, without replaced timers."""
    since: float
    """When it became due, or will."""
    added: float
    """When it was first enqueued."""

    def __repr__(self) -> str:
        return f"<Due {self.key}: priority {self.priority}, since {self.since}, {list(self.reasons)}>"


class Entry(Due[K, R]):
    """A request with its location in the queue."""

    location: "deque[Entry[K, R]] | list[DelayedEntry[K, R]] | None" = None
    """The FIFO queue of its priority, or the heap of delayed entries; None while running or held, and when removed."""
    held: "Entry[K, R] | None" = None
    """While it is running: the next request for its key."""
    is_timer: bool = False
    """Whether it has only the reasons of timers, which an earlier request replaces."""


DelayedEntry = tuple[float, int, Entry[K, R]]
"""An entry of the heap: the due time, a sequence number that keeps FIFO order, and the request."""


class WorkQueue(Generic[K, R]):
    """The queued requests and the running keys.

    The ready key with the highest priority is taken first, FIFO within a priority. Every second take serves a key that
    has been ready for `age` seconds below a higher priority, if there is one: nothing starves, and many old keys do not
    delay the fresh ones either.

    With `debounce`, a request for now becomes due so many seconds later. Further ones until then are merged and do not
    delay it; a request for a later time is not debounced. A request has at most `max_reasons` reasons.

    ```python
    from levelset.runtime.queue import WorkQueue

    queue: WorkQueue[str, str] = WorkQueue()
    queue.add("a", at=0.0, now=0.0, reason="created")
    queue.add("a", at=0.0, now=0.0, reason="changed")
    due = queue.take(now=0.0)
    assert due is not None and due.reasons == ("created", "changed")
    ```
    """

    __slots__ = (
        "_delayed",
        "_entries",
        "_last",
        "_last_reason",
        "_levels",
        "_numbers",
        "_only",
        "_queues",
        "_stale_delayed",
        "_stale_ready",
        "_took_aged",
        "age",
        "debounce",
        "held",
        "max_reasons",
        "ready",
    )

    def __init__(self, *, debounce: float = 0.0, age: float = 30.0, max_reasons: int = 8) -> None:
        if not (0 <= debounce <= MAX_DELAY and age > 0 and max_reasons > 0):
            raise ValueError(
                f"WorkQueue({debounce=}, {age=}, {max_reasons=}): debounce must be 0 seconds to 180 days, "
                "age and max_reasons above 0"
            )
        self.debounce = debounce
        self.age = age
        self.max_reasons = max_reasons
        self._entries: dict[K, Entry[K, R]] = {}
        self._queues: dict[int, deque[Entry[K, R]]] = {}
        self._levels: list[deque[Entry[K, R]]] = []  # the same queues, the highest priority first
        # The one queue with all ready requests and no stale entry, as nearly always; None if that is not known.
        self._only: deque[Entry[K, R]] | None = None
        self._delayed: list[DelayedEntry[K, R]] = []
        self._numbers = count()  # FIFO order for requests that are due at the same time
        self.ready = 0
        """The number of requests that can be taken, as of the last call with the time."""
        self.held = 0
        """The number of requests that are held for a running key."""
        self._stale_delayed = self._stale_ready = 0
        self._took_aged = False
        self._last_reason: R | None = None
        self._last: tuple[R, ...] = ()

    def __len__(self) -> int:
        """The number of ready, delayed and held requests."""
        return self.ready + self.held + len(self._delayed) - self._stale_delayed

    @property
    def delayed(self) -> int:
        """The number of requests whose time has not come, without those held for running keys."""
        return len(self._delayed) - self._stale_delayed

    @property
    def running(self) -> int:
        """The number of keys that were taken and are not done: all that are neither ready nor delayed."""
        return len(self._entries) - self.ready - self.delayed

    def add(self, key: K, *, at: float, now: float, priority: int = NORMAL, reason: R | None = None) -> bool:
        """Enqueues a key at a time; returns whether it is a new request. See `add_all`."""
        return self.add_all((key,), at, now, priority, reason) == 1

    def add_all(self, keys: Iterable[K], at: float, now: float, priority: int = NORMAL, reason: R | None = None) -> int:
        """Enqueues each of these keys, in order, at a time; a past one means now. Returns the number of new requests.

        The others were merged into the queued request of their key, which then has the earliest time, the highest
        priority and the reasons of both, without that of a timer that comes later. Delays are cut to 180 days;
        ValueError if the time is not finite.
        """
        since = now + self.debounce if at == now else self._due_time(at, now)
        if self._delayed and self._delayed[0][0] <= now:
            self._promote_due(now)
        if reason is not self._last_reason:  # most requests have the same reason as the one before, and share it
            self._last_reason, self._last = reason, () if reason is None else (reason,)
        found, is_ready, queue = 0, since <= now, self._queues.get(priority)
        if queue is None:
            queue = self._open_level(priority)
        for key in keys:
            new: Entry[K, R] = Entry(key, priority, self._last, since, now, queue)
            # Creating an entry that is not used costs less than hashing the key twice.
            due = self._entries.setdefault(key, new)
            if due is not new:
                new.is_timer = at > now
                found += self._merge_or_hold(due, new, now)
                continue
            found += 1
            if is_ready:
                queue.append(new)
                self.ready += 1
            else:
                new.is_timer = at > now
                self._insert(new, now)
        if queue is not self._only:
            self._only = None
        return found

    def take(self, now: float) -> Due[K, R] | None:
        """Takes the next ready request, whose key then runs until `done`; None if none is ready."""
        heap = self._delayed
        if heap and heap[0][0] <= now:
            self._promote_due(now)
        queue = self._only or self._choose(now)
        if queue is None:
            return None
        due = queue.popleft()
        due.location = None
        self.ready -= 1
        return due

    def done(self, key: K, now: float) -> None:
        """Marks a key as done and queues the request that was held for it. ValueError if the key is not running."""
        due = self._entries.pop(key, None)
        if due is None or due.location is not None:
            if due is not None:
                self._entries[key] = due
            raise ValueError(f"{key} is not running; call done() once for each request that was taken")
        waiting = due.held
        if waiting is not None:
            due.held = None
            self.held -= 1
            if self._delayed and self._delayed[0][0] <= now:
                self._promote_due(now)
            self._entries[key] = waiting
            waiting.since = max(waiting.since, now)
            self._insert(waiting, now)

    def next_at(self, now: float) -> float | None:
        """When a key can be taken: `now` if one is ready, None if none is ready or delayed."""
        heap = self._delayed
        if heap and heap[0][0] <= now:
            self._promote_due(now)
        if self.ready:
            return now
        while heap and is_stale(heap[0], heap):
            heapq.heappop(heap)
            self._stale_delayed -= 1
        return heap[0][0] if heap else None

    def is_superseded(self, key: K, now: float) -> bool:
        """Whether the key is running and the request held for it is due at most `debounce` seconds from now.

        A held request for a later time does not supersede the running one.
        """
        due = self._entries.get(key)
        if due is None or due.location is not None or due.held is None:
            return False
        return due.held.since <= now + self.debounce

    def cancel(self, key: K) -> bool:
        """Removes the request for a key; returns whether there was one. A running key keeps running."""
        due = self._entries.get(key)
        if due is None:
            return False
        if due.location is None:
            was_held, due.held = due.held is not None, None
            self.held -= was_held
            return was_held
        del self._entries[key]
        self._remove(due)
        return True

    def drop_delayed(self) -> list[K]:
        """Removes all delayed requests and returns their keys; held requests stay."""
        return self._cancel_all([entry[2].key for entry in self._delayed if not is_stale(entry, self._delayed)])

    def clear(self) -> list[K]:
        """Removes all requests, including held ones, and returns their keys; running keys keep running."""
        return self._cancel_all(self.keys())

    def keys(self) -> list[K]:
        """The keys with a queued or held request."""
        return [due.key for due in self._entries.values() if due.location is not None or due.held is not None]

    def running_keys(self) -> list[K]:
        """The keys that were taken and are not done."""
        return [due.key for due in self._entries.values() if due.location is None]

    def depths(self) -> dict[int, int]:
        """The number of ready requests by priority; computed at each call, in linear time."""
        levels = [(level, sum(due.location is queue for due in queue)) for level, queue in self._queues.items()]
        return {level: amount for level, amount in sorted(levels, reverse=True) if amount}

    def _cancel_all(self, keys: list[K]) -> list[K]:
        for key in keys:
            self.cancel(key)
        return keys

    def _choose(self, now: float) -> "deque[Entry[K, R]] | None":
        """The level to take from: the highest, or every second time the one whose first key is overdue by `age`."""
        if not self.ready:
            return None
        chosen: deque[Entry[K, R]] | None = None
        aged: deque[Entry[K, R]] | None = None
        for queue in self._levels:
            while queue and queue[0].location is not queue:
                queue.popleft()
                self._stale_ready -= 1
            if queue:
                if chosen is None:
                    chosen = queue
                elif queue[0].since + self.age <= now and (aged is None or queue[0].since < aged[0].since):
                    aged = queue
        self._took_aged = aged is not None and not self._took_aged
        chosen = aged if self._took_aged else chosen
        assert chosen is not None, "something is ready"
        if len(chosen) == self.ready and not self._stale_ready:
            self._only = chosen
        return chosen

    def _due_time(self, at: float, now: float) -> float:
        """When a request for this time is due; ValueError if the time is not finite."""
        if not -math.inf < at < math.inf:
            raise ValueError(f"cannot schedule at {at}; pass a finite time, such as now + 5")
        return now + self.debounce if at <= now else min(at, now + MAX_DELAY)

    def _merge_or_hold(self, due: Entry[K, R], new: Entry[K, R], now: float) -> bool:
        """Merges a request into the queued one, or holds it if the key is running; returns whether it is new."""
        if due.location is None:
            if due.held is None:
                new.location = None
                due.held = new
                self.held += 1
                return True
            due = due.held
        self._merge_reasons(due, new)
        self._merge(due, new.since, now, new.priority)
        return False

    def _merge_reasons(self, due: Entry[K, R], new: Entry[K, R]) -> None:
        """Adds the reasons of a new request; a timer that comes later than the other request is no reason."""
        is_ready = isinstance(due.location, deque)
        if new.is_timer and (is_ready or new.since > due.since):
            return
        if due.is_timer and not is_ready and new.since < due.since:
            due.reasons, due.is_timer = new.reasons, new.is_timer
            return
        due.is_timer = due.is_timer and new.is_timer
        for reason in new.reasons:
            if reason not in due.reasons and len(due.reasons) < self.max_reasons:
                due.reasons += (reason,)

    def _insert(self, due: Entry[K, R], now: float) -> None:
        """Puts a request where it belongs: with the delayed ones, or at the end of its priority."""
        if due.since > now:
            due.location = self._delayed
            heapq.heappush(self._delayed, (due.since, next(self._numbers), due))
            return
        queue = self._queues.get(due.priority)
        if queue is None:
            queue = self._open_level(due.priority)
        due.location = queue
        queue.append(due)
        self.ready += 1
        if queue is not self._only:
            self._only = None

    def _merge(self, due: Entry[K, R], at: float, now: float, priority: int) -> None:
        """Applies the earlier time and the higher priority, and moves the request accordingly."""
        if isinstance(due.location, deque):  # ready: no time is earlier
            if priority > due.priority:
                self._remove(due)
                due.priority = priority
                self._insert(due, max(now, due.since))  # still ready, even if the clock went back
            return
        due.priority = max(due.priority, priority)
        if at >= due.since:
            return
        is_delayed = due.location is not None
        if is_delayed:
            self._remove(due)
        due.since = at
        if is_delayed:
            self._insert(due, now)

    def _remove(self, due: Entry[K, R]) -> None:
        """Removes a request from its location; its entry there is stale from now on."""
        if due.location is self._delayed:
            self._stale_delayed += 1
        else:
            self._stale_ready += 1
            self.ready -= 1
            self._only = None
        due.location = None
        self._compact()

    def _compact(self) -> None:
        if _MIN_STALE < self._stale_delayed > len(self._delayed) // 2:
            # In place: `Entry.location` identifies the heap by identity.
            self._delayed[:] = [entry for entry in self._delayed if not is_stale(entry, self._delayed)]
            heapq.heapify(self._delayed)
            self._stale_delayed = 0
        if _MIN_STALE < self._stale_ready > self.ready:
            drop_stale(self._levels)
            self._stale_ready = 0

    def _promote_due(self, now: float) -> None:
        """Moves delayed requests that are due to the ready ones, the earliest first."""
        heap = self._delayed
        while heap and heap[0][0] <= now:
            at, _, due = heapq.heappop(heap)
            if due.location is not heap or due.since != at:
                self._stale_delayed -= 1
            else:
                self._insert(due, now)

    def _open_level(self, priority: int) -> "deque[Entry[K, R]]":
        if len(self._queues) >= _MAX_LEVELS:
            self._queues = {level: queue for level, queue in self._queues.items() if queue}
        queue = self._queues[priority] = deque()
        self._levels = [self._queues[level] for level in sorted(self._queues, reverse=True)]
        return queue


def is_stale(entry: DelayedEntry[K, R], heap: list[DelayedEntry[K, R]]) -> bool:
    """Whether the request of a heap entry has left the heap, or has another entry with another time."""
    return entry[2].location is not heap or entry[2].since != entry[0]


def drop_stale(queues: list[deque[Entry[K, R]]]) -> None:
    """Removes the entries of requests that have left their queue early."""
    for queue in queues:
        live = [due for due in queue if due.location is queue]
        queue.clear()
        queue.extend(live)
