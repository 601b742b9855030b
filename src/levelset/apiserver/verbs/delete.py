"""Deleting objects: at once, or marked and left until their finalizers are gone."""

from datetime import timedelta
from typing import Any, Final, cast

import msgspec

from levelset.apiserver.registry import conversion_webhook, strategy
from levelset.apiserver.registry.metadata import is_deleting, time_text
from levelset.apiserver.registry.selectors import Selection
from levelset.apiserver.registry.storage_codec import served_tree, store_bytes
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree, World
from levelset.apiserver.verbs import commit, write_admission
from levelset.apiserver.verbs.create_and_update import get_item
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.request_options import DeleteOptions
from levelset.errors import NotFound
from levelset.objects import decode_tree
from levelset.storage import Item, Mismatch

__all__ = ["Deleted", "answer", "delete", "delete_collection"]

FINALIZERS: Final = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
DEFAULT_GRACE: Final = 30
LONGEST_GRACE: Final = 10**9
"""Some thirty years: a moment that lies further away cannot be written down."""
# Kinds whose removal Kubernetes answers with the object.
_ANSWERED_WITH_OBJECT: Final = frozenset(
    {
        *("persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas", "serviceaccounts"),
        *("services", "storageclasses.storage.k8s.io"),
    }
)


class Deleted(msgspec.Struct, frozen=True):
    """The object as it was when it went (`gone`), or as it is now that it is marked."""

    tree: Tree
    gone: bool


def answer(served: ServedResource, deleted: Deleted) -> Tree:
    """What the client of a delete is told: the marked object, or a Status that names the one that went."""
    if not deleted.gone or served.qualified in _ANSWERED_WITH_OBJECT:
        return deleted.tree
    metadata = deleted.tree["metadata"]
    details: Tree = {"name": metadata["name"], "group": served.group, "kind": served.plural, "uid": metadata.get("uid")}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {name: value for name, value in details.items() if value},
    }


async def delete(
    world: World, served: ServedResource, namespace: str | None, name: str, options: DeleteOptions | None = None
) -> Deleted:
    """Deletes an object, or marks it if finalizers keep it; marking it again changes nothing.

    Raises NotFound, and Conflict if the object does not meet the preconditions.
    """
    options = DeleteOptions() if options is None else options
    key = served.key(namespace, name)
    while True:
        item = await get_item(world, key)
        if item is None:
            raise status_errors.object_not_found(served, name)
        if served.awaits:
            await conversion_webhook.convert(served, [item])
        if options.asking is not None:
            await write_admission.check_delete(world, served, served_tree(served, item), options)
        try:
            return await _delete_item(world, served, name, item, options)
        except Mismatch:
            continue


async def delete_collection(
    world: World,
    served: ServedResource,
    namespace: str | None,
    selection: Selection | None,
    options: DeleteOptions | None = None,
    *,
    limit: int | None = None,
) -> list[Tree]:
    """Deletes the selected objects one by one and returns them as they were or, if marked, as they are.

    An object that somebody else deletes meanwhile is passed over. With a limit, no more than so many are deleted.
    """
    page = await world.storage.list(served.prefix_in(namespace))
    if served.awaits:
        await conversion_webhook.convert(served, page.items)
    chosen = [item for item in page.items if selection is None or selection.matches(served, item)]
    deleted: list[Tree] = []
    for item in chosen if not limit else chosen[:limit]:
        metadata = _metadata(item)
        try:
            found = await delete(world, served, metadata.get("namespace"), metadata["name"], options)
        except NotFound:
            continue
        deleted.append(found.tree)
    return deleted


async def _delete_item(world: World, served: ServedResource, name: str, item: Item, options: DeleteOptions) -> Deleted:
    if served.awaits:
        await conversion_webhook.convert(served, [item])
    old = served_tree(served, item)
    _check_conditions(served, name, old, options)
    tree = served_tree(served, item)
    if _is_already_marked(tree, options):
        return Deleted(old, gone=False)
    _mark(world, served, tree, options)
    if not strategy.is_kept(served, tree):
        if not options.dry_run:
            await commit.remove(world, served, item, old=old)
        return Deleted(old, gone=True)
    if options.dry_run:
        return Deleted(tree, gone=False)
    value = (
        await conversion_webhook.settle(lambda: store_bytes(served, tree))
        if served.awaits
        else store_bytes(served, tree)
    )
    if value == item.value:
        return Deleted(old, gone=False)
    await commit.put(world, served, item.key, value, old=old, tree=tree)
    return Deleted(tree, gone=False)


def _metadata(item: Item) -> Tree:
    """The metadata as it is stored: whose object it is, is the same in all versions."""
    return cast("Tree", cast("Tree", decode_tree(item.value))["metadata"])


def _check_conditions(served: ServedResource, name: str, tree: Tree, options: DeleteOptions) -> None:
    metadata = tree["metadata"]
    for word, wanted, found in (
        ("UID", options.uid, metadata.get("uid")),
        ("ResourceVersion", options.resource_version, metadata.get("resourceVersion")),
    ):
        if wanted and wanted != found:
            error = status_errors.conflict(
                served, name, f"Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {found}"
            )
            # Upstream names the Kind here, and the resource in all other conflicts.
            error.details = {**error.details, "kind": served.kind}
            raise error


def _is_already_marked(tree: Tree, options: DeleteOptions) -> bool:
    """Whether this deletion has begun and asks for nothing new: a shorter grace, or another way to propagate."""
    if not is_deleting(tree):
        return False
    left = tree["metadata"].get("deletionGracePeriodSeconds") or 0
    shorter = left > 0 and options.grace_seconds is not None and options.grace_seconds < left
    return not shorter and options.propagation is None


def _mark(world: World, served: ServedResource, tree: Tree, options: DeleteOptions) -> None:
    """Makes the tree that of an object whose deletion has begun, with the finalizers that the propagation asks for."""
    metadata = tree["metadata"]
    _set_finalizers(metadata, options.propagation)
    begins = "deletionTimestamp" not in metadata
    grace = _grace(served, tree, options)
    if begins or grace < (metadata.get("deletionGracePeriodSeconds") or 0):
        metadata["deletionTimestamp"] = time_text(world.now() + timedelta(seconds=min(grace, LONGEST_GRACE)))
        metadata["deletionGracePeriodSeconds"] = grace
    if begins:
        if metadata.get("generation"):
            metadata["generation"] += 1
        if served.rules.prepare_delete is not None:
            served.rules.prepare_delete(tree)


def _set_finalizers(metadata: dict[str, Any], propagation: str | None) -> None:
    """An explicit policy decides alone which of the two finalizers is there; without one they stay as they are."""
    if propagation is None:
        return
    wanted = FINALIZERS.get(propagation)
    kept = [one for one in metadata.get("finalizers", ()) if one == wanted or one not in FINALIZERS.values()]
    if wanted is not None and wanted not in kept:
        kept.append(wanted)
    if kept:
        metadata["finalizers"] = kept
    else:
        metadata.pop("finalizers", None)


def _grace(served: ServedResource, tree: Tree, options: DeleteOptions) -> int:
    """How long the object may live on; only some kinds ask for time, and only while somebody uses them."""
    spec: Tree = tree.get("spec") or {}
    if not served.rules.graceful or not spec.get("nodeName"):
        return 0
    found = spec.get("terminationGracePeriodSeconds") if options.grace_seconds is None else options.grace_seconds
    if not isinstance(found, int):
        return DEFAULT_GRACE
    return found if found >= 0 else 1
