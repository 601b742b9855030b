"""Many triggers become one: a burst is answered once, and the answer is never put off for ever.

A *rule* says when a burst is answered, from the times of its first and its latest trigger. `Debouncer` applies a rule
to any number of keys and is pure: it is told the time. `Stream.debounce` is the same thing around a stream.
"""

import heapq
import math
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

__all__ = ["Debouncer", "Leading", "Trailing"]

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Leading:
    """The first trigger of a burst sets the time, `after` seconds later; what comes before then changes nothing.

    The item of the first trigger is the one that is passed on.
    """

    after: float

    def __post_init__(self) -> None:
        _require(0 <= self.after < math.inf, f"{self}: after must be a finite number of seconds, not below 0")

    def due(self, first: float, latest: float) -> float:  # noqa: ARG002 -- the signature of every rule
        """When a burst with these first and latest triggers is answered."""
        return first + self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailing:
    """A burst is answered when it has been silent for `after` seconds, but always `within` so many of its start.

    The item of the latest trigger is the one that is passed on.
    """

    after: float
    within: float

    def __post_init__(self) -> None:
        _require(0 <= self.after < math.inf, f"{self}: after must be a finite number of seconds, not below 0")
        _require(self.after <= self.within < math.inf, f"{self}: within must be finite and at least as long as after")

    def due(self, first: float, latest: float) -> float:
        """When a burst with these first and latest triggers is answered."""
        return min(latest + self.after, first + self.within)


class Debouncer(Generic[K, T]):
    """The bursts that are still unanswered, each under its key.

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
        # One entry per burst; its time may be too early, never too late, since a later trigger only postpones.
        self._agenda: list[tuple[float, int, K]] = []
        self._numbers = count()  # those due at the same time come in the order of their first triggers

    def __len__(self) -> int:
        return len(self._bursts)

    def trigger(self, key: K, item: T, *, now: float) -> bool:
        """Adds a trigger to the burst of its key; whether that is a new burst. `now` never goes back."""
        burst = self._bursts.get(key)
        if burst is None:
            burst = self._bursts[key] = _Burst(item, due=self.rule.due(now, now), first=now, number=next(self._numbers))
            heapq.heappush(self._agenda, (burst.due, burst.number, key))
            return True
        if isinstance(self.rule, Trailing):
            burst.item = item
            burst.due = self.rule.due(burst.first, now)
        return False

    def next_due(self) -> float | None:
        """When the next burst is to be answered; None if there is none."""
        self._settle_head()
        return self._agenda[0][0] if self._agenda else None

    def take_due(self, now: float, *, limit: int | None = None) -> list[T]:
        """Removes what is due, at most `limit` of it, and gives its items, the earliest first.

        A burst that is due and not taken still takes in the triggers of its key.
        """
        taken: list[T] = []
        while len(taken) != limit and (due := self.next_due()) is not None and due <= now:
            _, _, key = heapq.heappop(self._agenda)
            taken.append(self._bursts.pop(key).item)
        return taken

    def _settle_head(self) -> None:
        while self._agenda:
            due, number, key = self._agenda[0]
            current = self._bursts[key].due
            if current == due:
                return
            heapq.heapreplace(self._agenda, (current, number, key))


@dataclass(slots=True)
class _Burst(Generic[T]):
    item: T
    due: float
    first: float
    number: int


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)
