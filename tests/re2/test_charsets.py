"""Character sets: union, negation, case folding and named classes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.re2.charsets import ANYTHING, LAST, Charset, folded, named, negate, single, union

CODES = st.integers(0, 40) | st.integers(LAST - 5, LAST)
RANGES = st.lists(st.tuples(CODES, CODES).map(lambda pair: (min(pair), max(pair))), max_size=6)


@given(RANGES, CODES)
def test_a_set_contains_the_characters_of_its_ranges(ranges: list[tuple[int, int]], code: int) -> None:
    inside = any(low <= code <= high for low, high in ranges)
    assert (chr(code) in union(ranges)) is inside
    assert (chr(code) in negate(union(ranges))) is not inside


@given(RANGES)
def test_ranges_are_sorted_and_neither_overlap_nor_touch(ranges: list[tuple[int, int]]) -> None:
    found = union(ranges).ranges
    assert all(high + 1 < low for (_, high), (low, _) in itertools.pairwise(found))
    assert negate(negate(Charset(found))).ranges == found


@pytest.mark.parametrize(
    ("one", "family"),
    [("a", "aA"), ("k", "kK\u212a"), ("ſ", "sSſ"), ("ς", "σςΣ"), ("ß", "ßẞ"), ("İ", "İ"), ("ı", "ı"), ("1", "1")],
)
def test_folding_adds_characters_that_differ_only_in_case(one: str, family: str) -> None:
    assert folded(single(ord(one))) == union((ord(char), ord(char)) for char in family)


def test_wide_sets_are_folded_as_narrow_ones_are() -> None:
    letters = Charset(((ord("a"), ord("z")),))
    others = Charset(((0x100, LAST),))
    assert folded(Charset(letters.ranges + others.ranges)) == union(folded(letters).ranges + folded(others).ranges)
    assert folded(ANYTHING) == ANYTHING
    assert "K" in folded(others)


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("Lu", "AÉ", "aǅ1"),
        ("L", "aA中ª", "1"),
        ("LC", "aAǅ", "中ª"),
        ("Letter", "aA中", "1"),
        ("uppercase letter", "A", "a"),
        ("Greek", "λ\u0384", "aµ"),
        ("Han", "中々\U00020000", "あ"),
        ("Old_Italic", "\U00010300", "a"),
        ("Cn", "\u0378", "a"),
        ("C", "\u0378\x00", "a"),
        ("Assigned", "a\x00", "\u0378"),
        ("ASCII", "a\x00", "é"),
        ("any", "aé\u0378", ""),
    ],
)
def test_a_name_is_the_class_that_unicode_defines(name: str, inside: str, outside: str) -> None:
    found = named(name)
    assert found is not None
    assert [char for char in inside if char not in found] == []
    assert [char for char in outside if char in found] == []


@pytest.mark.parametrize("name", ["", "Odd", "Digits", "Mono", "Lx", "^L"])
def test_unknown_names_have_no_class(name: str) -> None:
    assert named(name) is None
