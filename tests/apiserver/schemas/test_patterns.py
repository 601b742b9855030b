"""Patterns mean what RE2 says, and no text makes them slow."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.apiserver.schemas import BadPattern, compile_pattern

SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

MEANINGS = [
    (r"^[a-z]+$", ["abc"], ["abc\n", "A", ""]),
    (r"b", ["abc"], ["ac"]),
    (r"(?i)ab|c", ["AB", "C", "aB"], ["x"]),
    (r"a(?i)b|c", ["aB", "C"], ["AB"]),
    (r"(?i:a)b", ["Ab"], ["aB"]),
    (SUBDOMAIN, ["a.b-c.d", "a"], ["-a", "a..b", "a.b-"]),
    (r"^(a+)+$", ["aaaa"], ["a" * 40 + "b"]),
    (r"^a{,2}$", ["a{,2}"], ["aa", "a"]),
    (r"^a{2,3}$", ["aa", "aaa"], ["a", "aaaa"]),
    (r"^(ab){2}$", ["abab"], ["ab"]),
    (r"\bfoo\b", ["a foo b", "foo"], ["afoo", "foo_"]),
    (r"^\Bx", [], ["x"]),
    (r"^\p{L}+$", ["äöü"], ["1"]),
    (r"^\p{Greek}+$", ["αβγ"], ["abc"]),
    (r"^\PN+$", ["ab"], ["a1"]),
    (r"^[[:alpha:]_]+$", ["a_B"], ["1"]),
    (r"^[[:^digit:]]+$", ["ab"], ["a1"]),
    (r"^[^a]$", ["b", "\n"], ["a"]),
    (r"^[]a-]+$", ["]a-"], ["b"]),
    (r"^\d\D\w\W\s\S$", ["1a_- x"], ["a1_- x"]),
    (r"^\d$", ["1"], ["٣"]),
    (r"\Qa.b\E+$", ["a.bbb"], ["axb"]),
    (r"^.{3}$", ["äöü"], ["ab", "a\nb"]),
    (r"(?s)^.$", ["\n"], ["ab"]),
    (r"(?m)^b$", ["a\nb\nc"], ["ab"]),
    (r"^\x41\x{1F600}\101\t$", ["A\U0001f600A\t"], ["A"]),
    (r"(?P<x>a)(?<y>b)", ["ab"], ["a"]),
    (r"^\.\-\/$", [".-/"], ["x-/"]),
    (r"^(|a)$", ["", "a"], ["b"]),
    (r"", ["", "x"], []),
    (r"^a+?b*?$", ["aab"], ["b"]),
    (r"\Aa\z", ["a"], ["a\n"]),
]


@pytest.mark.parametrize(("pattern", "fitting", "others"), MEANINGS)
def test_a_pattern_means_what_re2_says(pattern: str, fitting: list[str], others: list[str]) -> None:
    compiled = compile_pattern(pattern)
    for text in fitting:
        assert compiled.matches(text)
        assert compiled.steady().matches(text)
    for text in others:
        assert not compiled.matches(text)
        assert not compiled.steady().matches(text)


@pytest.mark.parametrize(
    "pattern",
    [
        *("[", "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", r"(a)\1", r"\k<a>", "a**", "a++", "*a", "(a", "a)", "a{1001}"),
        *(
            "a{3,2}",
            "(a{100}){100}",
            "[z-a]",
            "\\",
            "(?P<x>a)(?P<x>b)",
            r"\Z",
            "[[:odd:]]",
            "(?>a)",
            "x{2}{3}",
            r"\p{Odd}",
        ),
        *("(?#a)", "(?)", r"[\1]", r"\x{110000}", "(" * 200 + ")" * 200, "(?i)*"),
    ],
)
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        compile_pattern(pattern)


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
)
def test_no_text_makes_a_pattern_slow(pattern: str, text: str) -> None:
    start = time.process_time()
    assert not compile_pattern(pattern).matches(text)
    assert time.process_time() - start < 2


PARTS = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", "^", "$"]),
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})")
        | inner.map(lambda one: f"(?:{one})*")
        | inner.map(lambda one: f"(?:{one})?")
        | inner.map(lambda one: f"(?:{one}){{1,3}}")
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(PARTS, st.text(alphabet="ab1\n", max_size=6))
def test_the_automaton_agrees_with_a_backtracking_matcher(pattern: str, text: str) -> None:
    expected = re.search(pattern.replace("$", r"\Z").replace(r"\d", "[0-9]"), text) is not None
    compiled = compile_pattern(pattern)
    assert compiled.steady().matches(text) == expected
    assert (compiled.quick().search(text) is not None) == expected


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab()[]{}*+?|^$\\.-,1:<>=!PQEpdsimU", max_size=12), st.text(max_size=5))
def test_any_text_is_a_pattern_or_a_bad_one(pattern: str, text: str) -> None:
    try:
        compiled = compile_pattern(pattern)
    except BadPattern:
        return
    assert (compiled.quick().search(text) is not None) == compiled.steady().matches(text)
