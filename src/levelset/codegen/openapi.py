"""Generates the OpenAPI v3 document of custom kinds: their schemas and paths."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from levelset.codegen.schema import Schema, SchemaPath, order_keys, schema_for, schema_of
from levelset.objects.kind_definition import Definition, definition_of
from levelset.objects.meta import ListMeta, ObjectMeta
from levelset.objects.resource import Object

__all__ = ["openapi_of"]

_REFERENCE: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"
_PATCHES: Final = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_LIST_QUERY: Final = ("continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch")
_WRITE_QUERY: Final = ("dryRun", "fieldManager", "fieldValidation")
_TYPES: Final = {"limit": "integer", "watch": "boolean"}


def openapi_of(kinds: Iterable[type[Object]], *, title: str = "Kinds", version: str = "1") -> dict[str, Any]:
    """The OpenAPI document of these kinds; self-contained and deterministic."""
    ordered = sorted(kinds, key=lambda kind: _name_of(definition_of(kind)))
    paths = {path: item for kind in ordered for path, item in _paths(definition_of(kind))}
    schemas: Schema = dict(_shared(has_scale=any(definition_of(kind).scale for kind in ordered)))
    for kind in ordered:
        schemas.update(_schemas(kind))
    return {
        "openapi": "3.0.0",
        "info": {"title": title, "version": version},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def _name_of(definition: Definition) -> str:
    """The name of a schema: reversed group, version, kind."""
    gvk = definition.gvk
    return ".".join((*reversed(gvk.group.split(".")), gvk.version, gvk.kind))


def _shared(*, has_scale: bool) -> Iterator[tuple[str, Schema]]:
    """The schemas that all kinds refer to."""
    for model in (ObjectMeta, ListMeta):
        yield f"{_META}{model.__name__}", order_keys(schema_for(model, SchemaPath(model.__name__)))
    if has_scale:
        number: Schema = {"type": "object", "properties": {"replicas": {"type": "integer", "format": "int32"}}}
        status: Schema = {**number, "properties": {**number["properties"], "selector": {"type": "string"}}}
        yield _SCALE, {"type": "object", "properties": {**_identity("ObjectMeta"), "spec": number, "status": status}}


def _identity(meta: str) -> Schema:
    metadata = {"allOf": [{"$ref": f"{_REFERENCE}{_META}{meta}"}]}
    return {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": metadata}


def _schemas(kind: type[Object]) -> Iterator[tuple[str, Schema]]:
    definition, schema = definition_of(kind), schema_of(kind)
    name = _name_of(definition)
    schema["properties"] = {**schema["properties"], **_identity("ObjectMeta")}
    yield name, {**schema, "x-kubernetes-group-version-kind": [_gvk(definition)]}
    items = {"type": "array", "items": {"allOf": [{"$ref": _REFERENCE + name}]}}
    listed: Schema = {"type": "object", "required": ["items"], "properties": {**_identity("ListMeta"), "items": items}}
    list_gvk = {**_gvk(definition), "kind": definition.list_kind}
    yield f"{name}List", {**listed, "x-kubernetes-group-version-kind": [list_gvk]}


def _gvk(definition: Definition) -> dict[str, str]:
    group, version, kind = definition.gvk
    return {"group": group, "version": version, "kind": kind}


def _paths(definition: Definition) -> Iterator[tuple[str, Schema]]:
    name, gvk = _name_of(definition), definition.gvk
    root = f"/apis/{gvk.group}/{gvk.version}"
    scope = "/namespaces/{namespace}" if definition.namespaced else ""
    many, one = f"{root}{scope}/{definition.plural}", f"{root}{scope}/{definition.plural}/{{name}}"
    where = [_parameter("namespace", "path")] if definition.namespaced else []
    if definition.namespaced:
        yield f"{root}/{definition.plural}", {"get": _operation(definition, "list", "AllNamespaces", f"{name}List")}
    create = _operation(definition, "create", "", name, body=name)
    yield many, {"parameters": where, "get": _operation(definition, "list", "", f"{name}List"), "post": create}
    named = [*where, _parameter("name", "path")]
    yield one, {"parameters": named, **dict(_single(definition, "", name)), "delete": _delete(definition)}
    if definition.status:
        yield f"{one}/status", {"parameters": named, **dict(_single(definition, "Status", name))}
    if definition.scale is not None:
        yield f"{one}/scale", {"parameters": named, **dict(_single(definition, "Scale", _SCALE))}


def _single(definition: Definition, part: str, schema: str) -> Iterator[tuple[str, Schema]]:
    yield "get", _operation(definition, "read", part, schema)
    yield "put", _operation(definition, "replace", part, schema, body=schema)
    yield "patch", _operation(definition, "patch", part, schema, body=None)


def _delete(definition: Definition) -> Schema:
    made = _operation(definition, "delete", "", "")
    made["responses"] = {"200": {"description": "OK"}}
    return made


def _operation(definition: Definition, action: str, part: str, schema: str, *, body: str | None = "") -> Schema:
    """One operation; `body` is the schema of the request body, None for a patch, empty for a read."""
    content = {"application/json": {"schema": {"$ref": _REFERENCE + schema}}}
    made: Schema = {
        "operationId": f"{action}{definition.gvk.version.capitalize()}{definition.gvk.kind}{part}",
        "responses": {"201" if action == "create" else "200": {"description": "OK", "content": content}},
        "x-kubernetes-group-version-kind": _gvk(definition),
    }
    query = _LIST_QUERY if action == "list" else () if action == "read" else _WRITE_QUERY
    if query:
        made["parameters"] = [_parameter(one, "query") for one in query]
    if body is None:
        made["requestBody"] = {
            "required": True,
            "content": {media: {"schema": {"type": "object"}} for media in _PATCHES},
        }
    elif body:
        sent = {"application/json": {"schema": {"$ref": _REFERENCE + body}}}
        made["requestBody"] = {"required": True, "content": sent}
    return made


def _parameter(name: str, location: str) -> Schema:
    made: Schema = {"name": name, "in": location, "schema": {"type": _TYPES.get(name, "string")}}
    return {**made, "required": True} if location == "path" else made
