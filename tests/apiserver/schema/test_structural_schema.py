"""Which schemas a CRD may have; recorded responses of kube-apiserver are in test_golden.py."""

from typing import Any

import pytest

from levelset.apiserver.schema import check_structural

TEXT: dict[str, Any] = {"type": "string"}
MAP = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True}


def found(schema: dict[str, Any], **options: bool) -> list[tuple[str, str]]:
    whole = {"type": "object", "properties": {"a": schema}}
    causes = check_structural(whole, "s", **options)
    return [(one.field.removeprefix("s.properties[a]."), one.reason.removeprefix("FieldValue")) for one in causes]


REFUSED: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"type": "array"}, [("items", "Required")]),
    ({"type": "array", "items": [TEXT]}, [("items", "Forbidden")]),
    ({**TEXT, "definitions": {"x": TEXT}}, [("definitions", "Forbidden")]),
    ({**TEXT, "patternProperties": {"x": TEXT}}, [("patternProperties", "Forbidden")]),
    ({**TEXT, "dependencies": {}}, [("dependencies", "Forbidden")]),
    ({**TEXT, "id": "x"}, [("id", "Forbidden")]),
    ({**TEXT, "pattern": "(?=x)"}, [("pattern", "Invalid")]),
    ({**TEXT, "type": "null"}, [("type", "Forbidden"), ("type", "NotSupported")]),
    ({"x-kubernetes-preserve-unknown-fields": False, **TEXT}, [("x-kubernetes-preserve-unknown-fields", "Invalid")]),
    (
        {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
        [("x-kubernetes-preserve-unknown-fields", "Invalid")],
    ),
    (
        {**TEXT, "anyOf": [{"description": "x", "nullable": True}]},
        [("anyOf[0].description", "Forbidden"), ("anyOf[0].nullable", "Forbidden")],
    ),
    ({**TEXT, "not": {"additionalProperties": TEXT}}, [("not.additionalProperties", "Forbidden")]),
    ({"type": "object", "x-kubernetes-map-type": "odd"}, [("x-kubernetes-map-type", "NotSupported")]),
    ({**TEXT, "x-kubernetes-map-type": "atomic"}, [("type", "Invalid")]),
    ({**MAP, "items": TEXT}, [("items.type", "Invalid")]),
    ({**MAP, "items": {"type": "object", "properties": {"n": TEXT}}}, [("items.properties[n].default", "Required")]),
    (
        {**MAP, "items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "object"}}}},
        [("items.properties[n].type", "Invalid")],
    ),
    (
        {"type": "array", "x-kubernetes-list-map-keys": ["n"], "items": {"type": "object", "properties": {"n": TEXT}}},
        [("x-kubernetes-list-type", "Required")],
    ),
    (
        {"type": "array", "x-kubernetes-list-type": "set", "items": {**TEXT, "nullable": True}},
        [("items.nullable", "Forbidden")],
    ),
    (EMBEDDED, [("properties", "Required")]),
    ({**EMBEDDED, "properties": {"kind": {"type": "integer"}}}, [("properties[kind].type", "Invalid")]),
    ({**EMBEDDED, "type": "array", "items": TEXT}, [("properties", "Required"), ("type", "Invalid")]),
    ({**TEXT, "default": "x", "maxLength": 0}, [("default", "TooLong")]),
    (
        {"type": "object", "properties": {"b": {"type": "integer"}}, "default": {"b": "x"}},
        [("default.b", "TypeInvalid")],
    ),
    ({"type": 5}, [("type", "Undecodable")]),
    ({**TEXT, "required": "x"}, [("required", "Undecodable")]),
    ({**TEXT, "maxLength": 1.5}, [("maxLength", "Undecodable")]),
]


@pytest.mark.parametrize(("schema", "causes"), REFUSED)
def test_a_schema_that_is_not_structural_is_refused(schema: dict[str, Any], causes: list[tuple[str, str]]) -> None:
    assert sorted(found(schema)) == causes


@pytest.mark.parametrize(
    "schema",
    [
        {"x-kubernetes-preserve-unknown-fields": True},
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [{"type": "integer"}, TEXT]}, {"maximum": 5}]},
        {"type": "object", "properties": {"b": TEXT}, "additionalProperties": True},
        {**EMBEDDED, "x-kubernetes-preserve-unknown-fields": True},
        {**MAP, "items": {"type": "object", "required": ["n"], "properties": {"n": TEXT}}},
        {**TEXT, "nullable": True, "description": "x", "title": "y", "example": 1, "externalDocs": {"url": "x"}},
    ],
)
def test_a_structural_schema_is_accepted(schema: dict[str, Any]) -> None:
    assert found(schema) == []


