"""Python classes out of the OpenAPI v3 document of a group and version, as a live cluster serves it.

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
from levelset.codegen.models.module_plan import RESERVED, Home, Kind, Module, kind_of, name_keywords
from levelset.codegen.models.module_writer import write_module
from levelset.codegen.models.openapi_definitions import WELL_KNOWN, Definitions, short
from levelset.codegen.models.schema_reader import Named, Place, Role, Schema, Type, as_list, as_map, reference
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
    """The module for a group and version, by file name, with all of its kinds or those asked for.

    `resources` are the entries of the group's discovery (an `APIResourceList`), which know plurals, scopes and short
    names; without them plural and scope are taken from the document's paths. BadObject names the definition and the
    field that cannot be read.
    """
    api = f"{group}/{version}" if group else version
    found = _schemas(document, api)
    roots = {kind: name for kind, name in _kinds(found, group, version) if not kinds or kind in kinds}
    _require(api, roots, kinds)
    homes = _homes(found, set(roots.values()))
    definitions = Definitions(f"OpenAPI of {api}", found, homes, is_open_home=_is_open)
    told = _resources(resources) or _paths(document, api)
    made = [_kind(definitions, api, kind, name, told.get(kind, {})) for kind, name in sorted(roots.items())]
    shapes = definitions.reachable([one for kind in made for _, one in kind.parts], _roles(made))
    classes = _class_names(shapes, {kind.name for kind in made})
    title = f"The kinds of {api}, with all that belongs to them."
    module = Module(title, tuple(made), shapes, classes, definitions.homes, descriptions=descriptions)
    return {file_name(group.partition(".")[0] or "core", version): write_module(module)}


def _schemas(document: Any, api: str) -> Schema:
    found = as_map(as_map(as_map(document).get("components")).get("schemas"))
    if not found:
        raise BadObject(
            f"this is no OpenAPI v3 document of {api}: it has no {_COMPONENTS}; ask the server for /openapi/v3/...",
            field=_COMPONENTS,
        )
    return found


def _kinds(schemas: Schema, group: str, version: str) -> Iterator[tuple[str, str]]:
    """The kinds of a group and version with their definitions; lists of objects are none."""
    for name, schema in schemas.items():
        if name in WELL_KNOWN or name.startswith("io.k8s.apimachinery."):
            continue
        for told in map(as_map, as_list(as_map(schema).get(_GVK))):
            here = told.get("group") == group and told.get("version") == version
            if here and not _is_list(as_map(schema)):
                yield str(told.get("kind")), name


def _is_list(schema: Schema) -> bool:
    metadata = as_map(as_map(schema.get("properties")).get("metadata"))
    return short(reference(metadata) or "") == "ListMeta"


def _require(api: str, roots: Mapping[str, str], kinds: Collection[str]) -> None:
    missing = sorted(set(kinds) - set(roots))
    if missing or not roots:
        wanted = ", ".join(missing) or "kind at all"
        raise BadObject(f"the OpenAPI document of {api} has no {wanted}; `kubectl api-resources` lists what there is")
    for kind in roots:
        if re.fullmatch(r"[A-Z][A-Za-z0-9]{0,62}", kind, re.ASCII) is None:
            raise BadObject(f"the OpenAPI document of {api} has a kind {kind!r:.60}, which is no word in CamelCase")


def _homes(schemas: Schema, own: set[str]) -> dict[str, Home]:
    """The definitions of built-in kinds that have classes here already, without those that are asked for."""
    mine = {name.rpartition(".")[0] for name in own}
    homes: dict[str, Home] = {}
    for name in schemas:
        prefix, _, last = name.rpartition(".")
        module = MODULES.get(prefix)
        if module is not None and prefix not in mine and last in import_module(module).__all__:
            homes[name] = Home(module, last)
    return homes


def _is_open(home: Home) -> bool:
    """Whether a class of ours can be made without saying anything."""
    made: type[Struct] = getattr(import_module(home.module), home.name)
    return not any(member.required for member in fields(made))


def _kind(definitions: Definitions, api: str, kind: str, name: str, told: Schema) -> Kind:
    place = Place(definitions.document, short(name))
    keywords = list(_keywords(kind, told, place))
    return kind_of((api, kind), definitions.schemas[name], place, definitions.reader(name), keywords=keywords)


def _keywords(kind: str, told: Schema, place: Place) -> Iterator[str]:
    if told:
        yield from name_keywords(
            kind,
            place,
            plural=str(told.get("name")),
            singular=str(told.get("singularName") or ""),
            scope="Namespaced" if told.get("namespaced") else "Cluster",
            short_names=[str(one) for one in as_list(told.get("shortNames"))],
            categories=[str(one) for one in as_list(told.get("categories"))],
        )
        if told.get("status") is False:
            yield "status=False"


def _resources(entries: Iterable[Mapping[str, Any]]) -> dict[str, Schema]:
    """The entries of discovery by kind, each told whether it has a status."""
    listed = [as_map(entry) for entry in entries]
    names = {str(entry.get("name")) for entry in listed}
    return {
        str(entry.get("kind")): {**entry, "status": f"{entry.get('name')}/status" in names}
        for entry in listed
        if "/" not in str(entry.get("name"))
    }


def _paths(document: Mapping[str, Any], api: str) -> dict[str, Schema]:
    """What the paths of a document tell of its kinds: the plural, and whether they live in namespaces."""
    pattern = re.compile(rf"/apis?/{re.escape(api)}/(namespaces/\{{namespace\}}/)?([a-z0-9-]+)/\{{name\}}(/status)?")
    found: dict[str, dict[str, Any]] = {}
    for path, methods in sorted(as_map(document.get("paths")).items()):
        match = pattern.fullmatch(path)
        gvk = as_map(as_map(as_map(methods).get("get")).get(_GVK))
        if match is None or not gvk:
            continue
        told = found.setdefault(str(gvk.get("kind")), {"status": False})
        told |= {"name": match[2], "namespaced": bool(match[1]), "status": told["status"] or bool(match[3])}
    return {**found}


def _roles(kinds: Iterable[Kind]) -> dict[str, Role]:
    roles: dict[str, Role] = {}
    for kind in kinds:
        roles |= _role(kind.spec.type if kind.spec else None, "Spec") | _role(kind.status, "Status")
    return roles


def _role(found: Type | None, role: Role) -> dict[str, Role]:
    return {found.definition: role} if isinstance(found, Named) else {}


def _class_names(definitions: Iterable[str], used: set[str]) -> dict[str, str]:
    """A class name for each definition: its last word, with those before it where that is taken."""
    taken = {*used, *RESERVED}
    names: dict[str, str] = {}
    for definition in sorted(definitions):
        words = definition.split(".")
        options = [class_name(words[-count:]) for count in range(1, len(words) + 1)]
        numbered = (f"{options[-1]}{number}" for number in range(2, len(taken) + 3))
        names[definition] = next(name for name in (*options, *numbered) if name not in taken)
        taken.add(names[definition])
    return names
