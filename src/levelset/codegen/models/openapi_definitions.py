"""The definitions of an OpenAPI document, which refer to one another by name: which are reachable, and their shapes.

Common definitions (times, quantities, metadata, parts of built-in kinds) map to existing types and classes.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from levelset.codegen.models.module_plan import ImportedClass
from levelset.codegen.models.schema_reader import (
    ANYTHING,
    Either,
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
    as_map,
    inlined,
    named,
)

__all__ = ["WELL_KNOWN", "Definitions", "short"]

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_JSON: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_PROPS: Final = Named(f"{_JSON}JSONSchemaProps")

WELL_KNOWN: Final[Mapping[str, Type]] = {
    f"{_META}Condition": TypeName("Condition"),
    f"{_META}DeleteOptions": TypeName("DeleteOptions"),
    f"{_META}FieldsV1": MapOf(ANYTHING),
    f"{_META}ListMeta": TypeName("ListMeta"),
    f"{_META}ManagedFieldsEntry": TypeName("ManagedFieldsEntry"),
    f"{_META}MicroTime": TypeName("MicroTime"),
    f"{_META}ObjectMeta": TypeName("ObjectMeta"),
    f"{_META}OwnerReference": TypeName("OwnerReference"),
    f"{_META}Status": TypeName("ApiStatus"),
    f"{_META}Time": TypeName("datetime"),
    "io.k8s.apimachinery.pkg.api.resource.Quantity": TypeName("Quantity"),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": ANYTHING,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": Either((TypeName("int"), TypeName("str"))),
    # The documents have no schema for these unions.
    f"{_JSON}JSON": ANYTHING,
    f"{_JSON}JSONSchemaPropsOrArray": Either((_PROPS, ListOf(_PROPS))),
    f"{_JSON}JSONSchemaPropsOrBool": Either((_PROPS, TypeName("bool"))),
    f"{_JSON}JSONSchemaPropsOrStringArray": Either((_PROPS, ListOf(TypeName("str")))),
}
"""Definitions that map to existing types."""


@dataclass(frozen=True)
class Definitions:
    """All schemas of a document by full name, and the classes that exist for them elsewhere.

    `homes` are classes of other modules, and `is_open_home` returns whether an empty object of one is valid. `adjust`
    may change every member of every definition.
    """

    document: str
    schemas: Mapping[str, Any]
    homes: Mapping[str, ImportedClass] = field(default_factory=dict[str, ImportedClass])
    adjust: Callable[[str, Member], Member] = field(default=lambda _, member: member)
    is_open_home: Callable[[ImportedClass], bool] | None = None

    def reader(self, name: str) -> Reader:
        """The reader for a definition; defaults of built-in definitions are not applied by servers."""
        return Reader(self._refer, self._is_open, defaults_fill=not name.startswith("io.k8s."))

    def shape(self, name: str, role: Role = "Model") -> Shape:
        """The shape of one definition."""
        schema = self._schema(name, SchemaLocation(self.document, short(name)))
        found = self.reader(name).shape(schema, SchemaLocation(self.document, short(name)), role)
        members = [self.adjust(name, member) for member in found.members]
        return replace(found, members=tuple(sorted(members, key=lambda member: not member.required)))

    def reachable(self, types: Iterable[Type], roles: Mapping[str, Role]) -> dict[str, Shape]:
        """The shapes of all definitions that are reachable from the types and not imported from elsewhere."""
        found: dict[str, Shape] = {}
        waiting = [target for one in types for target in _targets(one)]
        while waiting:
            name = waiting.pop()
            if name not in found and name not in self.homes:
                found[name] = self.shape(name, roles.get(name, "Model"))
                waiting += [target for member in found[name].members for target in _targets(member.type)]
        return {name: found[name] for name in sorted(found)}

    def _refer(self, target: str, location: SchemaLocation) -> Type:
        name = re.sub(r"_v\d+$", "", target)
        if name in WELL_KNOWN:
            return WELL_KNOWN[name]
        if target in self.homes:
            return Named(target)
        schema = self._schema(target, location)
        if schema.get("properties"):
            return Named(target)
        # A definition without properties is an alias of a scalar type.
        return self.reader(target).type(schema, replace(location, depth=location.depth + 1))

    def _is_open(self, name: str) -> bool:
        """Whether an empty object is valid; does not recurse, since definitions may be recursive."""
        if name in self.homes and self.is_open_home is not None:
            return self.is_open_home(self.homes[name])
        schema = as_map(self.schemas.get(name))
        required = as_list(schema.get("required"))
        wires = [str(one) for one in as_map(schema.get("properties"))]
        members = [Member(one, ANYTHING, fallback=None if one in required else "None") for one in wires]
        return bool(members) and not any(self.adjust(name, member).required for member in members)

    def _schema(self, name: str, location: SchemaLocation) -> Schema:
        found = self.schemas.get(name)
        if not isinstance(found, Mapping):
            raise location.error(f"it refers to {name}, which the document does not define; get the whole document")
        return cast("Schema", found)


def short(name: str) -> str:
    """The last word of a definition's full name."""
    return name.rpartition(".")[2]


def _targets(found: Type) -> list[str]:
    inner = [target for shape in inlined(found) for member in shape.members for target in _targets(member.type)]
    return [*named(found), *inner]
