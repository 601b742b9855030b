"""Types from structural schemas, mapped as Kubernetes does, with the size limits of the schema."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from levelset.cel.parser import RESERVED
from levelset.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of
from levelset.cel.values import is_map
from levelset.objects.lazy_pattern import Pattern

__all__ = ["MAX_REQUEST", "declared_type", "escape", "with_meta"]

MAX_REQUEST = 3 * 1024 * 1024  # bytes of the largest request
_WORDS = RESERVED | {"true", "false", "null", "in"}
_NAME = Pattern(r"[A-Za-z_.\-/][A-Za-z0-9_.\-/]*")
_ESCAPED = Pattern(r"__|[./-]")
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_LONGEST = MAX_REQUEST - 2
_PLAIN = "object"
_TEXT: Mapping[str, Any] = {"type": "string"}
_META = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
_FORMATS = {
    "date": replace(TIMESTAMP, max_elements=12, min_size=12),
    "date-time": replace(TIMESTAMP, max_elements=32, min_size=21),
    "duration": replace(DURATION, max_elements=32, min_size=3),
}
_KEY = replace(STRING, max_elements=0)  # upstream does not count keys
_SCALARS = {"boolean": BOOL, "number": DOUBLE, "integer": INT}


def declared_type(schema: Mapping[str, Any], *, is_root: bool = False, name: str = _PLAIN) -> Type | None:
    """The type of values of this schema; None for a schema without a type, whose values rules cannot access.

    At the root of a resource, also of an embedded one, apiVersion, kind, metadata.name and metadata.generateName are
    declared even if the schema does not mention them. An object has this name, and objects inside of it a longer one.
    """
    found = _declared(schema, name, is_root=is_root)
    return replace(found, nullable=True) if found is not None and schema.get("nullable") is True else found


def with_meta(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with the fields that the root of every resource has."""
    properties = {**schema.get("properties", {}), "apiVersion": _TEXT, "kind": _TEXT, "metadata": _META}
    return {**schema, "properties": properties}


def escape(name: str) -> str | None:
    """The name of a field as expressions write it; None if it cannot be escaped."""
    if name in _WORDS:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return None
    return _ESCAPED.sub(lambda match: _ESCAPES[match.group()], name)


def _declared(schema: Mapping[str, Any], name: str, *, is_root: bool) -> Type | None:
    if schema.get("x-kubernetes-int-or-string") is True:
        return replace(DYN, max_elements=_length(schema))
    if is_root:
        schema = with_meta(schema)
    kind = schema.get("type")
    if kind == "array":
        return _array(schema, name)
    if kind == "object":
        return _object(schema, name)
    if kind == "string":
        return _string(schema)
    return _SCALARS.get(kind) if isinstance(kind, str) else None


def _length(schema: Mapping[str, Any]) -> int:
    limit = schema.get("maxLength")
    return max(limit, 0) * 4 if isinstance(limit, int) else _LONGEST


def _string(schema: Mapping[str, Any]) -> Type:
    form, limit, choices = schema.get("format"), schema.get("maxLength"), schema.get("enum")
    if form in _FORMATS:
        return _FORMATS[form]
    if form == "byte":
        return replace(BYTES, max_elements=max(limit, 0) if isinstance(limit, int) else _LONGEST)
    if choices and not isinstance(limit, int):
        longest = max(
            (len(choice.encode("utf-8", "replace")) for choice in choices if isinstance(choice, str)), default=0
        )
        return replace(STRING, max_elements=longest)
    return replace(STRING, max_elements=_length(schema))


def _array(schema: Mapping[str, Any], name: str) -> Type | None:
    item = _child(schema.get("items"), _inner(name, "@idx"))
    if item is None:
        return None
    limit = schema.get("maxItems")
    most = max(limit, 0) if isinstance(limit, int) else _LONGEST // (item.min_size + 1)
    return list_of(item, max_elements=most)


def _object(schema: Mapping[str, Any], name: str) -> Type | None:
    values = schema.get("additionalProperties")
    if is_map(values):
        value = _child(values, _inner(name, "@elem"))
        if value is None:
            return None
        limit = schema.get("maxProperties")
        most = max(limit, 0) if isinstance(limit, int) else _LONGEST // (value.min_size + 6)
        return map_of(_KEY, value, max_elements=most)
    return _fields(schema, name)


def _fields(schema: Mapping[str, Any], name: str) -> Type:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required = schema.get("required") or ()
    fields: dict[str, Type] = {}
    keys: dict[str, str] = {}
    size = 2
    for property_name, property_schema in properties.items():
        escaped = escape(property_name)
        kind = _child(property_schema, _inner(name, escaped or property_name))
        if kind is None:
            continue
        if escaped is not None:
            fields[escaped] = kind
            if escaped != property_name:
                keys[escaped] = property_name
        if property_name in required and property_schema.get("default") is None:
            size += len(property_name.encode("utf-8", "replace")) + kind.min_size + 4
    return Type("object", name=name, fields=fields, keys=keys, max_elements=0, min_size=size)


def _inner(name: str, part: str) -> str:
    """The name of the type of a part; parts of a plain object are plain objects."""
    return name if name == _PLAIN else f"{name}.{part}"


def _child(schema: Any, name: str) -> Type | None:
    if not is_map(schema):
        return None
    tree: Mapping[str, Any] = schema
    return declared_type(tree, is_root=tree.get("x-kubernetes-embedded-resource") is True, name=name)
