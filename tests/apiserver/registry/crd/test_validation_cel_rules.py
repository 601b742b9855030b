"""CEL rules of CRDs: their compile errors, and the errors of objects that violate them."""

from typing import Any

from levelset.apiserver.registry.crd.validation import check_expressions, expression_rules
from levelset.errors import Cause

RULES = "x-kubernetes-validations"
PATH = "spec.versions[0].schema.openAPIV3Schema"


def schema(*rules: dict[str, Any]) -> dict[str, Any]:
    spec = {"type": "object", "properties": {"a": {"type": "integer"}}, RULES: list(rules)}
    return {"type": "object", "properties": {"spec": spec}}


def test_a_schema_without_rules_has_no_validator():
    assert check_expressions(schema(), PATH) == []
    assert expression_rules(schema()) is None
    assert expression_rules(None) is None


def test_a_rule_that_does_not_compile_is_a_cause_at_its_path():
    (cause,) = check_expressions(schema({"rule": "self.b > 1"}), PATH)
    assert (cause.field, cause.reason) == (f"{PATH}.properties[spec].{RULES}[0].rule", "FieldValueInvalid")
    assert cause.message.startswith('Invalid value: {"rule":"self.b > 1"}: compilation failed: ERROR: <input>:1:5: ')


def test_a_path_inside_a_message_is_that_of_the_crd():
    item = {"type": "integer", RULES: [{"rule": "self >= oldSelf"}]}
    tree = {"type": "object", "properties": {"l": {"type": "array", "maxItems": 3, "items": item}}}
    (cause,) = check_expressions(tree, PATH)
    assert cause.message.endswith(f"within {PATH}.properties[l]")


def test_an_object_that_violates_a_rule_is_invalid():
    check = expression_rules(schema({"rule": "self.a > 1"}))
    assert check is not None
    assert check({"spec": {"a": 2}}, None, []) == []
    assert check({"spec": {"a": 1}}, None, []) == [
        Cause("spec", "FieldValueInvalid", "Invalid value: failed rule: self.a > 1")
    ]


def test_the_reason_of_a_rule_chooses_the_error_type():
    for reason, words in (
        ("FieldValueForbidden", "Forbidden: no"),
        ("FieldValueRequired", "Required value: no"),
        ("FieldValueDuplicate", "Duplicate value"),
    ):
        check = expression_rules(schema({"rule": "self.a > 1", "message": "no", "reason": reason}))
        assert check is not None
        assert check({"spec": {"a": 1}}, None, []) == [Cause("spec", reason, words)]


def test_rules_are_not_evaluated_on_an_object_of_the_wrong_type():
    check = expression_rules(schema({"rule": "self.a > 1"}))
    assert check is not None
    wrong = [Cause("spec.a", "FieldValueTypeInvalid", "no")]
    (cause,) = check({"spec": {"a": "x"}}, None, wrong)
    assert "some validation rules were not checked because the object was invalid" in cause.message


def test_a_stored_rule_that_does_not_compile_rejects_every_object():
    check = expression_rules(schema({"rule": "self.a.magic()"}))
    assert check is not None
    (cause,) = check({"spec": {"a": 2}}, None, [])
    assert (cause.field, cause.reason) == ("<nil>", "FieldValueInvalid")
    start = f"Invalid value: null: rule compile error: properties[spec].{RULES}[0].rule: compilation failed: ERROR"
    assert cause.message.startswith(start)
    old = {"metadata": {"finalizers": ["x/y"]}, "spec": {"a": 2}}
    assert check({"metadata": {}, "spec": {"a": 2}}, old, []) == []
    assert check({"metadata": {}, "spec": {"a": 3}}, old, []) != []
