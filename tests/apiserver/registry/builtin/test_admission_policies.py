"""Validation of admission policies."""

from typing import Any

import pytest

from levelset.apiserver.registry.builtin.defaults import DEFAULTERS
from levelset.apiserver.registry.builtin.rules.policy_rules import MUTATING_POLICY, VALIDATING_POLICY
from tests.apiserver.support.admission_policies import VALIDATING, mutating, rule, validating
from tests.apiserver.support.in_process_server import open_server

APPLY, PATCH = "Object{}", "[JSONPatch{op: 'test', path: '/x'}]"


def found(policy: Any, old: Any = None) -> list[tuple[str, str]]:
    changes = "mutations" in policy["spec"]
    kind = "MutatingAdmissionPolicy" if changes else "ValidatingAdmissionPolicy"
    DEFAULTERS["admissionregistration.k8s.io", kind](policy)
    rules = MUTATING_POLICY if changes else VALIDATING_POLICY
    return [(cause.field, cause.message) for cause in rules.validate(policy, old)]


def test_minimal_policies_are_valid() -> None:
    assert found(validating("true")) == []
    assert found(validating(auditAnnotations=[{"key": "k", "valueExpression": "'x'"}])) == []
    assert found(mutating(APPLY, PATCH)) == []


def test_a_policy_needs_validations_or_mutations() -> None:
    detail = "Required value: validations or auditAnnotations must contain at least one item"
    assert found(validating()) == [("spec.validations", detail), ("spec.auditAnnotations", detail)]
    assert found(mutating()) == [("spec.mutations", "Required value: mutations must contain at least one item")]


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"failurePolicy": "Maybe"}, "failurePolicy", 'Unsupported value: "Maybe": supported values: "Fail", "Ignore"'),
        ({"failurePolicy": ""}, "failurePolicy", 'Unsupported value: "": supported values: "Fail", "Ignore"'),
        ({"matchConstraints": None}, "matchConstraints", "Required value"),
        ({"matchConstraints": {}}, "matchConstraints.resourceRules", "Required value"),
        ({"paramKind": {"kind": "X"}}, "paramKind.apiVersion", "Required value"),
        ({"paramKind": {"apiVersion": "v1"}}, "paramKind.kind", "Required value"),
        (
            {"paramKind": {"apiVersion": "a/b/c", "kind": "X"}},
            "paramKind.apiVersion",
            'Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
        ),
        (
            {"paramKind": {"apiVersion": "a/", "kind": "X"}},
            "paramKind.apiVersion",
            'Invalid value: "a/": version must be specified',
        ),
        (
            {"variables": [{"name": "1a", "expression": "1"}]},
            "variables[0].name",
            'Invalid value: "1a": must be a valid CEL identifier',
        ),
        (
            {"variables": [{"name": "in", "expression": "1"}]},
            "variables[0].name",
            'Invalid value: "in": must be a valid CEL identifier',
        ),
        (
            {"variables": [{"name": "", "expression": "1"}]},
            "variables[0].name",
            "Required value: name is not specified",
        ),
        (
            {"variables": [{"name": "a", "expression": " "}]},
            "variables[0].expression",
            "Required value: expression is not specified",
        ),
        ({"matchConditions": [{"name": "a", "expression": ""}]}, "matchConditions[0].expression", "Required value"),
    ],
)
def test_invalid_policies_are_rejected_by_field(spec: Any, field: str, message: str) -> None:
    assert found(validating("true", **spec)) == [(f"spec.{field}", message)]
    assert found(mutating(APPLY, **spec)) == [(f"spec.{field}", message)]


@pytest.mark.parametrize(
    ("validation", "field", "message"),
    [
        ({"expression": " "}, "expression", "Required value: expression is not specified"),
        ({"expression": "1"}, "expression", 'Invalid value: "1": must evaluate to bool but got int'),
        (
            {"expression": "true", "messageExpression": "1"},
            "messageExpression",
            'Invalid value: "1": must evaluate to string but got int',
        ),
        (
            {"expression": "true", "messageExpression": " "},
            "messageExpression",
            'Invalid value: " ": must be non-empty if specified',
        ),
        ({"expression": "true", "message": " "}, "message", 'Invalid value: " ": must be non-empty if specified'),
        (
            {"expression": "true", "message": "a\nb"},
            "message",
            'Invalid value: "a\\nb": must not contain line breaks',
        ),
        (
            {"expression": "true", "reason": "Why"},
            "reason",
            'Unsupported value: "Why": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"',
        ),
    ],
)
def test_invalid_validations_are_rejected(validation: Any, field: str, message: str) -> None:
    assert found(validating(validation)) == [(f"spec.validations[0].{field}", message)]


