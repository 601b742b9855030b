"""Definitions for a server of one's own: enough of a CustomResourceDefinition for a class to be served.

The schema lets everything pass: the class checks what it reads, and a laptop is no place to be refused because of a
field that was added a minute ago.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from levelset.client.client import Client
from levelset.client.kinds import Kind, View, view_of
from levelset.client.mapper import Mapper
from levelset.controller.controller import Controller
from levelset.controller.relations import Owns, References, Watches
from levelset.errors import UnknownKind
from levelset.objects.definition import Column, Definition
from levelset.objects.identity import GroupVersionKind, Ref
from levelset.objects.unstructured import Unstructured

__all__ = ["install_definitions", "kinds_of", "permissive_definition"]

_DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
_FREE: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def kinds_of(controllers: Iterable[Controller[Any]]) -> Sequence[View[Any]]:
    """All kinds that these controllers look at or follow, each once, in the order in which they are named."""
    found: dict[GroupVersionKind, View[Any]] = {}
    for controller in controllers:
        others = [one.kind for one in controller.relations if isinstance(one, Owns | Watches | References)]
        kinds: list[Kind[Any]] = [controller.kind, *others]
        for view in map(view_of, kinds):
            known = found.get(view.gvk)
            if known is None or known.definition is None:
                found[view.gvk] = view
    return tuple(found.values())


async def install_definitions(client: Client, views: Iterable[View[Any]]) -> Sequence[str]:
    """Has the server serve these kinds, as far as it does not yet; gives the names of what was made."""
    made: dict[str, list[Definition]] = {}
    for view in views:
        definition = view.definition
        if definition is not None and not await _is_served(client, definition.gvk):
            made.setdefault(f"{definition.plural}.{definition.gvk.group}", []).append(definition)
    for name, versions in made.items():
        await client.create(permissive_definition(versions))
        ref: Ref[Unstructured] = Ref(_DEFINITION, name)
        await client.wait(ref, _is_established)
        for one in versions:
            await _is_served(client, one.gvk)  # so that the client forgets that it has heard otherwise
    return tuple(made)


def permissive_definition(versions: Sequence[Definition]) -> dict[str, Any]:
    """A CustomResourceDefinition for the versions of one kind, of which the first is stored."""
    first = versions[0]
    names = {
        "plural": first.plural,
        "singular": first.singular,
        "kind": first.gvk.kind,
        "listKind": first.list_kind,
        "shortNames": list(first.short_names),
        "categories": list(first.categories),
    }
    return {
        "apiVersion": _DEFINITION.api_version,
        "kind": _DEFINITION.kind,
        "metadata": {"name": f"{first.plural}.{first.gvk.group}"},
        "spec": {
            "group": first.gvk.group,
            "scope": first.scope,
            "names": names,
            "versions": [_version(one, is_stored=one is first) for one in versions],
        },
    }


def _version(definition: Definition, *, is_stored: bool) -> dict[str, Any]:
    properties = {"spec": _FREE, "status": _FREE}
    schema = {**_FREE, "description": definition.description, "properties": properties}
    version: dict[str, Any] = {
        "name": definition.gvk.version,
        "served": True,
        "storage": is_stored,
        "schema": {"openAPIV3Schema": schema},
        "subresources": _subresources(definition),
    }
    if definition.columns:
        version["additionalPrinterColumns"] = [_column(one) for one in definition.columns]
    return version


def _subresources(definition: Definition) -> dict[str, Any]:
    found: dict[str, Any] = {"status": {}} if definition.status else {}
    if definition.scale is not None:
        scale = {"specReplicasPath": definition.scale.spec, "statusReplicasPath": definition.scale.status}
        selector = definition.scale.selector
        found["scale"] = {**scale, "labelSelectorPath": selector} if selector else scale
    return found


def _column(column: Column) -> dict[str, Any]:
    told = {"name": column.name, "type": column.type, "jsonPath": column.path, "priority": column.priority}
    more = {"format": column.format, "description": column.description}
    return {**told, **{name: value for name, value in more.items() if value}}


async def _is_served(client: Client, gvk: GroupVersionKind) -> bool:
    mapper = client.mapper
    try:
        await (mapper.resource(gvk, force=True) if isinstance(mapper, Mapper) else mapper.resource(gvk))
    except UnknownKind:
        return False
    return True


def _is_established(definition: Unstructured) -> bool:
    status: Any = definition.tree.get("status") or {}
    return any(one["type"] == "Established" and one["status"] == "True" for one in status.get("conditions") or ())
