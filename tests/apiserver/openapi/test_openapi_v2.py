from typing import Any

import pytest

from levelset.apiserver.openapi.openapi_v2 import convert_to_v2

NEW = "#/components/schemas/"


def schema(tree: Any) -> Any:
    return convert_to_v2({"paths": {}, "components": {"schemas": {"it": tree}}})["definitions"]["it"]


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ({"$ref": f"{NEW}a.B"}, {"$ref": "#/definitions/a.B"}),
        ({"allOf": [{"$ref": f"{NEW}B"}], "default": {}}, {"$ref": "#/definitions/B"}),
        ({"type": "string", "pattern": "a+", "enum": ["a"]}, {"type": "string", "pattern": "a+", "enum": ["a"]}),
        ({"type": "array", "items": {"$ref": f"{NEW}B"}}, {"type": "array", "items": {"$ref": "#/definitions/B"}}),
        ({"type": "object", "additionalProperties": {"type": "string", "nullable": False}}, None),
        ({"type": "object", "additionalProperties": True}, {"type": "object", "additionalProperties": True}),
        ({"type": "string", "nullable": True, "description": "d"}, {"description": "d"}),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{}]}, {"x-kubernetes-int-or-string": True}),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}], "format": "int-or-string"}, {}),
        ({"type": "object", "oneOf": [{"required": ["a"]}], "not": {}}, {"type": "object"}),
        ({"x-kubernetes-validations": [{"rule": "true"}], "type": "object"}, {"type": "object"}),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {}}},
            {"type": "object"},
        ),
        (None, {}),
    ],
)
def test_schemas_omit_keywords_that_openapi_v2_does_not_have(newer: Any, older: Any) -> None:
    assert schema(newer) == (
        older if older is not None else {"type": "object", "additionalProperties": {"type": "string"}}
    )


def test_the_body_of_an_operation_is_a_parameter() -> None:
    reference = {"schema": {"$ref": f"{NEW}B"}}
    operation = {
        "operationId": "patchB",
        "parameters": [{"name": "dryRun", "in": "query", "schema": {"type": "string", "uniqueItems": True}}],
        "requestBody": {"content": {"application/merge-patch+json": reference}, "required": True},
        "responses": {"200": {"description": "OK", "content": {"application/json": reference}}, "401": {}},
        "x-kubernetes-group-version-kind": {"group": "a", "version": "v1", "kind": "B"},
    }
    made = convert_to_v2({"paths": {"/b": {"patch": operation}}, "components": {"schemas": {}}})["paths"]["/b"]["patch"]
    body, query = made["parameters"]
    assert body == {"name": "body", "in": "body", "required": True, "schema": {"$ref": "#/definitions/B"}}
    assert query == {"name": "dryRun", "in": "query", "type": "string", "uniqueItems": True}
    assert (made["consumes"], made["produces"]) == (["application/merge-patch+json"], ["application/json"])
    assert made["responses"]["200"]["schema"] == {"$ref": "#/definitions/B"}
    assert made["x-kubernetes-group-version-kind"]["kind"] == "B"
