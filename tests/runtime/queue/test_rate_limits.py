"""The backoff of failing keys, and the token bucket."""

import math

import pytest

from levelset.aio import Backoff
from levelset.runtime.queue import DEFAULT_BACKOFF, FailureCounts, TokenBucket

EXACT = Backoff(first=5.0, cap=300.0, jitter=0.0, quiet=None)


def test_delays_double_from_the_first_and_stop_at_the_cap() -> None:
    failures: FailureCounts[str] = FailureCounts(EXACT)
    delays = [failures.next_delay("a", 0.0) for _ in range(9)]
    assert delays == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0]


def test_failures_without_end_do_not_overflow() -> None:
    failures: FailureCounts[str] = FailureCounts(EXACT)
    assert {failures.next_delay("a", 0.0) for _ in range(3000)} >= {300.0}
    assert (failures.next_delay("a", 0.0), failures.count("a")) == (300.0, 3001)


def test_a_forgotten_key_restarts_its_backoff() -> None:
    failures: FailureCounts[str] = FailureCounts(EXACT)
    failures.next_delay("a", 0.0)
    failures.next_delay("a", 0.0)
    assert failures.forget("a") == 2
    assert (failures.count("a"), failures.forget("a"), failures.next_delay("a", 0.0)) == (0, 0, 5.0)


def test_keys_are_independent() -> None:
    failures: FailureCounts[str] = FailureCounts(EXACT)
    failures.next_delay("a", 0.0)
    assert (failures.next_delay("a", 0.0), failures.next_delay("b", 0.0)) == (10.0, 5.0)


def test_forgotten_keys_take_no_memory() -> None:
    failures: FailureCounts[int] = FailureCounts()
    for key in range(1000):
        failures.next_delay(key, 0.0)
        failures.forget(key)
    assert len(failures) == 0


def test_a_transient_failure_waits_from_five_seconds_to_five_minutes_by_default() -> None:
    failures: FailureCounts[str] = FailureCounts()
    delays = [failures.next_delay("a", 0.0) for _ in range(20)]
    assert all(
        0.8 * DEFAULT_BACKOFF.ceiling(n) <= delay <= DEFAULT_BACKOFF.ceiling(n) for n, delay in enumerate(delays)
    )
    assert (DEFAULT_BACKOFF.ceiling(0), DEFAULT_BACKOFF.ceiling(20)) == (5.0, 300.0)
    assert len(set(delays)) == 20


def test_a_quiet_time_restarts_the_backoff_of_a_key() -> None:
    failures: FailureCounts[str] = FailureCounts(Backoff(first=5.0, cap=300.0, jitter=0.0, quiet=60.0))
    assert [failures.next_delay("a", now) for now in (0.0, 5.0)] == [5.0, 10.0]
    assert failures.next_delay("a", 74.9) == 20.0
    assert failures.next_delay("a", 74.9 + 20.0 + 60.0) == 5.0


def test_any_function_of_the_number_of_failures_is_a_policy() -> None:
    fast_slow: FailureCounts[str] = FailureCounts(lambda n: 0.1 if n < 2 else 60.0)
    assert [fast_slow.next_delay("a", 0.0) for _ in range(4)] == [0.1, 0.1, 60.0, 60.0]
    bucket = TokenBucket(1.0, 1)
    longest_of: FailureCounts[str] = FailureCounts(lambda n: max(EXACT.delay(n), bucket.reserve(0.0)))
    assert [longest_of.next_delay(key, 0.0) for key in "abcdefgh"][-1] == 7.0
    at_most: FailureCounts[str] = FailureCounts(lambda n: min(EXACT.delay(n), 12.0))
    assert [at_most.next_delay("a", 0.0) for _ in range(4)] == [5.0, 10.0, 12.0, 12.0]


def test_a_bucket_allows_a_burst_and_then_its_rate() -> None:
    bucket = TokenBucket(2.0, 3)
    assert [bucket.take(0.0) for _ in range(4)] == [True, True, True, False]
    assert (bucket.wait(0.0), bucket.available(0.0)) == (0.5, 0)
    assert [bucket.take(0.5), bucket.take(0.5)] == [True, False]


def test_an_unused_bucket_fills_up_to_its_burst() -> None:
    bucket = TokenBucket(2.0, 3)
    bucket.take(0.0)
    assert bucket.available(1000.0) == 3


def test_reservations_wait_in_order() -> None:
    bucket = TokenBucket(1.0, 1)
    assert [bucket.reserve(0.0) for _ in range(4)] == [0.0, 1.0, 2.0, 3.0]
    assert bucket.reserve(2.0) == 2.0


def test_many_reservations_never_wait_longer_than_max_wait() -> None:
    bucket = TokenBucket(1.0, 1, max_wait=10.0)
    assert max(bucket.reserve(0.0) for _ in range(5000)) == 10.0
    assert bucket.reserve(20.0) == 0.0


def test_a_clock_that_goes_backwards_removes_no_token() -> None:
    bucket = TokenBucket(1.0, 2)
    assert bucket.take(10.0)
    assert (bucket.take(0.0), bucket.take(0.0), bucket.take(10.5), bucket.take(11.0)) == (True, False, False, True)


@pytest.mark.parametrize(("rate", "burst"), [(0.0, 1), (-1.0, 1), (math.inf, 1), (math.nan, 1), (1.0, 0)])
def test_invalid_bucket_options_are_rejected(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="TokenBucket"):
        TokenBucket(rate, burst)


def test_waiting_for_the_returned_time_is_enough() -> None:
    bucket = TokenBucket(3.0, 1)
    now = 0.1
    for _ in range(100):
        now += bucket.wait(now)
        assert bucket.take(now)
