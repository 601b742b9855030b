"""Escapes and character classes have Go's meaning and Go's errors."""

import pytest

from levelset.re2 import BadRegex, Regex

MEANINGS = [
    (r"\d", "1", "٣a"),
    (r"[^\d]", "a٣", "1"),
    (r"\w", "a_9Z", "é-"),
    (r"\s", " \t\n\f\r", "\v\xa0"),
    (r"\S", "\va", " "),
    (r"[[:space:]]", "\v ", "a"),
    (r"[[:^alpha:]]", "1é", "a"),
    (r"[[:word:]-]", "a-", "+"),
    (r"[[:a]", "[:a", "b"),
    (r"[]a]", "]a", "b"),
    (r"[^]a]", "b\n", "]a"),
    (r"[a-]", "a-", "b"),
    (r"[\]\-\\]", "]-\\", "a"),
    (r"[a-c-e]", "abc-e", "d"),
    (r"[^\x00-\x{10FFFF}]", "", "a\x00\U0010ffff"),
    (r"\x41", "A", "a"),
    (r"\x{1F600}", "\U0001f600", "1"),
    (r"\x{0000000041}", "A", "0"),
    (r"\101", "A", "1"),
    (r"\0", "\x00", "0"),
    (r"\a", "\x07", "a"),
    (r"\/", "/", "\\"),
    (r"\pL", "aé中", "1"),
    (r"\P{L}", "1", "a"),
    (r"\p{^L}", "1", "a"),
    (r"\P{^L}", "a", "1"),
    (r"[\p{Greek}\d]", "λ1", "a"),
    (r"(?i)[a-k]", "aBK\u212a", "l"),
    (r"(?i)[^k]", "l", "kK\u212a"),
    (r"(?i)\w", "ſ\u212a", "é"),
    (r"(?i)\W", "é", "ſ\u212a"),
    (r"(?i)[[:lower:]]", "aAſ", "1"),
    (r"(?i)\p{Lu}", "aA", "1"),
    (r"(?i)σ", "σςΣ", "s"),
    (r"(?i)i", "iI", "İı"),
]


@pytest.mark.parametrize(("pattern", "inside", "outside"), MEANINGS)
def test_a_class_contains_the_same_characters_as_in_re2(pattern: str, inside: str, outside: str) -> None:
    regex = Regex(pattern)
    assert [char for char in inside if not regex.matches(char)] == []
    assert [char for char in outside if regex.matches(char)] == []


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("x[a", "missing closing ]: `[a`"),
        ("[a-", "missing closing ]: `[a-`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        (r"[a-\d]", r"invalid escape sequence: `\d`"),
        ("[[:odd:]]", "invalid character class range: `[:odd:]`"),
        (r"\p{Odd}", r"invalid character class range: `\p{Odd}`"),
        (r"\pO", r"invalid character class range: `\pO`"),
        (r"\p{L", r"invalid character class range: `\p{L`"),
        (r"\p", r"invalid character class range: `\p`"),
        (r"\Z", r"invalid escape sequence: `\Z`"),
        (r"\8", r"invalid escape sequence: `\8`"),
        (r"[\1]", r"invalid escape sequence: `\1`"),
        (r"\xag", r"invalid escape sequence: `\xag`"),
        (r"\x{g}", r"invalid escape sequence: `\x{g`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        (r"\x{10FFFFF}", r"invalid escape sequence: `\x{10FFFFF`"),
        ("[\\", "trailing backslash at end of expression: ``"),
    ],
)
def test_an_invalid_class_is_refused_with_the_message_of_go(pattern: str, sentence: str) -> None:
    with pytest.raises(BadRegex) as caught:
        Regex(pattern)
    assert str(caught.value) == f"error parsing regexp: {sentence}"
