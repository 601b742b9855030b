"""JSON trees: pointers, paths, walks, changes, copies and equality."""

import copy
import itertools
import random
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.errors import BadPointer
from levelset.objects.json_tree import (
    Tree,
    add_at,
    copy_tree,
    format_path,
    format_pointer,
    get_at,
    parse_index,
    parse_pointer,
    remove_at,
    same,
    set_at,
    walk,
)

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
trees = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
RFC_DOCUMENT: dict[str, Tree] = {
    "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6, " ": 7, "m~n": 8,
}  # fmt: skip
DEPTH = 100_000


def deep(kind: type) -> Any:
    tree: Tree = 1
    for _ in range(DEPTH):
        tree = [tree] if kind is list else {"a": tree}
    return tree


def sink(tree: Any) -> None:
    """Takes a deep tree apart iteratively, so that freeing it does not recurse."""
    while isinstance(tree, dict | list):
        tree = tree.pop() if isinstance(tree, list) else tree.pop("a")


@pytest.mark.parametrize(
    ("pointer", "value"),
    [("", RFC_DOCUMENT), ("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1), ("/c%d", 2),
     ("/e^f", 3), ("/g|h", 4), ("/i\\j", 5), ('/k"l', 6), ("/ ", 7), ("/m~0n", 8)],
)  # fmt: skip
def test_a_pointer_resolves_as_in_the_rfc(pointer, value):
    assert get_at(RFC_DOCUMENT, parse_pointer(pointer)) == value


def test_a_tilde_is_unescaped_once():
    assert parse_pointer("/~01") == ("~1",)
    assert parse_pointer("/~10") == ("/0",)
    assert format_pointer(("~1", "/0", "")) == "/~01/~10/"


@given(st.lists(st.text()).map(tuple))
def test_a_printed_pointer_parses_to_the_same_tokens(tokens):
    assert parse_pointer(format_pointer(tokens)) == tokens


@given(st.text("/~01a").filter(lambda text: text.startswith("/")))
def test_a_parsed_pointer_prints_as_it_was(text):
    try:
        tokens = parse_pointer(text)
    except BadPointer as error:
        assert text[error.position] == "~"
    else:
        assert format_pointer(tokens) == text


@pytest.mark.parametrize(("text", "position"), [("a", 0), ("a/b", 0), ("/~", 1), ("/a/~2", 3), ("/~0~", 3), (" /a", 0)])
def test_a_bad_pointer_is_refused_with_its_position(text, position):
    with pytest.raises(BadPointer) as caught:
        parse_pointer(text)
    assert caught.value.position == position


@pytest.mark.parametrize(
    "token", ["00", "01", "-", "-1", "+1", "1.0", "1e0", " 1", "", "a", "\u0661", "1_0", "9" * 5000]
)
def test_an_index_is_digits_without_a_leading_zero(token):
    assert parse_index(token) is None
    assert parse_index("0") == 0
    assert parse_index("10") == 10
    with pytest.raises(BadPointer):
        get_at([1, 2, 3], (token,))


@pytest.mark.parametrize(
    ("pointer", "field"),
    [("/x", "x"), ("/spec/ports/2", "spec.ports[2]"), ("/spec/ports/-", "spec.ports[-]"),
     ("/spec/ports/0/name/x/y", "spec.ports[0].name.x"), ("/spec/ports/a", "spec.ports.a")],
)  # fmt: skip
def test_the_error_for_an_unresolvable_pointer_names_the_step(pointer, field):
    with pytest.raises(BadPointer) as caught:
        get_at({"spec": {"ports": [{"name": "a"}, None]}}, parse_pointer(pointer))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("tokens", "text"),
    [((), ""), (("spec", "ports", 0, "name"), "spec.ports[0].name"), ((0,), "[0]"), (("a", "0"), "a[0]"),
     (("metadata", "annotations", "a.b/c"), "metadata.annotations[a.b/c]"), (("", "x"), "[].x"),
     (("podIP", "x-y", "$ref", "a b"), "podIP.x-y.$ref[a b]")],
)  # fmt: skip
def test_a_path_prints_with_dots_and_brackets(tokens, text):
    assert format_path(tokens) == text


def test_a_walk_gives_containers_before_members_in_order():
    found = [(str(path), value) for path, value in walk({"a": [1, {"b": 2}], "c": None})]
    assert found == [
        ("", {"a": [1, {"b": 2}], "c": None}), ("a", [1, {"b": 2}]), ("a[0]", 1),
        ("a[1]", {"b": 2}), ("a[1].b", 2), ("c", None),
    ]  # fmt: skip
    assert repr(next(path for path, value in walk([1]) if value == 1)) == "<Path [0]>"


@given(trees)
def test_every_path_of_a_walk_leads_to_its_value(tree):
    for path, value in walk(tree):
        assert get_at(tree, [str(token) for token in path.tokens]) is value


@given(trees)
def test_a_copy_is_the_same_and_shares_no_container(tree):
    copied = copy_tree(tree)
    assert same(copied, tree)
    containers = [[id(value) for _, value in walk(one) if isinstance(value, dict | list)] for one in (tree, copied)]
    assert not set(containers[0]) & set(containers[1])


