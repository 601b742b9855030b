"""The paths of an OpenAPI document: for each resource what can be done with it, as far as clients read it.

kubectl looks at the `patch` operation of a kind: which media types it takes, and whether it knows `fieldValidation` and
`dryRun`. What is said here is therefore true of this server.
"""

from collections.abc import Iterator

from levelset.apiserver.discovery_rows import Part, parts_of
from levelset.apiserver.served import Object, Served

__all__ = ["resource_paths"]

JSON = "application/json"
MEDIA = (JSON, "application/yaml")
PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
STRATEGIC = "application/strategic-merge-patch+json"
REFERENCE = "#/components/schemas/"
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


def resource_paths(served: Served, schema: str, list_schema: str) -> Iterator[tuple[str, Object]]:
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
    for part in parts_of(served):
        if part.name != "log":
            yield f"{collection}/{{name}}/{part.name}", {**dict(_part(served, part, schema)), "parameters": parameters}


def _many(served: Served, schema: str, list_schema: str) -> Iterator[tuple[str, Object]]:
    if "list" in served.verbs:
        yield "get", _operation(served, "list", list_schema, LIST_PARAMETERS)
    if "create" in served.verbs:
        yield "post", _operation(served, "post", schema, WRITE_PARAMETERS, body=_body(schema, ("*/*",)))
    if "deletecollection" in served.verbs:
        names = (*DELETE_PARAMETERS, "continue", "fieldSelector", "labelSelector", "limit")
        yield "delete", _operation(served, "deletecollection", STATUS, names, body=_body(DELETE_OPTIONS, ("*/*",)))


def _single(served: Served, schema: str) -> Iterator[tuple[str, Object]]:
    if "get" in served.verbs:
        yield "get", _operation(served, "get", schema, ())
    if "update" in served.verbs:
        yield "put", _operation(served, "put", schema, WRITE_PARAMETERS, body=_body(schema, ("*/*",)))
    if "patch" in served.verbs:
        yield "patch", _patch(served, schema)
    if "delete" in served.verbs:
        yield "delete", _operation(served, "delete", STATUS, DELETE_PARAMETERS, body=_body(DELETE_OPTIONS, ("*/*",)))


def _part(served: Served, part: Part, schema: str) -> Iterator[tuple[str, Object]]:
    shown = (
        schema if part.kind == served.kind else f"io.k8s.api.{part.group.partition('.')[0]}.{part.version}.{part.kind}"
    )
    if "get" in part.verbs:
        yield "get", _operation(served, "get", shown, (), part=part)
    if "create" in part.verbs:
        yield "post", _operation(served, "post", shown, WRITE_PARAMETERS, body=_body(shown, ("*/*",)), part=part)
    if "update" in part.verbs:
        yield "put", _operation(served, "put", shown, WRITE_PARAMETERS, body=_body(shown, ("*/*",)), part=part)
    if "patch" in part.verbs:
        yield "patch", _patch(served, shown, part=part)


def _patch(served: Served, schema: str, *, part: Part | None = None) -> Object:
    """Strategic merge is only for built-in kinds: a client that reads it here would use it."""
    media = PATCHES if served.custom else (*PATCHES, STRATEGIC)
    names = (*WRITE_PARAMETERS, "force")
    return _operation(served, "patch", schema, names, body=_body(PATCH_BODY, media), part=part)


def _operation(
    served: Served,
    action: str,
    schema: str,
    parameters: tuple[str, ...],
    *,
    body: Object | None = None,
    part: Part | None = None,
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


def _operation_id(served: Served, action: str, part: Part | None) -> str:
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
