"""Expressions compared with the schemas of what they will see."""

from typing import Any

import pytest

from levelset.apiserver.admission.policies.type_checking import expression_warnings, object_type
from levelset.cel import Type
from tests.apiserver.box import open_box, widgets
from tests.apiserver.ruling import rule, validating

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEPLOYMENTS = {"resourceRules": [rule("deployments", groups=("apps",))]}


async def warned(policy: Any) -> list[tuple[str, str]]:
    definition = widgets()
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] = {"type": "object", "properties": {"size": {"type": "integer"}}}
    schema["properties"]["any"] = {"x-kubernetes-preserve-unknown-fields": True}
    async with open_box() as box:
        await box.make(DEFINITIONS, definition)
        found = expression_warnings(box.server.world.catalog, policy)
    return [(one["fieldRef"], one["warning"]) for one in found]


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.replicas < 5",
        "object.metadata.labels.all(k, k != 'x') && !has(object.metadata.deletionTimestamp)",
        "object.spec.template.spec.containers.all(c, c.image.startsWith('x') && c.resources.limits['cpu'] != '1')",
        "oldObject == null || oldObject.spec.replicas <= object.spec.replicas",
        "object.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')",
    ],
)
async def test_what_objects_have_is_no_reason_to_warn(expression: str) -> None:
    assert await warned(validating(expression, match=DEPLOYMENTS)) == []


async def test_a_field_that_objects_cannot_have_is_warned_of_with_its_place() -> None:
    policy = validating({"expression": "object.spec.size < 5", "messageExpression": "object.what"}, match=DEPLOYMENTS)
    (first, told), (second, _) = await warned(policy)
    assert (first, second) == ("spec.validations[0].expression", "spec.validations[0].messageExpression")
    assert told == (
        "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'size'\n"
        " | object.spec.size < 5\n | ...........^\n"
    )


async def test_custom_resources_and_parameters_have_types_too() -> None:
    match = {"resourceRules": [rule("widgets", groups=("example.com",)), rule("deployments", groups=("apps",))]}
    kind = {"apiVersion": "example.com/v1", "kind": "Widget"}
    fine = validating("object.any.thing == 1 || params.spec.size < 3 || object.spec.size > 1", match=match)
    text = fine["spec"]["validations"][0]["expression"]
    ((_, told),) = await warned({**fine, "spec": {**fine["spec"], "paramKind": kind}})
    first = f"ERROR: <input>:1:7: undefined field 'any'\n | {text}\n | ......^\n"
    second = f"ERROR: <input>:1:61: undefined field 'size'\n | {text}\n | {'.' * 60}^\n"
    assert told == f"apps/v1, Kind=Deployment: {first}{second}"


async def test_variables_are_compared_as_well() -> None:
    variables = [{"name": "size", "expression": "object.spec.size"}]
    ((_, told),) = await warned(validating("variables.size + 'x' == ''", match=match_widgets(), variables=variables))
    assert "found no matching overload for '_+_' applied to '(int, string)'" in told


def match_widgets() -> Any:
    return {"resourceRules": [rule("widgets", groups=("example.com",))]}


@pytest.mark.parametrize(
    "one", [rule("*"), rule("pods/status"), rule("deployments", groups=("*",)), rule("pods", versions=("*",))]
)
async def test_rules_for_everything_tell_no_types(one: Any) -> None:
    assert await warned(validating("object.nothing == 1", match={"resourceRules": [one]})) == []


async def test_every_kind_has_a_type_even_those_that_contain_themselves() -> None:
    async with open_box() as box:
        for served in box.server.world.catalog.all():
            assert isinstance(object_type(served), Type)
