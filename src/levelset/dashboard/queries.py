"""The queries of the page: reads from the API server, in bounded pages, and from the running controllers."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec
from msgspec.structs import asdict

from levelset.aio import timing
from levelset.client import Client, OnlyMetadata
from levelset.client.internals import list_page, server_url
from levelset.client.object_types import view_of
from levelset.client.rest_mapper import ApiResource, RestMapper
from levelset.dashboard import problems, views
from levelset.dashboard.activity import Activity
from levelset.dashboard.endpoints import list_endpoints
from levelset.dashboard.log_streams import log_choices
from levelset.dashboard.metrics_history import MOST_SAMPLES
from levelset.dashboard.object_health import Name, Scan, scan
from levelset.dashboard.object_versions import unified_diff
from levelset.dashboard.owner_graph import FamilyReader
from levelset.dashboard.reconcile_timeline import (
    MOST_SHOWN,
    collapse_by_object,
    collapsed,
    last_reconciles,
    timeline_of,
)
from levelset.dashboard.resource_table import TableQuery, TableReader, read_search, search
from levelset.errors import ApiError, BadRequest, LevelsetError, NotFound
from levelset.objects.cached_object import CachedObject, Head
from levelset.objects.kind_definition import definition_of
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.runtime.cache import Cluster
from levelset.runtime.cache.cluster import cluster_sources
from levelset.runtime.cache.informer import Stats
from levelset.runtime.controller.context_dependencies import wall_clock
from levelset.runtime.controller.hot_loops import HotLoop
from levelset.runtime.controller.running_controller import RunningController
from levelset.runtime.manager import Manager, ObjectPanel

if TYPE_CHECKING:
    from levelset.dashboard.managers import OtherManagers
    from levelset.runtime.manager import MemberReport

__all__ = ["DashboardSource", "Queries"]

Counts = dict[GroupVersionKind, int | None]
"""The number of objects of each kind; None if the server does not report it."""

_EVENT: Final = GroupVersionKind("", "v1", "Event")
_NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")
_CONCURRENT_LISTS: Final = 8
_MOST_KINDS: Final = 500
_MOST_EVENTS: Final = 100
_PAGES_OF_EVENTS: Final = 8
_SCAN_SECONDS: Final = 2.0
"""A scan of the objects is shared by all requests within this time."""
_COUNTED_FOR: Final = 15.0
"""The numbers of objects on a remote server are reused for so many seconds: each kind takes a request."""
_MOST_SCANNED: Final = 2_000
"""The objects of a kind without an informer that a scan lists."""
_SCANNED_ELSEWHERE: Final = frozenset(
    {
        *("Pod", "Deployment", "StatefulSet", "DaemonSet", "Job", "HorizontalPodAutoscaler"),
        *("PersistentVolumeClaim", "PersistentVolume", "Node", "Namespace", "APIService"),
    }
)
"""The built-in kinds that a scan lists on a server that is not in this process."""


class DashboardSource(msgspec.Struct, frozen=True):
    """Where the dashboard reads from; each function returns the current state, or raises NotReady."""

    client: Callable[[], Client]
    controllers: Callable[[], Mapping[str, RunningController[Any]]]
    watches: Callable[[], Sequence[Stats]]
    declared: Callable[[], Iterable[GroupVersionKind]]
    members: "Callable[[], Sequence[MemberReport]]" = tuple
    """The members that share the objects; empty without shards."""
    moves: Callable[[], Mapping[str, tuple[int, int, int]]] = dict
    """For each controller how many objects this member owns, has gained and lost."""
    clusters: Callable[[], Sequence[Cluster]] = tuple
    """The clusters with the informers of the controllers."""
    hot_loops: Callable[[], Sequence[tuple[datetime, str, HotLoop]]] = tuple
    """The latest hot loops: when each was found, and in which controller."""
    requests: Callable[[], Mapping[Any, int]] = dict
    """The API requests so far, by status first."""
    panels: Callable[[], Mapping[tuple[str, ...], ObjectPanel]] = dict
    """What systems show on the pages of their kinds, by group and kind."""
    tracers: Callable[[], Iterable[Any]] = tuple
    """The tracers of the program, if it traces."""
    server: str | None = None
    """The URL of the API server, if managers of other processes are looked for."""

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
            clusters=lambda: [manager.cluster],
            hot_loops=lambda: tuple(manager.hot_loops),
            requests=lambda: manager.metrics.requests,
            tracers=lambda: [found for one in manager.observers if (found := getattr(one, "tracer", None)) is not None],
            panels=lambda: {definition_of(kind).gvk[::2]: one for kind, one in manager.panels.items()},
        )

    @classmethod
    def of_client(cls, client: Client, *, server: str | None = None) -> Self:
        """Only the objects of a server, without controllers; with its URL also the managers in other processes."""
        return cls(client=lambda: client, controllers=dict, watches=list, declared=list, server=server)


class Queries:
    """Runs the queries of the page; returns JSON trees and raises the errors of the client."""

    def __init__(
        self, source: DashboardSource, activity: Activity | None = None, others: "OtherManagers | None" = None
    ) -> None:
        self._source = source
        self._activity = activity
        self._others = others
        self._tables: TableReader | None = None
        self._scans: tuple[float, asyncio.Future[Scan]] | None = None
        self._counts: tuple[float, asyncio.Future[tuple[list[ApiResource], Counts]]] | None = None
        self._family = FamilyReader(source.client, self._served, self._watched_kinds)

    async def problems(self) -> dict[str, Any]:
        """What is broken now, the worst first, and how many objects were scanned."""
        now, wall = timing.now(), wall_clock()
        source, controllers = self._source, self._source.controllers().values()
        events = (await self.events())["events"]
        found = await self._scan(now, wall, problems.warned_objects(events))
        growing = {} if self._activity is None else self._activity.metrics.growing()
        if self._others is not None:
            await self._others.wait_read()
        loops = list(source.hot_loops())
        looping = {name for _, name, _ in loops}
        looped = [one for one in controllers if one.name in looping]
        busy = {each for one in looped for each in problems.busy_objects(one.name, one.history, now)}
        all_ = [
            *([] if self._others is None else self._others.problems(wall)),
            *problems.shards_without_owner(source.members(), source.moves()),
            *problems.lagging_watches(source.watches()),
            *(
                each
                for one in controllers
                for each in problems.failing_reconciles(one.name, one.history, one.stats().failing, now, wall)
            ),
            *(each for one in controllers for each in problems.slow_reconciles(one.name, one.ages())),
            *problems.hot_loops(loops, wall, busy),
            *problems.ill_objects(found),
            *problems.growing_queues(growing),
            *problems.warning_events(events, wall, found.good),
        ]
        return {**problems.one_list(all_), "objects": found.objects, "illObjects": found.total_ill}

    async def table(self, query: TableQuery) -> dict[str, Any]:
        """A page of the objects of a kind, with the columns of the server."""
        client = self._source.client()
        served = await client.resource(query.gvk)
        if self._tables is None:
            self._tables = TableReader(client)
        found = await self._tables.read(query)
        results = self._results(query.gvk)
        for row in found["rows"]:
            row["lastResult"] = results.get((row["name"], row["namespace"]))
        return {
            "kind": views.kind_text(query.gvk),
            "namespaced": served.namespaced,
            "namespaces": await self._namespaces() if served.namespaced else [],
            **found,
        }

    async def search(self, text: str) -> dict[str, Any]:
        """The objects of all kinds that match a text; none for an empty one."""
        wanted = read_search(text)
        if not (wanted.labels or wanted.words):
            return {"objects": [], "isPartial": False}
        kinds = [one for one in await self._served() if one.gvk.kind != "Event"]
        return await search(self._source.client(), kinds, wanted)

    async def logs(self) -> dict[str, Any]:
        """The objects whose log can be read."""
        return await log_choices(self._source.client(), await self._served())

    async def endpoints(self) -> dict[str, Any]:
        """The addresses of all Services."""
        return await list_endpoints(self._source.client(), await self._served())

    async def reconciles(self, controller: str = "", *, has_polls: bool = False) -> dict[str, Any]:
        """The last reconciles of all controllers, or of one, newest first, with the spans of each."""
        all_ = self._source.controllers()
        chosen = {name: one for name, one in all_.items() if controller in {"", name}}
        found = last_reconciles(chosen, self._activity, has_polls=has_polls)
        if self._others is not None:
            await self._others.wait_read()
            others = [one for one in self._others.reconciles() if controller in {"", one["controller"]}]
            found += others if has_polls else collapse_by_object(others)
        return {"reconciles": found[:MOST_SHOWN]}

    def metrics(self, last: int = MOST_SAMPLES) -> dict[str, Any]:
        """The series of the last hour, or of the `last` samples; empty without a manager."""
        activity = self._activity
        return {"times": [], "controllers": {}} if activity is None else activity.metrics.series(last)

    async def text(self, gvk: GroupVersionKind, name: str, namespace: str | None) -> dict[str, Any]:
        """An object as text to edit: without managedFields, which the server keeps, and with everything else."""
        if gvk.kind == "Secret":
            raise BadRequest("Secrets are not edited here: their values are not sent to the page")
        tree: Any = (await self._source.client().get(Ref(gvk, name, namespace))).tree
        meta = {key: value for key, value in views.map_in(tree, "metadata").items() if key != "managedFields"}
        found = await asyncio.to_thread(views.object_text, {**tree, "metadata": meta})
        if found["isCut"]:
            raise BadRequest("the object is too large to be edited here; use kubectl edit")
        return found

    async def diff(self, gvk: GroupVersionKind, name: str, namespace: str | None, both: tuple[str, str]) -> Any:
        """How two versions of an object differ; NotFound if one of them was not seen."""
        served = await self._source.client().resource(gvk)
        place = (gvk, namespace if served.namespaced else None, name)
        seen = [None if self._activity is None else self._activity.versions.find(place, one) for one in both]
        missing = [version for version, found in zip(both, seen, strict=True) if found is None]
        before, after = seen
        if before is None or after is None:
            raise NotFound(
                f"resourceVersion {' and '.join(missing)} of {gvk.kind} {name} was not seen, or is forgotten"
            )
        return {"lines": await asyncio.to_thread(unified_diff, before, after)}

    async def kinds(self) -> dict[str, Any]:
        """The served kinds with the number of their objects; those of a remote server are counted less often."""
        now, is_remote = timing.now(), self._source.client().in_process_server is None
        if self._counts is None or not is_remote or now - self._counts[0] > _COUNTED_FOR:
            self._counts = (now, asyncio.ensure_future(self._count_all()))
        try:
            served, counts = await asyncio.shield(self._counts[1])
        except LevelsetError:
            self._counts = None  # a failure is not reused
            raise
        return {"kinds": views.kinds_view(served, counts, self._controlled_kinds())}

    async def _count_all(self) -> tuple[list[ApiResource], Counts]:
        served = await self._served(force=True)
        limit = asyncio.Semaphore(_CONCURRENT_LISTS)
        counted = await asyncio.gather(*(self._count(one.gvk, limit) for one in served))
        return served, dict(zip([one.gvk for one in served], counted, strict=True))

    async def object(
        self, gvk: GroupVersionKind, name: str, namespace: str | None, *, is_whole: bool = False
    ) -> dict[str, Any]:
        """One object with its Events, reconciles, owners, children and versions; NotFound if it does not exist.

        Whole, its text has managedFields and the last applied configuration, too.
        """
        client = self._source.client()
        served = await client.resource(gvk)
        scope = (namespace or client.namespace) if served.namespaced else None
        fields = {"metadata.name": name}
        page = await list_page(client, gvk, namespace=scope, fields=fields, limit=1, managed_fields=is_whole)
        if not page.items:
            raise NotFound(f"there is no {gvk.kind} {f'{scope}/' if scope else ''}{name}")
        (cached, *_) = page.items
        tree: Any = cached.tree()
        return {
            "kind": views.kind_text(gvk),
            **views.row_of(tree),
            "uid": cached.uid,
            "labels": cached.labels,
            "status": views.status_fields(tree),
            "subresources": list(served.subresources),
            "hasLog": "log" in served.subresources,
            "containers": views.container_names(tree),
            "containerStates": views.container_states(tree),
            "source": await asyncio.to_thread(_source, tree, is_whole=is_whole),
            "events": await self._events_of(gvk, cached),
            "reconciles": await self._reconciles(gvk, cached),
            "versions": self._versions(gvk, cached, is_seen=not is_whole),
            "panel": await self._panel(Ref(gvk, name, scope)),
            **await self._family.read(gvk, cached),
        }

    async def _panel(self, ref: Ref[Any]) -> dict[str, Any] | None:
        """What the system of a kind shows on the page of its object; None if it declares nothing."""
        found = self._source.panels().get(ref.gvk[::2])
        if found is None:
            return None
        try:
            panel = await found.describe(self._source.client(), ref)
        except LevelsetError as error:
            return {"sections": [], "chat": "", "error": str(error)}
        sections = [
            {"title": one.title, "rows": [list(row) for row in one.rows], "text": one.text} for one in panel.sections
        ]
        return {"sections": sections, "chat": panel.chat if found.answer is not None else "", "error": ""}

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

    async def status(self) -> dict[str, Any]:
        """The controllers and the watches of this process, or of those of others, and the URL of the API server."""
        server = server_url(self._source.client())
        if self._others is not None:
            await self._others.wait_read()
            return {"server": server, "moves": {}, **self._others.status()}
        return {
            "server": server,
            "managers": [],
            "leases": [],
            "controllers": [
                {
                    **views.controller_view(one.stats(), _gvk_of(one), one.history, one.ages()),
                    "isPaused": one.is_paused,
                }
                for one in self._source.controllers().values()
            ],
            "watches": [
                {**asdict(one), "lags": bool(problems.lagging_watches([one]))} for one in self._source.watches()
            ],
            "members": msgspec.to_builtins(self._source.members()),
            "moves": {name: list(counts) for name, counts in self._source.moves().items()},
        }

    def pulse(self) -> Any:
        """A value that changes when the state of the controllers, watches or members does; cheap enough to poll."""
        source = self._source
        running = source.controllers().values()
        found = [one.stats() for one in running]
        members = [(one.name, one.keys) for one in source.members()]
        paused = [one.is_paused for one in running]
        totals = [(one.name, one.is_ready, one.ready, one.running, one.reconciles, one.failing) for one in found]
        # What begins with time alone, and not with an event; messages have seconds in them that go on.
        overdue = [
            *(one["title"] for one in problems.lagging_watches(source.watches())),
            *(one["title"] for one in problems.shards_without_owner(source.members(), source.moves())),
            *(bool(problems.slow_reconciles(one.name, one.ages())) for one in running),
        ]
        return totals, members, paused, overdue, 0 if self._others is None else self._others.version

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

    def _results(self, gvk: GroupVersionKind) -> dict[tuple[str, str | None], str]:
        """The result of the last reconcile of each object in the history."""
        outcomes = [outcome for one in self._controllers_of(gvk).values() for outcome in one.history]
        known = {} if self._others is None else self._others.results(views.kind_text(gvk))
        return {**known, **{(one.ref.name, one.ref.namespace): one.result for one in outcomes}}

    def _controllers_of(self, gvk: GroupVersionKind) -> dict[str, RunningController[Any]]:
        """The controllers of a kind, in any version."""
        all_ = self._source.controllers()
        return {name: one for name, one in all_.items() if _gvk_of(one)[::2] == gvk[::2]}

    async def _reconciles(self, gvk: GroupVersionKind, head: Head) -> list[dict[str, Any]]:
        """The timeline of an object."""
        if self._others is not None:
            return collapsed(await self._others.timeline(gvk, head.name, head.namespace))
        return timeline_of(self._controllers_of(gvk).values(), head.name, head.namespace, self._activity)

    def _versions(self, gvk: GroupVersionKind, cached: CachedObject, *, is_seen: bool) -> list[dict[str, Any]]:
        """The versions of an object that were seen, newest first."""
        if self._activity is None:
            return []
        if is_seen:
            self._activity.see(gvk, cached)
        seen = self._activity.versions.of((gvk, cached.namespace, cached.name))
        return [{"version": one.resource_version, "at": one.at} for one in reversed(seen)]

    async def _scan(self, now: float, wall: datetime, candidates: frozenset[Name]) -> Scan:
        """The ill objects; one scan for all requests that come within a short time."""
        if self._scans is None or now - self._scans[0] > _SCAN_SECONDS:
            self._scans = (now, asyncio.ensure_future(self._new_scan(wall, candidates)))
        return await asyncio.shield(self._scans[1])

    async def _new_scan(self, wall: datetime, candidates: frozenset[Name]) -> Scan:
        """Scans the caches of the informers, and lists what has none: all kinds of a server in this process."""
        kinds: dict[GroupVersionKind, list[CachedObject]] = {}
        for cluster in self._source.clusters():
            for source in cluster_sources(cluster):
                scope = source.scope
                if not scope.is_metadata and scope.gvk.kind != "Event":
                    kinds.setdefault(scope.gvk, []).extend(source.informer.table.cached.values())
        cached = {(one.group, one.kind) for one in kinds}
        for served in await self._served():
            gvk = served.gvk
            if (gvk.group, gvk.kind) not in cached and self._is_scanned(gvk):
                kinds[gvk] = await self._list_some(gvk)
        return await scan(kinds, wall, candidates=candidates)

    def _is_scanned(self, gvk: GroupVersionKind) -> bool:
        """Whether a kind without an informer is listed: on a remote server only where it is worth the request."""
        if gvk.kind in {"Event", "Secret", "ConfigMap", "Lease"}:
            return False  # they have no status
        if self._source.client().in_process_server is not None:
            return True
        is_custom = "." in gvk.group and not gvk.group.endswith(".k8s.io")
        return not self._source.controllers() and (is_custom or gvk.kind in _SCANNED_ELSEWHERE)

    async def _list_some(self, gvk: GroupVersionKind) -> list[CachedObject]:
        try:
            page = await list_page(self._source.client(), gvk, limit=_MOST_SCANNED, managed_fields=False)
        except LevelsetError:
            return []  # forbidden, or deleted meanwhile: the other kinds are still scanned
        return page.items

    def _watched_kinds(self) -> set[GroupVersionKind]:
        elsewhere = set[GroupVersionKind]() if self._others is None else self._others.watched_kinds()
        return {*self._source.declared(), *elsewhere}

    def _controlled_kinds(self) -> set[GroupVersionKind]:
        elsewhere = set[str]() if self._others is None else self._others.controlled_kinds()
        return {*(_gvk_of(one) for one in self._source.controllers().values()), *map(views.read_kind, elsewhere)}


def _source(tree: Any, *, is_whole: bool) -> dict[str, Any]:
    """The text of an object, made in a thread: a large one takes a tenth of a second."""
    return views.object_text(views.shown_tree(tree, is_whole=is_whole))


def _gvk_of(controller: RunningController[Any]) -> GroupVersionKind:
    return view_of(controller.controller.kind).gvk
