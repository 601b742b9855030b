from typing import Any

import jsonpatch
import jsonpointer
import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.errors import BadPatch, PatchFailed
from levelset.objects.json_tree import copy_tree, format_pointer, same
from levelset.patch import apply_operations, diff_operations
from tests.patch.trees_strategy import deep, names, scalars, trees

DOCUMENT = {"foo": ["bar", "baz"], "map": {"a": {"b": 1}, "c": 2}, "n": None}

RFC_EXAMPLES = [
    ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
    ({"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}], {"foo": ["bar", "qux", "baz"]}),
    ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
    ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
    ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
    (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    ({"foo": ["all", "grass", "cows", "eat"]}, [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
     {"foo": ["all", "cows", "eat", "grass"]}),
    ({"baz": "qux", "foo": ["a", 2, "c"]},
     [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
     {"baz": "qux", "foo": ["a", 2, "c"]}),
    ({"foo": "bar"}, [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
     {"foo": "bar", "child": {"grandchild": {}}}),
    ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}], {"foo": "bar", "baz": "qux"}),
    ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
    ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}], {"foo": ["bar", ["abc", "def"]]}),
]  # fmt: skip


@pytest.mark.parametrize(("document", "operations", "result"), RFC_EXAMPLES)
def test_the_examples_of_the_rfc_come_out_as_written(document, operations, result):
    assert apply_operations(document, operations) == result


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"op": "remove", "path": "/none"}, "/none, which does not exist"),
        ({"op": "remove", "path": "/map/none"}, "/map/none, which does not exist"),
        ({"op": "remove", "path": "/foo/2"}, "index out of range at /foo/2"),
        ({"op": "remove", "path": "/foo/-"}, "'-' for an index"),
        ({"op": "remove", "path": ""}, "the whole document"),
        ({"op": "replace", "path": "/none", "value": 1}, "does not exist"),
        ({"op": "replace", "path": "/foo/2", "value": 1}, "out of range"),
        ({"op": "replace", "path": "/foo/-", "value": 1}, "'-' for an index"),
        ({"op": "add", "path": "/none/x", "value": 1}, "/none, which does not exist"),
        ({"op": "add", "path": "/foo/3", "value": 1}, "out of range at /foo/3"),
        ({"op": "add", "path": "/foo/01", "value": 1}, "'01' for an index"),
        ({"op": "add", "path": "/foo/-1", "value": 1}, "'-1' for an index"),
        ({"op": "add", "path": "/foo/²", "value": 1}, "for an index"),
        ({"op": "add", "path": "/foo/" + "9" * 5000, "value": 1}, "for an index"),
        ({"op": "add", "path": "/foo/0/x", "value": 1}, "inside a string"),
        ({"op": "add", "path": "/n/x", "value": 1}, "inside null"),
        ({"op": "add", "path": "/map/c/x", "value": 1}, "inside a number"),
        ({"op": "test", "path": "/foo/-", "value": 1}, "'-' for an index"),
        ({"op": "test", "path": "/none", "value": None}, "does not exist"),
        ({"op": "test", "path": "/foo", "value": ["baz", "bar"]}, "finds a list, not a list"),
        ({"op": "test", "path": "/map/c", "value": 3}, "finds 2, not 3"),
        ({"op": "move", "from": "/none", "path": "/x"}, "does not exist"),
        ({"op": "move", "from": "/map", "path": "/map/a/x"}, "into its own child"),
        ({"op": "move", "from": "", "path": "/x"}, "into its own child"),
        ({"op": "move", "from": "/none", "path": "/none"}, "does not exist"),
        ({"op": "copy", "from": "/none", "path": "/x"}, "does not exist"),
        ({"op": "copy", "from": "/foo/-", "path": "/x"}, "'-' for an index"),
    ],
)
def test_an_operation_that_does_not_fit_is_named_with_its_place(operation, message):
    with pytest.raises(PatchFailed, match=r"operation 1 \(" + operation["op"]) as caught:
        apply_operations(DOCUMENT, [{"op": "test", "path": "/n", "value": None}, operation])
    assert message in str(caught.value)
    assert caught.value.index == 1
    assert caught.value.path == operation["path"]


