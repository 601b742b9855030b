"""Parsed schemas: a tree of `Node`s, read once from the JSON of a CRD or an OpenAPI document.

A schema arrives as an unvalidated tree. `read_schema` turns it into `Node`s with typed attributes and never fails: a
value of the wrong type is left out and its keyword recorded in `malformed`; what is nested too deeply is cut off and
recorded in `too_deep`.

With `builtin=True` the schema is one of Kubernetes' own OpenAPI components, which are less precise than a structural
schema: references are followed, an object without properties preserves unknown fields, and a default that equals Go's
zero value is ignored.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

__all__ = ["MAX_DEPTH", "Node", "Tree", "as_list", "as_map", "read_schema", "spells_int_or_string"]

Tree: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list or dict."""

MAX_DEPTH = 100
"""How many levels a schema, or an object under a recursive schema, may have."""

LARGEST = 2**63 - 1


class Node(Struct, eq=False):
    """One node of a schema; attributes are named as in OpenAPI, without the `x-kubernetes-` prefix.

    `weight` is the number of nodes in it, itself included.
    """

    raw: Mapping[str, Tree] = field(default_factory=dict[str, Tree])
    type: str = ""
    format: str = ""
    nullable: bool = False
    default: Tree = None
    enum: tuple[Tree, ...] = ()
    minimum: int | float | None = None
    maximum: int | float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: int | float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    required: tuple[str, ...] = ()
    properties: Mapping[str, "Node"] = field(default_factory=dict[str, "Node"])
    additional: "Node | bool | None" = None
    items: "Node | None" = None
    all_of: tuple["Node", ...] = ()
    any_of: tuple["Node", ...] = ()
    one_of: tuple["Node", ...] = ()
    not_: "Node | None" = None
    ref: str = ""
    preserve: bool = False
    embedded: bool = False
    int_or_string: bool = False
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    map_type: str = ""
    malformed: tuple[str, ...] = ()
    too_deep: bool = False
    weight: int = 1

    def either(self) -> tuple["Node", ...]:
        """The alternatives of anyOf, without those that integer-or-string implies."""
        return () if self.int_or_string and spells_int_or_string(self.any_of) else self.any_of

    def accepts_null(self) -> bool:
        """Whether null is valid here; an enumeration never contains it."""
        return not self.enum and (self.nullable or not (self.type or self.int_or_string or self.ref))

    @property
    def is_any_scalar(self) -> bool:
        """Whether server-side apply takes any scalar for it, as it does for texts of most formats."""
        return self.type == "string" and self.format not in ("", "byte", "bytes")

    def has_defaults(self) -> bool:
        """Whether there is a default at this schema or anywhere inside it."""
        return self.default is not None or any(one.has_defaults() for one in self.inner())

    def inner(self) -> list["Node"]:
        """The schemas directly inside, without alternatives."""
        found = [*self.properties.values(), self.items, self.additional]
        return [one for one in found if isinstance(one, Node)]

    def child(self, name: str) -> "Node | None":
        """The schema of the member `name`; None if there is none."""
        found = self.properties.get(name)
        if found is None and isinstance(self.additional, Node):
            return self.additional
        return found


def as_map(value: Tree) -> dict[str, Tree] | None:
    """The value if it is an object, else None."""
    return cast("dict[str, Tree]", value) if isinstance(value, dict) else None


def as_list(value: Tree) -> list[Tree] | None:
    """The value if it is a list, else None."""
    return value if isinstance(value, list) else None  # pyright: ignore[reportUnknownVariableType] - of any JSON


def spells_int_or_string(alternatives: tuple[Node, ...]) -> bool:
    """Whether these are exactly the two alternatives `type: integer` and `type: string`."""
    return [dict(one.raw) for one in alternatives] == [{"type": "integer"}, {"type": "string"}]


def read_schema(raw: Tree, *, builtin: bool = False) -> Node:
    """The schema as a tree of nodes; never raises."""
    return _Reader(builtin).node(raw, 0)


WRONG: Tree = object()
"""The result of a keyword's reader for a value of the wrong type."""


def _text(value: Tree) -> Tree:
    return value if isinstance(value, str) else WRONG


def _reference(value: Tree) -> Tree:
    return value.rpartition("/")[2] if isinstance(value, str) else WRONG


def _flag(value: Tree) -> Tree:
    return value if isinstance(value, bool) else WRONG


def _number(value: Tree) -> Tree:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else WRONG


