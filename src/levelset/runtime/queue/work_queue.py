"""When a key is due: one place per key, the earliest time wins, and what is running is held until it is done.

`WorkQueue` never looks at a clock: it is told the time. A key is in one of these places: *delayed* until its time,
*ready* to be taken, or *running*. A request for a running key is *held*, and takes its place when the key is done.

Ready keys wait in levels, one for each priority, and those whose time has not come on one agenda. A key that leaves
its place early (raised, expedited, cancelled) is not searched for: its old entry is skipped when it comes up, and
swept out when such entries are in the majority.

A request for a key: what everybody who asked for it agreed on, and where it waits.
"""

import heapq
import math
from collections import deque
from collections.abc import Collection, Hashable
from enum import Enum
from itertools import count, repeat
from typing import Final, Generic, TypeVar

import msgspec

__all__ = [
    "FARTHEST",
    "LOW",
    "NOBODY",
    "NORMAL",
    "Appointment",
    "Due",
    "Entry",
    "Nobody",
    "WorkQueue",
    "is_stale",
    "moment",
    "sweep",
]

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

NORMAL: Final = 0
"""The priority of a request unless it says otherwise."""
LOW: Final = -100
"""The priority of what can wait: a first list, a resync."""


FARTHEST: Final = 180 * 86400.0
"""No request waits longer than so many seconds."""


class Nobody(Enum):
    """What stands for no key, since anything else may be one."""

    NOBODY = 0


NOBODY: Final = Nobody.NOBODY


class Due(msgspec.Struct, Generic[K, R], eq=False):
    """A request for a key.

    While it waits the timeline merges others into it. Once taken it belongs to the taker and does not change any more.
    """

    key: K
    priority: int
    """The highest that was asked for."""
    reasons: tuple[R, ...]
    """Why, in the order in which the reasons came, each once; the first ones, if there were many."""
    since: float
    """When it became due, or will."""
    added: float
    """When it was first asked for."""

    def __repr__(self) -> str:
        return f"<Due {self.key}: priority {self.priority}, since {self.since}, {list(self.reasons)}>"


class Entry(Due[K, R]):
    """What the timeline knows of a request besides: where it is."""

    place: "deque[Entry[K, R]] | list[Appointment[K, R]] | None" = None
    """The queue of its level, or the agenda; None while it runs, is held, or when it is gone."""
    held: "Entry[K, R] | None" = None
    """While it runs: the next request for its key."""


Appointment = tuple[float, int, Entry[K, R]]
"""An entry of the agenda: when, the how many-th, and who."""


def is_stale(entry: Appointment[K, R], agenda: list[Appointment[K, R]]) -> bool:
    """Whether a request has left the agenda, or has another time on it than this entry says."""
    return entry[2].place is not agenda or entry[2].since != entry[0]


def sweep(queues: list[deque[Entry[K, R]]]) -> None:
    """Takes out the entries of requests that have left their queue early."""
    for queue in queues:
        live = [due for due in queue if due.place is queue]
        queue.clear()
        queue.extend(live)


def moment(at: float, now: float, debounce: float) -> float:
    """When a request for a time is due; ValueError if the time is not finite."""
    if not -math.inf < at < math.inf:
        raise ValueError(f"cannot schedule at {at}; give a finite time, such as now + 5")
    return now + debounce if at <= now else min(at, now + FARTHEST)


_FEW_LEVELS: Final = 16
_FEW_ENTRIES: Final = 64


