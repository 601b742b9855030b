"""Exponential backoff with jitter and a cap."""

import math
import random as stdlib_random
from collections.abc import Callable, Iterator

import msgspec

from levelset.aio import timing

__all__ = ["Backoff", "Delays"]


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """A policy of growing delays, as an immutable value; `delays()` starts a sequence of them.

    The n-th failure in a row waits at most `first * factor**n` seconds, and never more than `cap`. `jitter` is the
    random share of that: 1.0 (full jitter) draws from the whole range, 0.0 is exact. After `quiet` seconds without a
    failure the sequence starts again from `first`; None leaves that to `Delays.reset`.
    """

    first: float = 0.8
    """The longest delay after the first failure, in seconds."""
    factor: float = 2.0
    """By how much the delay grows with each further failure."""
    cap: float = 30.0
    """The longest delay of all, in seconds."""
    jitter: float = 1.0
    """The random share of a delay, from 0 (none) to 1 (full)."""
    quiet: float | None = 120.0
    """After so many seconds without a failure the delays start again from `first`; None: only when they are reset."""

    def __post_init__(self) -> None:
        self._require(0 < self.first < math.inf, "first", "a positive, finite number of seconds")
        self._require(1 <= self.factor < math.inf, "factor", "a finite number, at least 1")
        self._require(self.first <= self.cap < math.inf, "cap", "finite, and at least as long as first")
        self._require(0 <= self.jitter <= 1, "jitter", "between 0 (none) and 1 (full)")
        self._require(self.quiet is None or 0 < self.quiet < math.inf, "quiet", "positive and finite, or None")

    def _require(self, holds: bool, field: str, rule: str) -> None:
        if not holds:
            raise ValueError(f"Backoff({field}={getattr(self, field)!r}): {field} must be {rule}")

    def ceiling(self, failures: int) -> float:
        """The longest wait after so many earlier failures in a row (0 gives `first`)."""
        try:
            return min(self.cap, self.first * self.factor**failures)
        except OverflowError:
            return self.cap

    def delay(self, failures: int, *, random: Callable[[], float] = stdlib_random.random) -> float:
        """A random wait after so many earlier failures in a row; `random` returns numbers from 0 to 1."""
        ceiling = self.ceiling(failures)
        # Never above the ceiling, also after rounding: the subtracted part is never negative.
        return ceiling - ceiling * self.jitter * random()

    def delays(self, *, random: Callable[[], float] = stdlib_random.random) -> "Delays":
        """A sequence of delays that starts at `first`."""
        return Delays(self, random)


class Delays(Iterator[float]):
    """The endless sequence of delays of a Backoff: counts failures, and gets the time as an argument.

    ```python
    from levelset.aio import Backoff

    delays = Backoff(first=1.0, jitter=0.0, cap=5.0).delays()
    assert [next(delays) for _ in range(4)] == [1.0, 2.0, 4.0, 5.0]
    ```
    """

    __slots__ = ("_random", "_wait_ends", "backoff", "failures")

    def __init__(self, backoff: Backoff, random: Callable[[], float]) -> None:
        self.backoff = backoff
        self.failures = 0
        self._random = random
        self._wait_ends: float | None = None

    def __iter__(self) -> "Delays":
        return self

    def __next__(self) -> float:
        return self.next_delay()

    def next_delay(self, now: float | None = None) -> float:
        """The wait after a failure at `now`; without a time the quiet period is not considered.

        The quiet period starts at the end of the last wait, not at the last failure: sleeping is not success.
        """
        if now is not None and self._was_quiet(now):
            self.reset()
        delay = self.backoff.delay(self.failures, random=self._random)
        self.failures += 1
        self._wait_ends = None if now is None else now + delay
        return delay

    def _was_quiet(self, now: float) -> bool:
        quiet = self.backoff.quiet
        return quiet is not None and self._wait_ends is not None and now - self._wait_ends >= quiet

    def reset(self) -> None:
        """Resets the failure count: the next wait is the first again."""
        self.failures = 0
        self._wait_ends = None

    async def wait(self) -> float:
        """Sleeps for the next delay after a failure that happened now, and returns how long it was."""
        delay = self.next_delay(timing.now())
        await timing.sleep(delay)
        return delay
