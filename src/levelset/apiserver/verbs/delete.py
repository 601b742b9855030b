"""Deletes objects: immediately, or by setting `deletionTimestamp` until their finalizers are removed."""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any, Final, cast

import msgspec

from levelset.apiserver.registry import conversion_webhook
from levelset.apiserver.registry.metadata import format_timestamp, is_deleting
from levelset.apiserver.registry.selectors import Selectors
from levelset.apiserver.registry.storage_codec import served_bytes, served_tree
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.verbs import commit, write_admission
from levelset.apiserver.verbs.commit import can_be_removed
from levelset.apiserver.verbs.get_and_list import ListQuery, get_item, read_large, read_list
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.request_options import DeleteOptions
from levelset.apiserver.wire.step_limits import LARGE_OBJECT
from levelset.errors import NotFound
from levelset.objects import decode_tree
from levelset.objects.json_tree import is_map
from levelset.storage import Item, Mismatch

__all__ = ["DeleteResult", "delete", "delete_collection", "response_body"]

_TOGETHER: Final = 50
"""Objects of a collection that are deleted without a pause."""

FINALIZERS: Final = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
DEFAULT_GRACE_SECONDS: Final = 30
MAX_GRACE_SECONDS: Final = 10**9
"""About thirty years: a later `deletionTimestamp` might not be representable."""
# Upstream returns the object instead of a Status when it deletes these.
_RETURNED_ON_DELETE: Final = frozenset(
    {
        *("persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas", "serviceaccounts"),
        *("services", "namespaces", "storageclasses.storage.k8s.io", "csidrivers.storage.k8s.io"),
        *("csinodes.storage.k8s.io", "volumeattachments.storage.k8s.io", "volumeattributesclasses.storage.k8s.io"),
        *("deviceclasses.resource.k8s.io", "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io"),
        "resourceclaimtemplates.resource.k8s.io",
    }
)


class DeleteResult(msgspec.Struct, frozen=True):
    """The removed object (`gone`), or the object that is marked for deletion."""

    tree: Tree
    gone: bool


def response_body(served: ServedResource, deleted: DeleteResult) -> Tree:
    """Returns the body of a delete response: the marked object, or a Status that names the removed one."""
    if not deleted.gone or served.qualified in _RETURNED_ON_DELETE:
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
    state: ServerState, served: ServedResource, namespace: str | None, name: str, options: DeleteOptions | None = None
) -> DeleteResult:
    """Deletes an object, or marks it for deletion if it has finalizers; marking it again changes nothing.

    Raises NotFound, Conflict if the object does not meet the preconditions, and Forbidden if its kind keeps it.
    """
    if name in served.rules.undeletable:
        raise status_errors.forbidden(served, name, served.rules.undeletable[name])
    return await _delete(state, served, namespace, name, options)


async def _delete(
    state: ServerState, served: ServedResource, namespace: str | None, name: str, options: DeleteOptions | None
) -> DeleteResult:
    options = DeleteOptions() if options is None else options
    if served.key(namespace, name) in state.reader.damaged:
        return await _delete_damaged(state, served, namespace, name, options)
    while True:
        item = get_item(state, served, namespace, name)
        if served.converts_by_webhook:
            await conversion_webhook.convert_items(served, [item])
        if options.admission is not None:
            await write_admission.admit_delete(state, served, served_tree(served, item), options)
        try:
            return await _delete_item(state, served, name, item, options)
        except Mismatch:
            continue


async def delete_collection(
    state: ServerState,
    served: ServedResource,
    namespace: str | None,
    selection: Selectors | None,
    options: DeleteOptions | None = None,
    *,
    limit: int | None = None,
) -> list[bytes]:
    """Deletes the selected objects one by one; returns the JSON of the removed and the marked objects.

    Objects that are deleted concurrently are skipped. At most `limit` objects are deleted.
    """
    chosen = (await read_list(state, served, namespace, ListQuery(selection))).items
    # Not their trees: those of 100,000 objects are millions of values, which each garbage collection would walk.
    deleted: list[bytes] = []
    for number, item in enumerate(chosen if not limit else chosen[:limit], start=1):
        if number % _TOGETHER == 0:
            await asyncio.sleep(0)  # a storage in memory never waits, and others want to be served
        is_large = len(item.value) > LARGE_OBJECT
        metadata = (await read_large(state, served, item))["metadata"] if is_large else _metadata(item)
        try:
            await _delete(state, served, metadata.get("namespace"), metadata["name"], options)
        except NotFound:
            continue
        deleted.append(served_bytes(served, item))  # as upstream, each as it was before
    return deleted


async def _delete_item(
    state: ServerState, served: ServedResource, name: str, item: Item, options: DeleteOptions
) -> DeleteResult:
    if served.converts_by_webhook:
        await conversion_webhook.convert_items(served, [item])
    is_large = len(item.value) > LARGE_OBJECT
    old = await read_large(state, served, item) if is_large else served_tree(served, item)
    _check_preconditions(served, name, old, options)
    tree = await read_large(state, served, item) if is_large else served_tree(served, item)
    if _is_already_marked(served, tree, options):
        return DeleteResult(old, gone=False)
    _mark(state, served, tree, options)
    gone = can_be_removed(served, tree)
    if gone and served.rules.graceful and not options.dry_run:
        await _remove_marked(state, served, old, tree, item)
    elif not options.dry_run:
        tree = (await commit.write(state, served, item.key, tree, item=item, old=old)).tree
    # A removed Pod is returned as it was marked, and so is a namespace, which upstream's controller removes later;
    # upstream marks no other kind before it removes it.
    is_namespace = served.qualified == "namespaces"
    return DeleteResult(
        old if gone and not (served.rules.graceful or is_namespace) else tree, gone=gone and not is_namespace
    )


