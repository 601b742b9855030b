"""A module to be written: its kinds and definitions, and a name for every class in it.

From the schema of a kind's objects to the class of the kind: its spec, its status, and what else it has.
"""

import keyword
import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from levelset.codegen.models.schema_reader import (
    ANYTHING,
    Inline,
    ListOf,
    MapOf,
    Member,
    Named,
    Place,
    Reader,
    Role,
    Schema,
    Shape,
    Type,
    Word,
    as_list,
    inlined,
    named,
)
from levelset.codegen.models.source_text import LONGEST_CLASS, class_name, quoted, short_name
from levelset.objects import plural_of

__all__ = ["RESERVED", "SOURCES", "Home", "Kind", "Module", "Names", "kind_of", "name_classes", "name_keywords"]

# Where the words that generated code uses come from.
SOURCES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Annotated", "Any", "Literal", "Self"), "typing"),
    **dict.fromkeys(("Mapping",), "collections.abc"),
    **dict.fromkeys(("datetime",), "datetime"),
    **dict.fromkeys(
        (
            *(
                "ApiStatus",
                "Atomic",
                "Column",
                "Condition",
                "DeleteOptions",
                "Embedded",
                "ListMap",
                "ListMeta",
                "ListSet",
            ),
            *("ManagedFieldsEntry", "MicroTime", "Model", "Object", "ObjectMeta", "OwnerReference", "PreserveUnknown"),
            *("Quantity", "Resource", "Scale", "Spec", "Status", "field"),
        ),
        "levelset.objects",
    ),
}
RESERVED: Final = frozenset(SOURCES)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind to be: the shape of what it has beside metadata, spec and status, and the keywords of its class."""

    name: str
    keywords: tuple[str, ...]
    members: Shape
    spec: Member | None = None
    status: Type | None = None
    title: str = ""

    @property
    def parts(self) -> Iterator[tuple[str, Type]]:
        """The types of everything in it, each with its name on the wire."""
        if self.spec is not None:
            yield "spec", self.spec.type
        if self.status is not None:
            yield "status", self.status
        for member in self.members.members:
            yield member.wire, member.type


@dataclass(frozen=True, slots=True)
class Home:
    """Where a class of another module is imported from."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Module:
    """Everything that goes into one file.

    `definitions` are the shapes that are referred to by name, `classes` their class names; what is defined elsewhere
    is in `homes`. `sources` adds to the words that may be imported. `titles` are sentences for
    classes, where more is known than who has them.
    """

    title: str
    kinds: tuple[Kind, ...] = ()
    definitions: Mapping[str, Shape] = field(default_factory=dict[str, Shape])
    classes: Mapping[str, str] = field(default_factory=dict[str, str])
    homes: Mapping[str, Home] = field(default_factory=dict[str, Home])
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    titles: Mapping[str, str] = field(default_factory=dict[str, str])
    descriptions: bool = False


@dataclass(frozen=True, slots=True)
class Names:
    """The class of every shape, and where it was met first: `containers` of PodSpec."""

    shapes: Mapping[Shape, str]
    places: Mapping[str, str]


def name_classes(module: Module, reserved: Collection[str] = RESERVED) -> Names:
    """A name for each shape that has none: its owner's and its own, or, where many have it, the kind's and its own."""
    used = {*reserved, *module.classes.values(), *(kind.name for kind in module.kinds)}
    places: dict[str, str] = {}
    shapes: dict[Shape, str] = {}
    met = _meet(module)
    for shape, ways in met.items():
        first, words = ways[0], Counter(way.path[-1] for way in ways)
        owner = shapes[first.owner] if isinstance(first.owner, Shape) else first.owner
        name = class_name((owner, first.path[-1]) if len(ways) == 1 else (first.path[0], words.most_common(1)[0][0]))
        name = short_name(first.path, used) if name in used or len(name) > LONGEST_CLASS else name
        used.add(name)
        shapes[shape] = name
    for shape, ways in met.items():
        places[shapes[shape]] = _place(ways, shapes)
    for target, ways in _meet_named(module, met).items():
        places[target] = _place(ways, shapes)
    return Names(shapes, places)


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to a shape: the names on it, whose member it is, and the member's type."""

    path: tuple[str, ...]
    owner: "str | Shape"
    type: Type


def _meet(module: Module) -> dict[Shape, list[_Way]]:
    """Every shape with the ways to it, in the order of being met; what is nearer to a kind is met first."""
    found: dict[Shape, list[_Way]] = {}
    waiting = deque(_starts(module))
    while waiting:
        way = waiting.popleft()
        for shape in inlined(way.type):
            if shape not in found:
                waiting.extend(_Way((*way.path, one.wire), shape, one.type) for one in shape.members)
            found.setdefault(shape, []).append(way)
    return found


