"""The texts of failed expectations: the condition, the object, and the differences of its versions."""

import pytest

from levelset.testing.failure_report import describe_condition, describe_object, differences
from tests.testing.shop import order


def wait(condition, *, within: float = 1.0):
    return condition


def is_packed(found: object) -> bool:
    return False


def test_a_function_is_described_by_its_name() -> None:
    assert describe_condition(is_packed) == "is_packed did not become true"


def test_a_lambda_is_described_by_its_source() -> None:
    alone = wait(lambda it: it.spec.items == 5)
    among = wait(lambda it: it.spec.items in (1, 2) and not it.status, within=3)
    spread = wait(
        lambda it: it.spec.items
        == 7
    )  # fmt: skip
    assert describe_condition(alone) == "this did not become true: it.spec.items == 5"
    assert describe_condition(among) == "this did not become true: it.spec.items in (1, 2) and not it.status"
    assert describe_condition(spread) == "this did not become true: it.spec.items == 7"


def test_a_condition_without_source_is_still_described() -> None:
    assert describe_condition(eval("lambda it: True")) == "the condition did not become true"
    assert describe_condition(None) == "it does not exist"


def test_an_object_is_described_as_json() -> None:
    assert describe_object(None) == "there is no such object"
    assert describe_object(order(items=3)).endswith('"spec":{"items":3}}')


@pytest.mark.parametrize(
    ("before", "after", "lines"),
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
def test_each_field_that_differs_is_reported_once(before: object, after: object, lines: list[str]) -> None:
    assert list(differences(before, after)) == lines