@pytest.mark.parametrize(
    ("operation", "field", "message"),
    [
        ({}, "op", "has no op"),
        ({"op": "frobnicate", "path": "/x"}, "op", "unknown op 'frobnicate'; expected one of add, copy"),
        ({"op": 5, "path": "/x"}, "op", "unknown op 5"),
        ({"op": None, "path": "/x"}, "op", "unknown op"),
        ({"op": ["add"], "path": "/x"}, "op", "unknown op"),
        ({"op": "remove"}, "path", "has no path"),
        ({"op": "remove", "path": None}, "path", "null, not a string"),
        ({"op": "add", "path": "data", "value": 1}, "path", "not a JSON pointer"),
        ({"op": "add", "path": "/a~2", "value": 1}, "path", "not a JSON pointer"),
        ({"op": "add", "path": "/a"}, "value", r"\(add\) has no value"),
        ({"op": "replace", "path": "/a"}, "value", r"\(replace\) has no value"),
        ({"op": "test", "path": "/a"}, "value", r"\(test\) has no value"),
        ({"op": "move", "path": "/a"}, "from", "has no from"),
        ({"op": "copy", "path": "/a", "from": 3}, "from", "a number, not a string"),
        ({"op": "copy", "path": "/a", "from": "x"}, "from", "not a JSON pointer"),
    ],
)
def test_a_malformed_operation_is_named_before_anything_is_tried(operation, field, message):
    failing = {"op": "remove", "path": "/none"}
    with pytest.raises(BadPatch, match="operation 1 .*" + message) as caught:
        apply_operations({}, [failing, operation])
    assert caught.value.field == f"[1].{field}"


@pytest.mark.parametrize(
    "operations", [{"op": "add", "path": "/a", "value": 1}, "nonsense", None, 5, [1], [None], [[]]]
)
def test_a_patch_must_be_a_list_of_objects(operations):
    with pytest.raises(BadPatch) as caught:
        apply_operations({}, operations)
    assert caught.value.field is None


