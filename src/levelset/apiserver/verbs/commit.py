"""The last step of every write: into the store and then, whatever becomes of the client, to the listeners.

A client may leave while its write is on the way to a disk. The write happens all the same, so those who follow the
objects inside the server must hear of it: the handler of a client that left ends only after they have.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from levelset.apiserver.registry.storage_codec import with_version
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree, World
from levelset.storage import Change, Item

__all__ = ["put", "remove"]

T = TypeVar("T")


async def put(world: World, served: ServedResource, key: str, value: bytes, *, old: Tree | None, tree: Tree) -> Item:
    """Stores the bytes of `tree` in the place of `old` (None: it is new) and tells the tree its version.

    Raises Mismatch if the object is no longer at the version of `old`.
    """
    expected = 0 if old is None else int(old["metadata"]["resourceVersion"])
    if world.writer is not None:
        item = world.writer.put_nowait(key, value, expected=expected)
        world.stored(served, old, with_version(tree, item.revision))
        return item
    release = world.claim(served, tree)
    try:
        if world.lander is None:
            return await _uncut(_put(world, served, key, value, expected=expected, old=old, tree=tree))
        landing = world.lander.put_landing(key, value, expected=expected)
        try:
            item = _after(await landing)
        except asyncio.CancelledError:
            if _has_happened(landing):
                world.stored(served, old, with_version(tree, landing.result().revision))
            raise
        world.stored(served, old, with_version(tree, item.revision))
        return item
    finally:
        release()


async def remove(world: World, served: ServedResource, item: Item, *, old: Tree) -> None:
    """Removes the object; raises Mismatch if it is no longer the one in `item`."""
    if world.writer is not None:
        world.writer.delete_nowait(item.key, expected=item.revision)
    elif world.lander is not None:
        landing = world.lander.delete_landing(item.key, expected=item.revision)
        try:
            await landing
        except asyncio.CancelledError:
            if _has_happened(landing):
                world.stored(served, old, None)
            raise
    else:
        await _uncut(_remove(world, served, item, old=old))
        return
    world.stored(served, old, None)


def _after(change: Change) -> Item:
    assert change.after is not None  # a put's change always has one
    return change.after


def _has_happened(landing: asyncio.Future[Change]) -> bool:
    """Whether the write of a client that left went well; if not, nobody is left to be told."""
    return landing.exception() is None


async def _put(
    world: World, served: ServedResource, key: str, value: bytes, *, expected: int, old: Tree | None, tree: Tree
) -> Item:
    item = await world.storage.put(key, value, expected=expected)
    world.stored(served, old, with_version(tree, item.revision))
    return item


async def _remove(world: World, served: ServedResource, item: Item, *, old: Tree) -> None:
    await world.storage.delete(item.key, expected=item.revision)
    world.stored(served, old, None)


async def _uncut(write: Coroutine[Any, Any, T]) -> T:
    """Waits for the write; a cancellation is obeyed when the write is over and told."""
    task = asyncio.ensure_future(write)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):  # it was heard the first time
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # nobody is left to be told, which asyncio would complain about
        raise
