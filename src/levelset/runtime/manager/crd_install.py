"""Installs the CRDs of a program's kinds into an API server of its own, which then validates like a cluster.

The CRDs are those that `levelset generate crds` writes, but without descriptions from attribute docstrings, since no
source files are read here. A class for which no structural schema can be made is served with a schema that accepts
everything, and a warning names the attribute: it may be a class of another project, and local development should go on.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from levelset.client.client import Client
from levelset.client.object_types import Kind, OnlyMetadata, View, view_of
from levelset.client.patches import MergePatch
from levelset.client.rest_mapper import RestMapper
from levelset.errors import AlreadyExists, ConfigError, UnknownKind
from levelset.objects.kind_definition import definition_of
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.resource import Object
from levelset.objects.unstructured import Unstructured
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.relations import Owns, References, Watches
from levelset.runtime.manager.system import System

if TYPE_CHECKING:
    from levelset.runtime.webhook.webhook_set import Webhooks

__all__ = ["CRD_GVK", "crds_for", "install_crds", "is_established", "kinds_of", "kinds_to_serve"]

_log: Final = logging.getLogger("levelset.runtime.manager")

CRD_GVK: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def kinds_of(controllers: Iterable[Controller[Any]]) -> Sequence[View[Any]]:
    """All kinds that these controllers reconcile or watch, each once, in the order in which they are named.

    They are views of whole objects, also for kinds of which only the metadata is watched.
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


def kinds_to_serve(system: System, webhooks: "Webhooks | None") -> Sequence[View[Any]]:
    """All kinds that a server must serve for a system; those of webhooks first, which name the stored version."""
    named = [*(() if webhooks is None else webhooks.kinds), *system.kinds]
    found = {view.gvk: view for view in map(view_of, named)}
    return tuple({**found, **{one.gvk: one for one in kinds_of(system.controllers) if one.gvk not in found}}.values())


def _whole(kind: Kind[Any]) -> View[Any]:
    return view_of(kind.of if isinstance(kind, OnlyMetadata) else kind)


async def install_crds(client: Client, views: Iterable[View[Any]]) -> Sequence[str]:
    """Installs the CRDs of the kinds that the server does not serve yet; returns the names of the new CRDs.

    A CRD that has other versions of a kind only, as in a data file of an earlier release, gets all versions of the
    program.
    """
    typed = [view for view in views if _is_class(view)]
    missing = await _not_served(client, typed)
    wanted = {_crd_name(view) for view in missing}
    made = crds_for(view for view in typed if _crd_name(view) in wanted)
    try:
        async with asyncio.TaskGroup() as group:  # together, which a storage commits together
            for name, definition in made.items():
                group.create_task(_install(client, name, definition), name=f"install {name}")
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    await _not_served(client, missing)  # refreshes the client's discovery cache
    return tuple(made)


async def _install(client: Client, name: str, definition: dict[str, Any]) -> None:
    ref: Ref[Unstructured] = Ref(CRD_GVK, name)
    try:
        stored = await client.create(definition)
    except AlreadyExists:
        stored = await client.patch(ref, MergePatch({"spec": {"versions": definition["spec"]["versions"]}}))
    if not is_established(stored):
        await client.wait(ref, is_established)


async def _not_served(client: Client, views: Iterable[View[Any]]) -> Sequence[View[Any]]:
    """The views of kinds that the server does not serve; each group version is discovered once, whatever is cached."""
    found: list[View[Any]] = []
    discovered: set[str] = set()
    for view in views:
        if not await _is_served(client, view.gvk, force=view.gvk.api_version not in discovered):
            found.append(view)
        discovered.add(view.gvk.api_version)
    return found


def _crd_name(view: View[Any]) -> str:
    return f"{definition_of(view.class_).plural}.{view.gvk.group}"


def crds_for(views: Iterable[View[Any]]) -> Mapping[str, dict[str, Any]]:
    """The CustomResourceDefinitions of the classes behind these views, by name.

    Of several versions of a kind the first is stored, unless another one has `stored=True`. ConfigError if the versions
    do not fit together.
    """
    classes: dict[str, list[type[Object]]] = {}
    for view in views:
        if _is_class(view):
            classes.setdefault(_crd_name(view), []).append(view.class_)
    return {name: _definition(name, found) for name, found in classes.items()}


def _definition(name: str, classes: Sequence[type[Object]]) -> dict[str, Any]:
    from levelset.codegen.crd import crd_of  # noqa: PLC0415  # only a program with a local server makes CRDs

    try:
        return crd_of(*classes, stored=classes[0], reads_source=False)
    except ConfigError as error:
        made = crd_of(*classes, stored=classes[0], is_open=True)
        _log.warning("%s is served without a schema; a cluster would reject it: %s", name, error)
        return made


def _is_class(view: View[Any]) -> bool:
    """Whether a view has a class to make a schema of; metadata and bare kinds have none."""
    return view.definition is not None and not view.is_metadata


async def _is_served(client: Client, gvk: GroupVersionKind, *, force: bool) -> bool:
    mapper = client.mapper
    try:
        await (mapper.resource(gvk, force=force) if isinstance(mapper, RestMapper) else mapper.resource(gvk))
    except UnknownKind:
        return False
    return True


def is_established(definition: Unstructured) -> bool:
    """Whether a CRD has the condition Established."""
    status: Any = definition.tree.get("status") or {}
    return any(one["type"] == "Established" and one["status"] == "True" for one in status.get("conditions") or ())
