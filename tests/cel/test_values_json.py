"""Conversion of CEL values to JSON."""

from typing import Any

import pytest

from levelset.cel import Declarations, EvaluationError, compile_rule, plain_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2]", [1, 2]),
        ("{'a': {'b': 'c'}}", {"a": {"b": "c"}}),
        ("{1: 'a'}", {"1": "a"}),
        ("{true: 'a'}", {"true": "a"}),
        ("2u", 2),
        ("1.5", 1.5),
        ("b'ab'", "YWI="),
        ("timestamp('2026-01-02T03:04:05Z')", "2026-01-02T03:04:05Z"),
        ("duration('90s')", "90s"),
        ("null", None),
    ],
)
def test_a_value_becomes_json(text: str, value: Any) -> None:
    found = plain_value(compile_rule(text, Declarations({}), None)({}))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["1.0 / 0.0", "quantity('1')", "optional.none()", "type(1)"])
def test_values_without_a_json_form_are_an_error(text: str) -> None:
    with pytest.raises(EvaluationError):
        plain_value(compile_rule(text, Declarations({}), None)({}))


def test_a_value_that_is_too_deep_is_an_error() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(EvaluationError, match="too deeply"):
        plain_value(deep)
