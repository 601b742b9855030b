"""Merge schemas: the part of a kind's schema that strategic merge patch and server-side apply need.

At every node a merge needs to know whether the value is a scalar, a map, a list of keyed items, a set, or atomic. A
`Shape` holds that. It is built from an OpenAPI or structural schema (`shape_of`, `resource_shape`) or looked up for a
built-in kind (`builtin_shape`). Without a schema, `ANYTHING` is used: maps are merged member by member, lists are
atomic.

The merge schemas of built-in kinds ship with the package (`builtin_shapes.json`, written by
`scripts/generate_shapes.py`). The file is read once per process, on first use; a kind's shape is built on first use.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import msgspec

from levelset.errors import BadObject
from levelset.objects.json_tree import Tree, is_map

__all__ = ["ANYTHING", "OBJECT_META", "Shape", "ShapeBuilder", "builtin_shape", "resource_shape", "shape_of"]

ListType = Literal["atomic", "set", "map"]


class Shape(msgspec.Struct, frozen=True, eq=False):
    """How one node of an object is merged.

    `fields` are the members that are known by name, `items` the shape of all other members of a map, or of a list's
    items. `keys` are the list-map keys of server-side apply, `defaults` their defaults. `merge_key` and `strategies`
    are for strategic merge: a list with strategy "merge" and no key is a set of scalars; `opaque` is any JSON, inside
    of which nothing can be merged.

    Shapes are compared by identity and may be cyclic: the schema of a schema contains itself.
    """

    fields: Mapping[str, "Shape"] = msgspec.field(default_factory=dict[str, "Shape"])
    items: "Shape | None" = None
    list_type: ListType = "atomic"
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    atomic: bool = False
    merge_key: str | None = None
    strategies: frozenset[str] = frozenset()
    opaque: bool = False

    def member(self, name: str) -> "Shape":
        """The shape of the member `name` of a map; ANYTHING if the schema does not declare it."""
        return self.fields.get(name) or self.items or ANYTHING

    def item(self) -> "Shape":
        """The shape of a list's items; ANYTHING if the schema does not declare them."""
        return self.items or ANYTHING

    def __repr__(self) -> str:
        # One level deep only: a shape may be cyclic.
        known = sorted(self.fields)
        return f"Shape(fields={known}, list_type={self.list_type!r}, keys={self.keys}, merge_key={self.merge_key!r})"


ANYTHING = Shape()

# Written out rather than read from `builtin_shapes.json`, so that custom resources need no file; a test compares both.
OBJECT_META = Shape(
    fields={
        "finalizers": Shape(list_type="set", strategies=frozenset({"merge"})),
        "managedFields": ANYTHING,
        "ownerReferences": Shape(
            items=Shape(atomic=True),
            list_type="map",
            keys=("uid",),
            defaults={"uid": ""},
            merge_key="uid",
            strategies=frozenset({"merge"}),
        ),
    }
)


def shape_of(schema: Any, definitions: Mapping[str, Any] | None = None) -> Shape:
    """The shape that an OpenAPI v3 or structural schema describes.

    `definitions` are the schemas that a `$ref` names by its last segment. An unknown reference and any part that is
    not a schema become ANYTHING: schemas are validated where they are registered, not here.
    """
    try:
        return ShapeBuilder(definitions or {}).read(schema)
    except RecursionError as error:
        raise BadObject("the schema is nested too deeply to build a merge schema from it", field="") from error


def resource_shape(schema: Any, definitions: Mapping[str, Any] | None = None) -> Shape:
    """The shape of a custom resource: its structural schema, with apiVersion, kind and metadata as in every kind.

    The schema's own `metadata` is ignored: it can only restrict names and does not affect merging.
    """
    shape = shape_of(schema, definitions)
    is_free = shape.items is None and is_map(schema) and schema.get(_PRESERVE) is True
    return _with_meta(shape, items=ANYTHING if is_free else shape.items)


def _with_meta(shape: Shape, *, items: Shape | None = None) -> Shape:
    fields = {**shape.fields, "apiVersion": ANYTHING, "kind": ANYTHING, "metadata": OBJECT_META}
    return Shape(fields=fields, items=items, atomic=shape.atomic, strategies=shape.strategies)


_LIST_TYPE = "x-kubernetes-list-type"
_LIST_KEYS = "x-kubernetes-list-map-keys"
_MAP_TYPE = "x-kubernetes-map-type"
_MERGE_KEY = "x-kubernetes-patch-merge-key"
_STRATEGY = "x-kubernetes-patch-strategy"
_EMBEDDED = "x-kubernetes-embedded-resource"
_OPAQUE = "x-opaque"
_RAW_EXTENSION = "apimachinery.pkg.runtime.RawExtension"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_MERGE_KEYWORDS = (_LIST_TYPE, _LIST_KEYS, _MAP_TYPE, _MERGE_KEY, _STRATEGY)
# A schema without any of these, such as that of a string, says nothing about merging.
_SHAPING = frozenset(
    {"$ref", "allOf", "properties", "items", "additionalProperties", _EMBEDDED, _PRESERVE, *_MERGE_KEYWORDS}
)


