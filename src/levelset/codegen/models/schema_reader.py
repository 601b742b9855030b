"""Reads schemas into shapes: what a structural schema or an OpenAPI definition says, and where it cannot be said.

What a class cannot say is left loose, never refused: `oneOf`, `anyOf` and `not` only restrict what the types allow,
and a schema without a type is `Any`. What is refused is a schema that is none, with the way to the place.

What a schema says, as a small tree of values: between reading schemas and writing classes.

A `Shape` becomes a class and a `Member` one of its attributes. Shapes are compared by what they hold, so two places of
a schema that say the same share a class; descriptions do not count.
"""

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
    "Place",
    "Reader",
    "Role",
    "Schema",
    "Shape",
    "Type",
    "Word",
    "as_list",
    "as_map",
    "inlined",
    "named",
    "reference",
]

Role: TypeAlias = Literal["Model", "Spec", "Status"]
"""The base of the class that a shape becomes."""


@dataclass(frozen=True, slots=True)
class Word:
    """A type that is there already, by the name it is written with: `str`, `datetime`, `Quantity`, `Any`."""

    name: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some values."""

    values: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of items that are all alike."""

    item: "Type"


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map from names of any kind to values that are all alike."""

    value: "Type"


@dataclass(frozen=True, slots=True)
class Either:
    """One type or another, such as a number or a text."""

    types: tuple["Type", ...]


@dataclass(frozen=True, slots=True)
class Named:
    """The class of a definition that other schemas refer to by its full name."""

    definition: str


@dataclass(frozen=True, slots=True)
class Inline:
    """A class that stands where it is used and has no name of its own."""

    shape: "Shape"


Type: TypeAlias = Word | Choice | ListOf | MapOf | Either | Named | Inline

ANYTHING: Final = Word("Any")


@dataclass(frozen=True, slots=True)
class Member:
    """An attribute: its name on the wire, its type, and when it may be missing.

    `fallback` is what stands in the class for a member that is missing: `None`, `()`, `{}`, or `new` for an empty
    object of its own class; without one the member must be given. `notes` are declarations as they are written, such
    as `ListMap("name")`.
    """

    wire: str
    type: Type
    nullable: bool = False
    fallback: str | None = None
    notes: tuple[str, ...] = ()
    description: str = field(default="", compare=False)

    @property
    def required(self) -> bool:
        """Whether an object without it is refused."""
        return self.fallback is None


@dataclass(frozen=True, slots=True)
class Shape:
    """A class to be: its members, those that are required first, and its base."""

    members: tuple[Member, ...]
    role: Role = "Model"
    description: str = field(default="", compare=False)

    @property
    def open(self) -> bool:
        """Whether an empty object has this shape."""
        return not any(member.required for member in self.members)


def inlined(kind: Type) -> Iterator[Shape]:
    """The shapes that a type holds, without going into them."""
    for one in _leaves(kind):
        if isinstance(one, Inline):
            yield one.shape


def named(kind: Type) -> Iterator[str]:
    """The definitions that a type refers to, without those of its shapes' members."""
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

MOST_DEPTH: Final = 100

