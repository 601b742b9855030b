"""Rate limits of a work queue: exponential backoff per key, and a token bucket for all keys together."""

import math
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from levelset.aio import Backoff

__all__ = ["DEFAULT_BACKOFF", "FailureCounts", "TokenBucket"]

K = TypeVar("K", bound=Hashable)

DEFAULT_BACKOFF: Final = Backoff(first=5.0, factor=2.0, cap=300.0, jitter=0.2, quiet=None)
"""The default backoff of a failing key: 5 s, 10 s, 20 s and so on up to 5 min, each shortened by up to a fifth."""

_TOLERANCE: Final = 1e-9  # a token may be short by this much: the time that was slept is never exact


class FailureCounts(Generic[K]):
    """The failures in a row of each key, and the backoff that follows from them.

    A key takes memory from its first failure until `forget`. The policy is a Backoff, or any function from the number
    of earlier failures to seconds: `lambda n: 0.1 if n < 3 else 60.0` retries three times fast, then slowly; combine
    several with `max(...)` and `min(...)`.

    ```python
    from levelset.aio import Backoff
    from levelset.runtime.queue import FailureCounts

    failures: FailureCounts[str] = FailureCounts(Backoff(first=1.0, jitter=0.0))
    assert [failures.next_delay("a", now=0.0) for _ in range(3)] == [1.0, 2.0, 4.0]
    failures.forget("a")
    assert failures.next_delay("a", now=9.0) == 1.0
    ```
    """

    __slots__ = ("_delay", "_quiet", "_runs")

    def __init__(self, policy: Backoff | Callable[[int], float] = DEFAULT_BACKOFF) -> None:
        self._delay = policy.delay if isinstance(policy, Backoff) else policy
        self._quiet = policy.quiet if isinstance(policy, Backoff) else None
        self._runs: dict[K, tuple[int, float]] = {}  # the number of failures, and when the last wait ends

    def __len__(self) -> int:
        """The number of keys that have failed and are not forgotten."""
        return len(self._runs)

    def next_delay(self, key: K, now: float) -> float:
        """Counts a failure at time `now` and returns the seconds to wait before the retry.

        With a policy that has a `quiet` time, the count restarts for a key whose last wait ended so long ago.
        """
        failures, over = self._runs.get(key, (0, now))
        if self._quiet is not None and now - over >= self._quiet:
            failures = 0
        delay = self._delay(failures)
        self._runs[key] = (failures + 1, now + delay)
        return delay

    def count(self, key: K) -> int:
        """The number of failures of the key in a row."""
        return self._runs.get(key, (0, 0.0))[0]

    def forget(self, key: K) -> int:
        """Resets the key, after a success or when it is given up; returns how often it had failed."""
        return self._runs.pop(key, (0, 0.0))[0]


class TokenBucket:
    """A token bucket: allows `burst` operations at once and `rate` per second on average. Pure: it is given the time.

    `take` is for callers that do without a token, `reserve` for callers that wait. No wait is longer than `max_wait`
    seconds, so that many reservations at once do not delay much later ones.
    """

    __slots__ = ("_last", "_tokens", "burst", "max_wait", "rate")

    def __init__(self, rate: float, burst: int, *, max_wait: float = 60.0) -> None:
        if not (0 < rate < math.inf and burst >= 1 and max_wait > 0):
            raise ValueError(
                f"TokenBucket({rate=}, {burst=}, {max_wait=}): rate must be above 0 and finite, burst at least 1, "
                "max_wait above 0"
            )
        self.rate = rate
        self.burst = burst
        self.max_wait = max_wait
        self._tokens = float(burst)
        self._last = -math.inf

    def available(self, now: float) -> int:
        """The number of tokens that could be taken now."""
        return max(0, math.floor(self._filled(now) + _TOLERANCE))

    def wait(self, now: float) -> float:
        """The seconds until there is a token; 0 if there is one."""
        return self._missing(self._filled(now))

    def take(self, now: float) -> bool:
        """Takes a token if there is one."""
        if self._filled(now) < 1 - _TOLERANCE:
            return False
        self._tokens -= 1
        return True

    def reserve(self, now: float) -> float:
        """Takes a token, possibly a future one, and returns in how many seconds it may be used."""
        tokens = self._filled(now)
        wait = self._missing(tokens)
        if wait < self.max_wait:
            self._tokens = tokens - 1
        return min(wait, self.max_wait)

    def _filled(self, now: float) -> float:
        if now > self._last:  # a clock that goes backwards must not remove tokens
            if self._tokens < self.burst:
                self._tokens = min(float(self.burst), self._tokens + (now - self._last) * self.rate)
            self._last = now
        return self._tokens

    def _missing(self, tokens: float) -> float:
        # At least a microsecond: a smaller delay is lost to rounding when it is added to a large time.
        return 0.0 if tokens >= 1 - _TOLERANCE else max(1e-6, (1 - tokens) / self.rate)
