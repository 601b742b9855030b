"""The OpenAPI v3 document of one group and version: its paths, and the schemas of its kinds.

kubectl reads the `patch` operation of a kind: which media types it accepts, and whether it has the parameters
`fieldValidation` and `dryRun`. The operations therefore describe exactly what this server supports.
"""

from collections.abc import Iterator
from typing import Any

from levelset.apiserver.discovery import VERSION, Subresource, subresources_of
from levelset.apiserver.openapi.builtin_enums import with_enums
from levelset.apiserver.openapi.custom_schemas import META, REFERENCE, custom_schema, list_schema
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.schema import builtin_names, components

__all__ = ["component_name", "openapi_document", "resource_paths"]

JSON = "application/json"
MEDIA = (JSON, "application/yaml")
PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
STRATEGIC = "application/strategic-merge-patch+json"
STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
PATCH_BODY = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"

VERBS = {
    "get": "read",
    "list": "list",
    "put": "replace",
    "patch": "patch",
    "post": "create",
    "delete": "delete",
    "deletecollection": "deleteCollection",
}
# Subresources whose responses are texts or those of other servers.
_WITHOUT_SCHEMA = frozenset({"log", "proxy"})
WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
DELETE_PARAMETERS = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
LIST_PARAMETERS = (
    *("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion"),
    *("resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch"),
)
TYPES = {
    **dict.fromkeys(("allowWatchBookmarks", "force", "orphanDependents", "sendInitialEvents", "watch"), "boolean"),
    **dict.fromkeys(("gracePeriodSeconds", "limit", "timeoutSeconds"), "integer"),
}


def resource_paths(served: ServedResource, schema: str, list_schema: str) -> Iterator[tuple[str, Object]]:
    """The paths of a resource and of its subresources; the schemas are names of components."""
    root = f"/apis/{served.group}/{served.version}" if served.group else f"/api/{served.version}"
    place = "/namespaces/{namespace}" if served.namespaced else ""
    collection = f"{root}{place}/{served.plural}"
    parameters = [_in_path("namespace")] if served.namespaced else []
    many = dict(_many(served, schema, list_schema))
    if many:
        yield collection, {**many, "parameters": [*parameters, _in_query("pretty")]}
    if served.namespaced and "list" in served.verbs:
        everywhere = _operation(served, "list", list_schema, LIST_PARAMETERS)
        everywhere["operationId"] += "ForAllNamespaces"
        yield f"{root}/{served.plural}", {"get": everywhere, "parameters": [_in_query("pretty")]}
    one = dict(_single(served, schema))
    parameters = [_in_path("name"), *parameters, _in_query("pretty")]
    if one:
        yield f"{collection}/{{name}}", {**one, "parameters": parameters}
    for subresource in subresources_of(served):
        if subresource.name not in _WITHOUT_SCHEMA:
            operations = dict(_part(served, subresource, schema))
            yield f"{collection}/{{name}}/{subresource.name}", {**operations, "parameters": parameters}


def _many(served: ServedResource, schema: str, list_schema: str) -> Iterator[tuple[str, Object]]:
    if "list" in served.verbs:
        yield "get", _operation(served, "list", list_schema, LIST_PARAMETERS)
    if "create" in served.verbs:
        yield "post", _operation(served, "post", schema, WRITE_PARAMETERS, body=_body(schema, ("*/*",)))
    if "deletecollection" in served.verbs:
        names = (*DELETE_PARAMETERS, "continue", "fieldSelector", "labelSelector", "limit")
        yield "delete", _operation(served, "deletecollection", STATUS, names, body=_body(DELETE_OPTIONS, ("*/*",)))


def _single(served: ServedResource, schema: str) -> Iterator[tuple[str, Object]]:
    if "get" in served.verbs:
        yield "get", _operation(served, "get", schema, ())
    if "update" in served.verbs:
        yield "put", _operation(served, "put", schema, WRITE_PARAMETERS, body=_body(schema, ("*/*",)))
    if "patch" in served.verbs:
        yield "patch", _patch(served, schema)
    if "delete" in served.verbs:
        yield "delete", _operation(served, "delete", STATUS, DELETE_PARAMETERS, body=_body(DELETE_OPTIONS, ("*/*",)))