@pytest.mark.parametrize(
    ("note", "field", "message"),
    [
        ({"key": "k", "valueExpression": ""}, "valueExpression", "Required value: valueExpression is not specified"),
        (
            {"key": "k", "valueExpression": "'" + "x" * 5120 + "'"},
            "valueExpression",
            "Required value: must not exceed 5120 bytes in length",
        ),
        (
            {"key": "k", "valueExpression": "1"},
            "valueExpression",
            'Invalid value: "1": must evaluate to one of [string null_type] but got int',
        ),
    ],
)
def test_invalid_audit_annotations_are_rejected(note: Any, field: str, message: str) -> None:
    assert found(validating("true", auditAnnotations=[note])) == [(f"spec.auditAnnotations[0].{field}", message)]


def test_audit_annotation_keys_are_unique() -> None:
    note = {"key": "k", "valueExpression": "null"}
    assert found(validating("true", auditAnnotations=[note, note])) == [
        ("spec.auditAnnotations[1].key", 'Duplicate value: "k"')
    ]
    ((field, _),) = found(validating("true", auditAnnotations=[{**note, "key": "k/l"}]))
    assert field == "spec.auditAnnotations[0].key"
    many = [{**note, "key": f"k{number}"} for number in range(21)]
    ((field, message),) = found(validating("true", auditAnnotations=many))
    assert (field, message.endswith("must not have more than 20 auditAnnotations")) == ("spec.auditAnnotations", True)


@pytest.mark.parametrize(
    ("mutation", "field", "message"),
    [
        ({}, "patchType", "Required value"),
        (
            {"patchType": "Magic"},
            "patchType",
            'Unsupported value: "Magic": supported values: "ApplyConfiguration", "JSONPatch"',
        ),
        ({"patchType": "JSONPatch"}, "jsonPatch", "Required value: must be specified when patchType is JSONPatch"),
        ({"patchType": "JSONPatch", "jsonPatch": {}}, "jsonPatch.expression", "Required value"),
        (
            {"patchType": "JSONPatch", "jsonPatch": {"expression": PATCH}, "applyConfiguration": {}},
            "applyConfiguration",
            'Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch',
        ),
        (
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "{'a': 1}"}},
            "applyConfiguration.expression",
            "Invalid value: \"{'a': 1}\": must evaluate to Object but got map(string, int)",
        ),
    ],
)
def test_invalid_mutations_are_rejected(mutation: Any, field: str, message: str) -> None:
    assert found(mutating(mutation)) == [(f"spec.mutations[0].{field}", message)]


def test_a_mutating_policy_cannot_match_delete() -> None:
    match = {"resourceRules": [rule(operations=["DELETE"])]}
    ((field, _),) = found(mutating(APPLY, match=match))
    assert field == "spec.matchConstraints.resourceRules.operations"
    assert found(validating("true", match=match)) == []
    assert found(mutating(APPLY, reinvocationPolicy="")) == [("spec.reinvocationPolicy", "Required value")]


def test_unchanged_match_conditions_are_not_validated_again() -> None:
    broken = [{"name": "c", "expression": "nothing"}]
    old = validating("true", matchConditions=broken)
    assert found(validating("false", matchConditions=broken), old) == []
    ((field, _),) = found(validating("false", matchConditions=broken))
    assert field == "spec.matchConditions[0].expression"


async def test_a_compile_error_is_reported_with_its_position() -> None:
    async with open_server() as api:
        status, error = await api.request("POST", VALIDATING, validating("object.x <"))
    (cause,) = error["details"]["causes"]
    assert (status, cause["field"]) == (422, "spec.validations[0].expression")
    assert cause["message"].startswith('Invalid value: "object.x <": compilation failed: ERROR: <input>:1:11: Syntax')
    assert cause["message"].endswith("\n | object.x <\n | ..........^")
