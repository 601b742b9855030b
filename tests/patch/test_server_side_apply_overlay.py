from typing import Any

import pytest
from hypothesis import given

from levelset.objects.json_tree import copy_tree
from levelset.patch.apply import overlay
from levelset.patch.field_sets import EMPTY, compare, fields_of
from levelset.patch.merge_schema import ANYTHING, Shape
from tests.patch.trees_strategy import trees
from tests.patch.widgets import WIDGET, specs

SET = Shape(list_type="set")
NAMED = Shape(list_type="map", keys=("name",), items=ANYTHING)


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        ({"color": "red"}, {"size": 1}, {"color": "red", "size": 1}),
        ({"color": "red"}, {"color": "blue"}, {"color": "blue"}),
        ({"labels": {"a": "1"}}, {"labels": {"b": "2"}}, {"labels": {"a": "1", "b": "2"}}),
        ({"whole": {"a": "1"}}, {"whole": {"b": "2"}}, {"whole": {"b": "2"}}),
        ({"atom": ["a", "b"]}, {"atom": []}, {"atom": []}),
        ({"labels": {"a": "1"}}, {"labels": None}, {"labels": {"a": "1"}}),
        ({"labels": {}}, {"labels": None}, {"labels": None}),
        ({"whole": {"a": "1"}}, {"whole": None}, {"whole": None}),
        ({"set": ["a"]}, {"set": None}, {"set": ["a"]}),
        ({"atom": ["a"]}, {"atom": None}, {"atom": None}),
        ({"color": "red"}, {"color": None}, {"color": None}),
        ({"free": {"a": 1}}, {"free": [1]}, {"free": [1]}),
        ({"free": [1]}, {"free": {"a": 1}}, {"free": {"a": 1}}),
    ],
)
def test_a_config_is_laid_over_the_live_object_by_shape(live: Any, config: Any, merged: Any) -> None:
    assert overlay({"spec": live}, {"spec": config}, WIDGET) == {"spec": merged}


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        ("ab", "", "ab"),
        ("ab", "ba", "ba"),
        ("ab", "c", "abc"),
        ("abc", "b", "abc"),
        ("abc", "xc", "abxc"),
        ("abc", "cx", "abcx"),
        ("bc", "abx", "abcx"),
        ("abcd", "da", "bcda"),
        ("abcd", "dxa", "bcdxa"),
        ("cag", "cga", "cga"),
        ("abcde", "1b2d", "a1bc2de"),
        ("abb", "c", "abbc"),
        ("abb", "b", "ab"),
        ("aabb", "bc", "aabc"),
        ("abcdec", "1b2ced", "a1b2ced"),
    ],
)
def test_the_config_orders_its_items_and_the_others_keep_their_place(live: str, config: str, merged: str) -> None:
    assert overlay(list(live), list(config), SET) == list(merged)
    maps: Any = overlay([{"name": name} for name in live], [{"name": name} for name in config], NAMED)
    assert [item["name"] for item in maps] == list(merged)


def test_an_item_is_merged_with_the_live_item_of_its_key() -> None:
    live: Any = [{"name": "x", "v": 1}, {"name": "y", "v": 2}]
    assert overlay(live, [{"name": "y", "w": 3}], NAMED) == [live[0], {"name": "y", "v": 2, "w": 3}]


def test_an_item_that_is_live_twice_becomes_the_config_s_one() -> None:
    live: Any = [{"name": "x", "v": 1}, {"name": "x", "v": 2}, {"name": "y"}]
    assert overlay(live, [{"name": "x", "w": 3}], NAMED) == [{"name": "x", "w": 3}, {"name": "y"}]
    assert overlay(live, [{"name": "z"}], NAMED) == [*live, {"name": "z"}]


def test_a_live_list_older_than_its_keys_is_replaced() -> None:
    assert overlay([{"v": 1}], [{"name": "x"}], NAMED) == [{"name": "x"}]


@given(specs)
def test_merging_values_that_are_already_live_changes_nothing(spec: Any) -> None:
    tree = {"spec": spec}
    assert overlay(tree, copy_tree(tree), WIDGET) is tree


@given(specs, specs)
def test_the_result_has_all_specified_fields_and_loses_none(live: Any, config: Any) -> None:
    before = copy_tree(live), copy_tree(config)
    shape = WIDGET.member("spec")
    merged = overlay(live, config, shape)
    assert overlay(merged, config, shape) is merged
    there = compare({}, merged, shape).changed
    assert fields_of(config, shape) - there == EMPTY
    assert fields_of(live, shape) - there == EMPTY or "free" in config
    assert (live, config) == before


@given(trees(), trees())
def test_any_two_trees_can_be_merged(live: Any, config: Any) -> None:
    merged = overlay(live, config, ANYTHING)
    assert overlay(merged, config, ANYTHING) == merged
