"""Debouncing: a burst of triggers is emitted once, and its delay is bounded.

A *rule* computes when a burst is emitted, from the times of its first and latest trigger. `Debouncer` applies a rule to
any number of keys; it is pure and gets the time as an argument. `Stream.debounce` applies it to a stream.
"""

import heapq
import math
from collections.abc import Hashable
from itertools import count
from typing import Generic, TypeVar

import msgspec

__all__ = ["Debouncer", "Leading", "Trailing"]

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Leading(msgspec.Struct, frozen=True):
    """Emits a burst `after` seconds after its first trigger; later triggers change nothing.

    The item of the first trigger is emitted.
    """

    after: float

    def __post_init__(self) -> None:
        _require(0 <= self.after < math.inf, f"{self}: after must be a finite number of seconds, not below 0")

    def due(self, first: float, latest: float) -> float:  # noqa: ARG002 -- the signature of every rule
        """When a burst with these first and latest triggers is emitted."""
        return first + self.after


class Trailing(msgspec.Struct, frozen=True, kw_only=True):
    """Emits a burst `after` seconds after its latest trigger, but always `within` seconds of its first.

    The item of the latest trigger is emitted.
    """

    after: float
    within: float

    def __post_init__(self) -> None:
        _require(0 <= self.after < math.inf, f"{self}: after must be a finite number of seconds, not below 0")
        _require(self.after <= self.within < math.inf, f"{self}: within must be finite and at least as long as after")

    def due(self, first: float, latest: float) -> float:
        """When a burst with these first and latest triggers is emitted."""
        return min(latest + self.after, first + self.within)


class Debouncer(Generic[K, T]):
    """The pending bursts, by key.

    ```python
    from levelset.aio import Debouncer, Leading

    bursts: Debouncer[str, str] = Debouncer(Leading(1.0))
    assert bursts.trigger("a", "first", now=0.0)
    assert not bursts.trigger("a", "second", now=0.3)
    assert bursts.next_due() == 1.0
    assert bursts.take_due(now=1.0) == ["first"]
    ```
    """

    def __init__(self, rule: Leading | Trailing) -> None:
        self.rule = rule
        self._bursts: dict[K, _Burst[T]] = {}
        # One entry per burst. Its time may be too early, never too late: a later trigger only postpones.
        self._heap: list[tuple[float, int, K]] = []
        self._numbers = count()  # ties are emitted in the order of their first triggers

    def __len__(self) -> int:
        return len(self._bursts)

    def trigger(self, key: K, item: T, *, now: float) -> bool:
        """Adds a trigger to the burst of its key; returns whether that is a new burst. `now` must never decrease."""
        burst = self._bursts.get(key)
        if burst is None:
            burst = self._bursts[key] = _Burst(item, due=self.rule.due(now, now), first=now, number=next(self._numbers))
            heapq.heappush(self._heap, (burst.due, burst.number, key))
            return True
        if isinstance(self.rule, Trailing):
            burst.item = item
            burst.due = self.rule.due(burst.first, now)
        return False

    def next_due(self) -> float | None:
        """When the next burst is due; None if there is none."""
        self._fix_top()
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float, *, limit: int | None = None) -> list[T]:
        """Removes at most `limit` bursts that are due and returns their items, the earliest first.

        A due burst that is not taken yet still absorbs the triggers of its key.
        """
        taken: list[T] = []
        while len(taken) != limit and (due := self.next_due()) is not None and due <= now:
            _, _, key = heapq.heappop(self._heap)
            taken.append(self._bursts.pop(key).item)
        return taken

    def _fix_top(self) -> None:
        while self._heap:
            due, number, key = self._heap[0]
            current = self._bursts[key].due
            if current == due:
                return
            heapq.heapreplace(self._heap, (current, number, key))


class _Burst(msgspec.Struct, Generic[T]):
    item: T
    due: float
    first: float
    number: int


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)
