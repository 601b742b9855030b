"""The plan of a generated module: its kinds, definitions and class names, before it is written as source."""

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
    Reader,
    Role,
    Schema,
    SchemaLocation,
    Shape,
    Type,
    TypeName,
    as_list,
    inlined,
    named,
)
from levelset.codegen.models.source_text import LONGEST_CLASS, class_name, quoted, short_name
from levelset.objects import plural_of

__all__ = [
    "RESERVED",
    "SOURCES",
    "ImportedClass",
    "Kind",
    "Module",
    "Names",
    "kind_of",
    "name_classes",
    "name_keywords",
]

# The modules from which generated code imports these names.
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
    """A kind to generate: the shape of its fields besides metadata, spec and status, and its class keywords."""

    name: str
    keywords: tuple[str, ...]
    members: Shape
    spec: Member | None = None
    status: Type | None = None
    title: str = ""

    @property
    def parts(self) -> Iterator[tuple[str, Type]]:
        """The types of all its fields, each with its wire name."""
        if self.spec is not None:
            yield "spec", self.spec.type
        if self.status is not None:
            yield "status", self.status
        for member in self.members.members:
            yield member.wire, member.type


@dataclass(frozen=True, slots=True)
class ImportedClass:
    """A class that is imported from another module."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Module:
    """The content of one generated file.

    `definitions` are the shapes that are referenced by name, `classes` their class names; `homes` are the definitions
    that are imported from other modules. `sources` adds importable names. `titles` are docstrings of classes.
    """

    title: str
    kinds: tuple[Kind, ...] = ()
    definitions: Mapping[str, Shape] = field(default_factory=dict[str, Shape])
    classes: Mapping[str, str] = field(default_factory=dict[str, str])
    homes: Mapping[str, ImportedClass] = field(default_factory=dict[str, ImportedClass])
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    titles: Mapping[str, str] = field(default_factory=dict[str, str])
    descriptions: bool = False


@dataclass(frozen=True, slots=True)
class Names:
    """The class name of every shape, and where it is used first: `containers` of PodSpec."""

    shapes: Mapping[Shape, str]
    places: Mapping[str, str]


def name_classes(module: Module, reserved: Collection[str] = RESERVED) -> Names:
    """A class name for each inline shape: the owner's name and its own, or the kind's if several owners share it."""
    used = {*reserved, *module.classes.values(), *(kind.name for kind in module.kinds)}
    places: dict[str, str] = {}
    shapes: dict[Shape, str] = {}
    found_shapes = _find_shapes(module)
    for shape, uses in found_shapes.items():
        first, words = uses[0], Counter(use.path[-1] for use in uses)
        owner = shapes[first.owner] if isinstance(first.owner, Shape) else first.owner
        name = class_name((owner, first.path[-1]) if len(uses) == 1 else (first.path[0], words.most_common(1)[0][0]))
        name = short_name(first.path, used) if name in used or len(name) > LONGEST_CLASS else name
        used.add(name)
        shapes[shape] = name
    for shape, uses in found_shapes.items():
        places[shapes[shape]] = _usage_text(uses, shapes)
    for target, uses in _find_definitions(module, found_shapes).items():
        places[target] = _usage_text(uses, shapes)
    return Names(shapes, places)


@dataclass(frozen=True, slots=True)
class _Usage:
    """One use of a shape: the path to it, its owner, and the type of the field."""

    path: tuple[str, ...]
    owner: "str | Shape"
    type: Type


def _find_shapes(module: Module) -> dict[Shape, list[_Usage]]:
    """Every inline shape with its uses, in breadth-first order."""
    found: dict[Shape, list[_Usage]] = {}
    waiting = deque(_starts(module))
    while waiting:
        use = waiting.popleft()
        for shape in inlined(use.type):
            if shape not in found:
                waiting.extend(_Usage((*use.path, one.wire), shape, one.type) for one in shape.members)
            found.setdefault(shape, []).append(use)
    return found


def _find_definitions(module: Module, found_shapes: Mapping[Shape, list[_Usage]]) -> dict[str, list[_Usage]]:
    """Every definition with its uses."""
    found: dict[str, list[_Usage]] = {}
    inner = (_Usage((one.wire,), shape, one.type) for shape in found_shapes for one in shape.members)
    for use in (*_starts(module), *inner):
        for target in named(use.type):
            found.setdefault(target, []).append(use)
    return found


def _starts(module: Module) -> Iterator[_Usage]:
    for kind in module.kinds:
        yield from (_Usage((kind.name, wire), kind.name, found) for wire, found in kind.parts)
    for name, shape in module.definitions.items():
        owner = module.classes[name]
        yield from (_Usage((owner, member.wire), owner, member.type) for member in shape.members)


def _usage_text(uses: Sequence[_Usage], shapes: Mapping[Shape, str]) -> str:
    """The docstring of a class by its first use: "`strategy` of DeploymentSpec"."""
    use = uses[0]
    owner = use.owner if isinstance(use.owner, str) else shapes[use.owner]
    which = f"`{use.path[-1]}` of {owner}{', and others' if len(uses) > 1 else ''}."
    match use.type:
        case ListOf():
            return f"One of {which}"
        case MapOf():
            return f"A value in {which}"
        case _:
            return which


_WORD: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_TYPE_AND_META: Final = frozenset({"apiVersion", "kind", "metadata"})


def kind_of(
    gvk: tuple[str, str],
    schema: Schema,
    location: SchemaLocation,
    reader: Reader,
    *,
    keywords: Iterable[str] = (),
    title: str = "",
) -> Kind:
    """The plan of a kind; `gvk` is its apiVersion and kind, `keywords` follow `api` in its class.

    A kind with a spec becomes a Resource, any other an Object with its fields beside metadata.
    """
    api, kind = gvk
    properties = _properties(schema, location)
    has_spec = "spec" in properties
    apart = _TYPE_AND_META | {"spec", "status"} if has_spec else _TYPE_AND_META
    rest = {name: one for name, one in properties.items() if name not in apart}
    members = reader.shape({**schema, "properties": rest}, location)
    spec = status = None
    if has_spec:
        is_needed = "spec" in as_list(schema.get("required"))
        spec = _spec(reader, properties["spec"], location.member("spec"), required=is_needed)
    if has_spec and "status" in properties:
        status = _as(reader.type(properties["status"], location.member("status")), "Status")
    name = _class_name(kind)
    given = (f"api={quoted(api)}", *((f"kind={quoted(kind)}",) if name != kind else ()), *keywords)
    return Kind(name, given, members, spec, status, title or f"A {kind} of {api}.")


def _class_name(kind: str) -> str:
    """The class of a kind: its name in CamelCase, since a server accepts `postgresql` and `my-kind`, too."""
    name = "".join(f"{word[:1].upper()}{word[1:]}" for word in kind.split("-"))
    return f"{name}Kind" if name in RESERVED or keyword.iskeyword(name) else name


def name_keywords(
    kind: str,
    location: SchemaLocation,
    *,
    plural: str,
    singular: str = "",
    scope: str = "Namespaced",
    short_names: Iterable[str] = (),
    categories: Iterable[str] = (),
) -> list[str]:
    """The class keywords for the names of a kind, without those that equal the defaults."""
    several = {"shortNames": list(short_names), "categories": list(categories)}
    for name, given in {"plural": [plural], "singular": [singular or plural], **several}.items():
        for one in given:
            if _WORD.fullmatch(one) is None:
                raise location.error(f"{name} has {one!r:.60}, which is not a lowercase word; fix it first")
    words = [f"plural={quoted(plural)}"] if plural != plural_of(kind) else []
    words += [f"singular={quoted(singular)}"] if singular and singular != kind.lower() else []
    words += [f"scope={quoted(scope)}"] if scope != "Namespaced" else []
    for word, values in (("short_names", several["shortNames"]), ("categories", several["categories"])):
        words += [f"{word}=[{', '.join(map(quoted, values))}]"] if values else []
    return words


def _spec(reader: Reader, schema: Any, location: SchemaLocation, *, required: bool) -> Member:
    """The spec field; an optional spec defaults to an empty one if that is valid, else it is required."""
    member = reader.member("spec", schema, location, required=True)
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
        case TypeName() if found == ANYTHING:
            return "None"
        case _:
            return None


def _as(found: Type, role: Role) -> Type:
    return Inline(replace(found.shape, role=role)) if isinstance(found, Inline) else found


def _properties(schema: Schema, location: SchemaLocation) -> Schema:
    properties: Any = schema.get("properties") or {}
    if not isinstance(properties, Mapping):
        raise location.error("`properties` must be a map of schemas")
    return cast("Schema", properties)
