"""Reading objects and lists: at once from a storage that can, otherwise with waiting; the same answer either way."""

import asyncio
from collections.abc import Awaitable, Generator
from typing import Final, cast

from levelset.apiserver import ahead
from levelset.apiserver.conversion import NeedsConversion
from levelset.apiserver.listing import Ask, Listing, ListQuery, parse_revision, read_steps
from levelset.apiserver.served import Served
from levelset.apiserver.statuses import not_found
from levelset.apiserver.world import World
from levelset.errors import Expired
from levelset.storage import FutureRevision, Item, NowaitReader, Page

__all__ = ["get_item", "read_list", "wait_revision"]

Steps = Generator[Ask, Page, Listing]

_PATIENCE: Final = 3.0
"""Seconds to wait for a revision that a client knows and this server does not know yet."""


def get_item(
    world: World, served: Served, namespace: str | None, name: str, *, resource_version: str | None = None
) -> Item | Awaitable[Item]:
    """The stored object: at once if the storage can, and nobody has to convert it; NotFound if there is none.

    A resource version is one that the answer may not be older than: it is waited for, a while.
    """
    key = served.key(namespace, name)
    not_older = parse_revision(resource_version) if resource_version else 0
    reader = world.reader
    if reader is None or not_older > world.storage.revision or served.awaits:
        return _get_later(world, served, key, name, not_older)
    item = reader.get_nowait(key)
    if item is None:
        raise not_found(served, name)
    return item


def read_list(world: World, served: Served, namespace: str | None, query: ListQuery) -> Listing | Awaitable[Listing]:
    """The objects that a list request asks for: at once if the storage can."""
    reader = world.reader
    if served.awaits:
        return _list_converted(world, served, namespace, query)
    if reader is None or query.not_older > world.storage.revision:
        return _list_later(world, served, namespace, query)
    return _list_nowait(reader, read_steps(served, namespace, query))


async def wait_revision(world: World, revision: int) -> None:
    """Waits until the storage has come to a revision; raises FutureRevision (504) if it does not within 3 s."""
    storage = world.storage
    if storage.revision >= revision:
        return
    try:
        async with asyncio.timeout(_PATIENCE), storage.watch("", after=storage.revision) as changes:
            async for _ in changes:
                if storage.revision >= revision:
                    return
    except TimeoutError:
        pass
    raise FutureRevision(revision, storage.revision)


async def _get_later(world: World, served: Served, key: str, name: str, not_older: int) -> Item:
    await wait_revision(world, not_older)
    item = await world.storage.get(key)
    if item is None:
        raise not_found(served, name)
    if served.awaits:
        await ahead.convert(served, [item])
    return item


async def _list_converted(world: World, served: Served, namespace: str | None, query: ListQuery) -> Listing:
    """As `_list_later`, with all objects converted, so that whoever shows them need not wait."""
    try:
        listing = await _list_later(world, served, namespace, query)
    except NeedsConversion:
        # A selector looks into the objects before it is known which of them are meant.
        await ahead.convert(served, (await world.storage.list(served.prefix_in(namespace))).items)
        listing = await _list_later(world, served, namespace, query)
    await ahead.convert(served, listing.items)
    return listing


async def _list_later(world: World, served: Served, namespace: str | None, query: ListQuery) -> Listing:
    await wait_revision(world, query.not_older)
    steps = read_steps(served, namespace, query)
    step = _tell(steps, None)
    while isinstance(step, Ask):
        try:
            page = await world.storage.list(step.prefix, limit=step.limit, after=step.after, revision=step.revision)
        except Expired as error:
            step = _tell(steps, error)
        else:
            step = _tell(steps, page)
    return step


def _list_nowait(reader: NowaitReader, steps: Steps) -> Listing:
    step = _tell(steps, None)
    while isinstance(step, Ask):
        try:
            page = reader.list_nowait(step.prefix, limit=step.limit, after=step.after, revision=step.revision)
        except Expired as error:
            step = _tell(steps, error)
        else:
            step = _tell(steps, page)
    return step


def _tell(steps: Steps, found: Page | Expired | None) -> Ask | Listing:
    """Goes on with what was found: the next thing to read, or the result."""
    try:
        if isinstance(found, Expired):
            return steps.throw(found)
        return next(steps) if found is None else steps.send(found)
    except StopIteration as end:
        return cast("Listing", end.value)
