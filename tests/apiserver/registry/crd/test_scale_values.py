from typing import Any

import pytest

from levelset.apiserver.registry.crd.scale_values import ScaleValues
from levelset.apiserver.resources.served_resource import ScalePaths

VALUES = ScaleValues(ScalePaths(".spec.replicas", ".status.replicas", ".status.selector"))


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ({"spec": 0}, "0: .spec.replicas accessor error: 0 is of the type int64, expected map[string]interface{}"),
        ({"spec": {"replicas": 1.5}}, "0: .spec.replicas accessor error: 1.5 is of the type float64, expected int64"),
        ({"spec": {"replicas": None}}, "0: .spec.replicas accessor error: <nil> is of the type <nil>, expected int64"),
        ({"spec": {"replicas": -1}}, "-1: should be a non-negative integer"),
        ({"spec": {"replicas": 2**31}}, "2147483648: should be less than or equal to 2147483647"),
    ],
)
def test_replicas_that_are_no_number_of_32_bits_are_named_as_go_does(tree: dict[str, Any], problem: str) -> None:
    (cause,) = VALUES.validate(tree, None)
    assert (cause.field, cause.message) == (".spec.replicas", f"Invalid value: {problem}")


@pytest.mark.parametrize("tree", [{}, {"spec": None}, {"spec": {"replicas": 3}, "status": {"selector": ""}}])
def test_what_is_absent_is_valid(tree: dict[str, Any]) -> None:
    assert VALUES.validate(tree, None) == []


def test_an_update_of_the_status_checks_the_status_only() -> None:
    tree = {"spec": {"replicas": -1}, "status": {"replicas": -1, "selector": 5}}
    assert [one.field for one in VALUES.validate_part(tree, tree, "status")] == [".status.replicas", ".status.selector"]
