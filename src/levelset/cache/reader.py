"""Reads from the cache, from the server, or from the cache once it is as new as the server.

Four ways to read:

- `cached`, the default: from memory, but never older than what this client has itself written. A get waits for the own
  writes to its key, a list for those to its kind (in its namespace), for as long as a deadline allows; then the server
  is asked.
- `stale`: from memory as it is, without waiting.
- `live`: from the server.
- `consistent`: from memory, once it shows what the server holds at the time of the call.

What a write that was cancelled or has timed out has done, nobody knows: it is not waited for.

A kind that cannot be kept current, because it is gone or may not be read any more, is not read from memory but with
`stale`: others wait for it, and in the end `cached` raises NotReady with the cause, and `consistent` asks the server.
"""

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Literal, Protocol

from levelset.aio import timing
from levelset.cache.index import Index
from levelset.cache.keys import key_for, key_of
from levelset.cache.memo import Memo
from levelset.cache.ownwrites import Unseen
from levelset.cache.projecting import as_metadata
from levelset.cache.queries import Query, match, select, sort
from levelset.cache.reporting import report_error
from levelset.cache.scopes import Scope
from levelset.cache.snapshot import Snapshot
from levelset.cache.sources import Source
from levelset.client.client import Client
from levelset.client.kinds import OnlyMetadata, View, view_of
from levelset.errors import ApiError, NotReady, Unreachable
from levelset.objects.kept import Head, Kept

__all__ = ["Finds", "FindsOne", "Read", "Reader"]

Read = Literal["cached", "consistent", "live", "stale"]
"""From where a read comes: see the module."""

_PATIENCE = 1.0
"""How long a consistent list waits, unless it is told: a kind that is quiet while others change moves on slowly."""


_SLICE = 1000


class Finds(Protocol):
    """Finds the informer that answers a read."""

    def __call__(self, kind: Any, asked: Scope, *, by_name: bool) -> Source | None:
        """The informer; None if the server shall be asked; NotCached if neither."""
        ...


FindsOne = Callable[[Any, View[Any], str | None], Source | None]
"""The same for a single object: by its kind, how that is read, and its namespace."""


