"""Defaults that violate the CEL rules around them."""

from typing import Any

import pytest

from levelset.apiserver.registry.crd.validation import check_expressions
from levelset.apiserver.schema import find_problems


def found(schema: dict[str, Any]) -> list[tuple[str, str]]:
    whole = {"type": "object", "properties": {"a": schema}}
    problems = find_problems(whole, "s")
    return [
        (one.field.removeprefix("s.properties[a]."), one.message) for one in check_expressions(whole, "s", problems)
    ]


def ruled(schema: dict[str, Any], **rule: Any) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [rule]}


TEXT: dict[str, Any] = {"type": "string", "default": "red"}


@pytest.mark.parametrize(
    ("schema", "causes"),
    [
        (ruled(TEXT, rule="self != 'red'"), [("default", "Invalid value: \"red\": failed rule: self != 'red'")]),
        (ruled(TEXT, rule="self == oldSelf"), []),
        (
            ruled(TEXT, rule="oldSelf.hasValue()", optionalOldSelf=True, message="must be old"),
            [("default", 'Invalid value: "red": must be old')],
        ),
        (
            {"type": "array", "default": [1, 5], "items": ruled({"type": "integer"}, rule="self < 3")},
            [("default[1]", "Invalid value: 5: failed rule: self < 3")],
        ),
        (
            ruled({"type": "object", "default": {}, "properties": {"x": {"type": "string"}}}, rule="has(self.x)"),
            [("default", "Invalid value: failed rule: has(self.x)")],
        ),
    ],
)
def test_a_default_is_held_to_its_rules_as_an_old_and_as_a_new_value(
    schema: dict[str, Any], causes: list[tuple[str, str]]
) -> None:
    assert found(schema) == causes


def test_a_rule_around_a_default_that_cannot_be_compiled_is_an_error_of_the_default_alone() -> None:
    ((field, message),) = found(ruled(TEXT, rule="self.color == 'red'"))
    assert field == "default"
    assert message.startswith('Invalid value: "string": rule compile error: compilation failed: ERROR')


def test_a_default_that_is_invalid_otherwise_is_not_evaluated() -> None:
    assert found(ruled({**TEXT, "maxLength": 1}, rule="self != 'red'")) == []


def test_the_type_of_an_object_is_named_by_its_place() -> None:
    nested = {"type": "object", "properties": {"b": {"type": "object", "properties": {}}}}
    ((_, message),) = found(ruled(nested, rule="self.b == 1"))
    assert "applied to '(selfType0.b, int)'" in message


def test_rules_of_the_items_of_what_is_no_list_have_no_types() -> None:
    inner = ruled({"type": "object", "properties": {"k": {"type": "string"}}}, rule="self.k != ''")
    outer = ruled({"type": "object", "properties": {"l": {"type": "string", "items": inner}}}, rule="true")
    text = "Internal error: failed to convert to declType for CEL validation rules"
    assert found(outer) == [("properties[l].items.x-kubernetes-validations", text)]


def test_a_default_is_held_to_a_rule_with_a_wrong_field_path() -> None:
    causes = found(ruled(TEXT, rule="self != 'red'", fieldPath="a b", messageExpression="'not ' + self"))
    assert ("default", 'Invalid value: "red": not red') in causes


def test_only_the_items_of_a_list_have_no_old_values() -> None:
    text = ruled({"type": "string", "maxLength": 9}, rule="self == oldSelf")
    assert found({"type": "array", "maxItems": 9, "items": {"type": "string"}, "properties": {"b": text}}) == []
    ((field, message),) = found({"type": "array", "maxItems": 9, "items": text})
    assert (field, "uncorrelatable" in message) == ("items.x-kubernetes-validations[0].rule", True)
