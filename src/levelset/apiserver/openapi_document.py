"""The OpenAPI v3 document of one group and version: its paths, and the schemas of its kinds."""

from collections.abc import Iterator
from typing import Any

from levelset.apiserver.catalog import Catalog
from levelset.apiserver.members import part
from levelset.apiserver.openapi_paths import REFERENCE, resource_paths
from levelset.apiserver.schemas import builtin_names, components
from levelset.apiserver.served import Object, Served
from levelset.apiserver.versioninfo import VERSION

__all__ = ["component_name", "openapi_document"]

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
# What the paths refer to whatever the kinds.
COMMON = tuple(META + name for name in ("Status", "Patch", "DeleteOptions", "ObjectMeta", "ListMeta"))
SCALE = "io.k8s.api.autoscaling.v1.Scale"
PARTS = {"eviction": "io.k8s.api.policy.v1.Eviction", "token": "io.k8s.api.authentication.v1.TokenRequest"}


def openapi_document(catalog: Catalog, group: str, version: str) -> Object:
    """The document of this group and version."""
    resources = catalog.resources(group, version)
    paths = {path: item for served in resources for path, item in resource_paths(served, *_schema_names(served))}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": _schemas(resources)},
    }


def component_name(served: Served) -> str:
    """The name of the schema of a kind: that of Kubernetes, or for a custom one its group backwards."""
    known = None if served.custom else builtin_names(served.group, served.version).get(served.kind)
    return known or ".".join((*reversed(served.group.split(".")), served.version, served.kind))


def _schema_names(served: Served) -> tuple[str, str]:
    name = component_name(served)
    return name, f"{name}List"


def _schemas(resources: list[Served]) -> Object:
    known = [component_name(served) for served in resources if not served.custom]
    lists = [f"{name}List" for name in known]
    parts = [name for part, name in PARTS.items() if any(part in served.subresources for served in resources)]
    made = components([*COMMON, SCALE, *parts, *known, *lists])
    for served in resources:
        made.update(_own_schemas(served, made))
    return dict(sorted(made.items()))


def _own_schemas(served: Served, made: Object) -> Iterator[tuple[str, Any]]:
    """The schemas that do not come as data: those of custom kinds, and of lists."""
    name, list_name = _schema_names(served)
    if served.custom:
        yield name, _custom_schema(served)
    if list_name not in made:
        yield list_name, _list_schema(served, name)


def _custom_schema(served: Served) -> Object:
    schema: Object = dict(served.schema_source or {"type": "object"})
    if schema.get("properties") or not schema.get("x-kubernetes-preserve-unknown-fields"):
        meta: Object = {"allOf": [{"$ref": f"{REFERENCE}{META}ObjectMeta"}]}
        schema["properties"] = {
            **part(schema, "properties"),
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": meta,
        }
    group, version, kind = served.gvk
    schema["x-kubernetes-group-version-kind"] = [{"group": group, "version": version, "kind": kind}]
    if served.selectable:
        schema["x-kubernetes-selectable-fields"] = [{"fieldPath": path} for path in served.selectable]
    return schema


def _list_schema(served: Served, item: str) -> Object:
    group, version, _ = served.gvk
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": f"{REFERENCE}{META}ListMeta"}]},
            "items": {"type": "array", "items": {"allOf": [{"$ref": REFERENCE + item}]}},
        },
        "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": served.list_kind}],
    }
