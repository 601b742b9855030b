import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import levelset.apiserver
from levelset.apiserver.openapi.builtin_enums import with_enums
from levelset.apiserver.schema import library
from tests.apiserver.support.in_process_server import open_server

RECORDED = json.loads((Path(levelset.apiserver.__file__).parent / "data" / "enums.json").read_text())


def enums(schema: Any, path: str = "") -> Iterator[tuple[str, list[str]]]:
    if "enum" in schema:
        yield path[1:], schema["enum"]
    for name, member in schema.get("properties", {}).items():
        yield from enums(member, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from enums(schema[word], f"{path}.{word}")


async def test_the_documents_of_built_in_kinds_have_the_recorded_enums_and_no_others():
    found: dict[str, Any] = {}
    async with open_server() as server:
        _, index = await server.request("GET", "/openapi/v3")
        for path in index["paths"]:
            _, document = await server.request("GET", f"/openapi/v3/{path}")
            schemas = document["components"]["schemas"]
            found |= {name: made for name, schema in schemas.items() if (made := dict(enums(schema)))}
    assert found == RECORDED


async def test_the_second_version_of_the_document_has_them_too():
    async with open_server() as server:
        _, document = await server.request("GET", "/openapi/v2")
    definition = document["definitions"]["io.k8s.api.core.v1.PodSpec"]
    assert definition["properties"]["restartPolicy"]["enum"] == ["Always", "Never", "OnFailure"]


def test_the_schema_that_validates_is_not_changed():
    name = "io.k8s.api.core.v1.PodSpec"
    assert dict(enums(with_enums(name, library()[name])))
    assert not dict(enums(library()[name]))
