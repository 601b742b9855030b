from typing import Any

import pytest
from hypothesis import given

from levelset.errors import BadPatch
from levelset.patch.field_paths import path
from levelset.patch.field_sets import (
    FieldSet,
    all_fields,
    extract_fields,
    fields_of,
    parse_fields,
    print_fields,
    remove_fields,
)
from levelset.patch.merge_schema import ANYTHING, Shape
from tests.patch.trees_strategy import deep, trees
from tests.patch.widgets import WIDGET, specs, widget

ITEM = 'k:{"name":"x"}'


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({}, {}),
        ({"color": "red", "size": 1}, {"f:color": {}, "f:size": {}}),
        ({"color": None}, {"f:color": {}}),
        ({"labels": {"k": "v"}}, {"f:labels": {"f:k": {}}}),
        ({"labels": {}}, {"f:labels": {}}),
        ({"whole": {"k": "v"}}, {"f:whole": {}}),
        ({"atom": []}, {"f:atom": {}}),
        ({"atom": ["a"]}, {"f:atom": {}}),
        ({"set": ["b", "a"]}, {"f:set": {'v:"a"': {}, 'v:"b"': {}}}),
        ({"items": [{"name": "x", "v": "1"}]}, {"f:items": {ITEM: {".": {}, "f:name": {}, "f:v": {}}}}),
        ({"items": [{"name": "x", "m": {"a": "1"}}]}, {"f:items": {ITEM: {".": {}, "f:m": {"f:a": {}}, "f:name": {}}}}),
        ({"ports": [{"port": 80}]}, {"f:ports": {'k:{"port":80,"proto":"TCP"}': {".": {}, "f:port": {}}}}),
        ({"nested": {"a": {"x": 1}}}, {"f:nested": {"f:a": {"f:x": {}}}}),
        ({"free": {"a": {"b": 1}, "c": [1]}}, {"f:free": {"f:a": {".": {}, "f:b": {}}, "f:c": {}}}),
        ({"color": "red", "items": []}, {"f:color": {}}),
    ],
)
def test_an_object_specifies_its_fields_by_its_shape(spec: Any, fields: Any) -> None:
    assert print_fields(fields_of({"spec": spec}, WIDGET)) == {"f:spec": fields}


def test_empty_granular_lists_specify_nothing() -> None:
    assert fields_of({"spec": {"items": [], "set": []}}, WIDGET) == FieldSet()


def test_atomic_items_are_owned_as_a_whole() -> None:
    shape = Shape(list_type="map", keys=("name",), items=Shape(atomic=True))
    assert print_fields(fields_of([{"name": "x", "v": 1}], shape)) == {ITEM: {}}


def test_items_that_share_a_key_are_owned_once() -> None:
    tree: Any = {"spec": {"items": [{"name": "x", "v": "1"}, {"name": "x", "v": "2"}]}}
    assert print_fields(fields_of(tree, WIDGET)) == {"f:spec": {"f:items": {ITEM: {}}}}


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"items": [{"name": "x"}, {"v": "1"}]}, ".spec.items[1]", "lacks its key name"),
        ({"items": ["x"]}, ".spec.items[0]", "must be a map"),
        ({"items": [{"name": "x"}, {"name": "x"}]}, ".spec.items", '[name="x"] twice'),
        ({"ports": [{"port": 80}, {"port": 80, "proto": "TCP"}]}, ".spec.ports", "twice"),
        ({"set": ["a", "b", "a"]}, ".spec.set", '[="a"] twice'),
        ({"set": [None]}, ".spec.set[0]", "null"),
        ({"items": [{"name": "x", "m": {1: "a"}}]}, '.spec.items[name="x"].m.1', "quote it"),
    ],
)
def test_in_strict_mode_a_list_that_cannot_be_keyed_is_refused_with_its_path(spec: Any, field: str, words: str) -> None:
    with pytest.raises(BadPatch) as caught:
        fields_of({"spec": spec}, WIDGET, strict=True)
    assert caught.value.field == field
    assert words in str(caught.value)