class Reader:
    """Reads for one client from those informers that `find` and `find_one` find."""

    def __init__(self, client: Client, find: Finds, find_one: FindsOne, *, within: float) -> None:
        self._client = client
        self._find = find
        self._find_one = find_one
        self._within = within

    async def read_one(
        self, kind: Any, view: View[Any], name: str, namespace: str | None, *, read: Read, within: float | None
    ) -> Any | None:
        """The object, or None if there is none; `view` is that of the kind."""
        source = None if read == "live" else self._find_one(kind, view, namespace)
        if source is None:
            return await self._client.find(kind, name, namespace=namespace)
        key = key_for(name, namespace)
        # Nothing to wait for, as most of the time.
        if not (read == "cached" and source.is_settled_for(key)):
            until = timing.deadline(self._within if within is None else within)
            is_ready = read == "cached" and source.is_ready
            if not (is_ready or await _is_filled(source, read, until)):
                return await self._client.find(kind, name, namespace=namespace)
            if not await self._is_fresh_enough(source, kind, key, read, until):
                return await self._client.find(kind, name, namespace=namespace)
        kept = source.kept(key)
        if kept is None:
            # The selector may leave out what the server has.
            is_left_out = source.scope.is_selective and read != "stale"
            return await self._client.find(kind, name, namespace=namespace) if is_left_out else None
        return _read_one(source, view, key, kept)

    async def read_many(self, kind: Any, query: Query, *, read: Read, within: float | None) -> Snapshot[Any]:
        """The objects that are meant, by namespace and name."""
        view: View[Any] = view_of(kind)
        source = None if read == "live" else self._find(kind, query.scope, by_name=False)
        if source is None:
            return await self._list_live(kind, query)
        match(query, source.scope)  # what cannot be told is said before anybody waits
        patience = _PATIENCE if read == "consistent" else self._within
        until = timing.deadline(patience if within is None else within)
        if not await _is_filled(source, read, until):
            return await self._list_live(kind, query)
        if query.lookups:
            await source.informer.build_indexes()
        if not await self._are_fresh_enough(source, kind, query, read, until):
            return await self._list_live(kind, query)
        return await _read_many(source, view, await select(source.store(view), query, source.scope))

    async def _is_fresh_enough(self, source: Source, kind: Any, key: str, read: Read, until: float | None) -> bool:
        if read == "cached":
            unseen = partial(source.writes.unseen, key, source.find)
            vague = [entry for entry in unseen() if entry.is_vague]
            if vague:
                await self._settle(source, kind, vague)
            return await source.wait_seen(unseen, until)
        return read == "stale" or await self._is_current(source, kind, key, until)

    async def _are_fresh_enough(self, source: Source, kind: Any, query: Query, read: Read, until: float | None) -> bool:
        if read == "cached":
            unseen = partial(source.writes.unseen_in, query.scope.namespace, source.find)
            return await self._wait_seen(source, kind, unseen, until)
        if read == "stale":
            return True
        version = await self._learn(source, kind)
        return await source.wait_until(lambda: source.has_come_to(version), until)

    async def _wait_seen(
        self, source: Source, kind: Any, unseen: Callable[[], list[Unseen]], until: float | None
    ) -> bool:
        vague = [entry for entry in unseen() if entry.is_vague]
        if vague:
            await self._settle(source, kind, vague)
        return await source.wait_seen(unseen, until)

    async def _settle(self, source: Source, kind: Any, vague: list[Unseen]) -> None:
        """Learns for writes without a version at which one they are in the cache for certain."""
        try:
            version = await self._learn(source, kind)
        except (ApiError, Unreachable):
            return  # a live read that follows says what is wrong, and the next read tries again
        source.writes.settle(vague, version)

    async def _learn(self, source: Source, kind: Any) -> str:
        """The version that the server's data have now; what was written before is not newer."""
        small = kind if isinstance(kind, OnlyMetadata) else OnlyMetadata(kind)
        return (await self._client.list(small, namespace=source.scope.namespace, limit=1)).resource_version

    async def _is_current(self, source: Source, kind: Any, key: str, until: float | None) -> bool:
        """Whether the cache shows, before the deadline, the version of the object that the server has now."""
        if source.scope.is_selective:
            return False
        namespace, _, name = key.rpartition("/")
        small = kind if isinstance(kind, OnlyMetadata) else OnlyMetadata(kind)
        found = await self._client.find(small, name, namespace=namespace or None)
        if found is not None:
            return await source.wait_until(partial(source.shows, key, found.metadata.resource_version), until)
        # What the cache still shows of it is about to go.
        gone = source.find(key)
        return gone is None or await source.wait_until(lambda: _uid(source.find(key)) != gone.uid, until)

    async def _list_live(self, kind: Any, query: Query) -> Snapshot[Any]:
        scope = query.scope
        limit = None if query.lookups else query.limit
        items = await self._client.list(
            kind, namespace=scope.namespace, labels=scope.labels, fields=scope.fields, limit=limit
        )
        found = [kept for kept in items.kept if all(_has(index, value, kept) for index, value in query.lookups)]
        memo: Memo[Any] = Memo(items.view, max(1, len(found)))
        return Snapshot(await sort(found, limit=query.limit), items.view, lambda kept: memo.read(key_of(kept), kept))


def _has(index: Index[Any], value: Hashable, kept: Kept) -> bool:
    """Whether an index has this value for an object; one whose function fails has none, as in a store."""
    try:
        return value in index.values(kept)
    except Exception as error:  # noqa: BLE001  # the user's function
        report_error(f"{index!r}", error)
        return False


async def _is_filled(source: Source, read: Read, until: float | None) -> bool:
    """Whether the informer can be read; for who wants the truth, False instead of NotReady."""
    if read == "stale" and source.is_filled:
        return True
    try:
        await source.wait_ready(timing.remaining(until))
    except NotReady:
        if read == "consistent":
            return False
        raise
    return True


def _uid(head: Head | None) -> str | None:
    return None if head is None else head.uid


def _read_one(source: Source, view: View[Any], key: str, kept: Kept) -> Any:
    """The object as this reader sees it; those of one class share what was decoded."""
    if view.is_metadata and not source.scope.is_metadata:
        return view.read(as_metadata(kept).raw)
    return source.memo(view).read(key, kept)


async def _read_many(source: Source, view: View[Any], found: list[Kept]) -> Snapshot[Any]:
    """The objects as this reader sees them; others may run while there are many."""
    if view.is_metadata and not source.scope.is_metadata:
        small: list[Kept] = []
        for number, kept in enumerate(found, 1):
            small.append(as_metadata(kept))
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        own: Memo[Any] = Memo(view, max(1, len(found)))
        return Snapshot(small, view, lambda kept: own.read(key_of(kept), kept))
    shared = source.memo(view)
    # A walk over more objects than are remembered would only drive out those that are read often.
    is_few = len(found) <= shared.limit
    return Snapshot(found, view, lambda kept: shared.read(key_of(kept), kept, remember=is_few))
