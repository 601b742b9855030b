"""The queries of the page: reads from the API server, in bounded pages, and from the running controllers."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self

import msgspec
from msgspec.structs import asdict

from levelset.client import Client, OnlyMetadata
from levelset.client.internals import list_page
from levelset.client.object_types import view_of
from levelset.client.rest_mapper import ApiResource, RestMapper
from levelset.dashboard import views
from levelset.dashboard.owner_graph import Member, children_of, owners_of
from levelset.errors import ApiError, LevelsetError, NotFound
from levelset.objects.cached_object import CachedObject, Head
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.cache.informer import Stats
from levelset.runtime.controller.running_controller import RunningController
from levelset.runtime.manager import Manager, MemberReport
from levelset.runtime.manager.admin import reconciles_of

__all__ = ["DashboardSource", "Queries"]

_EVENT: Final = GroupVersionKind("", "v1", "Event")
_NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")
_CONCURRENT_LISTS: Final = 8
_MOST_KINDS: Final = 500
_MOST_EVENTS: Final = 100
_PAGES_OF_EVENTS: Final = 8
_MAX_RECONCILES: Final = 50


class DashboardSource(msgspec.Struct, frozen=True):
    """Where the dashboard reads from; each function returns the current state, or raises NotReady."""

    client: Callable[[], Client]
    controllers: Callable[[], Mapping[str, RunningController[Any]]]
    watches: Callable[[], Sequence[Stats]]
    declared: Callable[[], Iterable[GroupVersionKind]]
    members: Callable[[], Sequence[MemberReport]] = tuple
    """The members that share the objects; empty without shards."""
    moves: Callable[[], Mapping[str, tuple[int, int, int]]] = dict
    """For each controller how many objects this member owns, has gained and lost."""

    @classmethod
    def of(cls, manager: Manager) -> Self:
        """The client, controllers and watches of a manager."""
        return cls(
            client=lambda: manager.client,
            controllers=lambda: manager.controllers,
            watches=lambda: [*manager.cluster.stats()],
            declared=lambda: [one.gvk for one in manager.cluster.declared],
            members=lambda: () if manager.shard_member is None else manager.shard_member.members(),
            moves=manager.shard_counts,
        )

    @classmethod
    def of_client(cls, client: Client) -> Self:
        """Only the objects of a server, without controllers."""
        return cls(client=lambda: client, controllers=dict, watches=list, declared=list)


class Queries:
    """Runs the queries of the page; returns JSON trees and raises the errors of the client."""

    def __init__(self, source: DashboardSource) -> None:
        self._source = source

    async def kinds(self) -> dict[str, Any]:
        """The served kinds with the number of their objects."""
        served = await self._served(force=True)
        limit = asyncio.Semaphore(_CONCURRENT_LISTS)
        counted = await asyncio.gather(*(self._count(one.gvk, limit) for one in served))
        counts = dict(zip([one.gvk for one in served], counted, strict=True))
        return {"kinds": views.kinds_view(served, counts, self._controlled_kinds())}

    async def objects(
        self, gvk: GroupVersionKind, *, namespace: str | None, continue_: str | None, limit: int
    ) -> dict[str, Any]:
        """A page of the objects of a kind, one row each."""
        client = self._source.client()
        served = await client.resource(gvk)
        page = await list_page(
            client,
            gvk,
            namespace=namespace,
            limit=min(limit, views.MOST_OBJECTS),
            continue_=continue_,
            managed_fields=False,
        )
        results = self._results(gvk)
        return {
            "kind": views.kind_text(gvk),
            "namespaced": served.namespaced,
            "namespaces": await self._namespaces() if served.namespaced else [],
            "rows": [self._row(one, results) for one in page.items],
            "continue": page.continue_,
            "remaining": page.remaining,
        }

    async def object(self, gvk: GroupVersionKind, name: str, namespace: str | None) -> dict[str, Any]:
        """One object with its Events, reconciles, owners and children; NotFound if it does not exist."""
        client = self._source.client()
        served = await client.resource(gvk)
        scope = (namespace or client.namespace) if served.namespaced else None
        fields = {"metadata.name": name}
        page = await list_page(client, gvk, namespace=scope, fields=fields, limit=1, managed_fields=False)
        if not page.items:
            raise NotFound(f"there is no {gvk.kind} {f'{scope}/' if scope else ''}{name}")
        (cached, *_) = page.items
        tree: Any = cached.tree()
        return {
            "kind": views.kind_text(gvk),
            **views.row_of(tree),
            "source": views.object_text(views.without_secrets(tree)),
            "events": await self._events_of(gvk, cached),
            "reconciles": self._reconciles(gvk, cached),
            **await self._family(gvk, cached),
        }

    async def events(self) -> dict[str, Any]:
        """The newest Events of all objects."""
        client = self._source.client()
        trees: list[Any] = []
        token: str | None = None
        for _ in range(_PAGES_OF_EVENTS):
            page = await list_page(client, _EVENT, limit=views.MOST_OBJECTS, continue_=token, managed_fields=False)
            trees += [one.tree() for one in page.items]
            token = page.continue_
            if token is None:
                break
        return {"events": views.newest_events(trees, _MOST_EVENTS), "isPartial": token is not None}

    def status(self) -> dict[str, Any]:
        """The controllers and the watches of this process."""
        return {
            "controllers": [
                views.controller_view(one.stats(), _gvk_of(one), one.history, one.ages())
                for one in self._source.controllers().values()
            ],
            "watches": [asdict(one) for one in self._source.watches()],
            "members": msgspec.to_builtins(self._source.members()),
            "moves": {name: list(counts) for name, counts in self._source.moves().items()},
        }

    def pulse(self) -> Any:
        """A value that changes when the state of the controllers does; cheap enough to poll."""
        found = [one.stats() for one in self._source.controllers().values()]
        members = [(one.name, one.keys) for one in self._source.members()]
        return [(one.name, one.is_ready, one.ready, one.running, one.reconciles, one.failing) for one in found], members

    async def _served(self, *, force: bool = False) -> list[ApiResource]:
        """One version of each kind that can be listed and watched; Events only in the core group."""
        mapper = self._source.client().mapper
        found = await mapper.resources(force=force) if isinstance(mapper, RestMapper) else ()
        best: dict[tuple[str, str], ApiResource] = {}
        for one in found:
            if {"list", "watch"} <= set(one.verbs) and one.gvk.group != "events.k8s.io":
                best.setdefault((one.gvk.group, one.gvk.kind), one)
        return list(best.values())[:_MOST_KINDS]

    async def _count(self, gvk: GroupVersionKind, limit: asyncio.Semaphore) -> int | None:
        """The number of objects; None if the server does not report it."""
        async with limit:
            try:
                page = await list_page(self._source.client(), OnlyMetadata(gvk), limit=1)
            except ApiError:
                return None  # forbidden, or deleted meanwhile: the other kinds are still counted
        return None if page.continue_ and page.remaining is None else len(page.items) + (page.remaining or 0)

    async def _namespaces(self) -> list[str]:
        try:
            page = await list_page(self._source.client(), OnlyMetadata(_NAMESPACE), limit=views.MOST_OBJECTS)
        except ApiError:
            return []  # without permission to list namespaces, all namespaces are shown together
        return [one.name for one in page.items]

    async def _events_of(self, gvk: GroupVersionKind, head: Head) -> list[dict[str, Any]]:
        fields = {"involvedObject.kind": gvk.kind, "involvedObject.name": head.name}
        if head.namespace is not None:
            fields["involvedObject.namespace"] = head.namespace
        page = await list_page(
            self._source.client(),
            _EVENT,
            namespace=head.namespace,
            fields=fields,
            limit=views.MOST_OBJECTS,
            managed_fields=False,
        )
        return views.newest_events([one.tree() for one in page.items], _MOST_EVENTS)

    def _row(self, cached: CachedObject, results: Mapping[tuple[str, str | None], str]) -> dict[str, Any]:
        return {**views.row_of(cached.tree()), "lastResult": results.get((cached.name, cached.namespace))}

    def _results(self, gvk: GroupVersionKind) -> dict[tuple[str, str | None], str]:
        """The result of the last reconcile of each object in the history."""
        outcomes = [outcome for one in self._controllers_of(gvk).values() for outcome in one.history]
        return {(one.ref.name, one.ref.namespace): one.result for one in outcomes}

    def _controllers_of(self, gvk: GroupVersionKind) -> dict[str, RunningController[Any]]:
        """The controllers of a kind, in any version."""
        all_ = self._source.controllers()
        return {name: one for name, one in all_.items() if _gvk_of(one)[::2] == gvk[::2]}

    def _reconciles(self, gvk: GroupVersionKind, head: Head) -> list[dict[str, Any]]:
        """The last reconciles of an object, newest first."""
        mine = self._controllers_of(gvk)
        return (
            list(reconciles_of(mine, gvk.kind, head.name, head.namespace))[: -_MAX_RECONCILES - 1 : -1] if mine else []
        )

    async def _family(self, gvk: GroupVersionKind, head: Head) -> dict[str, Any]:
        members = [(gvk, head), *await self._members(head.namespace)]
        return {"owners": owners_of(head, members), "children": children_of(head, members)}

    async def _members(self, namespace: str | None) -> list[Member]:
        """The objects that may be owners or children of an object.

        An in-process server is listed completely, which takes a few milliseconds; of a remote server only the kinds
        that the controllers watch.
        """
        client = self._source.client()
        if client.in_process_server is None:
            kinds = list(dict.fromkeys(self._source.declared()))
        else:
            kinds = [one.gvk for one in await self._served() if one.namespaced or namespace is None]
        members: list[Member] = []
        for gvk in kinds:
            if gvk.kind == "Event":
                continue
            try:
                page = await list_page(client, OnlyMetadata(gvk), namespace=namespace, limit=views.MOST_OBJECTS)
            except LevelsetError:
                continue  # leave out kinds that cannot be listed
            members += [(gvk, one) for one in page.items]
        return members

    def _controlled_kinds(self) -> set[GroupVersionKind]:
        return {_gvk_of(one) for one in self._source.controllers().values()}


def _gvk_of(controller: RunningController[Any]) -> GroupVersionKind:
    return view_of(controller.controller.kind).gvk
