"""Definitions for a server of one's own: it serves the kinds of controllers as a cluster would, and checks as much.

The definitions are those that `levelset generate crds` writes, but for the words under attributes, since no files are
read here. A class for which there is no structural schema is served with one that lets everything pass, and the log
says which attribute is to blame: it may be somebody else's kind, and a laptop is no place to be stopped by that.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from levelset.client.client import Client
from levelset.client.object_types import Kind, OnlyMetadata, View, view_of
from levelset.client.rest_mapper import Mapper
from levelset.codegen.crd import crd_of
from levelset.errors import ConfigError, UnknownKind
from levelset.objects.kind_definition import definition_of
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.resource import Object
from levelset.objects.unstructured import Unstructured
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.relations import Owns, References, Watches
from levelset.runtime.manager.system import System
from levelset.runtime.webhook.webhook_set import Webhooks

__all__ = ["DEFINITION", "definitions_for", "install_definitions", "is_established", "kinds_of", "kinds_served"]

_log: Final = logging.getLogger("levelset.runtime.manager")

DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def kinds_of(controllers: Iterable[Controller[Any]]) -> Sequence[View[Any]]:
    """All kinds that these controllers look at or follow, each once, in the order in which they are named.

    Whole kinds, also of those whose metadata alone are watched.
    """
    found: dict[GroupVersionKind, View[Any]] = {}
    for controller in controllers:
        others = [one.kind for one in controller.relations if isinstance(one, Owns | Watches | References)]
        kinds: list[Kind[Any]] = [controller.kind, *others]
        for view in map(_whole, kinds):
            known = found.get(view.gvk)
            if known is None or known.definition is None:
                found[view.gvk] = view
    return tuple(found.values())


def kinds_served(system: System, webhooks: Webhooks) -> Sequence[View[Any]]:
    """All kinds that a server should know for a system: those of webhooks first, which name what is stored."""
    named = [*webhooks.kinds, *system.kinds]
    found = {view.gvk: view for view in map(view_of, named)}
    return tuple({**found, **{one.gvk: one for one in kinds_of(system.controllers) if one.gvk not in found}}.values())


def _whole(kind: Kind[Any]) -> View[Any]:
    return view_of(kind.of if isinstance(kind, OnlyMetadata) else kind)


async def install_definitions(client: Client, views: Iterable[View[Any]]) -> Sequence[str]:
    """Has the server serve these kinds, as far as it does not yet; gives the names of what was made."""
    asked = [view for view in views if _is_class(view)]
    missing = [view for view in asked if not await _is_served(client, view.gvk)]
    made = definitions_for(missing)
    for name, definition in made.items():
        await client.create(definition)
        ref: Ref[Unstructured] = Ref(DEFINITION, name)
        await client.wait(ref, is_established)
    for view in missing:
        await _is_served(client, view.gvk)  # so that the client forgets that it has heard otherwise
    return tuple(made)


def definitions_for(views: Iterable[View[Any]]) -> Mapping[str, dict[str, Any]]:
    """The CustomResourceDefinitions of the classes behind these views, by name.

    Of several versions of a kind the first is stored, unless another one says `stored=True`. ConfigError if they do not
    go together.
    """
    classes: dict[str, list[type[Object]]] = {}
    for view in views:
        if _is_class(view):
            name = f"{definition_of(view.class_).plural}.{view.gvk.group}"
            classes.setdefault(name, []).append(view.class_)
    return {name: _definition(name, found) for name, found in classes.items()}


def _definition(name: str, classes: Sequence[type[Object]]) -> dict[str, Any]:
    try:
        return crd_of(*classes, stored=classes[0], reads_source=False)
    except ConfigError as error:
        made = crd_of(*classes, stored=classes[0], is_open=True)
        _log.warning("%s is served without a schema, and no cluster would take it as it is: %s", name, error)
        return made


def _is_class(view: View[Any]) -> bool:
    """Whether there is a class to make a schema of: metadata, and bare kinds, have none."""
    return view.definition is not None and not view.is_metadata


async def _is_served(client: Client, gvk: GroupVersionKind) -> bool:
    mapper = client.mapper
    try:
        await (mapper.resource(gvk, force=True) if isinstance(mapper, Mapper) else mapper.resource(gvk))
    except UnknownKind:
        return False
    return True


def is_established(definition: Unstructured) -> bool:
    """Whether the server serves what a definition defines."""
    status: Any = definition.tree.get("status") or {}
    return any(one["type"] == "Established" and one["status"] == "True" for one in status.get("conditions") or ())
