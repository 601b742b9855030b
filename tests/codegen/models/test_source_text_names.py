"""Names, string literals and docstrings of generated source."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.codegen.models.source_text import class_name, docstring, member_names, quoted, short_name
from levelset.objects import wire_name


@given(st.text())
def test_a_quoted_text_is_read_back_by_python(text):
    assert ast.literal_eval(quoted(text)) == text


@given(st.text(), st.sampled_from(["", "    "]))
def test_any_text_becomes_one_docstring(text, indent):
    lines = docstring(text, indent, 60)
    if lines:
        tree = ast.parse("\n".join(["class A:", *(f"    {line}" for line in docstring(text, "", 60))]))
        assert isinstance(tree.body[0], ast.ClassDef)
        assert len(tree.body[0].body) == 1
        assert ast.get_docstring(tree.body[0]) is not None


def test_paragraphs_of_a_docstring_are_preserved_and_wrapped():
    assert docstring("One two three\nfour.\n\nFive.", "", 18) == ['"""One two', "three four.", "", "Five.", '"""']
    assert docstring('Called "x"', "", 60) == ['"""Called "x" """']


@given(st.lists(st.text(max_size=6), unique=True, max_size=8))
def test_members_get_valid_names_that_map_to_the_wire_name(wires):
    names = member_names(wires, ["spec"])
    assert len({name for name, _ in names.values()}) == len(wires)
    for wire, (name, odd) in names.items():
        assert name.isidentifier()
        assert name not in ("spec", "str", "field")
        assert odd or wire_name(name) == wire


@given(st.lists(st.text(max_size=30), min_size=1, max_size=6).map(tuple), st.sets(st.text()))
def test_a_class_name_is_an_unused_identifier(words, used):
    name = short_name(words, used)
    assert name.isidentifier()
    assert name not in used


@pytest.mark.parametrize(
    ("words", "used", "name"),
    [
        (("Gadget", "spec", "x-y"), [], "GadgetSpecXY"),
        (("Gadget", "spec"), ["GadgetSpec"], "GadgetSpec2"),
        (("Gadget", "spec", "a"), ["GadgetSpecA"], "GadgetA"),
        (("Gadget", "a" * 40, "b" * 40), [], f"GadgetB{'b' * 39}"),
        (("Gadget", "a" * 99), [], f"GadgetA{'a' * 57}"),
        (("3d",), [], "Class3d"),
        (("none",), [], "None_"),
    ],
)
def test_a_class_is_named_after_its_path(words, used, name):
    assert short_name(words, used) == name


def test_a_name_without_letters_becomes_class():
    assert class_name(["$", "-"]) == "Class"
