"""How often and how soon: a growing delay after each failure of a key, and a limit on how much is done at all."""

import math
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from levelset.aio import Backoff

__all__ = ["TRANSIENT", "Failures", "TokenBucket"]

K = TypeVar("K", bound=Hashable)

TRANSIENT: Final = Backoff(first=5.0, factor=2.0, cap=300.0, jitter=0.2, quiet=None)
"""What a failing key waits unless told otherwise: 5 s, 10 s, 20 s and so on to 5 min, each up to a fifth shorter."""

_HAIR: Final = 1e-9  # so much less than a token is a token: the time that was waited is never exact


class Failures(Generic[K]):
    """How often each key has failed in a row, and so how long it waits before it is tried again.

    A key takes up memory from its first failure until `forget`. The policy is a Backoff, or any function from the
    number of earlier failures to seconds: `lambda n: 0.1 if n < 3 else 60.0` tries three times fast, then slowly;
    `max(...)` and `min(...)` of several combine them.

    ```python
    from levelset.aio import Backoff
    from levelset.runtime.queue import Failures

    failures: Failures[str] = Failures(Backoff(first=1.0, jitter=0.0))
    assert [failures.next_delay("a", now=0.0) for _ in range(3)] == [1.0, 2.0, 4.0]
    failures.forget("a")
    assert failures.next_delay("a", now=9.0) == 1.0
    ```
    """

    __slots__ = ("_delay", "_quiet", "_runs")

    def __init__(self, policy: Backoff | Callable[[int], float] = TRANSIENT) -> None:
        self._delay = policy.delay if isinstance(policy, Backoff) else policy
        self._quiet = policy.quiet if isinstance(policy, Backoff) else None
        self._runs: dict[K, tuple[int, float]] = {}  # how many failures, and when the last wait is over

    def __len__(self) -> int:
        """How many keys have failed and are not forgotten."""
        return len(self._runs)

    def next_delay(self, key: K, now: float) -> float:
        """Counts a failure that happened at `now`, and says how many seconds to wait because of it.

        A policy with a `quiet` time starts again for a key whose last wait has been over for so long.
        """
        failures, over = self._runs.get(key, (0, now))
        if self._quiet is not None and now - over >= self._quiet:
            failures = 0
        delay = self._delay(failures)
        self._runs[key] = (failures + 1, now + delay)
        return delay

    def count(self, key: K) -> int:
        """How often the key has failed in a row."""
        return self._runs.get(key, (0, 0.0))[0]

    def forget(self, key: K) -> int:
        """Starts again from the first delay, after a success or when the key is given up; how often it had failed."""
        return self._runs.pop(key, (0, 0.0))[0]


class TokenBucket:
    """Allows `burst` things at once and `rate` per second on average; it is told the time.

    `take` is for those who can do without, `reserve` for those who will wait. Nobody is ever told to wait longer than
    `longest` seconds: a crowd that has reserved does not delay those who come much later.
    """

    __slots__ = ("_last", "_tokens", "burst", "longest", "rate")

    def __init__(self, rate: float, burst: int, *, longest: float = 60.0) -> None:
        if not (0 < rate < math.inf and burst >= 1 and longest > 0):
            raise ValueError(
                f"TokenBucket({rate=}, {burst=}, {longest=}): rate is above 0 and finite, burst at least 1, longest > 0"
            )
        self.rate = rate
        self.burst = burst
        self.longest = longest
        self._tokens = float(burst)
        self._last = -math.inf

    def available(self, now: float) -> int:
        """How many tokens could be taken at once."""
        return max(0, math.floor(self._filled(now) + _HAIR))

    def wait(self, now: float) -> float:
        """The seconds until there is a token; 0 if there is one."""
        return self._missing(self._filled(now))

    def take(self, now: float) -> bool:
        """Takes a token if there is one."""
        if self._filled(now) < 1 - _HAIR:
            return False
        self._tokens -= 1
        return True

    def reserve(self, now: float) -> float:
        """Takes a token, perhaps one of the future, and says in how many seconds it may be used."""
        tokens = self._filled(now)
        wait = self._missing(tokens)
        if wait < self.longest:
            self._tokens = tokens - 1
        return min(wait, self.longest)

    def _filled(self, now: float) -> float:
        if now > self._last:  # a clock that goes back takes nothing away
            if self._tokens < self.burst:
                self._tokens = min(float(self.burst), self._tokens + (now - self._last) * self.rate)
            self._last = now
        return self._tokens

    def _missing(self, tokens: float) -> float:
        # Not less than a microsecond: what is added to a large time must not be lost by rounding.
        return 0.0 if tokens >= 1 - _HAIR else max(1e-6, (1 - tokens) / self.rate)
