"""Generates Python classes from the OpenAPI v3 document of a group and version, as a cluster serves it.

```python
files = models_from_openapi(document, group="cert-manager.io", version="v1")
```
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import fields

from levelset.codegen.models.from_crd import file_name
from levelset.codegen.models.module_plan import RESERVED, ImportedClass, Kind, Module, kind_of, name_keywords
from levelset.codegen.models.module_writer import write_module
from levelset.codegen.models.openapi_definitions import WELL_KNOWN, Definitions, short
from levelset.codegen.models.schema_reader import Named, Role, Schema, SchemaLocation, Type, as_list, as_map, reference
from levelset.codegen.models.source_text import class_name
from levelset.errors import BadObject
from levelset.kinds import MODULES

__all__ = ["models_from_openapi"]

_GVK: Final = "x-kubernetes-group-version-kind"
_COMPONENTS: Final = "components.schemas"


def models_from_openapi(
    document: Mapping[str, Any],
    *,
    group: str,
    version: str,
    kinds: Collection[str] = (),
    resources: Iterable[Mapping[str, Any]] = (),
    descriptions: bool = True,
) -> Mapping[str, str]:
    """The module of a group and version by file name, with all of its kinds or the given `kinds`.

    `resources` are the entries of discovery (an `APIResourceList`), with plurals, scopes and short names; without them
    plural and scope are read from the paths of the document. BadObject names the definition and field that cannot be
    read.
    """
    api = f"{group}/{version}" if group else version
    found = _schemas(document, api)
    roots = {kind: name for kind, name in _kinds(found, group, version) if not kinds or kind in kinds}
    _require(api, roots, kinds)
    homes = _homes(found, set(roots.values()))
    definitions = Definitions(f"OpenAPI of {api}", found, homes, is_open_home=_is_open)
    info = _resources(resources) or _paths(document, api)
    made = [_kind(definitions, api, kind, name, info.get(kind, {})) for kind, name in sorted(roots.items())]
    shapes = definitions.reachable([one for kind in made for _, one in kind.parts], _roles(made))
    classes = _class_names(shapes, {kind.name for kind in made})
    title = f"The kinds of {api}, with all that belongs to them."
    module = Module(title, tuple(made), shapes, classes, definitions.homes, descriptions=descriptions)
    return {file_name(group.partition(".")[0] or "core", version): write_module(module)}


def _schemas(document: Any, api: str) -> Schema:
    found = as_map(as_map(as_map(document).get("components")).get("schemas"))
    if not found:
        raise BadObject(
            f"this is not an OpenAPI v3 document of {api}: it has no {_COMPONENTS}; get it from /openapi/v3/...",
            field=_COMPONENTS,
        )
    return found


def _kinds(schemas: Schema, group: str, version: str) -> Iterator[tuple[str, str]]:
    """The kinds of a group and version with their definitions, without list kinds."""
    for name, schema in schemas.items():
        if name in WELL_KNOWN or name.startswith("io.k8s.apimachinery."):
            continue
        for info in map(as_map, as_list(as_map(schema).get(_GVK))):
            here = info.get("group") == group and info.get("version") == version
            if here and not _is_list(as_map(schema)):
                yield str(info.get("kind")), name


def _is_list(schema: Schema) -> bool:
    metadata = as_map(as_map(schema.get("properties")).get("metadata"))
    return short(reference(metadata) or "") == "ListMeta"


def _require(api: str, roots: Mapping[str, str], kinds: Collection[str]) -> None:
    missing = sorted(set(kinds) - set(roots))
    if missing or not roots:
        wanted = ", ".join(missing) or "kind at all"
        raise BadObject(f"the OpenAPI document of {api} has no {wanted}; `kubectl api-resources` lists the kinds")
    for kind in roots:
        if re.fullmatch(r"[A-Z][A-Za-z0-9]{0,62}", kind, re.ASCII) is None:
            raise BadObject(f"the OpenAPI document of {api} has a kind {kind!r:.60}, which is not CamelCase")


def _homes(schemas: Schema, own: set[str]) -> dict[str, ImportedClass]:
    """The definitions that already have classes in levelset.kinds, without those of the generated groups."""
    mine = {name.rpartition(".")[0] for name in own}
    homes: dict[str, ImportedClass] = {}
    for name in schemas:
        prefix, _, last = name.rpartition(".")
        module = MODULES.get(prefix)
        if module is not None and prefix not in mine and last in import_module(module).__all__:
            homes[name] = ImportedClass(module, last)
    return homes


def _is_open(home: ImportedClass) -> bool:
    """Whether a class can be created without arguments."""
    made: type[Struct] = getattr(import_module(home.module), home.name)
    return not any(member.required for member in fields(made))


def _kind(definitions: Definitions, api: str, kind: str, name: str, info: Schema) -> Kind:
    location = SchemaLocation(definitions.document, short(name))
    keywords = list(_keywords(kind, info, location))
    return kind_of((api, kind), definitions.schemas[name], location, definitions.reader(name), keywords=keywords)


def _keywords(kind: str, info: Schema, location: SchemaLocation) -> Iterator[str]:
    if info:
        yield from name_keywords(
            kind,
            location,
            plural=str(info.get("name")),
            singular=str(info.get("singularName") or ""),
            scope="Namespaced" if info.get("namespaced") else "Cluster",
            short_names=[str(one) for one in as_list(info.get("shortNames"))],
            categories=[str(one) for one in as_list(info.get("categories"))],
        )
        if info.get("status") is False:
            yield "status=False"


def _resources(entries: Iterable[Mapping[str, Any]]) -> dict[str, Schema]:
    """The entries of discovery by kind, with a flag for the status subresource."""
    listed = [as_map(entry) for entry in entries]
    names = {str(entry.get("name")) for entry in listed}
    return {
        str(entry.get("kind")): {**entry, "status": f"{entry.get('name')}/status" in names}
        for entry in listed
        if "/" not in str(entry.get("name"))
    }


def _paths(document: Mapping[str, Any], api: str) -> dict[str, Schema]:
    """The plural and scope of each kind, read from the paths of the document."""
    pattern = re.compile(rf"/apis?/{re.escape(api)}/(namespaces/\{{namespace\}}/)?([a-z0-9-]+)/\{{name\}}(/status)?")
    found: dict[str, dict[str, Any]] = {}
    for path, methods in sorted(as_map(document.get("paths")).items()):
        match = pattern.fullmatch(path)
        gvk = as_map(as_map(as_map(methods).get("get")).get(_GVK))
        if match is None or not gvk:
            continue
        info = found.setdefault(str(gvk.get("kind")), {"status": False})
        info |= {"name": match[2], "namespaced": bool(match[1]), "status": info["status"] or bool(match[3])}
    return {**found}


def _roles(kinds: Iterable[Kind]) -> dict[str, Role]:
    roles: dict[str, Role] = {}
    for kind in kinds:
        roles |= _role(kind.spec.type if kind.spec else None, "Spec") | _role(kind.status, "Status")
    return roles


def _role(found: Type | None, role: Role) -> dict[str, Role]:
    return {found.definition: role} if isinstance(found, Named) else {}


def _class_names(definitions: Iterable[str], used: set[str]) -> dict[str, str]:
    """A class name for each definition: its last word, with more words before it if that name is taken."""
    taken = {*used, *RESERVED}
    names: dict[str, str] = {}
    for definition in sorted(definitions):
        words = definition.split(".")
        options = [class_name(words[-count:]) for count in range(1, len(words) + 1)]
        numbered = (f"{options[-1]}{number}" for number in range(2, len(taken) + 3))
        names[definition] = next(name for name in (*options, *numbered) if name not in taken)
        taken.add(names[definition])
    return names
