"""Writes a planned module as Python source: imports, `__all__`, classes in dependency order, and `new` methods."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from levelset.codegen.models import source_text as layout
from levelset.codegen.models.module_plan import RESERVED, SOURCES, Kind, Module, Names, name_classes
from levelset.codegen.models.schema_reader import (
    ANYTHING,
    Choice,
    Either,
    Inline,
    ListOf,
    MapOf,
    Member,
    Named,
    Shape,
    Type,
    TypeName,
    inlined,
    named,
)
from levelset.codegen.models.source_text import docstring, export_order, member_names, quoted, short_name

__all__ = ["import_order", "new_method", "resource_new_method", "write_module"]

_METADATA: Final = (
    *("name=name", "namespace=namespace"),
    *("labels=dict(labels or {})", "annotations=dict(annotations or {})"),
)


def new_method(members: Sequence[tuple[str, str, Member]], *, namespaced: bool) -> list[str]:
    """The lines of a `new` classmethod that takes a name and the fields of the kind.

    Each member comes with its attribute name and its type as source.
    """
    parameters = ["cls", "name: str", "*", *(["namespace: str | None = None"] if namespaced else [])]
    parameters += ["labels: Mapping[str, str] | None = None", "annotations: Mapping[str, str] | None = None"]
    parameters += [_parameter(*one) for one in members]
    metadata = [one for one in _METADATA if namespaced or not one.startswith("namespace")]
    deeper = layout.STEP * 2
    return [
        f"{layout.STEP}@classmethod",
        *layout.bracketed("def new(", parameters, ") -> Self:", layout.STEP),
        f'{deeper}"""A new object that no server has seen yet."""',
        *layout.bracketed("metadata = ObjectMeta(", metadata, ")", deeper),
        *layout.bracketed("return cls(", ["metadata=metadata", *_arguments(members)], ")", deeper),
    ]


def _parameter(name: str, text: str, member: Member) -> str:
    optional = text if text == "Any" else f"{text} | None"
    if member.required:
        return f"{name}: {optional if member.nullable else text}"
    if isinstance(member.type, MapOf):
        values = text.removeprefix("dict[str, ").removesuffix("]")
        return f"{name}: Mapping[str, {values}] | None = None"
    return f"{name}: {text} = {member.fallback}" if member.fallback in ("()", "0") else f"{name}: {optional} = None"


def _arguments(members: Sequence[tuple[str, str, Member]]) -> Iterator[str]:
    for name, text, member in members:
        if member.fallback == "new":
            yield f"{name}={text}() if {name} is None else {name}"
        elif isinstance(member.type, MapOf) and not member.required:
            yield f"{name}={_copied(name, member)}"
        else:
            yield f"{name}={name}"


def _copied(name: str, member: Member) -> str:
    if member.type == MapOf(ANYTHING) or member.fallback == "None":
        return f"None if {name} is None else dict({name})"
    return f"dict({name} or {{}})"


def resource_new_method(spec: str) -> list[str]:
    """The lines of a `new` classmethod with an optional spec."""
    parameters = [
        "cls",
        "name: str",
        f"spec: {spec} | None = None",
        "*",
        "namespace: str | None = None",
        "labels: Mapping[str, str] | None = None",
        "annotations: Mapping[str, str] | None = None",
    ]
    deeper = layout.STEP * 2
    return [
        f"{layout.STEP}@classmethod",
        *layout.bracketed("def new(", parameters, ") -> Self:", layout.STEP),
        f'{deeper}"""A new object that no server has seen yet; without a spec, an empty one."""',
        *layout.bracketed("metadata = ObjectMeta(", _METADATA, ")", deeper),
        f"{deeper}return cls(metadata=metadata) if spec is None else cls(metadata=metadata, spec=spec)",
    ]


# Attributes of the base classes.
_OBJECT = ("annotations", "api_version", "cls", "kind", "labels", "metadata", "name", "namespace", "new", "ref")
_RESOURCE = ("spec", "status", "with_metadata", "with_spec", "with_status")


def write_module(module: Module) -> str:
    """The formatted source of a module; deterministic."""
    reserved = RESERVED - {*module.classes.values()}
    return _Writer(module, name_classes(module, reserved)).source()


@dataclass
class _Writer:
    module: Module
    names: Names
    done: set[str] = field(default_factory=set[str])
    words: set[str] = field(default_factory=set[str])
    blocks: list[list[str]] = field(default_factory=list[list[str]])
    exports: set[str] = field(default_factory=set[str])

    def source(self) -> str:
        for name in sorted(self.module.definitions, key=lambda one: self.module.classes[one]):
            self._definition(name)
        for kind in sorted(self.module.kinds, key=lambda one: one.name):
            self._kind(kind)
        body = "\n\n\n".join("\n".join(block) for block in self.blocks)
        head = "\n".join([*docstring(self.module.title, "", layout.WIDTH), "", *self._imports()])
        exports = [quoted(name) for name in sorted(self.exports, key=export_order)]
        listed = "\n".join(layout.listed("__all__ = [", exports, "]"))
        return f"{head}\n\n{listed}\n\n\n{body}\n" if body else f"{head}\n\n{listed}\n"

    def _imports(self) -> list[str]:
        """The import lines in isort order: the standard library first."""
        sources = {**SOURCES, **self.module.sources}
        wanted: dict[str, set[str]] = {}
        for word in self.words:
            wanted.setdefault(sources[word], set()).add(word)
        for home in self._homes():
            wanted.setdefault(home[0], set()).add(home[1])
        groups = [
            [one for one in sorted(wanted) if not one.startswith("levelset")],
            [one for one in sorted(wanted) if one.startswith("levelset")],
        ]
        texts = ["\n".join(_import(one, wanted[one]) for one in group) for group in groups if group]
        return "\n\n".join(texts).split("\n")

    def _homes(self) -> Iterator[tuple[str, str]]:
        for target in sorted(self.done):
            home = self.module.homes.get(target)
            if home is not None:
                yield home.module, home.name

    def _definition(self, name: str) -> None:
        if name in self.done:
            return
        self.done.add(name)
        shape = self.module.definitions.get(name)
        if shape is None:
            return  # it is imported from another module
        self._before(member.type for member in shape.members)
        self._class(self.module.classes[name], shape, self.names.places.get(name, ""))

    def _before(self, types: Iterator[Type]) -> None:
        """Writes the classes that these types need first."""
        for found in types:
            for target in named(found):
                self._definition(target)
            for shape in inlined(found):
                name = self.names.shapes[shape]
                if name not in self.done:
                    self.done.add(name)
                    self._before(member.type for member in shape.members)
                    self._class(name, shape, self.names.places[name])

    def _class(self, name: str, shape: Shape, place: str) -> None:
        self.words.add(shape.role)
        title = self.module.titles.get(name) or place or "A part of several kinds."
        lines = [f"class {name}({shape.role}):", *self._describe(shape, title)]
        aliases: list[str] = []
        body = self._members(name, shape.members, aliases)
        self._add(name, lines, body, aliases)

    def _add(self, name: str, lines: list[str], body: list[str], aliases: list[str]) -> None:
        self.exports.add(name)
        lines += ["", *body] if body else []
        if aliases:
            self.blocks.append(aliases)
        self.blocks.append(lines)

    def _describe(self, shape: Shape, place: str) -> list[str]:
        text = shape.description if self.module.descriptions and shape.description.strip() else place
        return docstring(text, layout.STEP, layout.WIDTH)

    def _members(
        self, owner: str, members: Sequence[Member], aliases: list[str], taken: Sequence[str] = ()
    ) -> list[str]:
        attributes = member_names((member.wire for member in members), taken)
        lines: list[str] = []
        for member in members:
            name, odd = attributes[member.wire]
            default = self._default(member, odd=odd)
            text = self._annotation(member)
            if len(f"{layout.STEP}{name}: {text} = {default}") > layout.WIDTH:
                text = self._annotation(self._aliased(owner, member, aliases))
            lines += layout.attribute(name, text, default)
            if self.module.descriptions and member.description.strip():
                lines += docstring(member.description, layout.STEP, layout.WIDTH)
        return lines

    def _aliased(self, owner: str, member: Member, aliases: list[str]) -> Member:
        """The member with a type alias for a Literal that does not fit on a line."""

        def rename(found: Type) -> Type:
            match found:
                case Choice(values):
                    return TypeName(self._alias(owner, member.wire, values, aliases))
                case ListOf(item):
                    return ListOf(rename(item))
                case MapOf(value):
                    return MapOf(rename(value))
                case _:
                    return found

        return replace(member, type=rename(member.type))

    def _alias(self, owner: str, wire: str, values: Sequence[str | int], aliases: list[str]) -> str:
        used = {*RESERVED, *self.module.classes.values(), *self.names.shapes.values(), *self.exports}
        name = short_name((owner, wire), used)
        self.exports.add(name)
        self.words.add("Literal")
        aliases += layout.bracketed(f"{name} = Literal[", [_literal(one) for one in values], "]")
        return name

    def _default(self, member: Member, *, odd: bool) -> str | None:
        fallback = f"{self.type(member.type)}()" if member.fallback == "new" else member.fallback
        self.words |= {"field"} if odd or (fallback or "").startswith("field(") else set()
        if not odd:
            return fallback
        given = f"name={quoted(member.wire)}"
        if fallback is None:
            return f"field({given})"
        return f"field(default_factory=dict, {given})" if fallback == "{}" else f"field(default={fallback}, {given})"

    def _annotation(self, member: Member) -> str:
        text = self.type(member.type)
        if member.notes:
            self.words |= {"Annotated", *(note.partition("(")[0] for note in member.notes)}
            text = f"Annotated[{text}, {', '.join(member.notes)}]"
        if (member.nullable or member.fallback == "None") and text not in ("Any", "None"):
            text = f"{text} | None"
        return text if self._is_defined(member.type) else quoted(text)

    def _is_defined(self, found: Type) -> bool:
        """Whether all classes of a type are already written; false for recursive types."""
        classes = [self.module.classes[one] for one in named(found) if one in self.module.definitions]
        return all(one in self.exports for one in (*classes, *(self.names.shapes[one] for one in inlined(found))))

    def type(self, found: Type) -> str:
        """The type as source."""
        match found:
            case TypeName(name):
                self.words |= {name} & {*SOURCES, *self.module.sources}
                return name
            case Choice(values):
                self.words.add("Literal")
                return f"Literal[{', '.join(_literal(one) for one in values)}]"
            case ListOf(item):
                return f"tuple[{self.type(item)}, ...]"
            case MapOf(value):
                return f"dict[str, {self.type(value)}]"
            case Either(types):
                return " | ".join(self.type(one) for one in types)
            case Named(definition):
                home = self.module.homes.get(definition)
                return home.name if home else self.module.classes[definition]
            case Inline(shape):
                return self.names.shapes[shape]

    def _kind(self, kind: Kind) -> None:
        self._before(found for _, found in kind.parts)
        base = self._base(kind)
        aliases: list[str] = []
        head = layout.bracketed(f"class {kind.name}(", [base, *self._keywords(kind)], "):")
        lines = [*head, *self._describe(kind.members, kind.title)]
        spec = [kind.spec] if kind.spec is not None and kind.spec.fallback is not None else []
        body = self._members(kind.name, spec, aliases)
        taken = (*_OBJECT, *(_RESOURCE if kind.spec is not None else ("with_metadata",)))
        body += self._members(kind.name, kind.members.members, aliases, taken)
        made = self._maker(kind, taken)
        self._add(kind.name, lines, [*body, *([""] if body and made else []), *made], aliases)

    def _maker(self, kind: Kind, taken: Sequence[str]) -> list[str]:
        """The lines of `new`; empty if the inherited `Resource.new` fits."""
        if kind.spec is not None and kind.spec.fallback != "new":
            return []
        self.words |= {"Mapping", "ObjectMeta", "Self"}
        if kind.spec is not None:
            return resource_new_method(self.type(kind.spec.type))
        names = member_names((member.wire for member in kind.members.members), taken)
        made = [(names[one.wire][0], self.type(one.type), one) for one in kind.members.members]
        return new_method(made, namespaced='scope="Cluster"' not in kind.keywords)

    def _base(self, kind: Kind) -> str:
        if kind.spec is None:
            self.words.add("Object")
            return "Object"
        self.words.add("Resource")
        status = "None" if kind.status is None else self.type(kind.status)
        spec = self.type(kind.spec.type)
        return f"Resource[{f'{spec} | None' if kind.spec.nullable else spec}, {status}]"

    def _keywords(self, kind: Kind) -> tuple[str, ...]:
        for word in ("Column", "Scale"):
            if any(re.search(rf"\b{word}\(", one) for one in kind.keywords):
                self.words.add(word)
        return kind.keywords


def _literal(value: str | int) -> str:
    return quoted(value) if isinstance(value, str) else str(value)


def _import(module: str, names: set[str]) -> str:
    listed = sorted(names, key=import_order)
    flat = f"from {module} import {', '.join(listed)}"
    if len(flat) <= layout.WIDTH:
        return flat
    return "\n".join(layout.listed(f"from {module} import (", listed, ")", width=0))


def import_order(name: str) -> tuple[int, list[tuple[int, int, str]], str]:
    """The isort key of an imported name: as `export_order`, but case-insensitive."""
    group, _ = export_order(name)
    return group, export_order(name.lower())[1], name
