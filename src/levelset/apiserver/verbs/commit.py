"""The last step of every write: commits it to the storage, and then notifies the listeners.

A client may disconnect while its write is being committed. The write is not undone, so the listeners inside the server
must still be notified: a cancelled handler ends only after the commit and the notification.
"""

import asyncio

from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.storage import CancelledWrite, Item

__all__ = ["put", "remove"]


async def put(
    state: ServerState, served: ServedResource, key: str, value: bytes, *, old: Tree | None, tree: Tree
) -> Item:
    """Stores the bytes of `tree` in place of `old` (None: create) and sets its resourceVersion.

    Raises Mismatch if the object is no longer at the version of `old`.
    """
    expected = 0 if old is None else int(old["metadata"]["resourceVersion"])
    reserver = state.reservers.get(served.prefix)
    release = None if reserver is None else reserver(tree)
    try:
        item = await state.storage.put(key, value, expected=expected)
        tree["metadata"]["resourceVersion"] = str(item.revision)
        state.notify_listeners(served, old, tree)
    except CancelledWrite as cancelled:
        tree["metadata"]["resourceVersion"] = str(cancelled.change.revision)
        state.notify_listeners(served, old, tree)
        raise asyncio.CancelledError from None
    finally:
        if release is not None:
            release()
    return item


async def remove(state: ServerState, served: ServedResource, item: Item, *, old: Tree) -> None:
    """Removes the object; raises Mismatch if it is no longer the one in `item`."""
    try:
        await state.storage.delete(item.key, expected=item.revision)
    except CancelledWrite:
        state.notify_listeners(served, old, None)
        raise asyncio.CancelledError from None
    state.notify_listeners(served, old, None)
