"""The step budget: counts the work of a thread, and ends what exceeds it."""

import threading
import time

import pytest

from levelset.re2 import Regex, compile_regex
from levelset.re2.automaton import Automaton
from levelset.re2.parser import parse
from levelset.re2.python_engine import compile_steps
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


def test_a_text_on_pythons_engine_is_charged_with_its_worst_case() -> None:
    regex = compile_regex("[ab]+[bc]+d")  # three ways to divide a text, so some 200**3 steps at most
    text = "b" * regex.limit
    with pytest.raises(StepsExceeded):
        within(1_000, lambda: regex.matches(text))
    assert within(20_000, lambda: regex.matches(text)) is False


def test_a_text_that_takes_a_microsecond_is_free() -> None:
    regex = compile_regex("^[a-z]+$")
    regex.backtracking()
    assert regex.free >= 63
    assert within(10, lambda: regex.matches("a" * 63))


def test_finding_the_position_of_a_match_is_charged_for_every_node_that_it_visits() -> None:
    regex, text = Regex("(a?){500}a{500}"), "a" * 400
    regex.linear()
    with pytest.raises(StepsExceeded):
        within(50_000, lambda: regex.find(text))
    with pytest.raises(StepsExceeded):
        within(50_000, lambda: regex.find_all(text))


def test_parsing_a_pattern_and_compiling_it_for_pythons_engine_are_charged() -> None:
    pattern = "abcdefghij" * 100
    with pytest.raises(StepsExceeded):
        within(20_000, lambda: Regex(pattern))
    regex = Regex(pattern)
    with pytest.raises(StepsExceeded):
        within(20_000, lambda: regex.matches("x"))
    assert within(100_000, lambda: regex.matches("x")) is False


@pytest.mark.parametrize("pattern", ["[^a]", ".", "(?s).", r"[\x{1}-\x{10fffe}]", r"\pL", "[aЀАВЙТф]", "[a-z0-9_]+x"])
def test_the_charge_for_compiling_bounds_what_python_takes(pattern: str) -> None:
    regex = Regex(pattern)
    began = time.thread_time()
    regex.backtracking()
    taken = time.thread_time() - began
    assert taken < compile_steps(regex.tree) * 1e-6 + 0.005  # ten times what a step stands for: machines differ


def test_a_negated_set_is_compiled_at_once() -> None:
    assert max(compile_steps(Regex(one).tree) for one in ("[^a]", ".", "(?s).", r"\S")) < 1_000
