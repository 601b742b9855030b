"""Reads structural schemas and OpenAPI definitions into shapes, the intermediate form of generated classes.

A `Shape` becomes a class and a `Member` one of its attributes. Shapes are compared by content, without descriptions, so
that equal parts of a schema share a class. What a class cannot express is read loosely: `oneOf`, `anyOf` and `not` are
ignored, and a schema without a type is `Any`. Invalid schemas raise BadObject with their location.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias, cast

from levelset.codegen.models.source_text import quoted
from levelset.errors import BadObject

__all__ = [
    "ANYTHING",
    "Choice",
    "Either",
    "Inline",
    "ListOf",
    "MapOf",
    "Member",
    "Named",
    "Reader",
    "Role",
    "Schema",
    "SchemaLocation",
    "Shape",
    "Type",
    "TypeName",
    "as_list",
    "as_map",
    "inlined",
    "named",
    "reference",
]

Role: TypeAlias = Literal["Model", "Spec", "Status"]
"""The base class of a generated class."""

_UNUSABLE_NAME: Final = re.compile(r'[\x00-\x1f"\\]')
"""What msgspec takes in no name of a field; a module with such a field could not be imported."""


@dataclass(frozen=True, slots=True)
class TypeName:
    """An existing type by its name in source: `str`, `datetime`, `Quantity`, `Any`."""

    name: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A Literal of some values."""

    values: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list with items of one type."""

    item: "Type"


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map from strings to values of one type."""

    value: "Type"


@dataclass(frozen=True, slots=True)
class Either:
    """A union of types, such as a number or a string."""

    types: tuple["Type", ...]


@dataclass(frozen=True, slots=True)
class Named:
    """The class of a definition, by its full name."""

    definition: str


@dataclass(frozen=True, slots=True)
class Inline:
    """A class for an inline schema, without a name of its own."""

    shape: "Shape"


Type: TypeAlias = TypeName | Choice | ListOf | MapOf | Either | Named | Inline

ANYTHING: Final = TypeName("Any")


@dataclass(frozen=True, slots=True)
class Member:
    """An attribute: its wire name, its type, and its default.

    `fallback` is the default as source: `None`, `()`, `{}`, or `new` for an empty object of its class; without one the
    member is required. `notes` are `Annotated` markers as source, such as `ListMap("name")`.
    """

    wire: str
    type: Type
    nullable: bool = False
    fallback: str | None = None
    notes: tuple[str, ...] = ()
    description: str = field(default="", compare=False)

    @property
    def required(self) -> bool:
        """Whether the member must be given."""
        return self.fallback is None


@dataclass(frozen=True, slots=True)
class Shape:
    """A class to generate: its members, required ones first, and its base."""

    members: tuple[Member, ...]
    role: Role = "Model"
    description: str = field(default="", compare=False)

    @property
    def open(self) -> bool:
        """Whether no member is required."""
        return not any(member.required for member in self.members)


def inlined(kind: Type) -> Iterator[Shape]:
    """The inline shapes of a type, not recursive."""
    for one in _leaves(kind):
        if isinstance(one, Inline):
            yield one.shape


def named(kind: Type) -> Iterator[str]:
    """The definitions that a type refers to, without those of nested shapes."""
    for one in _leaves(kind):
        if isinstance(one, Named):
            yield one.definition


def _leaves(kind: Type) -> Iterator[Type]:
    match kind:
        case ListOf(inner) | MapOf(inner):
            yield from _leaves(inner)
        case Either(types):
            for one in types:
                yield from _leaves(one)
        case _:
            yield kind


Schema = Mapping[str, Any]

MAX_DEPTH: Final = 100

# The pattern that controller-gen writes for a quantity, which is a string or a number.
_QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_TEXTS: Final = {"date-time": "datetime", "byte": "bytes"}
_SCALARS: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
_CONDITION: Final = frozenset({"type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"})
_NOTHING: Final = TypeName("None")


