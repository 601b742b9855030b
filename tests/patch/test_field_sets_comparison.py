from typing import Any

import pytest
from hypothesis import given

from levelset.patch.field_paths import path
from levelset.patch.field_sets import EMPTY, FieldSet, all_fields, compare, print_fields
from levelset.patch.merge_schema import ANYTHING
from tests.patch.trees_strategy import trees
from tests.patch.widgets import WIDGET, specs

X, Y = 'k:{"name":"x"}', 'k:{"name":"y"}'
WHOLE_X: dict[str, Any] = {".": {}, "f:name": {}, "f:v": {}}


@pytest.mark.parametrize(
    ("old", "new", "changed", "removed"),
    [
        ({"color": "red"}, {"color": "red"}, {}, {}),
        ({"color": "red"}, {"color": "blue"}, {"f:color": {}}, {}),
        ({"size": 1}, {"size": 1.0}, {}, {}),
        ({"size": 1}, {"size": True}, {"f:size": {}}, {}),
        ({"free": [1]}, {"free": [True]}, {"f:free": {}}, {}),
        ({}, {"labels": {"a": "1"}}, {"f:labels": {".": {}, "f:a": {}}}, {}),
        ({"labels": {"a": "1"}}, {}, {}, {"f:labels": {".": {}, "f:a": {}}}),
        ({"labels": {}}, {"labels": {"a": "1"}}, {"f:labels": {"f:a": {}}}, {}),
        ({"labels": {"a": "1"}}, {"labels": {}}, {}, {"f:labels": {"f:a": {}}}),
        ({"labels": {"a": "1"}}, {"labels": None}, {}, {"f:labels": {"f:a": {}}}),
        ({"labels": None}, {"labels": {"a": "1"}}, {"f:labels": {"f:a": {}}}, {}),
        ({"labels": None}, {"labels": {}}, {"f:labels": {}}, {}),
        ({"whole": {"a": "1"}}, {"whole": {"a": "1", "b": "2"}}, {"f:whole": {}}, {}),
        ({"whole": {"a": "1"}}, {"whole": None}, {"f:whole": {}}, {}),
        ({"atom": ["a", "b"]}, {"atom": ["b", "a"]}, {"f:atom": {}}, {}),
        ({"set": ["a", "b"]}, {"set": ["b", "a"]}, {}, {}),
        ({"set": ["a", "b"]}, {"set": ["b", "c"]}, {"f:set": {'v:"c"': {}}}, {"f:set": {'v:"a"': {}}}),
        ({"items": [{"name": "x", "v": "1"}]}, {"items": [{"name": "x"}]}, {}, {"f:items": {X: {"f:v": {}}}}),
        (
            {"items": [{"name": "x", "v": "1"}]},
            {"items": [{"name": "y"}]},
            {"f:items": {Y: {".": {}, "f:name": {}}}},
            {"f:items": {X: WHOLE_X}},
        ),
        ({"free": {"a": 1}}, {"free": "a"}, {"f:free": {}}, {"f:free": {"f:a": {}}}),
        ({"free": "a"}, {"free": {"a": 1}}, {"f:free": {".": {}, "f:a": {}}}, {}),
        ({"free": {"a": 1}}, {"free": [1]}, {"f:free": {}}, {"f:free": {"f:a": {}}}),
    ],
)
def test_changes_are_reported_field_by_field(old: Any, new: Any, changed: Any, removed: Any) -> None:
    changes = compare({"spec": old}, {"spec": new}, WIDGET)
    assert print_fields(changes.changed) == ({"f:spec": changed} if changed else {})
    assert print_fields(changes.removed) == ({"f:spec": removed} if removed else {})


TWICE = [{"name": "x", "v": "1"}, {"name": "x", "v": "2"}]


@pytest.mark.parametrize(
    ("old", "new", "changed", "removed"),
    [
        (TWICE, TWICE[::-1], {X: {}}, {}),
        (TWICE, [*TWICE, {"name": "y"}], {Y: {".": {}, "f:name": {}}}, {}),
        (TWICE, TWICE[:1], {X: WHOLE_X}, {}),
        (TWICE, [], {}, {X: {}}),
        (TWICE[:1], TWICE, {X: {}}, {X: {"f:name": {}, "f:v": {}}}),
        ([], TWICE, {X: {}}, {}),
    ],
)
def test_items_that_share_a_key_count_as_one_value(old: Any, new: Any, changed: Any, removed: Any) -> None:
    changes = compare({"items": old}, {"items": new}, WIDGET.member("spec"))
    assert print_fields(changes.changed) == ({"f:items": changed} if changed else {})
    assert print_fields(changes.removed) == ({"f:items": removed} if removed else {})


def test_a_list_older_than_its_keys_is_compared_as_a_whole() -> None:
    changes = compare({"items": [{"v": "1"}]}, {"items": [{"name": "x"}]}, WIDGET.member("spec"))
    assert print_fields(changes.changed) == {"f:items": {".": {}, X: {".": {}, "f:name": {}}}}
    assert changes.removed == EMPTY


def test_ignored_fields_and_their_descendants_are_not_compared() -> None:
    changes = compare({"a": {"b": 1}, "c": 1}, {"a": {"b": 2}, "d": 1}, ANYTHING)
    left = changes.beyond(FieldSet.of(path("a"), path("c")))
    assert left == (FieldSet.of(path("d")), EMPTY)


@given(specs, specs)
def test_fields_removed_in_one_direction_are_changed_in_the_other(old: Any, new: Any) -> None:
    forth, back = compare(old, new, WIDGET.member("spec")), compare(new, old, WIDGET.member("spec"))
    assert forth.removed - back.changed == EMPTY
    assert back.removed - forth.changed == EMPTY


@given(trees(), trees())
def test_no_field_is_both_changed_and_removed(old: Any, new: Any) -> None:
    changes = compare(old, new, ANYTHING)
    assert changes.changed & changes.removed == EMPTY
    assert str(FieldSet.of(*changes.changed).tree) == str(changes.changed.tree)


@given(trees())
def test_all_of_a_new_object_is_changed(tree: Any) -> None:
    assert compare({}, {"a": tree}, ANYTHING).changed == FieldSet({"f:a": all_fields(tree, ANYTHING)})
    assert compare(tree, tree, ANYTHING) == (EMPTY, EMPTY)
