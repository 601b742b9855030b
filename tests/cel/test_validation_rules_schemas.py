"""Errors in the rules of a schema, reported when the schema is written, and their cost limits."""

from typing import Any

import pytest

from levelset.cel import Declarations, compile_rule, compile_rules, declared_type

RULES = "x-kubernetes-validations"
AT = "spec.validation.openAPIV3Schema"


def problems(rule: dict[str, Any], schema: dict[str, Any] | None = None) -> list[tuple[str, str, str]]:
    inner = schema or {"type": "object", "properties": {"a": {"type": "integer"}, "s": {"type": "string"}}}
    root = {"type": "object", "properties": {"spec": {**inner, RULES: [rule]}}}
    prefix = f"{AT}.properties[spec].{RULES}[0]."
    return [(one.field.removeprefix(prefix), one.reason, one.message) for one in compile_rules(root).problems]


def starts(found: list[tuple[str, str, str]], field: str, reason: str, message: str) -> bool:
    return len(found) == 1 and found[0][:2] == (field, f"FieldValue{reason}") and found[0][2].startswith(message)


@pytest.mark.parametrize(
    ("rule", "field", "reason", "message"),
    [
        ({"rule": "self.a <"}, "rule", "Invalid", "compilation failed: ERROR: <input>:1:9: Syntax error: "),
        ({"rule": "self.b > 1"}, "rule", "Invalid", "compilation failed: ERROR: <input>:1:5: undefined field 'b'"),
        ({"rule": "self.a"}, "rule", "Invalid", "cel expression must evaluate to a bool"),
        ({"rule": " "}, "rule", "Required", "rule is not specified"),
        ({}, "rule", "Required", "rule is not specified"),
        ({"rule": "self.a\n> 1"}, "message", "Required", "message must be specified if rule contains line breaks"),
        ({"rule": "self.a > 1", "message": "two\nlines"}, "message", "Invalid", "must not contain line breaks"),
        ({"rule": "self.a > 1", "message": " "}, "message", "Invalid", "must be non-empty if specified"),
        (
            {"rule": "self.a > 1", "messageExpression": "5"},
            "messageExpression",
            "Invalid",
            "messageExpression must evaluate",
        ),
        (
            {"rule": "self.a > 1", "messageExpression": "self.z"},
            "messageExpression",
            "Invalid",
            "messageExpression compilation",
        ),
        (
            {"rule": "self.a > 1", "messageExpression": " "},
            "messageExpression",
            "Required",
            "messageExpression must be non-",
        ),
        ({"rule": "self.a > 1", "reason": "Sad"}, "reason", "NotSupported", "supported values: "),
        ({"rule": "self.a > 1", "fieldPath": ".z"}, "fieldPath", "Invalid", "must be a valid path"),
        (
            {"rule": "self.a > 1", "optionalOldSelf": True},
            "optionalOldSelf",
            "Invalid",
            "may not be set if oldSelf is not",
        ),
    ],
)
def test_an_invalid_rule_is_reported_with_its_field(
    rule: dict[str, Any], field: str, reason: str, message: str
) -> None:
    assert starts(problems(rule), field, reason, message), problems(rule)


def test_old_self_is_refused_for_items_without_keys() -> None:
    item = {"type": "integer", RULES: [{"rule": "self >= oldSelf"}]}
    schema = {"type": "object", "properties": {"l": {"type": "array", "maxItems": 5, "items": item}}}
    message = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {AT}.properties[l]"
    assert [one.message for one in compile_rules(schema).problems] == [message]


def test_a_rule_that_may_cost_too_much_is_refused_with_the_factor() -> None:
    items = {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}}
    found = problems({"rule": "self.all(x, x.all(y, y.all(z, z.matches('a.*b'))))"}, items)
    hint = (
        "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings "
        "are declared)"
    )
    total = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    assert found == [
        ("rule", "FieldValueForbidden", f"estimated rule cost exceeds budget by factor of more than 100x {hint}"),
        (
            "rule",
            "FieldValueForbidden",
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
        ),
        (AT, "FieldValueForbidden", f"{total} exceeds budget by factor of more than 100x {hint}"),
    ]


def test_a_number_turned_into_a_text_has_no_bound_as_upstream() -> None:
    rule = {"rule": "self.a >= 0", "messageExpression": "'invalid: ' + string(self.a)"}
    assert problems(rule)[0][2].startswith(
        "estimated messageExpression cost exceeds budget by factor of more than 100x"
    )


def listing(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"type": kind}, **more}


TEXT = {"type": "string"}
COSTS = [
    (listing("number"), "self.all(x, true)", 4718591),
    (listing("number", maxItems=10), "self.all(x, true)", 32),
    (listing("string"), "self.all(x, true)", 3145727),
    (listing("boolean"), "self.all(x, true)", 1887437),
    ({"type": "array", "items": listing("number")}, "self.all(x, true)", 3145727),
    ({"type": "object", "additionalProperties": {"type": "number"}}, "self.all(x, true)", 1348169),
    ({"type": "object", "additionalProperties": TEXT, "maxProperties": 3}, "self.all(x, true)", 11),
    (TEXT, "self.contains('test')", 314574),
    ({**TEXT, "maxLength": 10}, "self.contains('test')", 5),
    (TEXT, "self.startsWith('test')", 2),
    (TEXT, 'size(self + "hello") > size("hello")', 314578),
    ({**TEXT, "maxLength": 4}, 'size(self + "hello") > size("hello")', 7),
    (listing("number"), "self[1] == 0.0", 2),
]


@pytest.mark.parametrize(("schema", "rule", "cost"), COSTS, ids=[f"{rule} {cost}" for _, rule, cost in COSTS])
def test_the_estimate_is_that_of_kubernetes(schema: dict[str, Any], rule: str, cost: int) -> None:
    kind = declared_type(schema)
    assert kind is not None
    assert compile_rule(rule, Declarations({"self": kind})).cost.most == cost


@pytest.mark.parametrize(
    "rules", [None, 5, "x", [None], [5], [{"rule": 5}], [{"rule": None, "message": 3, "reason": {}, "fieldPath": 1}]]
)
def test_any_value_in_place_of_rules_compiles_without_an_exception(rules: Any) -> None:
    compile_rules({"type": "object", RULES: rules, "properties": {"a": {"type": 5, RULES: rules}}})
