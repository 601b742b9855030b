"""The managers of a cluster that run in other processes: on this machine, and in Pods, with their Leases.

They are read every few seconds by one task, whether a page is open or not, so that the charts have the last hour;
queries are answered from the last reading. Which managers there are:

- Processes of this user on this machine whose record names the same API server.
- Pods with the label that `levelset generate manifests` sets, and Pods that hold a Lease: their names are the first
  part of the holder's identity, as client-go and levelset make it.
- Leases, of which at least the holder and the time of the last renewal are known without any other right.

All of it is bounded, and everything that is read may be missing: a right, a port, a manager that does not respond.
"""

import asyncio
import logging
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import msgspec

from levelset.aio import timing
from levelset.client import Client
from levelset.client.internals import list_page
from levelset.dashboard import problems
from levelset.dashboard.managers.manager_readings import (
    ControllerReading,
    ManagerReading,
    call_manager,
    is_same_server,
    read_pod,
    read_process,
    sample_between,
)
from levelset.dashboard.metrics_history import INTERVAL, MOST_CONTROLLERS, MetricsHistory, Sample
from levelset.dashboard.views import map_in, read_kind, text_of
from levelset.errors import BadRequest, LevelsetError
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.cache.informer import Stats
from levelset.runtime.manager.process_records import ProcessRecord, find_records
from levelset.runtime.manager.sharding import KEYS_ANNOTATION, SHARDS_LABEL, MemberReport

__all__ = ["LeaseReading", "OtherManagers"]

MOST_MANAGERS: Final = 50
"""The managers of either sort that are read."""
MOST_LEASES: Final = 500
CLUSTER_INTERVAL: Final = 15.0
"""The seconds between two readings of Leases and Pods."""
LOST_AFTER: Final = 2.0
"""A Lease that was renewed before is lost after so many times its duration without a renewal."""
RECENT_ERRORS: Final = 60.0
"""Reconciles of a manager in a Pod that failed in the last so many seconds are a problem."""

_CONCURRENT: Final = 8
_FIRST_READING: Final = 10.0
_LEASE: Final = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
_POD: Final = GroupVersionKind("", "v1", "Pod")
_LABEL: Final = "app.kubernetes.io/managed-by=levelset"
_NOT_MANAGERS: Final = frozenset({"kube-node-lease"})
"""Nodes renew a Lease each in this namespace."""
_SERVER_LABEL: Final = "apiserver.kubernetes.io/identity"

_PROGRAM: Final = re.compile(r" \([^)]*\)")

_log: Final = logging.getLogger(__name__)
T = TypeVar("T")


class LeaseReading(msgspec.Struct, frozen=True, kw_only=True):
    """A Lease of an election or of a member of shards; times are as its holder wrote them."""

    name: str
    namespace: str
    holder: str
    acquired: str
    renewed: str
    duration: float
    shards: str = ""
    """The name of the shards of which its holder is a member; empty for an election."""
    keys: int | None = None
    """How many objects the member has published to own."""
    silent: float = 0.0
    """For how many seconds it has not been renewed, as seen here: clocks of two machines are not compared."""
    was_renewed: bool = False
    """Whether it was renewed while it was watched here."""

    @property
    def is_lost(self) -> bool:
        """Whether its holder has stopped renewing it while it was watched here."""
        return bool(self.holder) and self.was_renewed and self.silent > LOST_AFTER * max(1.0, self.duration)

    def view(self) -> dict[str, Any]:
        """The Lease as the page shows it."""
        state = "released" if not self.holder else "not renewed" if self.silent > LOST_AFTER * self.duration else "held"
        tone = "bad" if self.is_lost else "good" if state == "held" else "none"
        shown = {name: getattr(self, name) for name in ("name", "namespace", "holder", "acquired", "renewed", "keys")}
        return {**shown, "kind": "coordination.k8s.io/v1/Lease", "shards": self.shards, "state": state, "tone": tone}


