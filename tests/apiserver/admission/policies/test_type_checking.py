"""Type checking of expressions against the schemas of the matched kinds."""

from typing import Any

import pytest

from levelset.apiserver.admission.policies.type_checking import expression_warnings, object_type
from levelset.cel import Type
from tests.apiserver.support.admission_policies import rule, validating
from tests.apiserver.support.in_process_server import open_server, widgets

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEPLOYMENTS = {"resourceRules": [rule("deployments", groups=("apps",))]}


async def warned(policy: Any) -> list[tuple[str, str]]:
    definition = widgets()
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] = {"type": "object", "properties": {"size": {"type": "integer"}}}
    schema["properties"]["any"] = {"x-kubernetes-preserve-unknown-fields": True}
    async with open_server() as api:
        await api.create(DEFINITIONS, definition)
        found = expression_warnings(api.server.state.catalog, policy)
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
async def test_known_fields_cause_no_warning(expression: str) -> None:
    assert await warned(validating(expression, match=DEPLOYMENTS)) == []


async def test_an_unknown_field_causes_a_warning_with_its_position() -> None:
    policy = validating({"expression": "object.spec.size < 5", "messageExpression": "object.what"}, match=DEPLOYMENTS)
    (first, warning), (second, _) = await warned(policy)
    assert (first, second) == ("spec.validations[0].expression", "spec.validations[0].messageExpression")
    assert warning == (
        "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'size'\n"
        " | object.spec.size < 5\n | ...........^\n"
    )


async def test_custom_resources_and_parameters_have_types_too() -> None:
    match = {"resourceRules": [rule("widgets", groups=("example.com",)), rule("deployments", groups=("apps",))]}
    kind = {"apiVersion": "example.com/v1", "kind": "Widget"}
    fine = validating("object.any.thing == 1 || params.spec.size < 3 || object.spec.size > 1", match=match)
    text = fine["spec"]["validations"][0]["expression"]
    ((_, warning),) = await warned({**fine, "spec": {**fine["spec"], "paramKind": kind}})
    first = f"ERROR: <input>:1:7: undefined field 'any'\n | {text}\n | ......^\n"
    second = f"ERROR: <input>:1:61: undefined field 'size'\n | {text}\n | {'.' * 60}^\n"
    assert warning == f"apps/v1, Kind=Deployment: {first}{second}"


async def test_variables_are_type_checked() -> None:
    variables = [{"name": "size", "expression": "object.spec.size"}]
    ((_, warning),) = await warned(validating("variables.size + 'x' == ''", match=match_widgets(), variables=variables))
    assert "found no matching overload for '_+_' applied to '(int, string)'" in warning


def match_widgets() -> Any:
    return {"resourceRules": [rule("widgets", groups=("example.com",))]}


@pytest.mark.parametrize(
    "one", [rule("*"), rule("pods/status"), rule("deployments", groups=("*",)), rule("pods", versions=("*",))]
)
async def test_wildcard_rules_are_not_type_checked(one: Any) -> None:
    assert await warned(validating("object.nothing == 1", match={"resourceRules": [one]})) == []


async def test_every_kind_has_a_type_even_recursive_ones() -> None:
    async with open_server() as api:
        for served in api.server.state.catalog.all():
            assert isinstance(object_type(served), Type)
