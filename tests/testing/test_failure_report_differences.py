"""What is different between two trees, in words."""

import pytest

from levelset.testing.failure_report import differences


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {}, []),
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a: 1 -> 2"]),
        ({"a": {"b": {"c": True}}}, {"a": {"b": {"c": None}}}, ["a.b.c: true -> null"]),
        ({"a": 1}, {"b": "ü"}, ["a removed (was 1)", 'b = "ü"']),
        ({"a": [1, 2]}, {"a": [1, 3]}, ["a: [1, 2] -> [1, 3]"]),
        ({"a": {"b": 1}}, {"a": 5}, ['a: {"b": 1} -> 5']),
        ({"a": ""}, {"a": "x" * 100}, ['a: "" -> "' + "x" * 56 + "..."]),
    ],
)
def test_each_place_that_differs_is_told_once(before: object, after: object, said: list[str]) -> None:
    assert list(differences(before, after)) == said
