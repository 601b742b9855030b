"""Patterns are parsed as in Go, with the same error messages; a few more patterns are refused.

Most of it is compared with Go's own answers in `test_oracle.py`.
"""

import pytest

from levelset.errors import Malformed
from levelset.re2 import BadRegex, Regex
from levelset.re2.charsets import Charset, single
from levelset.re2.parser import Alternation, Assertion, Repeat, Sequence, parse, repeats

MEANINGS = [
    ("(?i)ab|c", ["AB", "C", "aB"], ["x"]),
    ("a(?i)b|c", ["aB", "C"], ["AB"]),
    ("(?i:a)b", ["Ab"], ["aB"]),
    ("(?i-i)a", ["a"], ["A"]),
    ("^a{,2}$", ["a{,2}"], ["aa", "a"]),
    ("^a{02}$", ["a{02}"], ["aa"]),
    ("^a{2,3}$", ["aa", "aaa"], ["a", "aaaa"]),
    ("^(ab){2}$", ["abab"], ["ab"]),
    ("^(|a)$", ["", "a"], ["b"]),
    ("", ["", "x"], []),
    (r"^.{3}$", ["äöü"], ["ab", "a\nb"]),
    ("(?s)^.$", ["\n"], ["ab"]),
    ("(?m)^b$", ["a\nb\nc"], ["ab"]),
    (r"\Aa\z", ["a"], ["a\n"]),
    ("a$", ["a"], ["a\n"]),
    (r"\Qa.b\E+$", ["a.bbb"], ["axb"]),
    ("(?P<x>a)(?<y>b)", ["ab"], ["a"]),
    ("(?P<1>a)(?P<1>b)", ["ab"], ["a"]),
    ("(?)a", ["a"], ["b"]),
    ("^a(?i)*$", ["aa"], ["aA"]),
]


@pytest.mark.parametrize(("pattern", "fitting", "others"), MEANINGS)
def test_a_pattern_is_parsed_as_re2_parses_it(pattern: str, fitting: list[str], others: list[str]) -> None:
    regex = Regex(pattern)
    assert [text for text in fitting if not regex.matches(text)] == []
    assert [text for text in others if regex.matches(text)] == []


def test_a_pattern_becomes_a_tree() -> None:
    a, b = single(ord("a")), single(ord("b"))
    assert parse("a|(b*?)", 9) == Alternation((a, Repeat(b, 0, None, greedy=False)))
    assert parse("^(?:ab){2,3}", 9_000) == Sequence((Assertion("start"), Repeat(Sequence((a, b)), 2, 3)))
    assert parse("(?U)a+", 9) == Repeat(a, 1, None, greedy=False)
    assert parse("(?m)$", 9) == Assertion("line-end")
    assert parse("[ab]", 9) == Charset(((97, 98),))
    assert parse("()", 9) == Sequence(())


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<=a)", "invalid named capture: `(?<=a)`"),
        ("(?P<a b>c)", "invalid named capture: `(?P<a b>`"),
        ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("(?i)*", "missing argument to repetition operator: `*`"),
        ("a|{1,2}?", "missing argument to repetition operator: `{1,2}?`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("a{" + "9" * 5000 + "}", "invalid repeat count: `{" + "9" * 79 + "`"),
        ("(a{100}){11}", "invalid repeat count: `{11}`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("a\\", "trailing backslash at end of expression: ``"),
    ],
    ids=range(17),
)
def test_patterns_that_go_refuses_are_refused_with_the_same_message(pattern: str, sentence: str) -> None:
    with pytest.raises(BadRegex) as caught:
        parse(pattern, 50_000)
    assert str(caught.value) == f"error parsing regexp: {sentence}"
    assert isinstance(caught.value, Malformed)


def test_nested_repetitions_are_multiplied_and_consecutive_ones_are_not() -> None:
    assert repeats(parse("(a{100}){10}", 50_000)) == 1000
    assert repeats(parse("a{1000}b{1000}", 50_000)) == 1000
    assert repeats(parse("((a{600}){0}b){2}", 50_000)) == 2


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(" * 61 + ")" * 61, "expression nests too deeply"),
        ("(" * 900, "expression nests too deeply"),
        ("a" * 1001, "expression too large"),
        ("(abc){400}", "expression too large"),
        ("[" + "a" * 1000 + "]", "expression too large"),
        ("a*(?i)*", "invalid nested repetition operator"),
        (r"a*\Q\E*", "invalid nested repetition operator"),
    ],
    ids=["nested", "never closed", "long", "repeated", "long class", "flags between", "quote between"],
)
def test_some_patterns_that_go_accepts_are_refused(pattern: str, problem: str) -> None:
    with pytest.raises(BadRegex, match=problem):
        parse(pattern, 1000)


def test_a_pattern_may_nest_sixty_deep() -> None:
    assert Regex("(" * 60 + "a" + ")*" * 60).matches("b")