@pytest.mark.parametrize(
    ("one", "other"),
    [(True, 1), (False, 0), (1, "1"), (None, False), (None, 0), ("", None), ([], {}), ([1], [1, 1]), ([1, 2], [2, 1]),
     ({"a": 1}, {"a": True}), ({"a": 1}, {"b": 1}), ({"a": 1}, {"a": 1, "b": 2}), ([[True]], [[1]]), ([], None),
     ({}, None), (2**53, 2.0**53 + 2)],
)  # fmt: skip
def test_different_json_is_not_the_same(one, other):
    assert not same(one, other)
    assert not same(other, one)


def test_numbers_and_the_order_of_members_do_not_make_json_different():
    assert same({"a": 1, "b": [1.0, 0.0]}, {"b": [1, -0.0], "a": 1.0})


@given(trees, trees)
def test_sameness_is_symmetric_and_holds_for_a_tree_and_itself(one, other):
    assert same(one, one)
    assert same(one, other) == same(other, one)


@given(trees, st.data())
def test_changing_a_tree_does_not_mutate_the_old_one(tree, data):
    before = copy.deepcopy(tree)
    path = data.draw(st.sampled_from([path for path, _ in walk(tree)]))
    tokens = [str(token) for token in path.tokens]
    changed = set_at(tree, tokens, {"new": 1})
    assert get_at(changed, tokens) == {"new": 1}
    add_at(tree, tokens, 1)
    remove_at(tree, tokens)
    assert same(tree, before)


def test_a_change_shares_the_unchanged_parts():
    tree: dict[str, Any] = {"a": {"b": [1]}, "c": {"d": 1}}
    changed: Any = set_at(tree, ("a", "b", "0"), 2)
    assert changed == {"a": {"b": [2]}, "c": {"d": 1}}
    assert changed["c"] is tree["c"]


@pytest.mark.parametrize(
    ("change", "tokens", "outcome"),
    [(add_at, "/l/0", [9, 1, 2]), (add_at, "/l/1", [1, 9, 2]), (add_at, "/l/2", [1, 2, 9]), (add_at, "/l/-", [1, 2, 9]),
     (set_at, "/l/0", [9, 2]), (set_at, "/l", 9), (add_at, "/l", 9)],
)  # fmt: skip
def test_values_are_added_and_replaced_in_lists(change, tokens, outcome):
    assert change({"l": [1, 2]}, parse_pointer(tokens), 9) == {"l": outcome}


@pytest.mark.parametrize("tokens", ["/l/3", "/l/01", "/x/y", "/l/0/x", "/l/a", "/l/-/a"])
def test_a_value_cannot_be_added_beyond_the_end_of_a_list(tokens):
    with pytest.raises(BadPointer):
        add_at({"l": [1, 2]}, parse_pointer(tokens), 9)


@pytest.mark.parametrize("tokens", ["/l/2", "/l/-", "/x", "/l/0/x"])
def test_a_missing_value_cannot_be_removed(tokens):
    with pytest.raises(BadPointer):
        remove_at({"l": [1, 2]}, parse_pointer(tokens))


def test_the_root_can_be_set_and_removed():
    assert set_at(1, (), 2) == 2
    assert add_at({}, (), [1]) == [1]
    assert remove_at({"a": 1}, ()) is None
    assert remove_at({"a": 1, "b": [1, 2]}, ("b", "0")) == {"a": 1, "b": [2]}
    assert set_at({}, ("a",), 1) == {"a": 1}


@given(trees, st.data())
def test_adding_and_removing_agree_with_an_independent_json_patch(tree, data):
    paths = [path for path, _ in walk(tree) if path.tokens]
    if not paths:
        return
    path = data.draw(st.sampled_from(paths))
    tokens = [str(token) for token in path.tokens]
    pointer = format_pointer(tokens)
    added = jsonpatch.apply_patch(tree, [{"op": "add", "path": pointer, "value": 7}])
    removed = jsonpatch.apply_patch(tree, [{"op": "remove", "path": pointer}])
    assert same(add_at(tree, tokens, 7), added)
    assert same(remove_at(tree, tokens), removed)


@pytest.mark.parametrize("kind", [list, dict])
def test_a_tree_of_any_depth_is_walked_copied_and_compared(kind):
    tree = deep(kind)
    copied = copy_tree(tree)
    try:
        assert sum(1 for _ in walk(tree)) == DEPTH + 1
        assert same(tree, copied)
        tokens = ("0" if kind is list else "a",) * DEPTH
        assert get_at(tree, tokens) == 1
        changed = set_at(tree, tokens, 2)
        assert not same(tree, changed)
        *_, (last, _) = walk(tree)
        assert len(last.tokens) == DEPTH
        sink(changed)
    finally:
        sink(tree)
        sink(copied)


def test_any_text_is_a_pointer_or_a_bad_pointer():
    source = random.Random(6901)
    for _ in range(3000):
        text = "".join(source.choices("/~012a-\\\x00é\ud800\n", k=source.randrange(20)))
        try:
            get_at({"a": [1, {"": 2}], "": [[3]]}, parse_pointer(text))
        except BadPointer as error:
            assert str(error).isprintable()


@pytest.mark.parametrize("value", [None, 3, b"/a", ["a"]])
def test_a_pointer_must_be_a_string(value):
    with pytest.raises(BadPointer, match="must be a text"):
        parse_pointer(value)


def test_paths_and_pointers_take_names_and_numbers():
    assert format_pointer(itertools.chain(["a"], [0])) == "/a/0"
