"""The step budget: counts the work of a thread, and ends what exceeds it."""

import threading

import pytest

from levelset.re2 import compile_regex
from levelset.re2.automaton import Automaton
from levelset.re2.parser import parse
from levelset.re2.step_budget import StepsExceeded, charge, remaining, spend, within


def test_without_a_budget_nothing_is_limited() -> None:
    charge(10**12)
    assert remaining() is None


def test_work_beyond_its_steps_ends_and_the_budget_with_it() -> None:
    assert within(10, lambda: charge(10)) is None
    with pytest.raises(StepsExceeded):
        within(10, lambda: charge(11))
    assert remaining() is None


def test_spent_steps_end_the_next_charge() -> None:
    def work() -> None:
        spend(100)
        assert remaining() == 0
        charge(1)

    with pytest.raises(StepsExceeded):
        within(10, work)


def test_a_budget_belongs_to_its_thread() -> None:
    seen: list[int | None] = []

    def work() -> None:
        thread = threading.Thread(target=lambda: seen.append(remaining()))
        thread.start()
        thread.join()

    within(10, work)
    assert seen == [None]


def test_transitions_that_are_not_cached_are_charged_and_cached_ones_are_nearly_free() -> None:
    machine, text = Automaton(parse("(a?){500}a{500}", 50_000)), "a" * 499 + "b"
    with pytest.raises(StepsExceeded):
        within(1_000, lambda: machine.matches(text))
    assert not within(200_000, lambda: machine.matches(text))
    assert not within(1_000, lambda: machine.matches(text))


@pytest.mark.parametrize("most", [0, 2_500], ids=["walked", "masks"])
def test_programs_give_the_same_results_in_both_forms(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levelset.re2.automaton._MAX_MASKS", most)
    texts = ("a" * 60, "a" * 59, "ab c", "b\naa", "xxy")
    expected = {
        "^(a?){60}a{60}$": [True, False, False, False, False],  # Python's engine would take for ever
        r"(a|b)*\bc": [False, False, True, False, False],
        "(?m)^a*$": [True, True, False, True, False],
        "(x+x+)+y": [False, False, False, False, True],
    }
    assert {one: list(map(Automaton(parse(one, 50_000)).matches, texts)) for one in expected} == expected


def test_the_steps_per_character_grow_with_the_expanded_pattern() -> None:
    costs = [compile_regex(one).steps_per_character for one in ("a", "a{100}", "(a|b){100}", "a{1000}" * 3)]
    assert costs == sorted(costs)
    assert costs[0] == 20
