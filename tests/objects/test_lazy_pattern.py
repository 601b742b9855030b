"""A Pattern is a compiled regular expression, from the first use on."""

import re

import pytest

from levelset.objects.lazy_pattern import Pattern


def test_it_finds_what_the_compiled_one_finds():
    pattern, compiled = Pattern("[A-Z]b", re.IGNORECASE), re.compile("[A-Z]b", re.IGNORECASE)
    for verb in ("match", "fullmatch", "search", "findall"):
        for text in ("ab", "ab ab", " ab", ""):
            assert str(getattr(pattern, verb)(text)) == str(getattr(compiled, verb)(text))


def test_it_is_compiled_when_it_is_first_used():
    pattern = Pattern("(")
    with pytest.raises(re.error):
        pattern.match("a")


def test_after_that_nothing_stands_between():
    pattern = Pattern("a")
    pattern.match("a")
    assert pattern.fullmatch is pattern.fullmatch
    assert repr(pattern) == "Pattern('a')"


def test_another_verb_is_named_with_those_that_there_are():
    with pytest.raises(AttributeError, match="no sub; there is findall, fullmatch, match, search"):
        Pattern("a").sub("b", "c")