class ShapeBuilder:
    """Builds shapes from schemas that refer to each other; each definition is built once and shared."""

    def __init__(self, definitions: Mapping[str, Tree]) -> None:
        self._definitions = definitions
        self._known: dict[tuple[str, str], Shape] = {}

    def read(self, schema: Tree) -> Shape:
        """The shape of `schema`; recursive definitions give cyclic shapes."""
        if not isinstance(schema, dict) or _SHAPING.isdisjoint(schema):
            return ANYTHING
        name = _reference(schema)
        if name is None:
            return self._fill(Shape(), schema)
        # A property may add merge keywords beside its reference (a list type, a strategy): each combination has its own
        # shape. It is registered before it is filled, so that a definition may contain itself.
        own = {keyword: schema[keyword] for keyword in _MERGE_KEYWORDS if keyword in schema}
        key = (name, repr(own))
        if key not in self._known:
            self._known[key] = shape = Shape()
            is_opaque = {_OPAQUE: name == _RAW_EXTENSION}
            self._known[key] = self._fill(shape, {**self._target(name), **own, **is_opaque})
        return self._known[key]

    def _target(self, name: str) -> dict[str, Tree]:
        """The definition called `name`, following definitions that are only references to others."""
        merged: dict[str, Tree] = {}
        seen: set[str] = set()
        while name not in seen:
            seen.add(name)
            found = self._definitions.get(name)
            if not isinstance(found, dict):
                break
            merged = {**found, **merged}
            further = _reference(found)
            if further is None:
                break
            name = further
        return merged

    def _fill(self, shape: Shape, tree: Mapping[str, Tree]) -> Shape:
        """Fills the new, empty `shape` from `tree`; returns ANYTHING instead if the schema declares nothing."""
        known = self._fields(tree)
        rest = tree.get("items", tree.get("additionalProperties"))
        items = self.read(rest) if isinstance(rest, dict) else None
        if items is None and tree.get(_PRESERVE) is True:
            items = ANYTHING  # members that are not declared are those of a free map
        filled = _with_meta(Shape(fields=known)).fields if tree.get(_EMBEDDED) is True else known
        attributes: dict[str, Any] = {
            "fields": filled,
            # Beside known fields, ANYTHING must be explicit; alone it is the meaning of an empty schema.
            "items": None if items is ANYTHING and not filled else items,
            "atomic": tree.get(_MAP_TYPE) == "atomic",
            "merge_key": _text(tree.get(_MERGE_KEY)),
            "strategies": _strategies(tree.get(_STRATEGY)),
            "opaque": tree.get(_OPAQUE) is True,
            **self._list_attributes(tree),
        }
        if not any(attributes.values()):
            return ANYTHING
        for attribute, value in attributes.items():
            # A cyclic shape can only be closed after it was created.
            msgspec.structs.force_setattr(shape, attribute, value)
        return shape

    def _fields(self, tree: Mapping[str, Tree]) -> dict[str, Shape]:
        properties = tree.get("properties")
        if not isinstance(properties, dict):
            return {}
        return {name: self.read(one) for name, one in properties.items()}

    def _list_attributes(self, tree: Mapping[str, Tree]) -> dict[str, Any]:
        kind = tree.get(_LIST_TYPE)
        if kind == "set":
            return {"list_type": "set"}
        keys = tree.get(_LIST_KEYS)
        if kind != "map" or not isinstance(keys, list):
            return {}
        names = tuple(key for key in keys if isinstance(key, str))
        return {"list_type": "map", "keys": names, "defaults": self._defaults(tree.get("items"), names)}

    def _defaults(self, items: Tree, keys: tuple[str, ...]) -> dict[str, Tree]:
        """The defaults of the key fields of a list's items: an item that leaves one out means the default."""
        if not isinstance(items, dict):
            return {}
        name = _reference(items)
        properties = (items if name is None else self._target(name)).get("properties")
        if not isinstance(properties, dict):
            return {}
        found = ((key, properties.get(key)) for key in keys)
        return {key: one["default"] for key, one in found if isinstance(one, dict) and "default" in one}


def _reference(tree: Mapping[str, Tree]) -> str | None:
    """The name that a schema refers to, by `$ref` or by an `allOf` with one `$ref` as in OpenAPI v3 documents."""
    found = tree.get("$ref")
    parts = tree.get("allOf")
    if found is None and isinstance(parts, list) and len(parts) == 1:
        only = parts[0]
        found = only.get("$ref") if isinstance(only, dict) else None
    return found.rsplit("/", 1)[-1] if isinstance(found, str) else None


def _text(value: Tree) -> str | None:
    return value if isinstance(value, str) else None


def _strategies(value: Tree) -> frozenset[str]:
    return frozenset(value.split(",")) if isinstance(value, str) and value else frozenset()


def builtin_shape(group: str, version: str, kind: str) -> Shape | None:
    """The shape of a built-in kind (`builtin_shape("apps", "v1", "Deployment")`); None for other kinds.

    The core group is `""`. The same kind always gives the same shape.
    """
    builtin = _builtin_definitions()
    name = builtin.kinds.get(f"{group}/{version}/{kind}")
    if name is None:
        return None
    with builtin.lock:
        return builtin.builder.read({"$ref": name})


class _BuiltinDefinitions:
    """The content of `builtin_shapes.json`: the definition of each kind, and a builder for the definitions."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.kinds: dict[str, str] = content["kinds"]
        self.builder = ShapeBuilder(content["definitions"])
        self.lock = Lock()  # a shape that is being built is already registered, but not yet complete


@cache
def _builtin_definitions() -> _BuiltinDefinitions:
    content = Path(__file__).with_name("builtin_shapes.json").read_bytes()
    return _BuiltinDefinitions(msgspec.json.decode(content))