class OtherManagers:
    """Reads the managers from `start` to `close`; `server` is the URL of the API server of the dashboard's client."""

    def __init__(self, client: Client, server: str, metrics: MetricsHistory) -> None:
        self._client = client
        self._server = server
        self._metrics = metrics
        self._task: asyncio.Task[None] | None = None
        self._first = asyncio.Event()
        self._records: dict[str, ProcessRecord] = {}
        self._seen_leases: dict[tuple[str, str], tuple[str, float, bool]] = {}
        self._failed: dict[str, tuple[float, int]] = {}
        self._cluster_read_at: float | None = None
        self.processes: Sequence[ManagerReading] = ()
        self.pods: Sequence[ManagerReading] = ()
        self.leases: Sequence[LeaseReading] = ()
        self.version = 0
        """Changes with each reading that differs from the one before."""

    @property
    def managers(self) -> Sequence[ManagerReading]:
        """All managers that were found."""
        return [*self.processes, *self.pods]

    def start(self) -> None:
        """Starts reading."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="dashboard/managers")

    async def close(self) -> None:
        """Stops reading, and returns when its task has ended."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def wait_read(self) -> None:
        """Returns after the first reading, or after some seconds without one."""
        if not self._first.is_set() and self._task is not None:
            try:
                async with asyncio.timeout(_FIRST_READING):
                    await self._first.wait()
            except TimeoutError:
                pass  # the page shows what there is, and more later

    # ---- reading -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self.read()
            except Exception as error:  # noqa: BLE001 -- what others serve must not end the dashboard
                _log.warning("managers of other processes could not be read: %s", error)
            self._first.set()
            await timing.sleep(INTERVAL)

    async def read(self) -> None:
        """Reads all managers once, those in the cluster less often; adds a sample."""
        before = self.processes, self.pods, self.leases
        processes = await self._read_processes()
        now = timing.now()
        if self._cluster_read_at is None or now - self._cluster_read_at >= CLUSTER_INTERVAL:
            self._cluster_read_at = now
            leases = await self._read_leases(now)
            pods = await self._read_pods(leases)
            self._note_errors(pods, now)
            self._add_sample([*processes, *pods])
            self.leases, self.pods = leases, pods
        else:
            self._add_sample([*processes, *self.pods])
        self.processes = processes
        self.version += before != (self.processes, self.pods, self.leases)

    async def _read_processes(self) -> list[ManagerReading]:
        found = await asyncio.to_thread(find_records)
        mine = [one for one in found if is_same_server(one.server, self._server)][:MOST_MANAGERS]
        pids = Counter(one.pid for one in mine)  # a process may have several managers
        readings = await _all([partial(read_process, one, is_only=pids[one.pid] == 1) for one in mine])
        self._records = {reading.name: one for reading, one in zip(readings, mine, strict=True)}
        return readings

    async def _read_leases(self, now: float) -> list[LeaseReading]:
        trees = [one for one in await self._list(_LEASE, MOST_LEASES) if _is_of_manager(one)]
        readings = [self._lease(tree, now) for tree in trees]
        there = {(one.namespace, one.name) for one in readings}
        self._seen_leases = {place: seen for place, seen in self._seen_leases.items() if place in there}
        return readings

    def _lease(self, tree: Any, now: float) -> LeaseReading:
        meta, spec = map_in(tree, "metadata"), map_in(tree, "spec")
        place = text_of(meta.get("namespace")), text_of(meta.get("name"))
        version = text_of(meta.get("resourceVersion"))
        seen = self._seen_leases.get(place)
        if seen is None:
            seen = version, now, False
        elif seen[0] != version:
            seen = version, now, True
        self._seen_leases[place] = seen
        duration = spec.get("leaseDurationSeconds")
        keys = text_of(map_in(meta, "annotations").get(KEYS_ANNOTATION))
        return LeaseReading(
            namespace=place[0],
            name=place[1],
            holder=text_of(spec.get("holderIdentity")),
            acquired=text_of(spec.get("acquireTime")),
            renewed=text_of(spec.get("renewTime")),
            duration=float(duration) if isinstance(duration, int) else 15.0,
            shards=text_of(map_in(meta, "labels").get(SHARDS_LABEL)),
            keys=int(keys) if keys.isascii() and keys.isdecimal() and len(keys) < 16 else None,
            silent=now - seen[1],
            was_renewed=seen[2],
        )

    async def _read_pods(self, leases: Iterable[LeaseReading]) -> list[ManagerReading]:
        """The Pods with the label, and those that hold a Lease in their namespace; at most so many."""
        pods = {_place(one): one for one in await self._list(_POD, MOST_MANAGERS, labels=_LABEL)}
        holders = {(one.namespace, one.holder.partition("_")[0]) for one in leases if "_" in one.holder}
        missing = sorted(holders - pods.keys())[: max(0, MOST_MANAGERS - len(pods))]
        for found in await _all([partial(self._find_pod, *place) for place in missing]):
            if found is not None:
                pods[_place(found)] = found
        running = [one for one in pods.values() if map_in(one, "status").get("phase") == "Running"]
        return await _all([partial(read_pod, self._client, one) for one in running[:MOST_MANAGERS]])

    async def _find_pod(self, namespace: str, name: str) -> Any:
        """The Pod with a name; None if the holder of a Lease is no Pod, or may not be read."""
        try:
            fields = {"metadata.name": name}
            page = await list_page(
                self._client, _POD, namespace=namespace, fields=fields, limit=1, managed_fields=False
            )
        except LevelsetError:
            return None
        return page.items[0].tree() if page.items else None

    async def _list(self, gvk: GroupVersionKind, limit: int, labels: str | None = None) -> list[Any]:
        """The objects of a kind in all namespaces, or in the client's own if only that may be read."""
        for namespace in (self._client.only_namespace, self._client.namespace):
            try:
                page = await list_page(
                    self._client, gvk, namespace=namespace, labels=labels, limit=limit, managed_fields=False
                )
                return [one.tree() for one in page.items]
            except LevelsetError as error:
                _log.debug("no %s for the dashboard: %s", gvk.kind, error)
        return []

    def _note_errors(self, pods: Sequence[ManagerReading], now: float) -> None:
        """Notes which controllers in Pods have failed since the reading before, and how often."""
        before = dict(_controllers(self.pods))
        for key, one in _controllers(pods):
            old = before.get(key)
            if old is not None and (one.errors or 0) > (old.errors or 0):
                self._failed[key] = now, (one.errors or 0) - (old.errors or 0)
        self._failed = {key: seen for key, seen in self._failed.items() if now - seen[0] <= RECENT_ERRORS}

    def _add_sample(self, managers: Sequence[ManagerReading]) -> None:
        before = dict(_controllers(self.managers))
        found = dict(list(_controllers(managers))[:MOST_CONTROLLERS])
        last = self._metrics.last
        samples = {key: sample_between(one, before.get(key) if last else None) for key, one in found.items()}
        self._metrics.add(
            Sample(
                time.time(),
                samples,
                sum(one.requests for one in managers),
                sum(one.failed_requests for one in managers),
            )
        )

    # ---- what the page shows ---------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The managers with their controllers, watches, members and Leases."""
        return {
            "managers": [
                {
                    "name": one.name,
                    "pod": one.pod,
                    "role": one.role,
                    "problem": one.problem,
                    "note": one.note,
                    "controllers": len(one.controllers),
                    "waiting": sum(each.waiting for each in one.controllers),
                    "reconciles": sum(each.reconciles for each in one.controllers),
                }
                for one in self.managers
            ],
            "controllers": sorted(
                ({**each.view, "manager": _short(one.name)} for one in self.managers for each in one.controllers),
                key=lambda one: not one["failing"],  # there may be many, and those that fail come first
            ),
            "watches": [{**each, "manager": _short(one.name)} for one in self.managers for each in one.watches],
            "members": next(([*one.members] for one in self.processes if one.members), list[Mapping[str, Any]]()),
            "leases": [one.view() for one in self.leases],
        }

    def controlled_kinds(self) -> set[str]:
        """The kinds that controllers of other processes reconcile, as far as they are known: `apps/v1/Deployment`."""
        return {each.view["kind"] for one in self.managers for each in one.controllers if each.view["kind"]}

    def watched_kinds(self) -> set[GroupVersionKind]:
        """The kinds that managers elsewhere watch, as far as they are known: watches are named `apps/v1 Deployment`."""
        found = set[GroupVersionKind]()
        for name in {str(each["name"]) for one in self.managers for each in one.watches}:
            with suppress(BadRequest):  # another version may name them otherwise
                found.add(read_kind("/".join(name.split(" ")[:2])))
        return found

    def results(self, kind: str) -> dict[tuple[str, str | None], str]:
        """The result of the last reconcile of each object of a kind."""
        mine = [one for manager in self.processes for one in reversed(manager.reconciles) if _kind(one) == kind]
        return {(one["name"], one["namespace"]): one["result"] for one in mine}

    def reconciles(self) -> list[dict[str, Any]]:
        """The last reconciles of all managers, newest first."""
        found = [_waterfall(manager, one) for manager in self.processes for one in manager.reconciles]
        return sorted(found, key=lambda one: one["at"], reverse=True)

    async def timeline(self, gvk: GroupVersionKind, name: str, namespace: str | None) -> list[dict[str, Any]]:
        """The last reconciles of an object by managers on this machine, oldest first."""
        query = urlencode({"kind": gvk.kind, "name": name} | ({"namespace": namespace} if namespace else {}))
        chosen = [one for one in self.processes if any(_is_of(each, gvk) for each in one.controllers)]
        found = await _all([partial(self._why, one, query) for one in chosen])
        entries = [entry for some in found for entry in some]
        return sorted(entries, key=lambda one: str(one["at"]))

    async def _why(self, manager: ManagerReading, query: str) -> list[dict[str, Any]]:
        record = self._records.get(manager.name)
        if record is None:
            return []
        try:
            code, body = await call_manager(record, "GET", f"/why?{query}")
            found: list[Any] = body["reconciles"] if code == 200 else []
            return [{**one, "writes": [], "manager": _short(manager.name)} for one in found]
        except (LevelsetError, KeyError, TypeError):
            return []  # it has stopped, or is of another version

    async def trigger(self, gvk: GroupVersionKind, name: str, namespace: str | None) -> list[str]:
        """Has the managers of this machine that reconcile a kind reconcile an object now; returns their controllers."""
        query = urlencode({"kind": gvk.kind, "name": name} | ({"namespace": namespace} if namespace else {}))
        triggered: list[str] = []
        for one in self.processes:
            record = self._records.get(one.name)
            if record is not None and any(_is_of(each, gvk) for each in one.controllers):
                code, body = await call_manager(record, "POST", f"/trigger?{query}")
                if code == 200:
                    triggered += [f"{each} of {one.name}" for each in body["triggered"]]
        return triggered

    def problems(self, wall: datetime) -> list[dict[str, Any]]:
        """What is broken in other managers."""
        found = [problems.manager_problem(one.name, one.problem, one.pod) for one in self.managers if one.problem]
        for one in self.managers:
            found += [problem for each in one.controllers for problem in _problems_of(one, each)]
            found += problems.lagging_watches(_stats(one), where=one.name)
            found += problems.reported_hot_loops(one.name, one.hot_loops, wall)
            if one.members:
                members = msgspec.convert(one.members, list[MemberReport])
                found += problems.shards_without_owner(members, one.shards)
        for key, (_, times) in self._failed.items():
            controller, _, manager = key.partition(" in ")
            pod = next((one.pod for one in self.pods if one.name == manager), None)
            found.append(problems.counted_failures(controller, manager, times, pod))
        found += [problems.lost_lease(one.view(), one.silent) for one in self.leases if one.is_lost]
        return found


