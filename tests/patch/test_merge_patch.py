import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.errors import BadPatch
from levelset.objects.json_tree import copy_tree, same
from levelset.patch import apply_merge, make_merge
from tests.patch.trees_strategy import deep, maps, trees

whole = some.booleans() | some.integers(0, 2) | some.sampled_from([1.0, "", "x"])

RFC_EXAMPLES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("document", "patch", "result"), RFC_EXAMPLES)
def test_the_examples_of_the_rfc_come_out_as_written(document, patch, result):
    assert apply_merge(document, patch) == result


def test_the_long_example_of_the_rfc_comes_out_as_written():
    document = {
        "title": "Goodbye!",
        "author": {"givenName": "John", "familyName": "Doe"},
        "tags": ["example", "sample"],
        "content": "This will be unchanged",
    }
    patch = {"title": "Hello!", "phoneNumber": "+01-123-456-7890", "author": {"familyName": None}, "tags": ["example"]}
    assert apply_merge(document, patch) == {
        "title": "Hello!",
        "author": {"givenName": "John"},
        "tags": ["example"],
        "content": "This will be unchanged",
        "phoneNumber": "+01-123-456-7890",
    }


def test_nulls_inside_lists_are_kept_by_the_rfc_and_dropped_from_maps_by_kubernetes():
    patch = {"spec": {"l": [None, {"a": None}, 2]}}
    assert apply_merge({"spec": {"l": [1]}}, patch) == {"spec": {"l": [None, {"a": None}, 2]}}
    assert apply_merge({"spec": {"l": [1]}}, patch, like_kubernetes=True) == {"spec": {"l": [None, {}, 2]}}


def test_a_list_that_replaces_a_map_keeps_its_nulls_in_kubernetes():
    assert apply_merge({"a": {}}, {"a": [{"b": None}]}, like_kubernetes=True) == {"a": [{"b": None}]}
    assert apply_merge({"a": 1}, {"a": [{"b": None}]}, like_kubernetes=True) == {"a": [{}]}


def test_a_number_stays_a_number_and_text_stays_text():
    patch = {"i": 10, "f": 1.5, "t": "10", "b": False, "e": "", "big": 123456789012345678}
    assert apply_merge({}, patch) == patch


def test_a_patch_contains_only_the_changes():
    before = {"kind": "W", "spec": {"m": {"a": 1, "b": 2}, "l": [1, 2], "gone": {"x": 1}}}
    after = {"kind": "W", "spec": {"m": {"a": 1, "b": 3}, "l": [1], "new": {"y": 1}}}
    patch = {"spec": {"m": {"b": 3}, "l": [1], "gone": None, "new": {"y": 1}}}
    assert make_merge(before, after) == patch


def test_true_and_one_are_a_change():
    assert make_merge({"a": 1, "l": [1], "same": 1}, {"a": True, "l": [True], "same": 1.0}) == {"a": True, "l": [True]}


def test_a_new_null_member_cannot_be_expressed_and_is_named():
    with pytest.raises(BadPatch, match=r"spec\.m\.x to null") as caught:
        make_merge({"spec": {"m": 1}}, {"spec": {"m": {"x": None}}})
    assert caught.value.field == "spec.m.x"


def test_a_null_member_that_was_there_before_stays():
    assert make_merge({"a": None, "b": 1}, {"a": None, "b": 2}) == {"b": 2}


@given(before=trees(), after=trees(leaves=whole))
def test_a_patch_leads_from_one_tree_to_the_other(before, after):
    assert same(apply_merge(before, make_merge(before, after)), after)


@given(before=trees(), after=trees())
def test_a_patch_leads_to_every_tree_or_is_refused(before, after):
    try:
        patch = make_merge(before, after)
    except BadPatch as error:
        assert error.field is not None
        return
    assert same(apply_merge(before, patch), after)


@given(document=trees(), patch=trees())
def test_applying_twice_is_applying_once(document, patch):
    once = apply_merge(document, patch)
    assert same(apply_merge(once, patch), once)


@given(document=maps(), patch=maps())
def test_a_null_removes_a_member_and_all_other_members_are_set(document, patch):
    result = apply_merge(document, patch)
    for name, value in patch.items():
        assert (name in result) is (value is not None)


@given(document=maps())
def test_an_empty_patch_changes_nothing(document):
    assert same(apply_merge(document, {}), document)
    assert make_merge(document, document) == {}


@given(document=trees(), patch=trees(), kubernetes=some.booleans())
def test_neither_argument_is_changed(document, patch, kubernetes):
    document_before, patch_before = copy_tree(document), copy_tree(patch)
    apply_merge(document, patch, like_kubernetes=kubernetes)
    assert same(document, document_before)
    assert same(patch, patch_before)


def test_a_result_shares_nothing_with_the_patch():
    patch = {"l": [{"x": 1}], "m": {"n": {"o": 1}}}
    result = apply_merge({}, patch)
    result["l"][0]["x"] = 2
    result["m"]["n"]["o"] = 2
    assert patch == {"l": [{"x": 1}], "m": {"n": {"o": 1}}}


def test_unchanged_parts_are_shared_with_the_document():
    document = {"a": {"x": 1}, "b": {"y": 1}}
    assert apply_merge(document, {"b": {"y": 2}})["a"] is document["a"]


def test_a_patch_too_deep_to_walk_is_refused():
    with pytest.raises(BadPatch, match="too deeply"):
        apply_merge({}, deep(100_000, 1))
    with pytest.raises(BadPatch, match="too deeply"):
        make_merge({}, deep(100_000, 1))
