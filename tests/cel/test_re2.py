"""Regular expressions: as Python's on what both know, in linear time, and without what RE2 does not have."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.cel.re2 import BadRegex, Regex, compile_regex

ATOMS = st.sampled_from(["a", "b", "[ab]", "[^a]", ".", "\\d", "\\w", "(?:a|bc)", "^", "$", "\\b", "(a*b)", "(?:x{2})"])
REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?"])
EDGES = ("^", "$", "\\b")
PARTS = st.tuples(ATOMS, REPEATS).map(lambda part: part[0] if part[0] in EDGES else "".join(part))
PATTERNS = st.lists(PARTS, min_size=1, max_size=5).map("".join) | st.tuples(
    st.lists(PARTS, max_size=3).map("".join), st.lists(PARTS, max_size=3).map("".join)
).map("|".join)
TEXTS = st.text("abcx1 \n", max_size=12)


@settings(max_examples=150, deadline=None)
@given(PATTERNS, TEXTS)
def test_matches_are_those_of_python_on_what_both_know(pattern: str, text: str) -> None:
    regex = Regex(pattern)
    python = re.compile(pattern.replace("$", "\\Z"), re.ASCII)
    found = python.search(text)
    assert regex.matches(text) is (found is not None)
    assert regex.find(text) == (found.group() if found else "")


@settings(max_examples=100, deadline=None)
@given(PATTERNS, TEXTS)
def test_the_fast_way_and_the_linear_machine_agree(pattern: str, text: str) -> None:
    regex = Regex(pattern)
    assert regex.matches(text) is regex._machine.matches(text)  # pyright: ignore[reportPrivateUsage]


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from(list("ab()[]{}|*+?\\^$.-:<>P=!,1dwpLQE")), max_size=20), TEXTS)
def test_whatever_is_no_pattern_is_refused(pattern: str, text: str) -> None:
    try:
        regex = Regex(pattern)
    except BadRegex as error:
        assert str(error).startswith("error parsing regexp: ")
    else:
        regex.matches(text)
        regex.find_all(text, 3)


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "\\1", "(a", "a)", "[a", "*a", "a**", "a{2}{3}", "a{1001}", "\\"]
)
def test_what_re2_does_not_have_is_refused(pattern: str) -> None:
    with pytest.raises(BadRegex):
        compile_regex(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("(?i)AbC", "xabcx", "abc"),
        ("(?i:a)b", "Ab", "Ab"),
        ("(?s)a.b", "a\nb", "a\nb"),
        ("(?m)^b$", "a\nb\nc", "b"),
        ("(?U)a+", "aaa", "a"),
        ("(?P<name>a)(?<other>b)", "ab", "ab"),
        ("\\Qa.b\\E", "a.b", "a.b"),
        ("\\x{e9}\\x41\\101", "éAA", "éAA"),
        ("\\p{L}+\\pN", "aé1", "aé1"),
        ("\\P{L}", "a1", "1"),
        ("[[:alpha:]]+[[:^alpha:]]", "ab1", "ab1"),
        ("[^\\d]+", "12ab", "ab"),
        ("\\p{Greek}", "aλ", "λ"),
        ("a|ab", "ab", "a"),
        ("\\ba\\b", "b a b", "a"),
        ("\\Ba", "aa", "a"),
        ("[]a]+", "]a", "]a"),
    ],
)
def test_the_syntax_of_re2_is_understood(pattern: str, text: str, found: str) -> None:
    assert compile_regex(pattern).find(text) == found
    assert compile_regex(pattern).matches(text)


def test_all_matches_are_found_up_to_a_limit() -> None:
    regex = compile_regex("a*")
    assert regex.find_all("baac") == ["", "aa", ""]
    assert compile_regex("[0-9]+").find_all("1 22 333", 2) == ["1", "22"]
    assert compile_regex("x").find_all("abc") == []