class WorkQueue(Generic[K, R]):
    """The requests that wait, and the keys that run.

    Of the ready keys the one with the highest priority is taken first, and among equals the one that became ready
    first. A key that has been ready for `age` seconds below others gets every second turn, so that nothing starves and
    a crowd of old keys does not keep the fresh ones waiting either.

    With `debounce`, a request for now becomes due so many seconds later. Further ones until then are merged and do not
    move it; a request for a certain time is taken at its word. A request keeps its first `most_reasons` reasons.

    ```python
    from levelset.runtime.queue import WorkQueue

    line: WorkQueue[str, str] = WorkQueue()
    line.add("a", at=0.0, now=0.0, reason="created")
    line.add("a", at=0.0, now=0.0, reason="changed")
    due = line.take(now=0.0)
    assert due is not None and due.reasons == ("created", "changed")
    ```
    """

    __slots__ = (
        "_agenda",
        "_entries",
        "_gave_way",
        "_last",
        "_last_reason",
        "_levels",
        "_numbers",
        "_only",
        "_queues",
        "_stale_appointments",
        "_stale_places",
        "age",
        "debounce",
        "held",
        "most_reasons",
        "ready",
    )

    def __init__(self, *, debounce: float = 0.0, age: float = 30.0, most_reasons: int = 8) -> None:
        if not (0 <= debounce <= FARTHEST and age > 0 and most_reasons > 0):
            raise ValueError(
                f"WorkQueue({debounce=}, {age=}, {most_reasons=}): debounce is 0 s to 180 days, the others above 0"
            )
        self.debounce = debounce
        self.age = age
        self.most_reasons = most_reasons
        self._entries: dict[K, Entry[K, R]] = {}
        self._queues: dict[int, deque[Entry[K, R]]] = {}
        self._levels: list[deque[Entry[K, R]]] = []  # the same queues, the highest priority first
        # The queue in which all that is ready waits, and nothing else, as nearly always; None if that is not known.
        self._only: deque[Entry[K, R]] | None = None
        self._agenda: list[Appointment[K, R]] = []
        self._numbers = count()  # those due at the same time come in the order in which they were given that time
        self.ready = 0
        """How many requests can be taken, as of the last call that was told the time."""
        self.held = 0
        """How many requests wait for a running key."""
        self._stale_appointments = self._stale_places = 0
        self._gave_way = False
        self._last_reason: R | None = None
        self._last: tuple[R, ...] = ()

    def __len__(self) -> int:
        """How many requests wait, wherever; running keys do not count."""
        return self.ready + self.held + len(self._agenda) - self._stale_appointments

    @property
    def delayed(self) -> int:
        """How many requests wait for their time, those for running keys aside."""
        return len(self._agenda) - self._stale_appointments

    @property
    def running(self) -> int:
        """How many keys were taken and are not done: all that are neither ready nor delayed."""
        return len(self._entries) - self.ready - self.delayed

    def add(self, key: K, *, at: float, now: float, priority: int = NORMAL, reason: R | None = None) -> bool:
        """Asks for a key at a time; one that is past means now. Whether that is a new request, and not merged into one.

        A merged request has the earliest time, the highest priority, and the reasons of both. Times beyond 180 days are
        cut to that; ValueError if the time is not finite.
        """
        at = moment(at, now, self.debounce)
        return self._ask_at(key, at, now, priority, reason) if at > now else self.ask(key, now, priority, reason)

    def ask(self, key: K, now: float, priority: int, reason: R | None, /) -> bool:
        """Asks for a key now: `add` for those who do nothing else, so that nothing is asked that is known."""
        if self.debounce:
            return self._ask_at(key, now + self.debounce, now, priority, reason)
        agenda = self._agenda
        if agenda and agenda[0][0] <= now:
            self._ripen(now)
        reasons = self._last if reason is self._last_reason else self._alone(reason)
        queue = self._queues.get(priority)
        if queue is None:
            queue = self._open_level(priority)
        new: Entry[K, R] = Entry(key, priority, reasons, now, now, queue)
        # To make one in vain costs less than to hash the key twice.
        due = self._entries.setdefault(key, new)
        if due is not new:
            return self._join(due, new, now)
        queue.append(new)
        self.ready += 1
        if queue is not self._only:
            self._only = None
        return True

    def ask_all(self, keys: Collection[K], now: float, priority: int, reason: R | None, /) -> int:
        """Asks for each of these keys now, one after the other; how many of the requests are new.

        Nearly always all are: they are made, entered and put in line without a step of Python's own for each.
        """
        if self.debounce:
            return sum([self.ask(key, now, priority, reason) for key in keys])
        if self._agenda:
            self._ripen(now)
        reasons = self._last if reason is self._last_reason else self._alone(reason)
        queue, same = self._level(priority), repeat(now)
        new: list[Entry[K, R]] = [*map(Entry, keys, repeat(priority), repeat(reasons), same, same, repeat(queue))]
        entered: list[Entry[K, R]] = []
        try:
            entered += map(self._entries.setdefault, keys, new)
        except BaseException:  # of a key that cannot be hashed, say; those before it are asked for
            self._line_up(entered, new, now)
            raise
        if entered != new:
            return self._line_up(entered, new, now)
        queue.extend(new)
        self.ready += len(new)
        if queue is not self._only:
            self._only = None
        return len(new)

    def take(self, now: float, ended: K | Nobody = NOBODY) -> Due[K, R] | None:
        """Hands out the next ready request, whose key then runs until `done`; None if none is ready.

        A key that has `ended` is done first.
        """
        if ended is not NOBODY:
            last = self._entries.pop(ended, None)
            if last is None or last.place is not None or last.held is not None:
                self._end(ended, last, now)
        agenda = self._agenda
        if agenda and agenda[0][0] <= now:
            self._ripen(now)
        queue = self._only or self._choose(now)
        if queue is None:
            return None
        due = queue.popleft()
        due.place = None
        self.ready -= 1
        return due

    def done(self, key: K, now: float) -> None:
        """Ends the run of a key; the request that was held for it takes its place. ValueError if it does not run."""
        self._end(key, self._entries.pop(key, None), now)

    def next_at(self, now: float) -> float | None:
        """When something can be taken: `now` if something is ready, None if nothing waits for a time."""
        agenda = self._agenda
        if agenda and agenda[0][0] <= now:
            self._ripen(now)
        if self.ready:
            return now
        while agenda and is_stale(agenda[0], agenda):
            heapq.heappop(agenda)
            self._stale_appointments -= 1
        return agenda[0][0] if agenda else None

    def is_superseded(self, key: K, now: float) -> bool:
        """Whether the key runs and another request is held for it that will not have to wait long after it is done.

        Not long is the time of debouncing: a request for a time farther off does not replace the one that runs.
        """
        due = self._entries.get(key)
        if due is None or due.place is not None or due.held is None:
            return False
        return due.held.since <= now + self.debounce

    def cancel(self, key: K) -> bool:
        """Takes back the request for a key, wherever it waits; whether there was one. A running key runs on."""
        due = self._entries.get(key)
        if due is None:
            return False
        if due.place is None:
            was_held, due.held = due.held is not None, None
            self.held -= was_held
            return was_held
        del self._entries[key]
        self._leave(due)
        return True

    def drop_delayed(self) -> list[K]:
        """Takes back every request that waits for its time, and gives their keys; those for running keys stay."""
        return self._cancel_all([entry[2].key for entry in self._agenda if not is_stale(entry, self._agenda)])

    def clear(self) -> list[K]:
        """Takes back every request, also those that are held, and gives their keys; running keys run on."""
        return self._cancel_all(self.keys())

    def keys(self) -> list[K]:
        """The keys for which a request waits."""
        return [due.key for due in self._entries.values() if due.place is not None or due.held is not None]

    def running_keys(self) -> list[K]:
        """The keys that were taken and are not done."""
        return [due.key for due in self._entries.values() if due.place is None]

    def depths(self) -> dict[int, int]:
        """How many requests are ready, by priority: counted anew each time, so for a look now and then."""
        levels = [(level, sum(due.place is queue for due in queue)) for level, queue in self._queues.items()]
        return {level: amount for level, amount in sorted(levels, reverse=True) if amount}

    def _cancel_all(self, keys: list[K]) -> list[K]:
        for key in keys:
            self.cancel(key)
        return keys

    def _choose(self, now: float) -> "deque[Entry[K, R]] | None":
        """The level whose turn it is: the highest, or every second time the one in which somebody waits too long."""
        if not self.ready:
            return None
        chosen: deque[Entry[K, R]] | None = None
        aged: deque[Entry[K, R]] | None = None
        for queue in self._levels:
            while queue and queue[0].place is not queue:
                queue.popleft()
                self._stale_places -= 1
            if queue:
                if chosen is None:
                    chosen = queue
                elif queue[0].since + self.age <= now and (aged is None or queue[0].since < aged[0].since):
                    aged = queue
        self._gave_way = aged is not None and not self._gave_way
        chosen = aged if self._gave_way else chosen
        assert chosen is not None, "something is ready"
        if len(chosen) == self.ready and not self._stale_places:
            self._only = chosen
        return chosen

    def _ask_at(self, key: K, at: float, now: float, priority: int, reason: R | None) -> bool:
        """Asks for a key at a time that is yet to come."""
        if self._agenda:
            self._ripen(now)
        new: Entry[K, R] = Entry(key, priority, () if reason is None else (reason,), at, now)
        due = self._entries.setdefault(key, new)
        if due is not new:
            return self._join(due, new, now)
        self._place(new, now)
        return True

    def _line_up(self, entered: list[Entry[K, R]], new: list[Entry[K, R]], now: float) -> int:
        """Puts each request in line that was entered under its key, or merges it into the one that is there."""
        found = 0
        for due, one in zip(entered, new, strict=False):
            if due is one:
                self._enqueue(one)  # at its level, which may be another queue by now: an empty one is swept out
                found += 1
            else:
                found += self._join(due, one, now)
        return found

    def _join(self, due: Entry[K, R], new: Entry[K, R], now: float) -> bool:
        """Merges a request into the one that its key has, or holds it if the key runs; whether it is a new one then."""
        if due.place is None:
            if due.held is None:
                new.place = None
                due.held = new
                self.held += 1
                return True
            due = due.held
        self._merge(due, new.since, now, new.priority)
        for reason in new.reasons:
            if reason not in due.reasons and len(due.reasons) < self.most_reasons:
                due.reasons += (reason,)
        return False

    def _end(self, key: K, due: Entry[K, R] | None, now: float) -> None:
        """Ends the run of a key whose entry was taken out, if there was one; puts that back if the key does not run."""
        if due is None or due.place is not None:
            if due is not None:
                self._entries[key] = due
            raise ValueError(f"{key} is not running; call done once for each request that was taken")
        if (waiting := due.held) is None:
            return
        due.held = None
        self.held -= 1
        if self._agenda and self._agenda[0][0] <= now:
            self._ripen(now)
        self._entries[key] = waiting
        waiting.since = max(waiting.since, now)
        self._place(waiting, now)

    def _alone(self, reason: R | None) -> tuple[R, ...]:
        """The reasons of a request that has this one; those that follow mostly have the same, and share them."""
        self._last_reason, self._last = reason, () if reason is None else (reason,)
        return self._last

    def _place(self, due: Entry[K, R], now: float) -> None:
        if due.since > now:
            due.place = self._agenda
            heapq.heappush(self._agenda, (due.since, next(self._numbers), due))
        else:
            self._enqueue(due)

    def _enqueue(self, due: Entry[K, R]) -> None:
        due.place = queue = self._level(due.priority)
        queue.append(due)
        self.ready += 1
        if queue is not self._only:
            self._only = None

    def _merge(self, due: Entry[K, R], at: float, now: float, priority: int) -> None:
        """The earliest time and the highest priority win; the place follows."""
        if isinstance(due.place, deque):  # ready, and therefore as early as can be
            if priority > due.priority:
                self._leave(due)
                due.priority = priority
                self._enqueue(due)
            return
        due.priority = max(due.priority, priority)
        if at >= due.since:
            return
        is_delayed = due.place is not None
        if is_delayed:
            self._leave(due)
        due.since = at
        if is_delayed:
            self._place(due, now)

    def _leave(self, due: Entry[K, R]) -> None:
        """Gives up a place; the entry there is stale from now on."""
        if due.place is self._agenda:
            self._stale_appointments += 1
        else:
            self._stale_places += 1
            self.ready -= 1
            self._only = None
        due.place = None
        self._sweep()

    def _sweep(self) -> None:
        if _FEW_ENTRIES < self._stale_appointments > len(self._agenda) // 2:
            # In place: the identity of the agenda says that a request is delayed.
            self._agenda[:] = [entry for entry in self._agenda if not is_stale(entry, self._agenda)]
            heapq.heapify(self._agenda)
            self._stale_appointments = 0
        if _FEW_ENTRIES < self._stale_places > self.ready:
            sweep(self._levels)
            self._stale_places = 0

    def _ripen(self, now: float) -> None:
        """Moves what has become due to the ready ones, the earliest first."""
        agenda = self._agenda
        while agenda and agenda[0][0] <= now:
            at, _, due = heapq.heappop(agenda)
            if due.place is not agenda or due.since != at:
                self._stale_appointments -= 1
            else:
                self._enqueue(due)

    def _level(self, priority: int) -> "deque[Entry[K, R]]":
        queue = self._queues.get(priority)
        return self._open_level(priority) if queue is None else queue

    def _open_level(self, priority: int) -> "deque[Entry[K, R]]":
        if len(self._queues) >= _FEW_LEVELS:
            self._queues = {level: queue for level, queue in self._queues.items() if queue}
        queue = self._queues[priority] = deque()
        self._levels = [self._queues[level] for level in sorted(self._queues, reverse=True)]
        return queue
