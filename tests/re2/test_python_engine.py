"""Python's engine is used only where its time is bounded, and matches the same texts."""

import re

import pytest

from levelset.re2.parser import parse
from levelset.re2.python_engine import safe_length, translate


def length(pattern: str) -> int:
    return safe_length(parse(pattern, 50_000), 1_000_000)


@pytest.mark.parametrize(
    "pattern", ["(a+)+", "(a|b)*", "(a?){9}", "((a|b){2})+", "(|a)*", "a?" * 20, "(a|aa)" * 30, "(a{1,2}b){3}"]
)
def test_nested_and_ambiguous_repetitions_are_never_safe(pattern: str) -> None:
    assert length(pattern) == -1


def test_patterns_that_compile_slowly_are_left_to_the_automaton() -> None:
    assert length(r"^\pL[\pL\pN]*$") == 1_000_000
    assert length(r"^" + r"\pL" * 100) == -1


def test_ambiguous_patterns_are_used_for_shorter_texts_only() -> None:
    assert length("^[a-z]+$") == 1_000_000
    assert length("[a-z]+$") == 1_000
    assert length("^a+b+c+$") == 99
    assert length("^(a|b|c|d)x$") == 250_000
    assert length("^a{1,63}$") == length("^a*$")


@pytest.mark.parametrize(
    ("pattern", "python"),
    [
        ("a+b*", "a+b*"),
        ("(a|b)c", "(?:a|b)c"),
        ("(ab)?", "(?:ab){0,1}"),
        ("a{2,}?", "a{2,}"),
        (r"^\.$", r"\A\x2e\Z"),
        ("(?i)a", "[Aa]"),
        ("é", r"\xe9"),
        ("λ", r"\U000003bb"),
        (r"[^\x00-\x{10FFFF}]*", "(?!)*"),
    ],
)
def test_a_pattern_is_written_as_python_writes_it(pattern: str, python: str) -> None:
    assert translate(parse(pattern, 1000)) == python
    re.compile(python)