# What the API server and its generators write for a quantity, which is a text or a number.
_QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_TEXTS: Final = {"date-time": "datetime", "byte": "bytes"}
_SCALARS: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
_CONDITION: Final = frozenset({"type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"})
_NOTHING: Final = Word("None")


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a document a schema stands, for those who must mend it."""

    document: str
    path: str = ""
    depth: int = 0

    def member(self, name: str) -> "Place":
        """The place of a member."""
        return replace(self, path=f"{self.path}.{name}" if self.path else name, depth=self.depth + 1)

    def item(self) -> "Place":
        """The place of the items of a list, or of the values of a map."""
        return replace(self, path=f"{self.path}[]", depth=self.depth + 1)

    def refusal(self, wrong: str) -> BadObject:
        """The error that names document and place, and says what is wrong there."""
        where = f" at {self.path}" if self.path else ""
        return BadObject(f"{self.document}{where}: {wrong}", field=self.path)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads schemas of one document; `refer` gives the type that a reference stands for.

    `is_open` says whether an empty object will do for a definition. Where `defaults_fill`, a server fills in a
    schema's defaults, so a member that has one may be left out although it is required; the documents of built-in
    kinds only tell Go's zero values.
    """

    refer: Callable[[str, Place], Type]
    is_open: Callable[[str], bool]
    defaults_fill: bool = True

    def shape(self, schema: Any, place: Place, role: Role = "Model") -> Shape:
        """The shape of an object's schema."""
        properties = _mapping(schema.get("properties") or {}, place, "`properties`")
        if schema.get("x-kubernetes-embedded-resource"):
            properties = {**_EMBEDDED, **properties}
        required = _texts(schema.get("required") or [], place, "`required`")
        members = [
            self.member(name, one, place.member(str(name)), required=name in required)
            for name, one in sorted(properties.items(), key=lambda pair: str(pair[0]))
        ]
        # A stable sort: those that must be given first, each part by name.
        members.sort(key=lambda member: not member.required)
        return Shape(tuple(members), role, _description(schema))

    def member(self, name: Any, schema: Any, place: Place, *, required: bool) -> Member:
        """The member that a property becomes."""
        if not isinstance(name, str):
            raise place.refusal(f"the name of a property must be a text, not {name!r}; put it in quotes")
        found = self.type(schema, place)
        nullable = bool(schema.get("nullable")) and found != ANYTHING
        needed = required and not (self.defaults_fill and "default" in schema)
        fallback = None if needed else self._fallback(found, schema, nullable=nullable)
        return Member(name, found, nullable, fallback, tuple(_notes(found, schema)), _description(schema))

    def type(self, schema: Any, place: Place) -> Type:
        """The type that a schema allows."""
        if place.depth > MOST_DEPTH:
            raise place.refusal(f"schemas are nested more than {MOST_DEPTH} deep; use definitions and references")
        mapping = _mapping(schema, place, "a schema")
        target = reference(mapping)
        if target is not None:
            return self.refer(target, place)
        if mapping.get("x-kubernetes-int-or-string") or mapping.get("format") == "int-or-string":
            is_quantity = mapping.get("pattern") == _QUANTITY
            return Word("Quantity") if is_quantity else Either((Word("int"), Word("str")))
        match mapping.get("type"):
            case "object":
                return self._object(mapping, place)
            case "array":
                found = self._inner(mapping.get("items", {}), place.item())
                return ListOf(_with_keys(found, mapping) if isinstance(found, Inline) else found)
            case "string" | "integer" | "number" | "boolean" as kind:
                return _scalar(kind, mapping)
            case None | "":
                return self._untyped(mapping, place)
            case other:
                known = "object, array, string, integer, number, boolean"
                raise place.refusal(f"`type` is {other!r}; write one of {known}, or leave it out for anything")

    def _object(self, schema: Schema, place: Place) -> Type:
        if schema.get("properties"):
            shape = self.shape(schema, place)
            return Word("Condition") if _is_condition(shape) else Inline(shape)
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping) and values:
            return MapOf(self._inner(values, place.item()))
        return MapOf(ANYTHING)

    def _inner(self, schema: Any, place: Place) -> Type:
        """The type of items or values, which may be null by themselves."""
        found = self.type(schema, place)
        return Either((found, _NOTHING)) if schema.get("nullable") and found != ANYTHING else found

    def _untyped(self, schema: Schema, place: Place) -> Type:
        if schema.get("properties"):
            return self._object(schema, place)
        for word in ("oneOf", "anyOf"):
            found = [_SCALARS.get(str(as_map(part).get("type"))) for part in as_list(schema.get(word))]
            names = list(dict.fromkeys(name for name in found if name))
            if names and None not in found and not {"int", "float"} <= set(names):
                return Either(tuple(map(Word, names))) if len(names) > 1 else Word(names[0])
        return ANYTHING

    def _fallback(self, found: Type, schema: Schema, *, nullable: bool) -> str:
        """What stands for a member that is missing. An empty list is none at all, unless a server fills another in."""
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
            case Word("ObjectMeta") if default == {}:
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
        return Word(_TEXTS[text])
    values = [one for one in as_list(schema.get("enum")) if one is not None]
    fits = {"string": str, "integer": int}.get(kind)
    if fits is None or not values or not all(isinstance(one, fits) and not isinstance(one, bool) for one in values):
        return Word(_SCALARS[kind])
    return Choice(tuple(dict.fromkeys(values)))


def _with_keys(found: Inline, schema: Schema) -> Inline:
    """The items of a list that tells them apart by members; a key that may be missing has its default in the class."""
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
        case Word("str"):
            fits = isinstance(default, str)
        case Word("int"):
            fits = isinstance(default, int) and not isinstance(default, bool)
        case _:
            fits = False
    if member.required or member.nullable or not fits:
        return member
    return replace(member, fallback=quoted(default) if isinstance(default, str) else str(default))


def _notes(found: Type, schema: Schema) -> Iterator[str]:
    """The declarations of a member that its type does not say. A list is replaced whole unless it says otherwise."""
    keys = as_list(schema.get("x-kubernetes-list-map-keys"))
    if isinstance(found, ListOf) and schema.get("x-kubernetes-list-type") == "map" and keys:
        yield f"ListMap({', '.join(quoted(str(key)) for key in keys)})"
    if isinstance(found, ListOf) and schema.get("x-kubernetes-list-type") == "set":
        yield "ListSet()"
    if isinstance(found, MapOf | Inline | Named | Word) and schema.get("x-kubernetes-map-type") == "atomic":
        yield "Atomic()"
    if schema.get("x-kubernetes-embedded-resource"):
        yield "Embedded()"
    if isinstance(found, Inline) and schema.get("x-kubernetes-preserve-unknown-fields"):
        yield "PreserveUnknown()"


def _is_condition(shape: Shape) -> bool:
    """Whether this is the condition that everybody writes, which has a class of its own."""
    members = {member.wire: member.type for member in shape.members}
    if not {"type", "status"} <= members.keys() <= _CONDITION or "lastTransitionTime" not in members:
        return False
    told = members["status"] == Choice(("True", "False", "Unknown"))
    return told and members["lastTransitionTime"] == Word("datetime") and members["type"] == Word("str")


def _description(schema: Schema) -> str:
    found = schema.get("description")
    return found if isinstance(found, str) else ""


def as_map(value: object) -> Schema:
    """The members of a map that have texts for names; of what is no map, none."""
    found: Mapping[object, Any] = cast("Mapping[object, Any]", value) if isinstance(value, Mapping) else {}
    return {name: one for name, one in found.items() if isinstance(name, str)}


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    # mypy calls redundant the cast that pyright would want.
    found: list[Any] = value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]
    return found


def _mapping(value: Any, place: Place, what: str) -> Schema:
    if not isinstance(value, Mapping):
        raise place.refusal(f"{what} must be a map, not {value!r:.60}")
    return cast("Schema", value)


def _texts(value: Any, place: Place, what: str) -> Sequence[str]:
    found = as_list(value)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in found):
        raise place.refusal(f"{what} must be a list of texts, not {value!r:.60}")
    return found