def _meet_named(module: Module, met: Mapping[Shape, list[_Way]]) -> dict[str, list[_Way]]:
    """Every definition with the ways to it."""
    found: dict[str, list[_Way]] = {}
    inner = (_Way((one.wire,), shape, one.type) for shape in met for one in shape.members)
    for way in (*_starts(module), *inner):
        for target in named(way.type):
            found.setdefault(target, []).append(way)
    return found


def _starts(module: Module) -> Iterator[_Way]:
    for kind in module.kinds:
        yield from (_Way((kind.name, wire), kind.name, found) for wire, found in kind.parts)
    for name, shape in module.definitions.items():
        owner = module.classes[name]
        yield from (_Way((owner, member.wire), owner, member.type) for member in shape.members)


def _place(ways: Sequence[_Way], shapes: Mapping[Shape, str]) -> str:
    """`strategy` of DeploymentSpec, or one of several."""
    way = ways[0]
    owner = way.owner if isinstance(way.owner, str) else shapes[way.owner]
    which = f"`{way.path[-1]}` of {owner}{', and others' if len(ways) > 1 else ''}."
    match way.type:
        case ListOf():
            return f"One of {which}"
        case MapOf():
            return f"A value in {which}"
        case _:
            return which


_WORD: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_EVERYWHERE: Final = frozenset({"apiVersion", "kind", "metadata"})


def kind_of(
    gvk: tuple[str, str], schema: Schema, place: Place, reader: Reader, *, keywords: Iterable[str] = (), title: str = ""
) -> Kind:
    """The class of a kind, `gvk` being its `apiVersion` and its `kind`; `keywords` follow the `api` of the class.

    Where there is a spec the class is a Resource, else an Object whose members stand beside its metadata.
    """
    api, kind = gvk
    properties = _properties(schema, place)
    has_spec = "spec" in properties
    apart = _EVERYWHERE | {"spec", "status"} if has_spec else _EVERYWHERE
    rest = {name: one for name, one in properties.items() if name not in apart}
    members = reader.shape({**schema, "properties": rest}, place)
    spec = status = None
    if has_spec:
        is_needed = "spec" in as_list(schema.get("required"))
        spec = _spec(reader, properties["spec"], place.member("spec"), required=is_needed)
    if has_spec and "status" in properties:
        status = _as(reader.type(properties["status"], place.member("status")), "Status")
    name = f"{kind}Kind" if kind in RESERVED or keyword.iskeyword(kind) else kind
    given = (f"api={quoted(api)}", *((f"kind={quoted(kind)}",) if name != kind else ()), *keywords)
    return Kind(name, given, members, spec, status, title or f"A {kind} of {api}.")


def name_keywords(
    kind: str,
    place: Place,
    *,
    plural: str,
    singular: str = "",
    scope: str = "Namespaced",
    short_names: Iterable[str] = (),
    categories: Iterable[str] = (),
) -> list[str]:
    """The keywords of a class that name its kind, without those that say what is so anyway."""
    several = {"shortNames": list(short_names), "categories": list(categories)}
    for name, given in {"plural": [plural], "singular": [singular or plural], **several}.items():
        for one in given:
            if _WORD.fullmatch(one) is None:
                raise place.refusal(f"{name} has {one!r:.60}, which is no word in small letters; mend it first")
    words = [f"plural={quoted(plural)}"] if plural != plural_of(kind) else []
    words += [f"singular={quoted(singular)}"] if singular and singular != kind.lower() else []
    words += [f"scope={quoted(scope)}"] if scope != "Namespaced" else []
    for word, values in (("short_names", several["shortNames"]), ("categories", several["categories"])):
        words += [f"{word}=[{', '.join(map(quoted, values))}]"] if values else []
    return words


def _spec(reader: Reader, schema: Any, place: Place, *, required: bool) -> Member:
    """The spec. One that may be left out is empty where an empty one will do, and else must be given all the same."""
    member = reader.member("spec", schema, place, required=True)
    found = _as(member.type, "Spec")
    fallback = None if required else _empty(reader, found)
    return replace(member, type=found, fallback=fallback)


def _empty(reader: Reader, found: Type) -> str | None:
    match found:
        case Inline(shape):
            return "new" if shape.open else None
        case Named(definition):
            return "new" if reader.is_open(definition) else None
        case MapOf():
            return "{}"
        case Word() if found == ANYTHING:
            return "None"
        case _:
            return None


def _as(found: Type, role: Role) -> Type:
    return Inline(replace(found.shape, role=role)) if isinstance(found, Inline) else found


def _properties(schema: Schema, place: Place) -> Schema:
    properties: Any = schema.get("properties") or {}
    if not isinstance(properties, Mapping):
        raise place.refusal("`properties` must be a map of schemas")
    return cast("Schema", properties)