def test_the_root_can_be_added_replaced_tested_and_copied():
    assert apply_operations({"a": 1}, [{"op": "add", "path": "", "value": [1]}]) == [1]
    assert apply_operations({"a": 1}, [{"op": "replace", "path": "", "value": None}]) is None
    assert apply_operations({"a": 1}, [{"op": "test", "path": "", "value": {"a": 1.0}}]) == {"a": 1}
    assert apply_operations({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": ""}]) == {"b": 1}
    assert apply_operations({"a": {"b": 1}}, [{"op": "move", "from": "/a", "path": ""}]) == {"b": 1}
    assert apply_operations({"a": 1}, [{"op": "copy", "from": "", "path": "/b"}]) == {"a": 1, "b": {"a": 1}}


def test_moving_something_to_where_it_is_changes_nothing():
    assert apply_operations({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}]) == {"a": 1}


def test_a_kubernetes_server_is_lenient_about_members_of_maps():
    def lenient(document: Any, *operations: Any) -> Any:
        return apply_operations(document, list(operations), like_kubernetes=True)

    document = {"data": {"x": "1"}, "l": []}
    assert lenient(document, {"op": "replace", "path": "/data/none", "value": "1"})["data"] == {"x": "1", "none": "1"}
    assert lenient(document, {"op": "copy", "from": "/data/none", "path": "/data/y"})["data"] == {"x": "1", "y": None}
    assert lenient(document, {"op": "test", "path": "/data/none", "value": None}) == document
    for operation in (
        {"op": "remove", "path": "/data/none"},
        {"op": "move", "from": "/data/none", "path": "/data/y"},
        {"op": "move", "from": "/data/none", "path": "/data/none"},
        {"op": "replace", "path": "/none/x", "value": "1"},
        {"op": "replace", "path": "/l/0", "value": "1"},
        {"op": "copy", "from": "/none/x", "path": "/y"},
        {"op": "test", "path": "/data/none", "value": "9"},
    ):
        with pytest.raises(PatchFailed):
            lenient(document, operation)


def test_in_a_test_true_differs_from_1_and_1_equals_1_0():
    apply_operations({"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}])
    with pytest.raises(PatchFailed, match="finds 1, not true"):
        apply_operations({"a": 1}, [{"op": "test", "path": "/a", "value": True}])


def test_a_copied_value_is_independent_of_its_source():
    operations = [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/x/-", "value": 2}]
    assert apply_operations({"a": {"x": [1]}}, operations) == {"a": {"x": [1]}, "b": {"x": [1, 2]}}


def test_a_value_of_the_patch_is_not_changed_by_later_operations():
    value: Any = {"x": []}
    operations = [{"op": "add", "path": "/a", "value": value}, {"op": "add", "path": "/a/x/-", "value": 2}]
    result = apply_operations({}, operations)
    result["a"]["y"] = 1
    assert value == {"x": []}


def test_unchanged_parts_are_shared_with_the_document():
    document = {"a": {"x": 1}, "b": {"y": 1}}
    assert apply_operations(document, [{"op": "remove", "path": "/b/y"}])["a"] is document["a"]


def test_a_small_patch_cannot_make_a_huge_document():
    doubling = [{"op": "copy", "from": "", "path": f"/c{number}"} for number in range(64)]
    with pytest.raises(PatchFailed, match="copies more than") as caught:
        apply_operations({"a": "x" * 100}, doubling)
    assert caught.value.index in range(20)
    short = [{"op": "copy", "from": "/a", "path": "/b"}]
    assert apply_operations({"a": "xyz"}, short, copy_size_limit=5) == {"a": "xyz", "b": "xyz"}
    with pytest.raises(PatchFailed):
        apply_operations({"a": "wxyz"}, short, copy_size_limit=5)


def test_ten_thousand_operations_on_a_long_list_are_fast():
    operations = [{"op": "add", "path": f"/l/{number}", "value": number} for number in range(10_000)]
    document = {"l": ["end"] * 10_000}
    assert apply_operations(document, operations)["l"][:10_001] == [*range(10_000), "end"]
    assert document == {"l": ["end"] * 10_000}


def test_deep_documents_are_patched():
    path = "/a" * 50_000
    assert same(apply_operations(deep(50_000, 1), [{"op": "replace", "path": path, "value": 2}]), deep(50_000, 2))


pointers = some.lists(names | some.sampled_from(["0", "1", "2", "01", "-"]), max_size=3).map(format_pointer)
operations = some.one_of(
    some.fixed_dictionaries(
        {"op": some.sampled_from(["add", "replace", "test"]), "path": pointers, "value": trees(size=3)}
    ),
    some.fixed_dictionaries({"op": some.sampled_from(["move", "copy"]), "path": pointers, "from": pointers}),
    some.fixed_dictionaries({"op": some.just("remove"), "path": pointers}),
)
containers = some.dictionaries(names, trees(), max_size=4) | some.lists(trees(), max_size=4)


@given(document=containers, patch=some.lists(operations, max_size=4))
def test_random_patches_give_the_same_result_as_jsonpatch(document, patch):
    try:
        expected = jsonpatch.apply_patch(document, patch)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError):
        with pytest.raises(PatchFailed):
            apply_operations(document, patch)
    else:
        assert same(apply_operations(document, patch), expected)


@given(document=trees(), patch=some.lists(operations, max_size=4), kubernetes=some.booleans())
def test_neither_argument_is_changed(document, patch, kubernetes):
    document_before, patch_before = copy_tree(document), copy_tree(patch)
    try:
        result = apply_operations(document, patch, like_kubernetes=kubernetes)
        apply_operations(result, patch, like_kubernetes=kubernetes)
    except PatchFailed:
        pass
    assert same(document, document_before)
    assert same(patch, patch_before)


words = some.dictionaries(some.sampled_from(["op", "path", "from", "value"]), trees(size=3) | some.just("add"))


@given(document=trees(), patch=trees() | some.lists(words, max_size=3))
def test_any_tree_as_a_patch_is_applied_or_refused(document, patch):
    try:
        apply_operations(document, patch)
    except (BadPatch, PatchFailed) as error:
        assert str(error)


@given(before=trees(size=20), after=trees(size=20))
def test_a_difference_leads_from_one_tree_to_the_other(before, after):
    assert same(apply_operations(before, diff_operations(before, after)), after)


@given(before=some.lists(scalars, max_size=12), after=some.lists(scalars, max_size=12))
def test_a_difference_of_lists_leads_from_one_to_the_other(before, after):
    assert same(apply_operations(before, diff_operations(before, after)), after)


@given(tree=trees())
def test_equal_trees_have_no_difference(tree):
    assert diff_operations(tree, copy_tree(tree)) == []


def test_a_difference_is_small_inside_lists():
    before = [{"name": str(number), "n": number} for number in range(100)]
    after = [*before[:10], {"name": "new"}, *before[10:50], *before[51:]]
    after[80] = {"name": "79", "n": -1, "m": 1}
    assert diff_operations(before, after) == [
        {"op": "add", "path": "/10", "value": {"name": "new"}},
        {"op": "remove", "path": "/51"},
        {"op": "replace", "path": "/80/name", "value": "79"},
        {"op": "replace", "path": "/80/n", "value": -1},
        {"op": "add", "path": "/80/m", "value": 1},
    ]


def test_a_difference_of_long_lists_is_computed_quickly():
    before = list(range(10_000))
    after = before[::-1]
    difference = diff_operations(before, after)
    assert len(difference) <= 20_000
    assert apply_operations(before, difference) == after
    assert len(diff_operations([0] * 10_000, [0] * 4_000 + [1] + [0] * 6_000)) == 1


def test_a_difference_shares_nothing_with_the_trees():
    after: Any = {"a": {"b": []}}
    diff_operations({}, after)[0]["value"]["b"].append(1)
    assert after == {"a": {"b": []}}


def test_trees_too_deep_to_compare_are_refused():
    with pytest.raises(BadPatch, match="too deeply"):
        diff_operations(deep(100_000, 1), deep(100_000, 2))
