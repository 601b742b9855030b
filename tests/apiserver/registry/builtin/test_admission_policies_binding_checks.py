"""What a server says about bindings that it does not store."""

from typing import Any

import pytest

from levelset.apiserver.registry.builtin.admission_policies import check_mutating_binding, check_validating_binding
from levelset.apiserver.registry.builtin.defaults import FILLERS
from tests.apiserver.ruling import binding, rule


def found(tree: Any, *, changes: bool = False) -> list[tuple[str, str]]:
    kind = "MutatingAdmissionPolicyBinding" if changes else "ValidatingAdmissionPolicyBinding"
    FILLERS["admissionregistration.k8s.io", kind](tree)
    check = check_mutating_binding if changes else check_validating_binding
    return [(cause.field, cause.message) for cause in check(tree, None)]


def test_the_shortest_bindings_are_fine() -> None:
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
            "matchResouces.matchPolicy",
            'Unsupported value: "Maybe": supported values: "Equivalent", "Exact"',
        ),
        (
            {"matchResources": {"excludeResourceRules": [rule(resourceNames=["a", "a"])]}},
            "matchResouces.excludeResourceRules[0].resourceNames[1]",
            'Duplicate value: "a"',
        ),
    ],
)
def test_what_is_wrong_with_any_binding_is_told(spec: Any, field: str, message: str) -> None:
    assert found(binding(**spec)) == [(f"spec.{field}", message)]
    assert found(binding(**spec, actions=None), changes=True) == [(f"spec.{field}", message)]


def test_parameters_are_named_or_selected_but_not_both() -> None:
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
def test_what_is_to_be_done_must_make_sense(actions: Any, field: str, message: str) -> None:
    ((place, told),) = found(binding(actions=actions))
    assert (place, told.startswith(message)) == (f"spec.validationActions{field}", True)
