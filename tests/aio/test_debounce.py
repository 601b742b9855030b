"""A burst is emitted once, in time, and never postponed for ever."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.aio import Debouncer, Leading, Trailing

times = st.lists(st.integers(0, 400).map(lambda tenth: tenth / 8), max_size=40).map(sorted)
leading = st.integers(0, 40).map(lambda eighths: Leading(eighths / 8))
trailing = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(
    lambda pair: Trailing(after=min(pair) / 8, within=max(pair) / 8)
)


def answers(rule: Leading | Trailing, triggers: list[float]) -> list[tuple[float, float]]:
    """The emissions for bursts of one key, each with its item (the time of a trigger), for an attentive reader."""
    bursts: Debouncer[str, float] = Debouncer(rule)
    found: list[tuple[float, float]] = []
    for now in triggers:
        # Exactly when a trigger comes at the very moment something is due, the trigger is first.
        while (due := bursts.next_due()) is not None and due < now:
            found += [(due, item) for item in bursts.take_due(due)]
        bursts.trigger("key", now, now=now)
    while (due := bursts.next_due()) is not None:
        found += [(due, item) for item in bursts.take_due(due)]
    return found


def test_leading_uses_the_first_trigger_and_ignores_later_ones() -> None:
    assert answers(Leading(1.0), [0.0, 0.3, 1.2]) == [(1.0, 0.0), (2.2, 1.2)]


def test_a_stream_of_triggers_cannot_starve_a_leading_burst() -> None:
    assert [when for when, _ in answers(Leading(1.0), [n / 10 for n in range(25)])] == pytest.approx([1.0, 2.1, 3.2])


def test_trailing_waits_for_silence_and_emits_the_latest_item() -> None:
    assert answers(Trailing(after=1.0, within=10.0), [0.0, 0.5, 1.2, 5.0]) == [(2.2, 1.2), (6.0, 5.0)]


def test_trailing_is_never_later_than_its_limit() -> None:
    assert answers(Trailing(after=1.0, within=3.0), [0.0, 0.9, 1.8, 2.7, 3.6]) == [(3.0, 2.7), (4.6, 3.6)]


@given(leading | trailing, times)
def test_every_trigger_is_emitted_within_the_limit_of_its_rule(rule: Leading | Trailing, triggers: list[float]) -> None:
    limit = rule.after if isinstance(rule, Leading) else rule.within
    answered = [when for when, _ in answers(rule, triggers)]
    for trigger in triggers:
        assert any(trigger <= when <= trigger + limit for when in answered)


@given(leading | trailing, times)
def test_there_is_at_most_one_emission_per_trigger(rule: Leading | Trailing, triggers: list[float]) -> None:
    answered = answers(rule, triggers)
    assert len(answered) <= len(triggers)
    assert [item for _, item in answered] == sorted({item for _, item in answered})


@given(leading, times)
def test_leading_emissions_are_at_least_the_window_apart(rule: Leading, triggers: list[float]) -> None:
    answered = [when for when, _ in answers(rule, triggers)]
    assert all(later - earlier >= rule.after for earlier, later in pairwise(answered))


@given(leading | trailing, st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 80)), max_size=40))
def test_each_key_is_debounced_independently(rule: Leading | Trailing, plan: list[tuple[str, int]]) -> None:
    plan.sort(key=lambda step: step[1])
    together: Debouncer[str, tuple[str, int]] = Debouncer(rule)
    found: list[tuple[float, str, int]] = []
    for key, now in plan:
        while (due := together.next_due()) is not None and due < now:
            found += [(due, *item) for item in together.take_due(due)]
        together.trigger(key, (key, now), now=float(now))
    while (due := together.next_due()) is not None:
        found += [(due, *item) for item in together.take_due(due)]
    for name in "abc":
        alone = answers(rule, [float(now) for key, now in plan if key == name])
        assert [(when, item) for when, key, item in found if key == name] == alone


def test_due_bursts_beyond_the_limit_still_absorb_triggers() -> None:
    bursts: Debouncer[str, str] = Debouncer(Leading(1.0))
    bursts.trigger("a", "a", now=0.0)
    bursts.trigger("b", "b", now=0.0)
    assert bursts.take_due(5.0, limit=1) == ["a"]
    assert not bursts.trigger("b", "later", now=5.0)
    assert (bursts.take_due(5.0), len(bursts)) == (["b"], 0)


def test_nothing_is_due_before_its_time() -> None:
    bursts: Debouncer[str, str] = Debouncer(Leading(1.0))
    bursts.trigger("a", "a", now=0.0)
    assert bursts.take_due(0.999) == []


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_an_invalid_time_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="after must be"):
        Leading(seconds)
    with pytest.raises(ValueError, match="must be"):
        Trailing(after=1.0, within=seconds)


def test_a_limit_shorter_than_the_silence_is_refused() -> None:
    with pytest.raises(ValueError, match="within must be finite and at least as long as after"):
        Trailing(after=2.0, within=1.0)
