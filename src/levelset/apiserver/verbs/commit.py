"""The last step of every write: commits it to the storage, with its claims, and then notifies the listeners.

A client may disconnect while its write is being committed. The write is not undone, so the listeners inside the server
must still be notified: a cancelled handler ends only after the commit and the notification.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from levelset.apiserver.registry import conversion_webhook, strategy
from levelset.apiserver.registry.metadata import is_deleting
from levelset.apiserver.registry.storage_codec import (
    check_depth,
    encode_for_storage,
    served_tree,
    set_resource_version,
)
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.wire.status_errors import cannot_write, too_large
from levelset.apiserver.wire.step_limits import LARGE_OBJECT
from levelset.storage import CancelledWrite, Change, Conditions, Item

__all__ = ["WriteResult", "can_be_removed", "preview", "write"]

MAX_OBJECT_BYTES: Final = 4 * 1024 * 1024
"""The size limit of a stored object: more than the largest body, since the server adds fields."""


class WriteResult(msgspec.Struct, frozen=True, gc=False):
    """The result of a write: the object in the served version, with its resourceVersion.

    `item` is the stored object; None if nothing was stored (a dry run) or the write removed it.
    """

    tree: Tree
    item: Item | None
    created: bool = False


async def write(
    state: ServerState,
    served: ServedResource,
    key: str,
    tree: Tree,
    *,
    item: Item | None = None,
    old: Tree | None = None,
    guards: Mapping[str, int] | None = None,
    again: bool = False,
    keep: bool = False,
) -> WriteResult:
    """Stores the tree as a new object, or in place of an item, which is `old` in the served version.

    An object that can be removed is removed instead, unless it is to `keep`, and bytes that stay the same are written
    only `again`. Sets the resourceVersion of the tree. Raises Mismatch if the key is not at the version of the item
    (None: if it exists), or one of the `guards` is at another revision, or a unique value of the object belongs to
    another one.
    """
    if item is not None and not keep and can_be_removed(served, tree):
        await _remove(state, served, tree, item, old)
        return WriteResult(tree, None)
    metadata: Tree = tree["metadata"]
    problem = state.reader.write_problem
    if problem is not None and not is_deleting(tree):
        raise cannot_write(served, metadata["name"], problem)
    value = await _encoded(served, tree) if served.converts_by_webhook else encode_for_storage(served, tree)
    if len(value) > LARGE_OBJECT:
        await _check_large(state, tree, value, item)
    else:
        check_depth(tree, value)
    if item is not None and value == item.value and not again:  # the storage version does not have the changed fields
        return WriteResult(set_resource_version(tree, item.revision), item)
    prefix, expected = served.prefix, 0 if item is None else item.revision
    reserver = state.reservers.get(prefix)
    release = None if reserver is None else reserver(tree)
    try:
        conditions = None
        if guards is not None or prefix in state.claimers:
            conditions = _conditions(state, served, old, tree, guards)
        if conditions is None or state.transactional is None:
            stored = await state.storage.put(key, value, expected=expected)
        else:
            change = await state.transactional.transact(key, value, expected=expected, conditions=conditions)
            assert change.after is not None  # a put's change always has one
            stored = change.after
        metadata["resourceVersion"] = str(stored.revision)
        state.notify_committed(served, old, tree, stored.revision)
    except CancelledWrite as cancelled:
        revision = cancelled.change.revision
        state.notify_committed(served, old, set_resource_version(tree, revision), revision)
        raise asyncio.CancelledError from None
    finally:
        if release is not None:
            release()
    if served.converts_by_webhook:
        await conversion_webhook.convert_items(served, [stored])  # for the response, which shows the served version
    return WriteResult(tree, stored, item is None)


async def preview(served: ServedResource, tree: Tree, item: Item | None = None) -> WriteResult:
    """What `write` would return; nothing is stored.

    As what is stored, the object goes through the storage version, which may drop fields and set defaults.
    """
    given = tree["metadata"].get("resourceVersion")
    if not served.stored_as_served:
        draft = Item("", await _encoded(served, tree), 0, 0, 1)
        if served.converts_by_webhook:
            await conversion_webhook.convert_items(served, [draft])
        tree = served_tree(served, draft)
    if item is None:
        # One that the client gave stays, as upstream; the draft has none.
        tree["metadata"].pop("resourceVersion", None)
        if given is not None:
            tree["metadata"]["resourceVersion"] = given
        return WriteResult(tree, None, created=True)
    return WriteResult(set_resource_version(tree, item.revision), None)


async def _remove(state: ServerState, served: ServedResource, tree: Tree, item: Item, old: Tree | None) -> None:
    try:
        change = await _delete(state, served, item, old)
    except CancelledWrite as cancelled:
        set_resource_version(tree, cancelled.change.revision)
        state.notify_committed(served, old, None, cancelled.change.revision)
        raise asyncio.CancelledError from None
    state.notify_committed(served, old, None, change.revision)


async def _delete(state: ServerState, served: ServedResource, item: Item, old: Tree | None) -> Change:
    conditions = _conditions(state, served, old, None, None)
    if conditions is None or state.transactional is None:
        return await state.storage.delete(item.key, expected=item.revision)
    return await state.transactional.transact(item.key, None, expected=item.revision, conditions=conditions)


def _conditions(
    state: ServerState,
    served: ServedResource,
    old: Tree | None,
    new: Tree | None,
    guards: Mapping[str, int] | None,
) -> Conditions | None:
    """What the write depends on and changes beside its object; None if it is nothing."""
    claimer = state.claimers.get(served.prefix)
    if claimer is None:
        return None if not guards else Conditions(guards)
    before, after = {} if old is None else claimer(old), {} if new is None else claimer(new)
    claims = {key: owner for key, owner in after.items() if key not in before}
    releases = [key for key in before if key not in after]
    return Conditions(guards or {}, claims, releases) if guards or claims or releases else None


async def _check_large(state: ServerState, tree: Tree, value: bytes, item: Item | None) -> None:
    # A series of small patches could grow an object without bound; one that is too large may shrink.
    if len(value) > MAX_OBJECT_BYTES and (item is None or len(value) > len(item.value)):
        raise too_large(MAX_OBJECT_BYTES)
    await state.expensive_work.run(partial(check_depth, tree, value))


async def _encoded(served: ServedResource, tree: Tree) -> bytes:
    return await conversion_webhook.run_with_conversions(lambda: encode_for_storage(served, tree))


def can_be_removed(served: ServedResource, tree: Tree) -> bool:
    """Whether the object is terminating, and nothing holds it."""
    return is_deleting(tree) and not strategy.must_stay(served, tree)