def _part(served: ServedResource, part: Subresource, schema: str) -> Iterator[tuple[str, Object]]:
    group = part.group.partition(".")[0] or "core"
    shown = schema if part.kind == served.kind else f"io.k8s.api.{group}.{part.version}.{part.kind}"
    if "get" in part.verbs:
        yield "get", _operation(served, "get", shown, (), part=part)
    if "create" in part.verbs:
        yield "post", _operation(served, "post", shown, WRITE_PARAMETERS, body=_body(shown, ("*/*",)), part=part)
    if "update" in part.verbs:
        yield "put", _operation(served, "put", shown, WRITE_PARAMETERS, body=_body(shown, ("*/*",)), part=part)
    if "patch" in part.verbs:
        yield "patch", _patch(served, shown, part=part)


def _patch(served: ServedResource, schema: str, *, part: Subresource | None = None) -> Object:
    """The patch operation; strategic merge is listed for built-in kinds only, since clients use what is listed."""
    media = PATCHES if served.custom else (*PATCHES, STRATEGIC)
    names = (*WRITE_PARAMETERS, "force")
    return _operation(served, "patch", schema, names, body=_body(PATCH_BODY, media), part=part)


def _operation(
    served: ServedResource,
    action: str,
    schema: str,
    parameters: tuple[str, ...],
    *,
    body: Object | None = None,
    part: Subresource | None = None,
) -> Object:
    group, version, kind = served.gvk if part is None else (part.group, part.version, part.kind)
    content = {media: {"schema": {"$ref": REFERENCE + schema}} for media in MEDIA}
    made: Object = {
        "tags": [f"{served.group.partition('.')[0] or 'core'}_{served.version}"],
        "description": f"{VERBS[action]} {kind}",
        "operationId": _operation_id(served, action, part),
        "responses": {
            "201" if action == "post" else "200": {"description": "OK", "content": content},
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    }
    if parameters:
        made["parameters"] = [_in_query(name) for name in parameters]
    if body is not None:
        made["requestBody"] = body
    return made


def _operation_id(served: ServedResource, action: str, part: Subresource | None) -> str:
    group = "".join(word.capitalize() for word in (served.group.removesuffix(".k8s.io") or "core").split("."))
    place = "Namespaced" if served.namespaced else ""
    tail = "" if part is None else part.name.capitalize()
    return f"{VERBS[action]}{group}{served.version.capitalize()}{place}{served.kind}{tail}"


def _body(schema: str, media: tuple[str, ...]) -> Object:
    return {"content": {one: {"schema": {"$ref": REFERENCE + schema}} for one in media}, "required": True}


def _in_query(name: str) -> Object:
    return {"name": name, "in": "query", "schema": {"type": TYPES.get(name, "string"), "uniqueItems": True}}


def _in_path(name: str) -> Object:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}


# Referenced by the paths of every kind.
COMMON = tuple(META + name for name in ("Status", "Patch", "DeleteOptions", "ObjectMeta", "ListMeta"))
SCALE = "io.k8s.api.autoscaling.v1.Scale"
PARTS = {
    "binding": "io.k8s.api.core.v1.Binding",
    "eviction": "io.k8s.api.policy.v1.Eviction",
    "token": "io.k8s.api.authentication.v1.TokenRequest",
}


def openapi_document(resources: list[ServedResource]) -> Object:
    """The document of the resources of a group and version."""
    paths = {path: item for served in resources for path, item in resource_paths(served, *_schema_names(served))}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": _schemas(resources)},
    }


def component_name(served: ServedResource) -> str:
    """The name of the schema of a kind: that of Kubernetes, or for a custom kind its reversed group."""
    known = None if served.custom else builtin_names(served.group, served.version).get(served.kind)
    return known or ".".join((*reversed(served.group.split(".")), served.version, served.kind))


def _schema_names(served: ServedResource) -> tuple[str, str]:
    name = component_name(served)
    return name, f"{name}List"


def _schemas(resources: list[ServedResource]) -> Object:
    known = [component_name(served) for served in resources if not served.custom]
    lists = [f"{name}List" for name in known]
    parts = [name for part, name in PARTS.items() if any(part in served.subresources for served in resources)]
    found = components([*COMMON, SCALE, *parts, *known, *lists])
    made = {name: with_enums(name, schema) for name, schema in found.items()}
    for served in resources:
        made.update(_own_schemas(served, made))
    return dict(sorted(made.items()))


def _own_schemas(served: ServedResource, made: Object) -> Iterator[tuple[str, Any]]:
    """The schemas that are not in the data files: those of custom kinds and of lists."""
    name, list_name = _schema_names(served)
    if served.custom:
        yield name, custom_schema(served)
    if list_name not in made:
        yield list_name, list_schema(served, name)
