"""Field selectors: parse, print, match."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.errors import BadSelector
from levelset.objects.field_selectors import FieldRequirement, FieldSelector, escape_field_value

parse = FieldSelector.parse

names = st.text(st.characters(exclude_characters=",=!\\"), min_size=1, max_size=5)
requirements = st.builds(FieldRequirement, names, st.text(max_size=5) | st.text(",=\\!a", max_size=5), st.booleans())
selectors = st.lists(requirements, max_size=4).map(lambda some: FieldSelector(tuple(some)))

OBJECTS = {
    "a": {"metadata.name": "a", "spec.nodeName": "n1"},
    "b": {"metadata.name": "b"},
}


@pytest.mark.parametrize(
    ("text", "selected"),
    [("", "ab"), ("metadata.name=a", "a"), ("metadata.name==b", "b"), ("metadata.name!=a", "b"),
     ("metadata.name=a,metadata.name=b", ""), ("spec.nodeName=n1", "a"), ("spec.nodeName!=n1", "b"),
     ("spec.nodeName=", "b"), ("spec.nodeName!=", "a"), ("unknown=", "ab"), (",,metadata.name=a,", "a")],
)  # fmt: skip
def test_a_selector_selects_what_a_real_server_selects(text, selected):
    assert "".join(name for name, fields in OBJECTS.items() if parse(text).matches(fields)) == selected


def test_a_function_may_find_the_fields():
    seen: list[str] = []
    assert parse("a=,b!=x").matches(seen.append)
    assert seen == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "printed"),
    [("b=1,a=2", "a=2,b=1"), ("a==1", "a=1"), ("a=1,a=1", "a=1"), (",", ""), (r"a=x\,y", r"a=x\,y"), ("a= b ", "a= b "),
     (r"a=x\=y", r"a=x\=y"), (r"a=\\", r"a=\\"), (r"a!=\\\,\=", r"a!=\\\,\="), ("a=!", "a=!"), ("a!=", "a!=")],
)  # fmt: skip
def test_a_selector_prints_in_canonical_form(text, printed):
    assert str(parse(text)) == printed


def test_a_backslash_escapes_the_next_character():
    assert parse("a=b\\,").requires_exact("a") == "b,"
    assert parse(r"a=x\,y\=z\\").requires_exact("a") == "x,y=z\\"
    assert escape_field_value("x,y=z\\") == r"x\,y\=z\\"


@pytest.mark.parametrize(
    ("text", "position"),
    [("a", 1), ("a=1,b", 5), ("=a", 0), ("a=1,!=b", 4), ("a=b=c", 3), ("a===b", 3), ("a=\\", 2), ("a=\\x", 2),
     (r"a\=b", 1), (r"a\,b=c", 1), ("a!b=c", 1), (r"a=1,b=\n", 6)],
)  # fmt: skip
def test_a_broken_selector_is_refused_with_its_position(text, position):
    with pytest.raises(BadSelector) as caught:
        parse(text)
    assert caught.value.position == position


@given(selectors)
def test_a_printed_selector_parses_to_an_equal_one(selector):
    again = parse(str(selector))
    assert again == selector
    assert hash(again) == hash(selector)


@given(selectors, selectors, st.dictionaries(names, st.text(max_size=3)))
def test_two_joined_selectors_select_the_intersection(one, other, fields):
    assert (one & other).matches(fields) == (one.matches(fields) and other.matches(fields))


def test_a_selector_knows_which_fields_it_needs():
    selector = parse("a=1,b!=2,a!=3")
    assert selector.fields == {"a", "b"}
    assert selector.requires_exact("a") == "1"
    assert selector.requires_exact("b") is None
    assert selector.requires_exact("c") is None


def test_a_selector_is_built_from_fields():
    assert FieldSelector.of({"metadata.name": "a"}) == parse("metadata.name=a")
    assert FieldSelector.everything().is_everything
    assert FieldSelector.of({}) == FieldSelector.everything() == parse("")


@pytest.mark.parametrize("field", ["", "a,b", "a=b", "a!", "\\"])
def test_a_field_that_cannot_be_written_is_refused(field):
    with pytest.raises(BadSelector):
        FieldSelector.of({field: "x"})


def test_any_text_is_a_selector_or_a_bad_selector():
    source = random.Random(2)
    for _ in range(5000):
        text = "".join(source.choices("ab.=!,\\ \x00é\ud800\n", k=source.randrange(12)))
        try:
            selector = parse(text)
        except BadSelector as error:
            assert error.position in range(len(text) + 1)
            assert str(error).isprintable()
        else:
            assert parse(str(selector)) == selector


@pytest.mark.parametrize("value", [None, 3, b"a=b", ["a"], {}])
def test_a_selector_must_be_a_string(value):
    with pytest.raises(BadSelector, match="must be a text"):
        parse(value)


@pytest.mark.parametrize("text", ["\\" * 100_001, "a" * 100_000, "a=" + "\\," * 50_000 + "=", "!" * 100_000])
def test_a_very_long_text_is_rejected_in_linear_time(text):
    with pytest.raises(BadSelector):
        parse(text)
