"""The field numbers are those of gnostic's messages, repeated here so that the encoder is not tested with itself."""

import struct
from typing import Any

from levelset.apiserver.openapi.openapi_protobuf import write_openapi, write_part
from levelset.apiserver.wire.protobuf import read_fields


def fields(data: bytes) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for number, _, value in read_fields(data):
        found.setdefault(number, []).append(value)
    return found


def only(data: bytes, *path: int) -> Any:
    """The value at a path of fields, each of which occurs once."""
    value: Any = data
    for number in path:
        (value,) = fields(value)[number]
    return value


def test_a_document_has_its_version_info_and_parts() -> None:
    head = {"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1"}}
    data = write_openapi(head, b"", write_part("Definitions", {"a.B": {"type": "object"}}))
    assert only(data, 1) == b"2.0"
    assert (only(data, 2, 1), only(data, 2, 2)) == (b"Kubernetes", b"v1")
    assert only(data, 8) == b""
    assert only(data, 9, 1, 1) == b"a.B"
    assert only(data, 9, 1, 2, 22, 1) == b"object"


def test_a_schema_has_its_numbers_lists_and_members() -> None:
    member = {"type": "integer", "format": "int32", "minimum": 0.5, "maxLength": 3, "uniqueItems": True}
    tree = {"required": ["a", "b"], "properties": {"a": member}, "items": {"$ref": "#/definitions/x"}, "enum": ["q", 1]}
    data = only(write_part("Definitions", {"S": {**tree, "additionalProperties": False, "default": {"k": 1}}}), 1, 2)
    found = fields(data)
    assert found[19] == [b"a", b"b"]
    assert only(data, 23, 1, 1) == b"#/definitions/x"
    assert [only(one, 2) for one in found[20]] == [b'"q"', b"1"]
    assert only(data, 21, 2) == 0
    assert only(data, 5, 2) == b'{"k":1}'
    inner = only(data, 25, 1, 2)
    assert (only(inner, 2), only(inner, 9), only(inner, 11), only(inner, 16)) == (
        b"int32",
        struct.pack("<d", 0.5),
        3,
        1,
    )


def test_kubernetes_extensions_are_encoded_as_named_extensions() -> None:
    data = only(write_part("Definitions", {"S": {"x-kubernetes-list-type": "set", "unknown": 1}}), 1, 2)
    assert (only(data, 31, 1), only(data, 31, 2, 2)) == (b"x-kubernetes-list-type", b'"set"')
    assert fields(data).keys() == {31}


def test_a_path_has_operations_with_parameters_of_each_kind() -> None:
    operation = {
        "operationId": "patchB",
        "consumes": ["a", "b"],
        "parameters": [
            {"name": "body", "in": "body", "required": True, "schema": {"$ref": "r"}},
            {"name": "dryRun", "in": "query", "type": "string"},
            {"name": "name", "in": "path", "required": True, "type": "string"},
        ],
        "responses": {"200": {"description": "OK", "schema": {"$ref": "s"}}},
    }
    path = only(write_part("Paths", {"/b": {"patch": operation}}), 2)
    assert only(path, 1) == b"/b"
    patch = only(path, 2, 8)
    body, query, place = fields(patch)[8]
    assert (only(body, 1, 1, 2), only(body, 1, 1, 5, 1)) == (b"body", b"r")
    assert only(query, 1, 2, 3, 4) == b"dryRun"
    assert only(place, 1, 2, 4, 4) == b"name"
    assert (only(patch, 9, 1, 1), only(patch, 9, 1, 2, 1, 1)) == (b"200", b"OK")
