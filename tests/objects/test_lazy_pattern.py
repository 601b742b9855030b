"""A Pattern is a compiled regular expression, from the first use on."""

import re

import pytest

from levelset.objects.lazy_pattern import Pattern


def test_it_finds_the_same_matches_as_a_compiled_pattern():
    pattern, compiled = Pattern("[A-Z]b", re.IGNORECASE), re.compile("[A-Z]b", re.IGNORECASE)
    for verb in ("match", "fullmatch", "search", "findall"):
        for text in ("ab", "ab ab", " ab", ""):
            assert str(getattr(pattern, verb)(text)) == str(getattr(compiled, verb)(text))
    assert pattern.sub("-", "ab ab") == compiled.sub("-", "ab ab")
    assert [str(one) for one in pattern.finditer("ab ab")] == [str(one) for one in compiled.finditer("ab ab")]


def test_it_is_compiled_when_it_is_first_used():
    pattern = Pattern("(")
    with pytest.raises(re.error):
        pattern.match("a")


def test_after_the_first_use_the_compiled_methods_are_called_directly():
    pattern = Pattern("a")
    pattern.match("a")
    assert pattern.fullmatch is pattern.fullmatch
    assert repr(pattern) == "Pattern('a')"


def test_an_unknown_method_is_an_error_that_lists_the_known_ones():
    with pytest.raises(AttributeError, match="no split; there is findall, finditer, fullmatch, match, search, sub"):
        Pattern("a").split("c")
