"""Keywords: which words a structural schema may use, and where.

`malformed` finds keywords whose values make no sense at all, `unsupported` those that only other dialects of OpenAPI
know, and `check_keywords` everything that is about one keyword beside another: list types and their keys, properties
beside additionalProperties, defaults in the metadata.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from levelset.apiserver.schemas import wording
from levelset.apiserver.schemas.nodes import MAX_DEPTH, Node
from levelset.apiserver.schemas.trees import join
from levelset.errors import Cause

__all__ = ["NESTED_FORBIDDEN", "check_keywords", "children", "malformed", "unsupported"]

TYPES = ("array", "boolean", "integer", "number", "object", "string")

UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")

NESTED_FORBIDDEN = (
    *("type", "default", "title", "description", "nullable"),
    *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"),
    *("x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-validations"),
)
"""What an alternative inside allOf, anyOf, oneOf or not may not say."""

IDENTITY = ("metadata", "kind", "apiVersion")


def children(node: Node) -> Iterator[tuple[str, Node]]:
    """All schemas directly inside a schema, with the part of the path that leads to them."""
    if isinstance(node.additional, Node):
        yield "additionalProperties", node.additional
    for name, child in node.properties.items():
        yield f"properties[{name}]", child
    if node.not_ is not None:
        yield "not", node.not_
    for keyword, group in (("allOf", node.all_of), ("oneOf", node.one_of), ("anyOf", node.any_of)):
        for at, one in enumerate(group):
            yield f"{keyword}[{at}]", one
    if node.items is not None:
        yield "items", node.items


def malformed(node: Node, path: str) -> list[Cause]:
    """Keywords with values of the wrong type, and schemas that are nested too deeply."""
    if node.too_deep:
        return [wording.too_deep(path, MAX_DEPTH)]
    causes: list[Cause] = []
    for keyword in node.malformed:
        value = node.raw.get(keyword) if keyword else None
        field = join(path, keyword) if keyword else path
        causes.append(wording.type_invalid(field, wording.kind_of(value), "must be of the type that OpenAPI gives it"))
    for part, child in children(node):
        causes += malformed(child, join(path, part))
    return causes


def unsupported(node: Node) -> bool:
    """Whether any keyword is used that structural schemas do not have."""
    return any(True for _ in _refused(node, "")) or any(unsupported(child) for _, child in children(node))


def _refused(node: Node, path: str) -> Iterator[Cause]:
    for keyword in UNSUPPORTED:
        value = node.raw.get(keyword)
        if value or (value is not None and keyword in ("$ref", "additionalItems", "dependencies")):
            yield wording.forbidden(join(path, keyword), f"{keyword} is not supported")
    if node.raw.get("$schema"):
        yield wording.forbidden(join(path, "$schema"), "$schema is not supported")
    if isinstance(node.raw.get("items"), list):
        yield wording.forbidden(join(path, "items"), "items must be a schema object and not an array")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a schema stands: whether defaults are allowed, and whether it is part of an object's metadata."""

    root: bool = False
    in_metadata: bool = False
    no_defaults: str = ""


def check_keywords(node: Node, path: str) -> list[Cause]:
    """Everything that is wrong with the keywords of a schema and of those inside it."""
    return _check(node, path, _Place(root=True))


def _check(node: Node, path: str, place: _Place) -> list[Cause]:
    causes = [*_refused(node, path), *_check_one(node, path, place), *_check_lists(node, path)]
    for part, child in children(node):
        causes += _check(child, join(path, part), _place_of(node, part, place))
    return causes


def _place_of(node: Node, part: str, place: _Place) -> _Place:
    inner = replace(place, root=False)
    if part == "additionalProperties" and place.in_metadata:
        return replace(inner, no_defaults="inside additionalProperties applying to object metadata")
    name = part.removeprefix("properties[").removesuffix("]")
    if (place.root or node.embedded) and part.startswith("properties[") and name in IDENTITY:
        reason = f"in top-level {name}" if place.root else place.no_defaults
        return replace(inner, in_metadata=True, no_defaults=reason)
    return inner