def test_an_invalid_pattern_is_reported_in_the_words_of_kubernetes() -> None:
    (cause,) = check_structural({"type": "object", "properties": {"a": {**TEXT, "pattern": "+"}}}, "s")
    assert cause.message == (
        'Invalid value: "+": must be a valid regular expression, but isn\'t: '
        "error parsing regexp: missing argument to repetition operator: `+`"
    )


def test_a_status_subresource_allows_less_at_the_root() -> None:
    schema = {"type": "object", "properties": {"spec": TEXT}, "maxProperties": 5}
    assert check_structural(schema, "s") == []
    assert [(one.field, one.reason) for one in check_structural(schema, "s", status=True)] == [
        ("s", "FieldValueInvalid")
    ]


def test_alternatives_at_the_root_name_known_fields_only() -> None:
    schema = {"type": "object", "anyOf": [{"properties": {"b": {"minLength": 1}}}]}
    assert [(one.field, one.reason) for one in check_structural(schema, "s")] == [
        ("s.properties[b]", "FieldValueRequired")
    ]


def test_defaults_have_no_place_in_the_metadata() -> None:
    name = {"type": "string", "default": "x"}
    schema = {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": name}}}}
    assert [one.field for one in check_structural(schema, "s")] == ["s.properties[metadata].properties[name].default"]


@pytest.mark.parametrize("schema", [None, 5, "x", [], True])
def test_a_schema_is_an_object(schema: Any) -> None:
    assert [one.reason for one in check_structural(schema, "s")] == ["FieldValueTypeInvalid"]


def test_an_embedded_object_in_a_default_is_invalid_and_not_undecodable() -> None:
    embedded = {**EMBEDDED, "x-kubernetes-preserve-unknown-fields": True}
    for default in ({"apiVersion": 1, "kind": "A"}, {"apiVersion": "v1", "kind": "A", "metadata": {"labels": 3}}):
        schema = {"type": "object", "properties": {"a": {**embedded, "default": default}}}
        assert [reason for _, reason in found(schema)] == ["Invalid"]


def test_a_dialect_is_refused_only_if_nothing_else_is_wrong() -> None:
    dialect = {"$schema": "https://json-schema.org/schema", **TEXT}
    whole = {"type": "object", "properties": {"a": dialect}}
    assert [one.message for one in check_structural(whole, "s")] == [
        "Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"
    ]
    assert found({**dialect, "id": "x"}) == [("id", "Forbidden")]


def test_an_empty_keyword_counts_at_the_root_beside_a_status_subresource() -> None:
    whole = {"type": "object", "patternProperties": {}}
    assert check_structural(whole, "s") == []
    assert [one.field for one in check_structural(whole, "s", status=True)] == ["s"]


def test_what_is_wrong_with_a_default_is_named_by_its_place_in_the_default() -> None:
    inner = {"type": "object", "properties": {"p": {**TEXT, "not": {"enum": ["x"]}}}, "default": {"p": "x"}}
    (cause,) = check_structural({"type": "object", "properties": {"a": inner}}, "s")
    assert (cause.field, cause.message) == (
        "s.properties[a].default",
        'Invalid value: "": "p" must not validate the schema (not)',
    )


def test_a_default_at_the_root_is_a_whole_object() -> None:
    whole = {"type": "object", "default": {}, "x-kubernetes-preserve-unknown-fields": True}
    assert [one.field for one in check_structural(whole, "s")] == ["s.default.apiVersion", "s.default.kind"]


def test_items_that_are_no_schema_are_missing() -> None:
    assert found({"type": "array", "items": -1}) == [("items", "Required")]
