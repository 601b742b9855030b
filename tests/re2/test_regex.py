"""Regular expressions: matches and finds, in linear time for any pattern and text."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.re2 import BadRegex, Limits, Regex, compile_regex
from tests.re2.patterns import NONSENSE, PATTERNS, TEXTS

SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


@settings(max_examples=150, deadline=None)
@given(PATTERNS, TEXTS)
def test_a_text_matches_if_it_matches_in_python(pattern: str, text: str) -> None:
    expected = re.search(pattern.replace("$", r"\Z"), text, re.ASCII) is not None
    regex = Regex(pattern)
    assert regex.matches(text) is expected
    assert regex.linear().matches(text) is expected
    assert (regex.backtracking().search(text) is not None) is expected


# Python treats empty iterations of a repetition differently; without them, both prefer the same match.
ATOMS = st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\d", "(?:a|bc)", "(?:a|ab)", "(a*b)", "(?:x{2})"])
REPEATS = st.sampled_from(["", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?", "{2,}", "{1,}?"])
ROWS = st.lists(st.tuples(ATOMS, REPEATS).map("".join), max_size=4).map("".join)


@settings(max_examples=150, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=3).map("|".join), TEXTS)
def test_the_match_that_python_prefers_is_found(pattern: str, text: str) -> None:
    found = re.search(pattern, text, re.ASCII)
    assert Regex(pattern).find(text) == (found.group() if found else "")


@settings(max_examples=200, deadline=None)
@given(NONSENSE, st.text(max_size=5))
def test_any_text_is_a_pattern_or_a_bad_one(pattern: str, text: str) -> None:
    try:
        regex = Regex(pattern)
    except BadRegex as error:
        assert str(error).startswith("error parsing regexp: ")
        return
    assert (regex.backtracking().search(text) is not None) is regex.linear().matches(text)
    assert bool(regex.find_all(text, 3)) is regex.matches(text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 50_000 + "!"),
        ("^(a|a)*$", "a" * 50_000 + "!"),
        ("^(a|aa)+$", "a" * 50_000 + "!"),
        ("a*a*a*a*b", "a" * 20_000),
        ("(.*a){20}", "b" * 5_000),
        (SUBDOMAIN, "a-" * 20_000),
        ("^" + "(a|aa)" * 30 + "$", "a" * 40 + "!"),
        ("^" + "a?" * 40 + "$", "a" * 40 + "!"),
        ("^" + "a{0,9}" * 12 + "$", "a" * 40 + "!"),
        ("^" + "(|a?)" * 40 + r"\b", ""),
        ("^" + "(a|a?)" * 30 + "$", "a" * 40 + "!"),
    ],
    ids=range(11),
)
def test_matching_takes_bounded_time_for_any_text(pattern: str, text: str) -> None:
    start = time.process_time()
    assert not compile_regex(pattern).matches(text)
    assert time.process_time() - start < 2


def test_all_matches_are_found_up_to_a_limit() -> None:
    numbers = compile_regex("[0-9]+")
    assert numbers.find_all("1 22 333") == ["1", "22", "333"]
    assert numbers.find_all("1 22 333", 2) == ["1", "22"]
    assert numbers.find_all("1 22 333", 0) == []
    assert numbers.find_all("abc") == []


def test_an_empty_match_counts_unless_it_follows_another_match() -> None:
    assert compile_regex("a*").find_all("baac") == ["", "aa", ""]
    assert compile_regex("").find_all("ab") == ["", "", ""]


def test_the_preferred_alternative_is_found_first() -> None:
    assert compile_regex("a|ab").find("ab") == "a"
    assert compile_regex("ab|a").find("ab") == "ab"
    assert compile_regex("a+?").find("aa") == "a"
    assert compile_regex("(?U)a+").find("aa") == "a"
    assert compile_regex("(|a)*").find("aa") == ""


def test_a_pattern_is_compiled_once() -> None:
    assert compile_regex("^once$") is compile_regex("^once$")


def test_the_caller_can_limit_the_backtracking_of_python() -> None:
    assert compile_regex("a*b").limit == 316
    assert compile_regex("a*b", Limits(steps=1_000_000)).limit == 1000
    assert compile_regex("a*b", Limits(steps=10_000)).limit == 100
    assert compile_regex("a*b", Limits(steps=0)).limit == -1
    assert compile_regex("a*b", Limits(steps=0)).matches("aab")


def test_the_caller_can_limit_the_size_of_a_pattern() -> None:
    assert compile_regex("(abc){500}", Limits(size=2_001)).matches("abc" * 500)
    with pytest.raises(BadRegex, match="expression too large"):
        compile_regex("(abc){500}", Limits(size=2_000))