def _check_one(node: Node, path: str, place: _Place) -> Iterator[Cause]:
    if node.type and node.type not in TYPES:
        yield wording.not_supported(join(path, "type"), node.type, TYPES)
    if node.type == "null":
        yield wording.forbidden(join(path, "type"), "must not be null, use nullable instead")
    if node.default is not None and place.no_defaults:
        yield wording.forbidden(join(path, "default"), f"must not be set {place.no_defaults}")
    if place.in_metadata and node.embedded:
        yield wording.forbidden(join(path, "x-kubernetes-embedded-resource"), "must not be used inside of metadata")
    if node.raw.get("uniqueItems"):
        detail = "must not be true, comparing all items costs too much; use x-kubernetes-list-type: set"
        yield wording.forbidden(join(path, "uniqueItems"), detail)
    if node.properties and node.additional is not None and node.additional is not True:
        yield wording.forbidden(join(path, "additionalProperties"), "must not be used beside properties")
    if node.raw.get("x-kubernetes-preserve-unknown-fields") is False:
        field = join(path, "x-kubernetes-preserve-unknown-fields")
        yield wording.invalid(field, False, "must be true or undefined")
    if node.map_type:
        yield from _needs_type(node, path, "object", "x-kubernetes-map-type")
        if node.map_type not in ("atomic", "granular"):
            yield wording.not_supported(join(path, "x-kubernetes-map-type"), node.map_type, ("atomic", "granular"))


def _needs_type(node: Node, path: str, expected: str, keyword: str) -> Iterator[Cause]:
    field, detail = join(path, "type"), f"must be {expected} if {keyword} is specified"
    if not node.type:
        yield wording.required(field, detail)
    elif node.type != expected:
        yield wording.invalid(field, node.type, detail)


def _check_lists(node: Node, path: str) -> Iterator[Cause]:
    field = join(path, "x-kubernetes-list-type")
    if node.list_type:
        yield from _needs_type(node, path, "array", "x-kubernetes-list-type")
        if node.list_type not in ("atomic", "set", "map"):
            yield wording.not_supported(field, node.list_type, ("atomic", "set", "map"))
    if node.list_keys and node.list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield wording.invalid(field, node.list_type, detail) if node.list_type else wording.required(field, detail)
    if node.list_type == "set" and node.type == "array" and node.items is not None:
        yield from _check_set(node.items, join(path, "items"))
    if node.list_type == "map":
        yield from _check_keyed(node, path)
    if node.list_type in ("set", "map") and node.items is not None and node.items.nullable:
        yield wording.forbidden(join(path, "items.nullable"), f"must not be true in a list of type {node.list_type}")


def _check_set(items: Node, path: str) -> Iterator[Cause]:
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.type == "array" and items.list_type not in ("", "atomic"):
        yield wording.invalid(join(path, "x-kubernetes-list-type"), items.list_type, detail)
    if items.type == "object" and items.map_type != "atomic":
        yield wording.invalid(join(path, "x-kubernetes-map-type"), items.map_type or None, detail)


def _check_keyed(node: Node, path: str) -> Iterator[Cause]:
    field = join(path, "x-kubernetes-list-map-keys")
    if not node.list_keys:
        yield wording.required(field, "must not be empty if x-kubernetes-list-type is map")
    if node.items is None:
        yield wording.required(join(path, "items"), "must have a schema if x-kubernetes-list-type is map")
        return
    items = join(path, "items")
    if node.items.type != "object":
        yield wording.invalid(join(items, "type"), node.items.type, "must be object in a list of type map")
        return
    if len(set(node.list_keys)) != len(node.list_keys):
        yield wording.invalid(field, list(node.list_keys), "must not contain duplicate entries")
    for key in dict.fromkeys(node.list_keys):
        yield from _check_key(node.items, key, field, f"{items}.properties[{key}]")


def _check_key(items: Node, key: str, field: str, path: str) -> Iterator[Cause]:
    child = items.properties.get(key)
    if child is None:
        yield wording.invalid(field, key, "entries must all be names of item properties")
        return
    if child.type in ("array", "object"):
        yield wording.invalid(join(path, "type"), child.type, "must be a scalar, it is a key of a list of type map")
    if key not in items.required and child.default is None:
        detail = "must be there, or the property required: it is a key of a list of type map"
        yield wording.required(join(path, "default"), detail)
    if child.nullable:
        yield wording.forbidden(join(path, "nullable"), "must not be true, it is a key of a list of type map")
