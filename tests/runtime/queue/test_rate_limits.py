"""Growing delays of keys that fail, and the bucket that limits how much is done at all."""

import math

import pytest

from levelset.aio import Backoff
from levelset.runtime.queue import TRANSIENT, Failures, TokenBucket

EXACT = Backoff(first=5.0, cap=300.0, jitter=0.0, quiet=None)


def test_delays_double_from_the_first_and_stop_at_the_cap() -> None:
    failures: Failures[str] = Failures(EXACT)
    delays = [failures.next_delay("a", 0.0) for _ in range(9)]
    assert delays == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0]


def test_failures_without_end_do_not_overflow() -> None:
    failures: Failures[str] = Failures(EXACT)
    assert {failures.next_delay("a", 0.0) for _ in range(3000)} >= {300.0}
    assert (failures.next_delay("a", 0.0), failures.count("a")) == (300.0, 3001)


def test_a_forgotten_key_starts_again() -> None:
    failures: Failures[str] = Failures(EXACT)
    failures.next_delay("a", 0.0)
    failures.next_delay("a", 0.0)
    assert failures.forget("a") == 2
    assert (failures.count("a"), failures.forget("a"), failures.next_delay("a", 0.0)) == (0, 0, 5.0)


def test_keys_do_not_influence_each_other() -> None:
    failures: Failures[str] = Failures(EXACT)
    failures.next_delay("a", 0.0)
    assert (failures.next_delay("a", 0.0), failures.next_delay("b", 0.0)) == (10.0, 5.0)


def test_nothing_is_left_of_forgotten_keys() -> None:
    failures: Failures[int] = Failures()
    for key in range(1000):
        failures.next_delay(key, 0.0)
        failures.forget(key)
    assert len(failures) == 0


def test_a_transient_failure_waits_from_five_seconds_to_five_minutes_by_default() -> None:
    failures: Failures[str] = Failures()
    delays = [failures.next_delay("a", 0.0) for _ in range(20)]
    assert all(0.8 * TRANSIENT.ceiling(n) <= delay <= TRANSIENT.ceiling(n) for n, delay in enumerate(delays))
    assert (TRANSIENT.ceiling(0), TRANSIENT.ceiling(20)) == (5.0, 300.0)
    assert len(set(delays)) == 20


def test_a_quiet_time_starts_a_key_again() -> None:
    failures: Failures[str] = Failures(Backoff(first=5.0, cap=300.0, jitter=0.0, quiet=60.0))
    assert [failures.next_delay("a", now) for now in (0.0, 5.0)] == [5.0, 10.0]
    assert failures.next_delay("a", 74.9) == 20.0
    assert failures.next_delay("a", 74.9 + 20.0 + 60.0) == 5.0


def test_any_function_of_the_number_of_failures_is_a_policy() -> None:
    fast_slow: Failures[str] = Failures(lambda n: 0.1 if n < 2 else 60.0)
    assert [fast_slow.next_delay("a", 0.0) for _ in range(4)] == [0.1, 0.1, 60.0, 60.0]
    bucket = TokenBucket(1.0, 1)
    longest_of: Failures[str] = Failures(lambda n: max(EXACT.delay(n), bucket.reserve(0.0)))
    assert [longest_of.next_delay(key, 0.0) for key in "abcdefgh"][-1] == 7.0
    at_most: Failures[str] = Failures(lambda n: min(EXACT.delay(n), 12.0))
    assert [at_most.next_delay("a", 0.0) for _ in range(4)] == [5.0, 10.0, 12.0, 12.0]


def test_a_bucket_allows_a_burst_and_then_its_rate() -> None:
    bucket = TokenBucket(2.0, 3)
    assert [bucket.take(0.0) for _ in range(4)] == [True, True, True, False]
    assert (bucket.wait(0.0), bucket.available(0.0)) == (0.5, 0)
    assert [bucket.take(0.5), bucket.take(0.5)] == [True, False]


def test_a_bucket_that_was_left_alone_is_full_and_no_fuller() -> None:
    bucket = TokenBucket(2.0, 3)
    bucket.take(0.0)
    assert bucket.available(1000.0) == 3


def test_those_who_reserve_wait_one_behind_the_other() -> None:
    bucket = TokenBucket(1.0, 1)
    assert [bucket.reserve(0.0) for _ in range(4)] == [0.0, 1.0, 2.0, 3.0]
    assert bucket.reserve(2.0) == 2.0


def test_a_crowd_of_reservations_never_delays_beyond_the_longest_wait() -> None:
    bucket = TokenBucket(1.0, 1, longest=10.0)
    assert max(bucket.reserve(0.0) for _ in range(5000)) == 10.0
    assert bucket.reserve(20.0) == 0.0


def test_a_clock_that_goes_back_takes_no_token_away() -> None:
    bucket = TokenBucket(1.0, 2)
    assert bucket.take(10.0)
    assert (bucket.take(0.0), bucket.take(0.0), bucket.take(10.5), bucket.take(11.0)) == (True, False, False, True)


@pytest.mark.parametrize(("rate", "burst"), [(0.0, 1), (-1.0, 1), (math.inf, 1), (math.nan, 1), (1.0, 0)])
def test_a_bucket_that_makes_no_sense_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="TokenBucket"):
        TokenBucket(rate, burst)


def test_waiting_as_long_as_it_says_is_long_enough() -> None:
    bucket = TokenBucket(3.0, 1)
    now = 0.1
    for _ in range(100):
        now += bucket.wait(now)
        assert bucket.take(now)
