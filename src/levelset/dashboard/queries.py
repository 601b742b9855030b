"""Reads what the page asks for: as little as possible, in bounded pages, from the server and from the controllers."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from levelset.client import Client, OnlyMetadata
from levelset.client.object_types import view_of
from levelset.client.rest_mapper import ApiResource, Mapper
from levelset.dashboard import views
from levelset.dashboard.owner_graph import Member, children_of, owners_of
from levelset.errors import ApiError, LevelsetError, NotFound
from levelset.objects.cached_object import Head, Kept
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.cache.informer import Stats
from levelset.runtime.controller.running_controller import RunningController
from levelset.runtime.manager import Manager
from levelset.runtime.manager.admin import looks_of

__all__ = ["Reader", "Sight"]

_EVENT: Final = GroupVersionKind("", "v1", "Event")
_NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")
_AT_ONCE: Final = 8
_MOST_KINDS: Final = 500
_MOST_EVENTS: Final = 100
_PAGES_OF_EVENTS: Final = 8
_MOST_LOOKS: Final = 50


@dataclass(frozen=True, slots=True)
class Sight:
    """What is looked at, as it is at the moment of the question; NotReady where it is not there yet."""

    client: Callable[[], Client]
    controllers: Callable[[], Mapping[str, RunningController[Any]]]
    watches: Callable[[], Sequence[Stats]]
    declared: Callable[[], Iterable[GroupVersionKind]]

    @classmethod
    def of(cls, manager: Manager) -> Self:
        """All that a manager has."""
        return cls(
            client=lambda: manager.client,
            controllers=lambda: manager.controllers,
            watches=lambda: [*manager.cluster.stats()],
            declared=lambda: [one.gvk for one in manager.cluster.declared],
        )

    @classmethod
    def of_client(cls, client: Client) -> Self:
        """Only what a server has: nobody runs here."""
        return cls(client=lambda: client, controllers=dict, watches=list, declared=list)


class Reader:
    """Answers the questions of the page with JSON trees; raises the errors of the way to the server."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight

    async def kinds(self) -> dict[str, Any]:
        """The kinds that are served, with the numbers of their objects."""
        served = await self._served(force=True)
        limit = asyncio.Semaphore(_AT_ONCE)
        counted = await asyncio.gather(*(self._count(one.gvk, limit) for one in served))
        counts = dict(zip([one.gvk for one in served], counted, strict=True))
        return {"kinds": views.kinds_view(served, counts, self._looked_at())}

    async def objects(
        self, gvk: GroupVersionKind, *, namespace: str | None, continue_: str | None, limit: int
    ) -> dict[str, Any]:
        """A page of the objects of a kind, each in a line."""
        client = self._sight.client()
        served = await client.resource(gvk)
        page = await client.list_kept(
            gvk, namespace=namespace, limit=min(limit, views.MOST_OBJECTS), continue_=continue_, managed_fields=False
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
        """One object with everything around it; NotFound if it is not there."""
        client = self._sight.client()
        served = await client.resource(gvk)
        place = (namespace or client.namespace) if served.namespaced else None
        fields = {"metadata.name": name}
        page = await client.list_kept(gvk, namespace=place, fields=fields, limit=1, managed_fields=False)
        if not page.items:
            raise NotFound(f"there is no {gvk.kind} {f'{place}/' if place else ''}{name}, or it is gone")
        (kept, *_) = page.items
        tree: Any = kept.tree()
        return {
            "kind": views.kind_text(gvk),
            **views.row_of(tree),
            "source": views.object_text(views.without_secrets(tree)),
            "events": await self._events_of(gvk, kept),
            "looks": self._looks(gvk, kept),
            **await self._family(gvk, kept),
        }

    async def events(self) -> dict[str, Any]:
        """What happened last, whatever it happened to."""
        client = self._sight.client()
        trees: list[Any] = []
        token: str | None = None
        for _ in range(_PAGES_OF_EVENTS):
            page = await client.list_kept(_EVENT, limit=views.MOST_OBJECTS, continue_=token, managed_fields=False)
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
                for one in self._sight.controllers().values()
            ],
            "watches": [asdict(one) for one in self._sight.watches()],
        }

    def pulse(self) -> Any:
        """What is different when there is something new about the controllers; cheap enough to ask all the time."""
        found = [one.stats() for one in self._sight.controllers().values()]
        return [(one.name, one.is_ready, one.ready, one.running, one.looks, one.failing) for one in found]

    async def _served(self, *, force: bool = False) -> list[ApiResource]:
        """One version of each kind that can be listed; Events are served twice, and meant once."""
        mapper = self._sight.client().mapper
        found = await mapper.resources(force=force) if isinstance(mapper, Mapper) else ()
        best: dict[tuple[str, str], ApiResource] = {}
        for one in found:
            if {"list", "watch"} <= set(one.verbs) and one.gvk.group != "events.k8s.io":
                best.setdefault((one.gvk.group, one.gvk.kind), one)
        return list(best.values())[:_MOST_KINDS]

    async def _count(self, gvk: GroupVersionKind, limit: asyncio.Semaphore) -> int | None:
        """How many objects there are; None if the server does not tell us."""
        async with limit:
            try:
                page = await self._sight.client().list_kept(OnlyMetadata(gvk), limit=1)
            except ApiError:
                return None  # forbidden, or gone by now: the others are counted all the same
        return None if page.continue_ and page.remaining is None else len(page.items) + (page.remaining or 0)

    async def _namespaces(self) -> list[str]:
        try:
            page = await self._sight.client().list_kept(OnlyMetadata(_NAMESPACE), limit=views.MOST_OBJECTS)
        except ApiError:
            return []  # who may not see them can still look into all at once
        return [one.name for one in page.items]

    async def _events_of(self, gvk: GroupVersionKind, head: Head) -> list[dict[str, Any]]:
        fields = {"involvedObject.kind": gvk.kind, "involvedObject.name": head.name}
        if head.namespace is not None:
            fields["involvedObject.namespace"] = head.namespace
        page = await self._sight.client().list_kept(
            _EVENT, namespace=head.namespace, fields=fields, limit=views.MOST_OBJECTS, managed_fields=False
        )
        return views.newest_events([one.tree() for one in page.items], _MOST_EVENTS)

    def _row(self, kept: Kept, results: Mapping[tuple[str, str | None], str]) -> dict[str, Any]:
        return {**views.row_of(kept.tree()), "lastLook": results.get((kept.name, kept.namespace))}

    def _results(self, gvk: GroupVersionKind) -> dict[tuple[str, str | None], str]:
        """What came of the last look at each object, as far as that is remembered."""
        looks = [look for one in self._controllers_of(gvk).values() for look in one.history]
        return {(look.ref.name, look.ref.namespace): look.result for look in looks}

    def _controllers_of(self, gvk: GroupVersionKind) -> dict[str, RunningController[Any]]:
        """Those that look at a kind, in whatever version."""
        all_ = self._sight.controllers()
        return {name: one for name, one in all_.items() if _gvk_of(one)[::2] == gvk[::2]}

    def _looks(self, gvk: GroupVersionKind, head: Head) -> list[dict[str, Any]]:
        """The last looks at an object, newest first."""
        mine = self._controllers_of(gvk)
        return list(looks_of(mine, gvk.kind, head.name, head.namespace))[: -_MOST_LOOKS - 1 : -1] if mine else []

    async def _family(self, gvk: GroupVersionKind, head: Head) -> dict[str, Any]:
        members = [(gvk, head), *await self._members(head.namespace)]
        return {"owners": owners_of(head, members), "children": children_of(head, members)}

    async def _members(self, namespace: str | None) -> list[Member]:
        """What may be related to an object here.

        A server in this process is asked for all its kinds, which takes a few milliseconds; of any other only the kinds
        that the controllers watch.
        """
        client = self._sight.client()
        if client.inside is None:
            kinds = list(dict.fromkeys(self._sight.declared()))
        else:
            kinds = [one.gvk for one in await self._served() if one.namespaced or namespace is None]
        members: list[Member] = []
        for gvk in kinds:
            if gvk.kind == "Event":
                continue
            try:
                page = await client.list_kept(OnlyMetadata(gvk), namespace=namespace, limit=views.MOST_OBJECTS)
            except LevelsetError:
                continue  # a kind that cannot be listed has no part in the tree; the rest of the page is worth showing
            members += [(gvk, one) for one in page.items]
        return members

    def _looked_at(self) -> set[GroupVersionKind]:
        return {_gvk_of(one) for one in self._sight.controllers().values()}


def _gvk_of(controller: RunningController[Any]) -> GroupVersionKind:
    return view_of(controller.controller.kind).gvk