def test_in_lenient_mode_a_list_that_cannot_be_keyed_is_one_value() -> None:
    assert print_fields(fields_of({"spec": {"items": [{"v": "1"}]}}, WIDGET)) == {"f:spec": {"f:items": {}}}


def test_a_manager_that_creates_a_value_owns_all_its_containers() -> None:
    tree: Any = {"labels": {"k": "v"}, "items": [{"name": "x"}], "atom": ["a"], "set": []}
    assert all_fields(tree, WIDGET.member("spec")) == {
        ".": {},
        "f:atom": {},
        "f:items": {".": {}, ITEM: {".": {}, "f:name": {}}},
        "f:labels": {".": {}, "f:k": {}},
        "f:set": {},
    }


def test_removing_a_field_removes_its_descendants() -> None:
    tree = widget({"color": "red", "labels": {"a": "1", "b": "2"}, "items": [{"name": "x"}, {"name": "y", "v": "1"}]})
    fields = FieldSet.of(
        path("spec", "labels", "a"), path("spec", "items", {"name": "x"}), path("spec", "items", {"name": "y"}, "v")
    )
    left = remove_fields(tree, fields, WIDGET)
    assert left == widget({"color": "red", "labels": {"b": "2"}, "items": [{"name": "y"}]})


def test_a_container_that_loses_its_last_member_stays_unless_it_is_named() -> None:
    tree: Any = {"spec": {"labels": {"a": "1"}, "set": ["x"]}}
    inner = parse_fields({"f:spec": {"f:labels": {"f:a": {}}, "f:set": {'v:"x"': {}}}})
    assert remove_fields(tree, inner, WIDGET) == {"spec": {"labels": {}, "set": []}}
    outer = FieldSet.of(path("spec", "labels"), path("spec", "set"))
    assert remove_fields(tree, outer, WIDGET) == {"spec": {}}


def test_removing_a_missing_field_returns_the_same_tree() -> None:
    tree = widget({"color": "red", "items": [{"name": "x"}], "whole": {"a": "1"}})
    absent = parse_fields({"f:spec": {"f:size": {}, "f:items": {'k:{"name":"z"}': {}}, "f:whole": {"f:a": {}}}})
    assert remove_fields(tree, absent, WIDGET) is tree


def test_extracting_keeps_the_fields_and_the_keys_on_the_way() -> None:
    tree = widget({"color": "red", "labels": {"a": "1", "b": "2"}, "items": [{"name": "x", "v": "1", "w": "2"}]})
    fields = FieldSet.of(path("spec", "labels", "b"), path("spec", "items", {"name": "x"}, "w"), path("spec", "nested"))
    assert extract_fields(tree, fields, WIDGET) == {"spec": {"labels": {"b": "2"}, "items": [{"name": "x", "w": "2"}]}}
    assert extract_fields(tree, FieldSet(), WIDGET) == {}
    assert extract_fields(tree, FieldSet.of(path("spec")), WIDGET) == {"spec": {}}


@given(specs)
def test_extracting_all_fields_returns_the_object_that_specified_them(spec: Any) -> None:
    tree: Any = {
        "spec": {name: member for name, member in spec.items() if name not in {"items", "set", "ports"} or member}
    }
    fields = fields_of(tree, WIDGET)
    extracted = extract_fields(tree, fields, WIDGET)
    assert fields_of(extracted, WIDGET) == fields
    assert extracted == tree or "nested" in spec


@given(specs)
def test_removed_fields_are_no_longer_specified(spec: Any) -> None:
    tree = {"spec": spec}
    fields = fields_of(tree, WIDGET)
    left = fields_of(remove_fields(tree, fields, WIDGET), WIDGET)
    assert left & fields == FieldSet()


@given(trees())
def test_any_tree_specifies_fields_in_order(tree: Any) -> None:
    fields = fields_of(tree, ANYTHING)
    assert parse_fields(print_fields(fields)).tree == fields.tree
    assert str(FieldSet.of(*fields).tree) == str(fields.tree)


def test_a_tree_too_deep_is_refused() -> None:
    with pytest.raises(BadPatch, match="deeply"):
        fields_of(deep(100_000), ANYTHING)