async def _remove_marked(state: ServerState, served: ServedResource, old: Tree, tree: Tree, item: Item) -> None:
    """Stores the marked object, and then removes it: as upstream, so that its watchers see both."""
    marked = await commit.write(state, served, item.key, tree, item=item, old=old, keep=True)
    with contextlib.suppress(Mismatch):  # the other write has removed it
        await commit.write(state, served, item.key, {**tree}, item=marked.item, old=tree)


async def _delete_damaged(
    state: ServerState, served: ServedResource, namespace: str | None, name: str, options: DeleteOptions
) -> DeleteResult:
    """Removes an object that cannot be read; nothing but its name is known of it."""
    metadata: Tree = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    tree: Tree = {"apiVersion": served.api_version, "kind": served.kind, "metadata": metadata}
    if options.uid or options.resource_version:
        raise status_errors.damaged_object(served, name)
    if options.admission is not None:
        await write_admission.admit_delete(state, served, tree, options)
    if not options.dry_run:
        await state.storage.delete(served.key(namespace, name), expected=None)
    return DeleteResult(tree, gone=True)


def _metadata(item: Item) -> Tree:
    """Returns the stored metadata: name and namespace are the same in all versions."""
    return cast("Tree", cast("Tree", decode_tree(item.value))["metadata"])


def _check_preconditions(served: ServedResource, name: str, tree: Tree, options: DeleteOptions) -> None:
    metadata = tree["metadata"]
    for field, wanted, found, guess in (
        ("UID", options.uid, metadata.get("uid"), "deleted and then recreated"),
        ("ResourceVersion", options.resource_version, metadata.get("resourceVersion"), "modified"),
    ):
        if wanted and wanted != found and served.qualified == "namespaces":  # upstream deletes them by code of its own
            problem = f"Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
            raise status_errors.conflict(served, name, problem)
        if wanted and wanted != found:
            problem = f"the {field} in the precondition ({wanted}) does not match the {field} in record ({found})"
            raise status_errors.other_object(served, name, f"{problem}. The object might have been {guess}")


def _is_already_marked(served: ServedResource, tree: Tree, options: DeleteOptions) -> bool:
    """Whether the object is already terminating, and the request changes neither grace period nor propagation.

    The propagation of the deletion of a Pod, or of a namespace that may have contents, is decided by the first request.
    """
    if not is_deleting(tree) or can_be_removed(served, tree):
        return False
    if served.rules.held is not None and served.rules.held(tree):
        return True
    left = tree["metadata"].get("deletionGracePeriodSeconds") or 0
    shorter = left > 0 and options.grace_seconds is not None and options.grace_seconds < left
    return not shorter and (served.rules.graceful or options.propagation is None)


def _mark(state: ServerState, served: ServedResource, tree: Tree, options: DeleteOptions) -> None:
    """Marks the object for deletion, with the finalizers of the propagation policy."""
    metadata = tree["metadata"]
    propagation = options.propagation if served.rules.has_dependents else "Background"
    if propagation is None and served.rules.orphans and not _has_policy(metadata):
        propagation = "Orphan"
    _set_finalizers(metadata, propagation)
    is_first = "deletionTimestamp" not in metadata
    grace = _grace(served, tree, options)
    if is_first or grace < (metadata.get("deletionGracePeriodSeconds") or 0):
        metadata["deletionTimestamp"] = format_timestamp(state.now() + timedelta(seconds=min(grace, MAX_GRACE_SECONDS)))
        if served.qualified != "namespaces":  # whose deletion has a phase of its own
            metadata["deletionGracePeriodSeconds"] = grace
    if is_first:
        if metadata.get("generation"):
            metadata["generation"] += 1
        if served.rules.prepare_delete is not None:
            served.rules.prepare_delete(tree)


def _has_policy(metadata: dict[str, Any]) -> bool:
    return not set(FINALIZERS.values()).isdisjoint(metadata.get("finalizers", ()))


def _set_finalizers(metadata: dict[str, Any], propagation: str | None) -> None:
    """Sets the finalizer of an explicit propagation policy and removes the other; no policy changes nothing."""
    if propagation is None:
        return
    wanted = FINALIZERS.get(propagation)
    finalizers = [one for one in metadata.get("finalizers", ()) if one == wanted or one not in FINALIZERS.values()]
    if wanted is not None and wanted not in finalizers:
        finalizers.append(wanted)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _grace(served: ServedResource, tree: Tree, options: DeleteOptions) -> int:
    """Returns the grace period in seconds; 0 unless the kind is graceful and the object runs on a node."""
    spec: Tree = tree.get("spec") or {}
    if not served.rules.graceful or not spec.get("nodeName") or _has_ended(tree):
        return 0
    found = spec.get("terminationGracePeriodSeconds") if options.grace_seconds is None else options.grace_seconds
    if not isinstance(found, int):
        return DEFAULT_GRACE_SECONDS
    return found if found >= 0 else 1


def _has_ended(tree: Tree) -> bool:
    status = tree.get("status")
    return is_map(status) and status.get("phase") in ("Succeeded", "Failed")