@dataclass(frozen=True, slots=True)
class SchemaLocation:
    """The location of a schema in a document, for error messages."""

    document: str
    path: str = ""
    depth: int = 0

    def member(self, name: str) -> "SchemaLocation":
        """The location of a member."""
        return replace(self, path=f"{self.path}.{name}" if self.path else name, depth=self.depth + 1)

    def item(self) -> "SchemaLocation":
        """The location of the items of a list, or of the values of a map."""
        return replace(self, path=f"{self.path}[]", depth=self.depth + 1)

    def error(self, wrong: str) -> BadObject:
        """The error for a problem at this location."""
        where = f" at {self.path}" if self.path else ""
        return BadObject(f"{self.document}{where}: {wrong}", field=self.path)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the schemas of one document; `refer` resolves a reference to a type.

    `is_open` returns whether an empty object is valid for a definition. With `defaults_fill`, a server applies the
    defaults of the schema, so that a required member with a default may be omitted; the defaults of built-in kinds are
    only Go's zero values.
    """

    refer: Callable[[str, SchemaLocation], Type]
    is_open: Callable[[str], bool]
    defaults_fill: bool = True

    def shape(self, schema: Any, location: SchemaLocation, role: Role = "Model") -> Shape:
        """The shape of an object's schema."""
        properties = _mapping(schema.get("properties") or {}, location, "`properties`")
        if schema.get("x-kubernetes-embedded-resource"):
            properties = {**_EMBEDDED, **properties}
        required = _texts(schema.get("required") or [], location, "`required`")
        members = [
            self.member(name, one, location.member(str(name)), required=name in required)
            for name, one in sorted(properties.items(), key=lambda pair: str(pair[0]))
        ]
        # A stable sort: required members first, each group by name.
        members.sort(key=lambda member: not member.required)
        return Shape(tuple(members), role, _description(schema))

    def member(self, name: Any, schema: Any, location: SchemaLocation, *, required: bool) -> Member:
        """The member of a property."""
        if not isinstance(name, str):
            raise location.error(f"the name of a property must be a string, not {name!r}; quote it")
        if _UNUSABLE_NAME.search(name):
            raise location.error(f"no class can have a field {name!r:.60}: quotes, backslashes and control characters")
        found = self.type(schema, location)
        nullable = bool(schema.get("nullable")) and found != ANYTHING
        needed = required and not (self.defaults_fill and "default" in schema)
        fallback = None if needed else self._fallback(found, schema, nullable=nullable)
        return Member(name, found, nullable, fallback, tuple(_notes(found, schema)), _description(schema))

    def type(self, schema: Any, location: SchemaLocation) -> Type:
        """The type of a schema."""
        if location.depth > MAX_DEPTH:
            raise location.error(f"schemas are nested more than {MAX_DEPTH} deep; use definitions and references")
        mapping = _mapping(schema, location, "a schema")
        target = reference(mapping)
        if target is not None:
            return self.refer(target, location)
        if mapping.get("x-kubernetes-int-or-string") or mapping.get("format") == "int-or-string":
            is_quantity = mapping.get("pattern") == _QUANTITY
            return TypeName("Quantity") if is_quantity else Either((TypeName("int"), TypeName("str")))
        match mapping.get("type"):
            case "object":
                return self._object(mapping, location)
            case "array":
                found = self._inner(mapping.get("items", {}), location.item())
                return ListOf(_with_keys(found, mapping) if isinstance(found, Inline) else found)
            case "string" | "integer" | "number" | "boolean" as kind:
                return _scalar(kind, mapping)
            case None | "":
                return self._untyped(mapping, location)
            case other:
                known = "object, array, string, integer, number, boolean"
                raise location.error(f"`type` is {other!r}; write one of {known}, or leave it out for anything")

    def _object(self, schema: Schema, location: SchemaLocation) -> Type:
        if schema.get("properties"):
            shape = self.shape(schema, location)
            return TypeName("Condition") if _is_condition(shape) else Inline(shape)
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping) and values:
            return MapOf(self._inner(values, location.item()))
        return MapOf(ANYTHING)

    def _inner(self, schema: Any, location: SchemaLocation) -> Type:
        """The type of items or values, which may be nullable."""
        found = self.type(schema, location)
        return Either((found, _NOTHING)) if schema.get("nullable") and found != ANYTHING else found

    def _untyped(self, schema: Schema, location: SchemaLocation) -> Type:
        if schema.get("properties"):
            return self._object(schema, location)
        for word in ("oneOf", "anyOf"):
            found = [_SCALARS.get(str(as_map(part).get("type"))) for part in as_list(schema.get(word))]
            names = list(dict.fromkeys(name for name in found if name))
            if names and None not in found and not {"int", "float"} <= set(names):
                return Either(tuple(map(TypeName, names))) if len(names) > 1 else TypeName(names[0])
        return ANYTHING

    def _fallback(self, found: Type, schema: Schema, *, nullable: bool) -> str:
        """The default of an optional member; an empty list or map means absence, unless the schema has a default."""
        default = schema.get("default")
        if nullable:
            return "None"
        match found:
            case ListOf() if not default:
                return "()"
            case MapOf(value) if value != ANYTHING and not default:
                return "{}"
            case Inline(shape) if default == {} and shape.open:
                return "new"
            case Named(definition) if default == {} and self.is_open(definition):
                return "new"
            case TypeName("ObjectMeta") if default == {}:
                return "new"
            case _:
                return "None"


