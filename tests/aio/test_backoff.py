"""Delays grow, never beyond their bounds, and start again after a quiet period."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.aio import Backoff, timing

seconds = st.floats(min_value=1e-6, max_value=1e6)
chances = st.floats(min_value=0.0, max_value=1.0)


@st.composite
def backoffs(draw: st.DrawFn) -> Backoff:
    first = draw(seconds)
    return Backoff(
        first=first,
        factor=draw(st.floats(min_value=1.0, max_value=1e6)),
        cap=first * draw(st.floats(min_value=1.0, max_value=1e6)),
        jitter=draw(chances),
        quiet=draw(st.none() | seconds),
    )


def test_without_jitter_each_delay_is_the_factor_times_the_last_up_to_the_cap() -> None:
    delays = Backoff(first=0.5, factor=2.0, cap=3.0, jitter=0.0).delays()
    assert [next(delays) for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_it_can_be_used_in_a_for_loop() -> None:
    taken: list[float] = []
    for delay in Backoff(first=1.0, jitter=0.0).delays():
        taken.append(delay)
        if len(taken) == 3:
            break
    assert taken == [1.0, 2.0, 4.0]


@given(backoffs(), st.integers(0, 5000), chances)
def test_a_delay_lies_between_the_jittered_minimum_and_the_ceiling(
    backoff: Backoff, failures: int, chance: float
) -> None:
    ceiling = backoff.ceiling(failures)
    delay = backoff.delay(failures, random=lambda: chance)
    assert 0.0 <= ceiling * (1 - backoff.jitter) * (1 - 1e-9) <= delay + 1e-12
    assert delay <= ceiling <= backoff.cap


@given(backoffs(), st.integers(0, 10**6))
def test_the_ceiling_never_falls_and_never_overflows(backoff: Backoff, failures: int) -> None:
    assert backoff.first <= backoff.ceiling(failures) <= backoff.ceiling(failures + 1) <= backoff.cap
    assert math.isfinite(backoff.ceiling(10**9))


@given(st.integers())
def test_the_same_seed_gives_the_same_delays(seed: int) -> None:
    one, two = (Backoff().delays(random=random.Random(seed).random) for _ in range(2))
    assert [next(one) for _ in range(20)] == [next(two) for _ in range(20)]


def test_full_jitter_spreads_over_the_whole_range() -> None:
    backoff = Backoff(first=10.0, cap=10.0)
    drawn = sorted(backoff.delay(0, random=random.Random(seed).random) for seed in range(200))
    assert drawn[0] < 1.0 < 9.0 < drawn[-1]


def test_after_ten_thousand_failures_it_still_waits_for_the_cap() -> None:
    delays = Backoff(cap=30.0, jitter=0.0).delays()
    for _ in range(10_000):
        next(delays)
    assert next(delays) == 30.0


def test_a_quiet_period_starts_again_from_the_first_delay() -> None:
    delays = Backoff(first=1.0, jitter=0.0, quiet=60.0).delays()
    assert [delays.next_delay(0.0), delays.next_delay(1.0)] == [1.0, 2.0]
    assert delays.next_delay(3.0 + 59.9) == 4.0
    assert delays.next_delay(3.0 + 59.9 + 4.0 + 60.0) == 1.0


def test_the_wait_itself_does_not_count_as_quiet() -> None:
    delays = Backoff(first=100.0, cap=1000.0, jitter=0.0, quiet=50.0).delays()
    assert [delays.next_delay(0.0), delays.next_delay(100.0), delays.next_delay(300.0)] == [100.0, 200.0, 400.0]


@given(backoffs(), st.lists(st.floats(0, 1e9), min_size=1).map(sorted))
def test_failures_in_a_row_are_those_since_the_last_quiet_period(backoff: Backoff, times: list[float]) -> None:
    delays = backoff.delays(random=lambda: 0.0)
    over, failures = math.inf, 0
    for now in times:
        if backoff.quiet is not None and now - over >= backoff.quiet:
            failures = 0
        assert delays.next_delay(now) == backoff.ceiling(failures)
        over, failures = now + backoff.ceiling(failures), failures + 1


def test_without_a_quiet_period_only_reset_starts_again() -> None:
    delays = Backoff(first=1.0, jitter=0.0, quiet=None).delays()
    assert [delays.next_delay(0.0), delays.next_delay(1e9)] == [1.0, 2.0]
    delays.reset()
    assert (delays.failures, delays.next_delay(2e9)) == (0, 1.0)


async def test_wait_sleeps_through_the_next_delay() -> None:
    delays = Backoff(first=1.0, jitter=0.0, quiet=10.0).delays()
    assert [await delays.wait(), await delays.wait()] == [1.0, 2.0]
    assert timing.now() == 3.0
    await timing.sleep(10)
    assert await delays.wait() == 1.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("first", 0.0),
        ("first", -1.0),
        ("first", math.nan),
        ("factor", 0.5),
        ("factor", math.inf),
        ("cap", 0.1),
        ("cap", math.inf),
        ("jitter", -0.1),
        ("jitter", 1.1),
        ("jitter", math.nan),
        ("quiet", 0.0),
        ("quiet", math.nan),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"Backoff\({field}={value!r}\): {field} must be"):
        Backoff(**{field: value})


def test_a_policy_is_a_value() -> None:
    assert Backoff(first=1.0) == Backoff(first=1.0)
    assert len({Backoff(), Backoff()}) == 1
