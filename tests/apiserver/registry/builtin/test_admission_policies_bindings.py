"""Validation of admission policy bindings."""

from typing import Any

import pytest

from levelset.apiserver.registry.builtin.defaults import DEFAULTERS
from levelset.apiserver.registry.builtin.rules.policy_rules import MUTATING_BINDING, VALIDATING_BINDING
from tests.apiserver.support.admission_policies import binding, rule


def found(tree: Any, *, changes: bool = False) -> list[tuple[str, str]]:
    kind = "MutatingAdmissionPolicyBinding" if changes else "ValidatingAdmissionPolicyBinding"
    DEFAULTERS["admissionregistration.k8s.io", kind](tree)
    rules = MUTATING_BINDING if changes else VALIDATING_BINDING
    return [(cause.field, cause.message) for cause in rules.validate(tree, None)]


def test_minimal_bindings_are_valid() -> None:
    assert found(binding()) == []
    assert found(binding(actions=None), changes=True) == []


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"policy": ""}, "policyName", "Required value"),
        ({"paramRef": {"name": "x"}}, "paramRef.parameterNotFoundAction", "Required value"),
        (
            {"paramRef": {"parameterNotFoundAction": "Deny"}},
            "paramRef",
            "Required value: one of name or selector must be specified",
        ),
        (
            {"paramRef": {"name": "x", "parameterNotFoundAction": "Maybe"}},
            "paramRef.parameterNotFoundAction",
            'Unsupported value: "Maybe": supported values: "Deny", "Allow"',
        ),
        (
            {"paramRef": {"name": "a/b", "parameterNotFoundAction": "Deny"}},
            "paramRef.name",
            "Invalid value: \"a/b\": may not contain '/'",
        ),
        (
            {"matchResources": {"matchPolicy": "Maybe"}},
            "matchResources.matchPolicy",
            'Unsupported value: "Maybe": supported values: "Equivalent", "Exact"',
        ),
        (
            {"matchResources": {"excludeResourceRules": [rule(resourceNames=["a", "a"])]}},
            "matchResources.excludeResourceRules[0].resourceNames[1]",
            'Duplicate value: "a"',
        ),
    ],
)
def test_invalid_bindings_are_rejected(spec: Any, field: str, message: str) -> None:
    assert found(binding(**spec)) == [(f"spec.{field}", message)]
    assert found(binding(**spec, actions=None), changes=True) == [(f"spec.{field}", message)]


def test_params_have_a_name_or_a_selector_but_not_both() -> None:
    both = {"name": "x", "selector": {}, "parameterNotFoundAction": "Deny"}
    message = "Forbidden: name and selector are mutually exclusive"
    assert found(binding(paramRef=both)) == [("spec.paramRef.name", message), ("spec.paramRef.selector", message)]


@pytest.mark.parametrize(
    ("actions", "field", "message"),
    [
        ((), "", "Required value: at least one validation action is required"),
        (("Deny", "Deny"), "[1]", 'Duplicate value: "Deny"'),
        (("Shout",), "[0]", 'Unsupported value: "Shout": supported values: "Audit", "Deny", "Warn"'),
        (("Deny", "Warn"), "", 'Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn'),
    ],
)
def test_invalid_validation_actions_are_rejected(actions: Any, field: str, message: str) -> None:
    ((path, found_message),) = found(binding(actions=actions))
    assert (path, found_message.startswith(message)) == (f"spec.validationActions{field}", True)
