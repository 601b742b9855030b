"""Definitions that refer to one another by name, as an OpenAPI document has them: which are needed, and what each is.

Definitions that everybody shares have a type or a class here already: times, quantities, metadata, and the parts of
the built-in kinds.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from levelset.codegen.models.module_plan import Home
from levelset.codegen.models.schema_reader import (
    ANYTHING,
    Either,
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
    as_map,
    inlined,
    named,
)

__all__ = ["WELL_KNOWN", "Definitions", "short"]

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_JSON: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_PROPS: Final = Named(f"{_JSON}JSONSchemaProps")

WELL_KNOWN: Final[Mapping[str, Type]] = {
    f"{_META}Condition": Word("Condition"),
    f"{_META}DeleteOptions": Word("DeleteOptions"),
    f"{_META}FieldsV1": MapOf(ANYTHING),
    f"{_META}ListMeta": Word("ListMeta"),
    f"{_META}ManagedFieldsEntry": Word("ManagedFieldsEntry"),
    f"{_META}MicroTime": Word("MicroTime"),
    f"{_META}ObjectMeta": Word("ObjectMeta"),
    f"{_META}OwnerReference": Word("OwnerReference"),
    f"{_META}Status": Word("ApiStatus"),
    f"{_META}Time": Word("datetime"),
    "io.k8s.apimachinery.pkg.api.resource.Quantity": Word("Quantity"),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": ANYTHING,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": Either((Word("int"), Word("str"))),
    # The documents say nothing of these, which are one thing or another.
    f"{_JSON}JSON": ANYTHING,
    f"{_JSON}JSONSchemaPropsOrArray": Either((_PROPS, ListOf(_PROPS))),
    f"{_JSON}JSONSchemaPropsOrBool": Either((_PROPS, Word("bool"))),
    f"{_JSON}JSONSchemaPropsOrStringArray": Either((_PROPS, ListOf(Word("str")))),
}
"""The definitions that are no class of their own document, and what they are."""


@dataclass(frozen=True)
class Definitions:
    """All schemas of a document by their full names, and what is known of them from elsewhere.

    `homes` are classes of other modules, and `is_open_home` says of which an empty object will do. `adjust` has the
    last word on every member of every definition.
    """

    document: str
    schemas: Mapping[str, Any]
    homes: Mapping[str, Home] = field(default_factory=dict[str, Home])
    adjust: Callable[[str, Member], Member] = field(default=lambda _, member: member)
    is_open_home: Callable[[Home], bool] | None = None

    def reader(self, name: str) -> Reader:
        """The reader for a definition; Kubernetes' own tell no defaults that a server would fill in."""
        return Reader(self._refer, self._is_open, defaults_fill=not name.startswith("io.k8s."))

    def shape(self, name: str, role: Role = "Model") -> Shape:
        """The shape of one definition."""
        schema = self._schema(name, Place(self.document, short(name)))
        found = self.reader(name).shape(schema, Place(self.document, short(name)), role)
        members = [self.adjust(name, member) for member in found.members]
        return replace(found, members=tuple(sorted(members, key=lambda member: not member.required)))

    def reachable(self, types: Iterable[Type], roles: Mapping[str, Role]) -> dict[str, Shape]:
        """The shapes of all definitions that the types lead to and that have no home elsewhere."""
        found: dict[str, Shape] = {}
        waiting = [target for one in types for target in _targets(one)]
        while waiting:
            name = waiting.pop()
            if name not in found and name not in self.homes:
                found[name] = self.shape(name, roles.get(name, "Model"))
                waiting += [target for member in found[name].members for target in _targets(member.type)]
        return {name: found[name] for name in sorted(found)}

    def _refer(self, target: str, place: Place) -> Type:
        name = re.sub(r"_v\d+$", "", target)
        if name in WELL_KNOWN:
            return WELL_KNOWN[name]
        if target in self.homes:
            return Named(target)
        schema = self._schema(target, place)
        if schema.get("properties"):
            return Named(target)
        # A definition without members is another name for a simple type.
        return self.reader(target).type(schema, replace(place, depth=place.depth + 1))

    def _is_open(self, name: str) -> bool:
        """Whether an empty object will do; asked of definitions that may lead back here, so it looks no deeper."""
        if name in self.homes and self.is_open_home is not None:
            return self.is_open_home(self.homes[name])
        schema = as_map(self.schemas.get(name))
        required = as_list(schema.get("required"))
        wires = [str(one) for one in as_map(schema.get("properties"))]
        members = [Member(one, ANYTHING, fallback=None if one in required else "None") for one in wires]
        return bool(members) and not any(self.adjust(name, member).required for member in members)

    def _schema(self, name: str, place: Place) -> Schema:
        found = self.schemas.get(name)
        if not isinstance(found, Mapping):
            raise place.refusal(f"it refers to {name}, which the document does not define; ask for the whole document")
        return cast("Schema", found)


def short(name: str) -> str:
    """The last word of a definition's full name."""
    return name.rpartition(".")[2]


def _targets(found: Type) -> list[str]:
    inner = [target for shape in inlined(found) for member in shape.members for target in _targets(member.type)]
    return [*named(found), *inner]