def _short(name: str) -> str:
    """The name of a manager without its program, for tables in which it is in each row."""
    return _PROGRAM.sub("", name)


def _problems_of(manager: ManagerReading, one: ControllerReading) -> list[dict[str, Any]]:
    name = f"{one.name} in {_short(manager.name)}"
    failing = problems.reported_failures(name, one.failing, one.view["failing"])
    return [*failing, *problems.slow_reconciles(name, [one.view["longest"]])]


def _stats(manager: ManagerReading) -> list[Stats]:
    defaults = {"resource_version": None, "bookmarks": 0, "readers": 0, "waiting": 0}
    return [msgspec.convert({**defaults, **one}, Stats) for one in manager.watches]


def _waterfall(manager: ManagerReading, one: Mapping[str, Any]) -> dict[str, Any]:
    about = {"kind": _kind(one), "name": one["name"], "namespace": one["namespace"]}
    spans = [
        {"name": "in the queue", "from": 0.0, "seconds": one["waited"]},
        {"name": "reconcile", "from": one["waited"], "seconds": one["seconds"]},
    ]
    return {
        "controller": one["controller"],
        "manager": _short(manager.name),
        "object": about,
        "result": one["result"],
        "at": one["at"],
        "reasons": one["reasons"],
        "error": one["error"],
        "waited": one["waited"],
        "seconds": one["seconds"],
        "next": one.get("next", ""),
        "is_poll": one.get("is_poll", False),
        "times": 1,
        "spans": spans,
        "moreRequests": 0,
    }


