"""Comparison of values under their schema: keyed lists have no order."""

from typing import Any

import pytest

from levelset.apiserver.schema import compile_schema

KEYED = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "n": {"type": "integer", "maximum": 5}},
        "required": ["name"],
    },
    "maxItems": 1,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
}
ONE, TWO = {"name": "a", "n": 1}, {"name": "b", "n": 2}


def fields(schema: Any, new: Any, old: Any) -> list[str]:
    compiled = compile_schema({"type": "object", "properties": {"l": schema}})
    return [cause.field for cause in compiled.admit({"l": new}, {"l": old}).causes]


@pytest.mark.parametrize(
    ("new", "old", "found"),
    [
        ([ONE, TWO], [TWO, ONE], []),
        ([ONE, TWO], [ONE, TWO], []),
        ([ONE, TWO], [ONE, {**TWO, "n": 3}], ["l"]),
        ([ONE, TWO], [ONE, {"name": "c", "n": 2}], ["l"]),
        ([ONE, TWO], [ONE], ["l"]),
        ([ONE, TWO], [ONE, ONE], ["l"]),
        ([ONE, TWO], "text", ["l"]),
    ],
)
def test_a_keyed_list_in_another_order_has_not_changed(new: Any, old: Any, found: list[str]) -> None:
    assert fields(KEYED, new, old) == found


def test_the_order_of_any_other_list_counts() -> None:
    plain = {"type": "array", "items": {"type": "string"}, "maxItems": 1}
    assert fields(plain, ["a", "b"], ["b", "a"]) == ["l"]
    assert fields(plain, ["a", "b"], ["a", "b"]) == []


def test_keyed_lists_inside_of_others_have_no_order_either() -> None:
    inner = {**KEYED, "maxItems": 9}
    outer = {"type": "object", "properties": {"k": inner, "m": {"type": "array"}}, "maxProperties": 1}
    new, old = {"k": [ONE, TWO], "m": []}, {"k": [TWO, ONE], "m": []}
    assert fields(outer, new, old) == []
    assert fields(outer, {**new, "m": [1]}, old) == ["l"]


@pytest.mark.parametrize("old", [[ONE, ONE], ["", ""], [None, None], [ONE, "text", 1]])
def test_a_keyed_list_with_duplicate_keys_may_be_written_again_unchanged(old: list[Any]) -> None:
    assert fields({**KEYED, "maxItems": 9}, list(old), old) == []
    assert fields({**KEYED, "maxItems": 9}, [{**ONE, "n": 9}], old) == ["l[0].n"]
