"""The last step of every write: commits it to the storage, and then notifies the listeners.

A client may disconnect while its write is being committed. The write is not undone, so the listeners inside the server
must still be notified: a cancelled handler ends only after the commit and the notification.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from levelset.apiserver.registry.storage_codec import set_resource_version
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.storage import Change, Item

__all__ = ["put", "remove"]

T = TypeVar("T")


async def put(
    state: ServerState, served: ServedResource, key: str, value: bytes, *, old: Tree | None, tree: Tree
) -> Item:
    """Stores the bytes of `tree` in place of `old` (None: create) and sets its resourceVersion.

    Raises Mismatch if the object is no longer at the version of `old`.
    """
    expected = 0 if old is None else int(old["metadata"]["resourceVersion"])
    if state.writer is not None:
        item = state.writer.put_nowait(key, value, expected=expected)
        state.notify_listeners(served, old, set_resource_version(tree, item.revision))
        return item
    release = state.reserve(served, tree)
    try:
        if state.pending_writer is None:
            return await _shielded(_put(state, served, key, value, expected=expected, old=old, tree=tree))
        pending = state.pending_writer.put_pending(key, value, expected=expected)
        try:
            item = _item_of(await pending)
        except asyncio.CancelledError:
            if _was_committed(pending):
                state.notify_listeners(served, old, set_resource_version(tree, pending.result().revision))
            raise
        state.notify_listeners(served, old, set_resource_version(tree, item.revision))
        return item
    finally:
        release()


async def remove(state: ServerState, served: ServedResource, item: Item, *, old: Tree) -> None:
    """Removes the object; raises Mismatch if it is no longer the one in `item`."""
    if state.writer is not None:
        state.writer.delete_nowait(item.key, expected=item.revision)
    elif state.pending_writer is not None:
        pending = state.pending_writer.delete_pending(item.key, expected=item.revision)
        try:
            await pending
        except asyncio.CancelledError:
            if _was_committed(pending):
                state.notify_listeners(served, old, None)
            raise
    else:
        await _shielded(_remove(state, served, item, old=old))
        return
    state.notify_listeners(served, old, None)


def _item_of(change: Change) -> Item:
    assert change.after is not None  # always set for a put
    return change.after


def _was_committed(pending: asyncio.Future[Change]) -> bool:
    """Whether the write of a disconnected client succeeded; retrieves its exception, as nothing else awaits it."""
    return pending.exception() is None


async def _put(
    state: ServerState, served: ServedResource, key: str, value: bytes, *, expected: int, old: Tree | None, tree: Tree
) -> Item:
    item = await state.storage.put(key, value, expected=expected)
    state.notify_listeners(served, old, set_resource_version(tree, item.revision))
    return item


async def _remove(state: ServerState, served: ServedResource, item: Item, *, old: Tree) -> None:
    await state.storage.delete(item.key, expected=item.revision)
    state.notify_listeners(served, old, None)


async def _shielded(write: Coroutine[Any, Any, T]) -> T:
    """Awaits the write; re-raises a cancellation only after the write and its notification are done."""
    task = asyncio.ensure_future(write)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):  # further cancellations do not matter
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # retrieved, or asyncio would log it as never retrieved
        raise
