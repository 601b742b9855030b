"""The OpenAPI v3 schemas of custom kinds and of lists: what a CRD says, and what every object and list has.

The descriptions are those of the API conventions of Kubernetes, as clients such as `kubectl explain` show them.
"""

from typing import Any, Final

from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.objects.json_tree import is_list, is_map

__all__ = ["META", "REFERENCE", "custom_schema", "list_schema"]

REFERENCE: Final = "#/components/schemas/"
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_CONVENTIONS: Final = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_API_VERSION: Final = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized"
    f" schemas to the latest internal value, and may reject unrecognized values. More info: {_CONVENTIONS}#resources"
)
_KIND: Final = (
    "Kind is a string value representing the REST resource this object represents. Servers may infer this from the"
    f" endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: {_CONVENTIONS}#types-kinds"
)
_METADATA: Final = f"Standard object's metadata. More info: {_CONVENTIONS}#metadata"
_EMBEDDED_API_VERSION: Final = (
    f"apiVersion defines the versioned schema of this representation of an object. More info: {_CONVENTIONS}#resources"
)
_EMBEDDED_KIND: Final = (
    f"kind is a string value representing the type of this object. In CamelCase. More info: {_CONVENTIONS}#types-kinds"
)
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"


def custom_schema(served: ServedResource) -> Object:
    """The schema of a custom kind."""
    schema: Object = _published(served.schema_source or {"type": "object"})
    schema["properties"] = {**map_member(schema, "properties"), **_object_members(_API_VERSION, _KIND)}
    group, version, kind = served.gvk
    schema["x-kubernetes-group-version-kind"] = [{"group": group, "version": version, "kind": kind}]
    if served.selectable:
        schema["x-kubernetes-selectable-fields"] = [{"fieldPath": path} for path in served.selectable]
    return schema


def list_schema(served: ServedResource, item: str) -> Object:
    """The schema of a list of objects with the schema that `item` names."""
    group, version, _ = served.gvk
    return {
        "type": "object",
        "description": f"{served.list_kind} is a list of {served.kind}",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": _API_VERSION},
            "kind": {"type": "string", "description": _KIND},
            "metadata": {
                "allOf": [{"$ref": f"{REFERENCE}{META}ListMeta"}],
                "description": f"Standard list metadata. More info: {_CONVENTIONS}#types-kinds",
            },
            "items": {
                "type": "array",
                "items": {"$ref": REFERENCE + item},
                "description": f"List of {served.plural}. More info: {_CONVENTIONS}",
            },
        },
        "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": served.list_kind}],
    }


def _object_members(api_version: str, kind: str) -> Object:
    metadata = {"allOf": [{"$ref": f"{REFERENCE}{META}ObjectMeta"}], "description": _METADATA}
    return {
        "apiVersion": {"type": "string", "description": api_version},
        "kind": {"type": "string", "description": kind},
        "metadata": metadata,
    }


def _published(tree: Any) -> Any:
    """A copy of a schema with what its extensions stand for: embedded objects, and numbers or strings."""
    if is_list(tree):
        return [_published(one) for one in tree]
    if not is_map(tree):
        return tree
    made: Object = {
        name: {key: _published(value) for key, value in child.items()}
        if name in ("properties", "patternProperties") and is_map(child)
        else child
        if name in ("default", "enum", "example", "x-kubernetes-validations")
        else _published(child)
        for name, child in tree.items()
    }
    if made.get(_INT_OR_STRING) is True and "anyOf" not in made and "allOf" not in made:
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if made.get("x-kubernetes-embedded-resource") is True:
        made["properties"] = {
            **map_member(made, "properties"),
            **_object_members(_EMBEDDED_API_VERSION, _EMBEDDED_KIND),
        }
        made["required"] = list(dict.fromkeys([*(made.get("required") or ()), "kind", "apiVersion"]))
    return made