_EMBEDDED: Final = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}


def reference(schema: Schema) -> str | None:
    """The name of the definition that a schema refers to, directly or by an `allOf` of one."""
    parts = as_list(schema.get("allOf"))
    found = schema.get("$ref", as_map(parts[0]).get("$ref") if len(parts) == 1 else None)
    return found.rsplit("/", 1)[-1] if isinstance(found, str) else None


def _scalar(kind: str, schema: Schema) -> Type:
    text = str(schema.get("format")) if kind == "string" else ""
    if text in _TEXTS:
        return TypeName(_TEXTS[text])
    values = [one for one in as_list(schema.get("enum")) if one is not None]
    fits = {"string": str, "integer": int}.get(kind)
    if fits is None or not values or not all(isinstance(one, fits) and not isinstance(one, bool) for one in values):
        return TypeName(_SCALARS[kind])
    return Choice(tuple(dict.fromkeys(values)))


def _with_keys(found: Inline, schema: Schema) -> Inline:
    """The items of a list map; optional keys get the default of the schema in the class."""
    keys = as_list(schema.get("x-kubernetes-list-map-keys"))
    properties = as_map(as_map(schema.get("items")).get("properties"))
    members = [
        _with_default(member, as_map(properties.get(member.wire)).get("default")) if member.wire in keys else member
        for member in found.shape.members
    ]
    return Inline(replace(found.shape, members=tuple(members)))


def _with_default(member: Member, default: Any) -> Member:
    match member.type:
        case Choice(values):
            fits = default in values
        case TypeName("str"):
            fits = isinstance(default, str)
        case TypeName("int"):
            fits = isinstance(default, int) and not isinstance(default, bool)
        case _:
            fits = False
    if member.required or member.nullable or not fits:
        return member
    return replace(member, fallback=quoted(default) if isinstance(default, str) else str(default))


def _notes(found: Type, schema: Schema) -> Iterator[str]:
    """The `Annotated` markers of a member; lists are atomic unless marked."""
    keys = as_list(schema.get("x-kubernetes-list-map-keys"))
    if isinstance(found, ListOf) and schema.get("x-kubernetes-list-type") == "map" and keys:
        yield f"ListMap({', '.join(quoted(str(key)) for key in keys)})"
    if isinstance(found, ListOf) and schema.get("x-kubernetes-list-type") == "set":
        yield "ListSet()"
    if isinstance(found, MapOf | Inline | Named | TypeName) and schema.get("x-kubernetes-map-type") == "atomic":
        yield "Atomic()"
    if schema.get("x-kubernetes-embedded-resource"):
        yield "Embedded()"
    if isinstance(found, Inline) and schema.get("x-kubernetes-preserve-unknown-fields"):
        yield "PreserveUnknown()"


def _is_condition(shape: Shape) -> bool:
    """Whether this is the standard condition, which has its own class."""
    members = {member.wire: member.type for member in shape.members}
    if not {"type", "status"} <= members.keys() <= _CONDITION or "lastTransitionTime" not in members:
        return False
    has_status = members["status"] == Choice(("True", "False", "Unknown"))
    return has_status and members["lastTransitionTime"] == TypeName("datetime") and members["type"] == TypeName("str")


def _description(schema: Schema) -> str:
    found = schema.get("description")
    return found if isinstance(found, str) else ""


def as_map(value: object) -> Schema:
    """The members of a map with string keys; empty if the value is not a map."""
    found: Mapping[object, Any] = cast("Mapping[object, Any]", value) if isinstance(value, Mapping) else {}
    return {name: one for name, one in found.items() if isinstance(name, str)}


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty list."""
    # A cast would satisfy pyright, but mypy reports it as redundant.
    found: list[Any] = value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]
    return found


def _mapping(value: Any, location: SchemaLocation, what: str) -> Schema:
    if not isinstance(value, Mapping):
        raise location.error(f"{what} must be a map, not {value!r:.60}")
    return cast("Schema", value)


def _texts(value: Any, location: SchemaLocation, what: str) -> Sequence[str]:
    found = as_list(value)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in found):
        raise location.error(f"{what} must be a list of strings, not {value!r:.60}")
    return found