def _controllers(managers: Iterable[ManagerReading]) -> Iterable[tuple[str, ControllerReading]]:
    return ((f"{each.name} in {_short(one.name)}", each) for one in managers for each in one.controllers)


def _kind(one: Mapping[str, Any]) -> str:
    return f"{one['api_version']}/{one['kind']}"


def _is_of(one: ControllerReading, gvk: GroupVersionKind) -> bool:
    """Whether a controller reconciles a kind, in any version of its group."""
    api_version, _, kind = str(one.view["kind"]).rpartition("/")
    group = api_version.rpartition("/")[0]
    return kind == gvk.kind and group == gvk.group


def _is_of_manager(lease: Any) -> bool:
    meta = map_in(lease, "metadata")
    return meta.get("namespace") not in _NOT_MANAGERS and _SERVER_LABEL not in map_in(meta, "labels")


def _place(tree: Any) -> tuple[str, str]:
    meta = map_in(tree, "metadata")
    return text_of(meta.get("namespace")), text_of(meta.get("name"))


async def _all(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """The results of all calls, a few of which run at the same time."""
    limit = asyncio.Semaphore(_CONCURRENT)

    async def run(call: Callable[[], Awaitable[T]]) -> T:
        async with limit:
            return await call()

    return list(await asyncio.gather(*(run(call) for call in calls)))