def _count(value: Tree) -> Tree:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return max(min(value, LARGEST), -LARGEST)
    return WRONG


def _sequence(value: Tree) -> Tree:
    items = as_list(value)
    return WRONG if items is None else tuple(items)


def _texts(value: Tree) -> Tree:
    items = as_list(value)
    return WRONG if items is None or not all(isinstance(one, str) for one in items) else tuple(items)


def _anything(value: Tree) -> Tree:
    return value


_LEAVES: Mapping[str, tuple[str, Callable[[Tree], Tree]]] = {
    "type": ("type", _text),
    "format": ("format", _text),
    "nullable": ("nullable", _flag),
    "default": ("default", _anything),
    "enum": ("enum", _sequence),
    "minimum": ("minimum", _number),
    "maximum": ("maximum", _number),
    "exclusiveMinimum": ("exclusive_minimum", _flag),
    "exclusiveMaximum": ("exclusive_maximum", _flag),
    "multipleOf": ("multiple_of", _number),
    "minLength": ("min_length", _count),
    "maxLength": ("max_length", _count),
    "pattern": ("pattern", _text),
    "minItems": ("min_items", _count),
    "maxItems": ("max_items", _count),
    "minProperties": ("min_properties", _count),
    "maxProperties": ("max_properties", _count),
    "required": ("required", _texts),
    "$ref": ("ref", _reference),
    "x-kubernetes-preserve-unknown-fields": ("preserve", _flag),
    "x-kubernetes-embedded-resource": ("embedded", _flag),
    "x-kubernetes-int-or-string": ("int_or_string", _flag),
    "x-kubernetes-list-type": ("list_type", _text),
    "x-kubernetes-list-map-keys": ("list_keys", _texts),
    "x-kubernetes-map-type": ("map_type", _text),
}
"""The keywords without nested schemas: the attribute of a node, and the function that reads the value."""


class _Reader:
    """Reads one schema and the schemas inside it."""

    def __init__(self, builtin: bool) -> None:
        self.builtin = builtin

    def node(self, raw: Tree, depth: int) -> Node:
        members = as_map(raw)
        if members is None:
            return Node(malformed=("",))
        if depth > MAX_DEPTH:
            return Node(preserve=True, too_deep=True)
        node = Node(raw=members)
        bad: list[str] = []
        for keyword, value in members.items():
            leaf = _LEAVES.get(keyword)
            if value is None:
                continue
            if leaf is None:
                if not self.branch(node, keyword, value, depth + 1):
                    bad.append(keyword)
                continue
            found = leaf[1](value)
            if found is WRONG:
                bad.append(keyword)
            else:
                setattr(node, leaf[0], found)
        node.malformed = tuple(bad)
        node.weight += sum(one.weight for one in node.inner())
        return self.as_component(node) if self.builtin else node

    def branch(self, node: Node, keyword: str, value: Tree, depth: int) -> bool:
        """Reads a keyword that holds schemas; False if the value has the wrong type."""
        members, items = as_map(value), as_list(value)
        match keyword:
            case "properties":
                node.properties = {name: self.node(one, depth) for name, one in (members or {}).items()}
                return members is not None
            case "items":
                node.items = None if members is None else self.node(members, depth)
                return True  # as upstream, which takes any other value for no schema
            case "additionalProperties":
                if isinstance(value, bool):
                    node.additional = value
                elif members is not None:
                    node.additional = self.node(members, depth)
                return node.additional is not None
            case "not":
                node.not_ = self.node(value, depth)
            case "allOf" | "anyOf" | "oneOf":
                found = tuple(self.node(one, depth) for one in items or [])
                setattr(node, {"allOf": "all_of", "anyOf": "any_of", "oneOf": "one_of"}[keyword], found)
                return items is not None
            case _:
                pass
        return True

    def as_component(self, node: Node) -> Node:
        """The node as a component of Kubernetes' own OpenAPI documents."""
        if len(node.all_of) == 1 and node.all_of[0].ref:
            node.ref, node.all_of = node.all_of[0].ref, ()
        if node.format == "byte":
            node.format = "bytes"
        if node.format == "int-or-string":
            node.int_or_string, node.one_of, node.format = True, (), ""
        if node.type == "object" and not node.properties and node.additional is None:
            node.preserve = True
        if not node.type and not node.ref and not node.int_or_string:
            node.preserve = True
        if not node.default:
            node.default = None
        node.list_type = ""
        return node
