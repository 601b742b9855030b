"""`Manager`: runs many controllers in one process, with ordered start and stop, leader election, health and metrics.

```python
async with Manager(client, leader=LeaderElection(name="shop"), health=8081) as manager:
    manager.add(websites)
    await manager.wait_stopped()
```

`HostedController` and `ManagedCluster` are the runnables (`lifecycle.py`) of its controllers and clusters.
"""

import asyncio
import inspect
import logging
import math
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from levelset.client.client import Client, ServerLocation
from levelset.client.internals import server_url, with_hook
from levelset.errors import ConfigError, NotReady
from levelset.objects.ref import Ref
from levelset.runtime.cache.cluster import Cluster
from levelset.runtime.cache.object_store import DECODED_BYTES
from levelset.runtime.controller.context_dependencies import fence_hook, wall_clock
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.hot_loops import HotLoop
from levelset.runtime.controller.observers import NullObserver, Observer, Observers
from levelset.runtime.controller.reconcile_history import CountReconciles
from levelset.runtime.controller.request import OUTSIDE, Reason
from levelset.runtime.controller.running_controller import RunningController, running
from levelset.runtime.controller.traced_tasks import Tracer
from levelset.runtime.manager.admin import AdminServer, ManagerView
from levelset.runtime.manager.health import Check, CheckResult, Health, watch_check_results
from levelset.runtime.manager.http_endpoints import Address, HttpEndpoints
from levelset.runtime.manager.lifecycle import Lifecycle, Phase, Runnable, Work
from levelset.runtime.manager.metrics import Metrics
from levelset.runtime.manager.object_panel import ObjectPanel
from levelset.runtime.manager.process_records import private_folder
from levelset.runtime.manager.prometheus_text import REGISTRY
from levelset.runtime.recording import Recording, RecordingLimits, recording_of, switched_on_later
from levelset.runtime.watch.watcher import IDLE_TIMEOUT

if TYPE_CHECKING:
    from levelset.runtime.manager.leader_election import LeaderElection, LeaderElector
    from levelset.runtime.manager.sharding.hand_over import HandOver, ShardedController
    from levelset.runtime.manager.sharding.member import MemberReport, Sharding, ShardMember
    from levelset.runtime.manager.webhook_hosting import WebhookHosting
    from levelset.runtime.recording import Recorder
    from levelset.runtime.webhook.webhook_set import NestedWebhooks, Webhooks

__all__ = ["MAIN_CLUSTER", "HostedController", "LifecycleHook", "ManagedCluster", "Manager"]

MAIN_CLUSTER: Final = ""
"""The name of the cluster that a manager was created with."""

LifecycleHook = Callable[[], Awaitable[object] | None]
"""Is called at a moment of a manager's life; may be a coroutine function."""

Moment = Literal["elected", "start", "stop"]

_HOST: Final = "apiserver"
_MAX_HOT_LOOPS: Final = 100

_log: Final = logging.getLogger("levelset.runtime.manager")


def _hand_over(shards: "Sharding") -> "HandOver":
    from levelset.runtime.manager.sharding.hand_over import HandOver  # noqa: PLC0415  # few programs have shards

    return HandOver(shards.drain)


class Manager:
    """Runs controllers and tasks together for the length of an `async with`.

    For programs with an event loop of their own; `run` does the same for a whole program, with signals and arguments.

    It starts servers for health and metrics, clusters and their informers, what runs in every replica, the election,
    and last what only the leader runs. It stops in reverse order: running reconciles may finish within `grace` seconds
    (None: as long as they take), and the Lease is released when everything else has ended. The first failure stops
    everything: the block is interrupted, and a Crashed group is raised with all errors.

    `where` is a Cluster, a Client, an in-process server or a Config; without it, KUBECONFIG, the in-cluster config and
    `~/.kube/config` are tried. All controllers share the informers of a cluster. Informers that were declared before
    the start must sync within `sync_within` seconds; a watch that carries nothing for `idle_timeout` seconds, not even
    a bookmark, is opened again from its last version; `decoded_bytes` is the memory for typed objects that readers
    share (see `Cluster`). With `admin`, `levelset status`, `why` and `trigger` find the
    manager, on this machine and for this user only.

    `leader` elects one of several replicas; `shards` divides the objects among them instead: controllers that are not
    `leader_only=False` reconcile only the objects that this replica owns, and a task of `add_task` runs on one of them.
    `health` and `metrics` are addresses, a host and a port, to serve them at;
    with `health` alone both are there. `observers` are called with each reconcile, such as `Tracing`.

    An in-process server calls `webhooks` directly; for any other server they are served over HTTPS and registered in
    the cluster before anything is read from it (see `levelset.runtime.webhook.Webhooks`). `now` is the wall clock of
    conditions, events and Leases. `record` is the file in which the run is recorded (see docs/recording.md); a running
    manager is recorded with `start_recording`.
    """

    def __init__(
        self,
        where: Cluster | Client | ServerLocation = None,
        *,
        leader: "LeaderElection | None" = None,
        shards: "Sharding | None" = None,
        health: Address | None = None,
        metrics: Address | None = None,
        admin: bool = False,
        grace: float | None = 30.0,
        sync_within: float | None = 120.0,
        idle_timeout: float = IDLE_TIMEOUT,
        decoded_bytes: int = DECODED_BYTES,
        observers: Sequence[Observer] = (),
        webhooks: "Webhooks | NestedWebhooks" = (),
        now: Callable[[], datetime] = wall_clock,
        record: str | Path | Recording | None = None,
    ) -> None:
        self.health = Health()
        self.metrics = Metrics()
        self.metrics.registry.add(REGISTRY)
        self._endpoints = HttpEndpoints(self.health, self.metrics.registry, {"health": health, "metrics": metrics})
        self._admin = AdminServer(self._view()) if admin else None
        self._where = where
        if leader is not None and shards is not None:
            raise ConfigError("Manager(leader=, shards=): give one of them; with shards every replica works")
        self._leader = leader
        self._shards = shards
        self._hand_over = None if shards is None else _hand_over(shards)
        self._member: ShardMember | None = None
        self._hosting: WebhookHosting | None = None
        if webhooks != ():
            self._host(webhooks)
        if shards is not None:  # while it stops, its objects have no owner
            grace = shards.drain if grace is None else min(grace, shards.drain)
        self._grace = grace
        self._sync_within = sync_within
        self._make_cluster = partial(Cluster, idle_timeout=idle_timeout, decoded_bytes=decoded_bytes)
        self._now = now
        self._record = None if record is None else recording_of(record)
        self._recording_lock = asyncio.Lock()
        self.recorder: Recorder | None = None
        """Records this manager, or has done so; None if it was never recorded."""
        self.observers: Sequence[Observer] = tuple(observers)
        """What is called with each reconcile, such as `Tracing`."""
        self._observer: Observer = Observers(observers) if observers else NullObserver()
        self.hot_loops: deque[tuple[datetime, str, HotLoop]] = deque(maxlen=_MAX_HOT_LOOPS)
        """The latest hot loops, oldest first: when each was found, and in which controller."""
        self.panels: Mapping[type[Any], ObjectPanel] = {}
        """What its systems show on the dashboard's pages of their kinds."""
        self._lifecycle = Lifecycle(grace=grace)
        self._clusters: dict[str, ManagedCluster] = {}
        self._hooks: dict[Moment, list[LifecycleHook]] = {"start": [], "elected": [], "stop": []}
        self._elector: LeaderElector | None = None
        self._started, self._elected = asyncio.Event(), asyncio.Event()
        self._is_used = False
        self.health.ready.add("manager", self._check_started)
        self.health.ready.add_source(self._check_watches)

    @property
    def cluster(self) -> Cluster:
        """The main cluster; NotReady before the start."""
        return self._managed_cluster(MAIN_CLUSTER).cluster

    @property
    def client(self) -> Client:
        """The client of the main cluster."""
        return self.cluster.client

    @property
    def leader_client(self) -> Client:
        """The client of the main cluster for leader-only work: its writes fail once this replica may not lead.

        Controllers have such a client in their contexts; this is the one for tasks of `add_task`. NotReady before the
        start.
        """
        fence = self._fence
        return self.client if fence is None else with_hook(self.client, fence_hook(fence))

    @property
    def controllers(self) -> Mapping[str, RunningController[Any]]:
        """The running controllers by name."""
        hosted = [one for one in self._lifecycle.runnables.values() if isinstance(one, HostedController)]
        return {one.name: one.running for one in hosted if one.running is not None}

    @property
    def urls(self) -> Mapping[str, str]:
        """The URLs of `health`, `metrics` and `webhooks`, of those that are served."""
        return {**self._endpoints.urls, **(self._hosting.urls if self._hosting is not None else {})}

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads, or with shards has joined; without either always, once it has started."""
        if self._member is not None:
            return self._member.may_act()
        return self._elected.is_set() if self._elector is None else self._elector.is_leader

    @property
    def shard_member(self) -> "ShardMember | None":
        """This replica as a member of its shards; None without shards, and before the start."""
        return self._member

    def shard_counts(self) -> Mapping[str, tuple[int, int, int]]:
        """For each controller how many objects this replica owns, has gained and lost; empty without shards."""
        return {} if self._hand_over is None else self._hand_over.counts()

    @property
    def is_stopping(self) -> bool:
        """Whether it is stopping or has stopped."""
        return self._lifecycle.stop_wanted.is_set()

    def add(self, controller: Controller[Any], *, cluster: str = MAIN_CLUSTER) -> "HostedController":
        """Adds a controller; it starts at once if its phase has begun, otherwise with its phase.

        ConfigError if the name is taken, if there is no such cluster, and while the manager stops.
        """
        if cluster != MAIN_CLUSTER and cluster not in self._clusters:
            raise ConfigError(f"{controller.name}: no cluster {cluster!r} in this manager; call add_cluster first")
        hosted = HostedController(
            controller,
            lambda: self._managed_cluster(cluster),
            observer=self._observer,
            count=lambda: self.metrics.counter(controller.name),
            now=self._now,
            on_hot_loop=lambda found: self._note_hot_loop(controller.name, found),
            on_crash=lambda _: self.metrics.count_crash(controller.name),
            tracer=lambda: self._tracer_of(controller) if cluster == MAIN_CLUSTER else None,
            ended=self._lifecycle.record_failure,
        )
        phase = Phase.WARM_UP if controller.leader_only else Phase.OTHERS
        self._add(hosted, phase)
        self.metrics.add_controller(
            controller.name,
            concurrency=controller.concurrency,
            depth=hosted.depth,
            enqueued=hosted.enqueued,
            ages=hosted.ages,
            flush=hosted.flush,
        )
        return hosted

    def add_task(self, name: str, work: Work, *, leader_only: bool = True) -> None:
        """Runs a coroutine function beside the controllers, by default only in the leader.

        It may return early; it is cancelled when the manager stops. With shards it runs on one member, is cancelled
        there when another one joins that comes first for its name, and is started on that one.
        """
        if leader_only and self._hand_over is not None:
            work = partial(self._hand_over.run_once, name, work)
        runnable = Runnable(name, work, ended=self._lifecycle.record_failure)
        self._add(runnable, Phase.LEADERS if leader_only else Phase.OTHERS)

    def add_cluster(self, name: str, cluster: Cluster) -> None:
        """Adds another cluster for controllers: `add(controller, cluster=name)`.

        It is opened and closed with the manager, unless it was open before.
        """
        managed = ManagedCluster(name, cluster, ended=self._lifecycle.record_failure)
        self._add(managed, Phase.CACHES)
        self._clusters[name] = managed
        self.metrics.add_cluster(name, cluster.stats)

    def add_webhooks(self, *webhooks: "Webhooks | NestedWebhooks") -> None:
        """Adds webhooks; ConfigError once the manager has started."""
        if self._is_used:
            raise ConfigError("add webhooks before the manager starts: the API server may need them for the first list")
        self._host(*webhooks)

    def _host(self, *webhooks: "Webhooks | NestedWebhooks") -> None:
        # Imported late: they bring an HTTPS server and certificates along, and most programs have none.
        from levelset.runtime.manager.webhook_hosting import WebhookHosting  # noqa: PLC0415

        if self._hosting is None:
            self._hosting = WebhookHosting(webhooks, self.health, self.metrics.registry)
        else:
            self._hosting.webhooks = self._hosting.webhooks.with_more(*webhooks)

    async def remove(self, what: Controller[Any] | str) -> None:
        """Stops and removes a controller or a task; running reconciles may finish within the grace period."""
        name = what if isinstance(what, str) else what.name
        runnable = self._lifecycle.runnables.get(name)
        if runnable is None or isinstance(runnable, ManagedCluster):
            raise ConfigError(f"this manager has no controller or task {name!r}")
        try:
            await runnable.stop(self._lifecycle.grace)
        finally:
            self._lifecycle.remove(name)
            self.metrics.remove_controller(name)

    def add_check(self, name: str, check: Check, *, live: bool = False) -> None:
        """Adds a check to `/readyz`, or with `live` to `/healthz`: a function that raises if it fails."""
        (self.health.live if live else self.health.ready).add(name, check)

    def on_start(self, hook: LifecycleHook) -> None:
        """Calls a function once the caches have synced, before any controller starts."""
        self._hooks["start"].append(hook)

    def on_elected(self, hook: LifecycleHook) -> None:
        """Calls a function once this replica leads, or has joined its shards, before any such controller reconciles."""
        self._hooks["elected"].append(hook)

    def on_stop(self, hook: LifecycleHook) -> None:
        """Calls a function when all controllers and tasks have ended, before the caches are closed."""
        self._hooks["stop"].append(hook)

    async def start_recording(self, record: str | Path | Recording | None = None) -> "Recorder":
        """Records this manager from now on, beginning with what its caches hold; reconciles in flight are left out.

        Limits and redaction are those of the manager's own `record`, unless a Recording is given; without that it ends
        after an hour. Without a path the file is named after the time. ConfigError if it is recorded already, or if the
        file cannot be written. Controllers of other clusters than the main one are not recorded.
        """
        async with self._recording_lock:
            if self._tracer is not None:
                raise ConfigError(f"this manager is recorded already, in {self._tracer.recording.path}")
            if self.recorder is not None:
                await self.recorder.aclose()  # it may have ended just now
            return await self._start_recorder(await self._recording_of(record), self.cluster, is_partial=True)

    async def stop_recording(self, reason: str = "it was switched off") -> None:
        """Ends the recording, if there is one; returns when its file is complete."""
        async with self._recording_lock:
            recorder = self.recorder
            for one in self.controllers.values():
                one.trace(None)
            if recorder is not None:
                await recorder.aclose(reason)

    def switch_recording(self, *, on: bool) -> None:
        """Begins or ends a recording, and returns at once; for signal handlers. What happened is logged."""
        self._lifecycle.start_helper("recording", self._begin_recording if on else self._end_recording)

    async def wait_started(self) -> None:
        """Returns once everything runs that does not wait for the election; NotReady if the manager stops before."""
        await self._wait(self._started)

    async def wait_elected(self) -> None:
        """Returns once this replica leads, or has joined its shards, and that work has started.

        NotReady if the manager stops before.
        """
        await self._wait(self._elected)

    async def wait_idle(self) -> None:
        """Returns once all controllers are idle; there may be delayed requests."""
        await self.wait_started()
        while True:
            hosted = [one for one in self._lifecycle.runnables.values() if isinstance(one, HostedController)]
            for one in hosted:
                await one.wait_idle()
            if all(one.is_idle for one in hosted):
                return

    async def wait_stopped(self) -> None:
        """Returns when the manager has stopped on request; a failure interrupts the block instead."""
        await self._lifecycle.stop_wanted.wait()
        await self.stop()

    async def stop(self) -> None:
        """Stops everything in order and returns when it has ended. A second call waits for the same."""
        self._lifecycle.begin_stop()
        await self._lifecycle.wait_stopped()

    def request_stop(self) -> None:
        """Starts to stop and returns at once; for signal handlers and for tasks of the manager itself."""
        self._lifecycle.begin_stop()

    def stop_now(self) -> None:
        """Stops without grace: cancels everything that still runs."""
        self._lifecycle.stop_now()

    async def __aenter__(self) -> Self:
        if self._is_used:
            raise RuntimeError("a manager can be entered only once; create another one")
        self._is_used = True
        try:
            await self._open()
        except BaseException:
            self._lifecycle.begin_stop()
            await self._lifecycle.wait_stopped()
            raise
        self._lifecycle.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        await self._lifecycle.finish(error)
        return self._lifecycle.suppresses_cancellation

    async def _open(self) -> None:
        lifecycle = self._lifecycle
        lifecycle.begin(Phase.SERVERS)
        await self._endpoints.start()
        lifecycle.final_steps.append(self._endpoints.stop)
        if self._admin is not None:
            await self._admin.start()
            lifecycle.final_steps.append(self._admin.stop)
        lifecycle.begin(Phase.WEBHOOKS)
        cluster = await self._connect()
        if self._hosting is not None:
            lifecycle.final_steps.insert(0, self._hosting.close)
            await self._hosting.open(cluster.client)
        if self._record is not None and self._record.from_start:
            await self._start_recorder(self._record, cluster)
        # Before the client is closed, and after everything that may still be recorded has ended.
        lifecycle.final_steps.insert(0, lambda: self.stop_recording("the manager has stopped"))
        self.add_cluster(MAIN_CLUSTER, cluster)
        for managed in lifecycle.begin(Phase.CACHES):
            managed.start()
        for managed in tuple(self._clusters.values()):
            await managed.wait_open()
        if self._leader is not None:
            from levelset.runtime.manager.leader_election import LeaderElector, lease_time  # noqa: PLC0415  # needed by few

            client = self._leader.client or self.client
            self._elector = LeaderElector(client, self._leader, stamp=lambda: lease_time(self._now()))
            self.metrics.add_election(self._leader.name, lambda: self.is_leader)
            # Released after the endpoints have stopped, before the client that it needs is closed.
            lifecycle.final_steps.insert(lifecycle.final_steps.index(self._endpoints.stop) + 1, self._elector.release)
        if self._shards is not None and self._hand_over is not None:
            await self._open_member(self._shards, self._hand_over)
        lifecycle.steps_before_caches.append(lambda: self._run_hooks("stop"))
        lifecycle.start_helper("start-up", self._start_up)

    async def _open_member(self, shards: "Sharding", hand_over: "HandOver") -> None:
        from levelset.runtime.manager.leader_election import lease_time  # noqa: PLC0415  # as for an election
        from levelset.runtime.manager.sharding.member import ShardMember  # noqa: PLC0415

        cluster = self.cluster
        if shards.client is not None:
            cluster = Cluster(shards.client)
            self.add_cluster("shards", cluster)
            await self._clusters["shards"].wait_open()
        self._member = member = ShardMember(cluster, shards, hand_over, stamp=lambda: lease_time(self._now()))
        hand_over.bind(lambda: member.view, member.may_act)
        self.metrics.add_shards(shards.name, member.members, hand_over.counts, lambda: member.handovers)
        steps = self._lifecycle.final_steps
        steps.insert(steps.index(self._endpoints.stop) + 1, member.release)

    @property
    def _fence(self) -> Callable[[], object] | None:
        if self._member is not None:
            return self._member.fence
        return None if self._elector is None else self._elector.fence

    @property
    def _tracer(self) -> "Recorder | None":
        return self.recorder if self.recorder is not None and self.recorder.end_reason is None else None

    def _tracer_of(self, controller: Controller[Any]) -> Tracer | None:
        tracer = self._tracer
        if tracer is not None:
            tracer.controller(controller)
        return tracer

    async def _start_recorder(self, recording: Recording, cluster: Cluster, *, is_partial: bool = False) -> "Recorder":
        from levelset.runtime.recording import Recorder  # noqa: PLC0415  # few programs are recorded

        recorder = Recorder(recording, cluster, on_end=partial(self._note_recording, recording))
        await recorder.open(is_partial=is_partial)
        self.recorder = recorder
        for one in self.controllers.values():
            if one.cluster is cluster:
                one.trace(self._tracer_of(one.controller))
        _log.info("recording", extra={"file": str(recording.path)})
        return recorder

    def _note_recording(self, recording: Recording, reason: str) -> None:
        _log.info("recording ended: %s", reason, extra={"file": str(recording.path)})
        for one in self.controllers.values():
            one.trace(None)

    async def _connect(self) -> Cluster:
        where = self._where
        if isinstance(where, Cluster):
            return where
        if isinstance(where, Client):
            return self._make_cluster(with_hook(where, self.metrics.counting(_HOST)))
        client = await Client.connect(where, wire_hooks=[self.metrics.counting(_HOST)])
        self._lifecycle.final_steps.append(client.aclose)
        return self._make_cluster(client)

    async def _start_up(self) -> None:
        lifecycle = self._lifecycle
        for managed in tuple(self._clusters.values()):
            await managed.cluster.wait_ready(self._sync_within)
        await self._run_hooks("start")
        for phase in (Phase.OTHERS, Phase.WARM_UP):
            for runnable in lifecycle.begin(phase):
                self._start(runnable)
            await asyncio.sleep(0)  # so that they start before those of the next phase
        if self._admin is not None:
            await self._admin.announce()
        self._started.set()
        if self._member is not None and self._hand_over is not None:
            lifecycle.start_helper("election", self._member.run)
            lifecycle.start_helper("hand-over", self._hand_over.run)
            await self._member.admitted.wait()
            await self._start_leading()
            self._hand_over.admitted()
        elif self._elector is None:
            await self._start_leading()
        else:
            lifecycle.start_helper("election", self._run_election)

    async def _run_election(self) -> None:
        elector = self._elector
        assert elector is not None, "there is an election"
        _log.info("waiting to become the leader", extra={"lease": str(elector.ref), "identity": elector.identity})
        await elector.acquire()
        _log.info("became the leader", extra={"lease": str(elector.ref), "identity": elector.identity})
        self._lifecycle.start_helper("leading", self._start_leading)
        await elector.renew()

    async def _start_leading(self) -> None:
        if self.recorder is not None:
            self.recorder.leader(is_leader=True)
        await self._run_hooks("elected")
        for runnable in self._lifecycle.begin(Phase.LEADERS):
            self._start(runnable)
        for runnable in tuple(self._lifecycle.runnables.values()):
            if isinstance(runnable, HostedController):
                runnable.release()
        self._elected.set()

    def _start(self, runnable: Runnable) -> None:
        if isinstance(runnable, HostedController) and runnable.controller.leader_only:
            runnable.held = self._lifecycle.reached is not Phase.LEADERS
            runnable.fence = self._fence
            if self._hand_over is not None:
                runnable.keys = self._hand_over.add(runnable.name)
        runnable.start()

    def _add(self, runnable: Runnable, phase: Phase) -> None:
        if self._lifecycle.add(runnable, phase):
            self._start(runnable)

    async def _run_hooks(self, moment: Moment) -> None:
        for hook in self._hooks[moment]:
            result = hook()
            if inspect.isawaitable(result):
                await result

    async def _wait(self, event: asyncio.Event) -> None:
        wanted = [asyncio.ensure_future(one.wait()) for one in (event, self._lifecycle.stop_wanted)]
        try:
            await asyncio.wait(wanted, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in wanted:
                one.cancel()
        if not event.is_set():
            raise NotReady("the manager is stopping; this will not happen any more")

    def _managed_cluster(self, name: str) -> "ManagedCluster":
        managed = self._clusters.get(name)
        if managed is None:
            raise NotReady("the manager is not started: use it in `async with`")
        return managed

    def _view(self) -> ManagerView:
        return ManagerView(
            controllers=lambda: self.controllers,
            watches=lambda: [one for managed in self._clusters.values() for one in managed.cluster.stats()],
            is_leader=lambda: self.is_leader,
            members=lambda: None if self._member is None else self._member.members(),
            shard_counts=self.shard_counts,
            other_owner=self._other_owner,
            hot_loops=lambda: tuple(self.hot_loops),
            requests=lambda: self.metrics.requests,
            server=lambda: server_url(self.client),
            record=self._record_on_request,
        )

    def _other_owner(self, controller: str, key: str) -> "MemberReport | None":
        if self._member is None or self._hand_over is None or controller not in self._hand_over.controllers:
            return None
        owner = self._member.view.owner(self._hand_over.controllers[controller].shard_key(key))
        return next((one for one in self._member.members() if one.name == owner and not one.is_me), None)

    async def _record_on_request(self, limits: RecordingLimits | None) -> Mapping[str, Any]:
        if limits is not None:
            recording = await self._recording_of(limits.file)
            await self.start_recording(limits.applied_to(recording))
        elif self._tracer is None:
            raise ConfigError("this manager is not recorded; switch it on: levelset record on FILE")
        else:
            await self.stop_recording()
        recorder = self.recorder
        return {} if recorder is None else {"file": str(recorder.recording.path), "bytes": recorder.written}

    async def _recording_of(self, given: str | Path | Recording | None) -> Recording:
        if isinstance(given, Recording):
            return given
        # A private folder of this user, which need not be the working directory of a container.
        needs_folder = given is None and self._record is None
        folder = await asyncio.to_thread(private_folder) if needs_folder else Path()
        return switched_on_later(self._record, given, folder=folder, name=f"{os.getpid()}", now=self._now())

    async def _begin_recording(self) -> None:
        try:
            await self.start_recording()
        except ConfigError as error:
            _log.warning("not recorded: %s", error)

    async def _end_recording(self) -> None:
        if self._tracer is None:
            _log.warning("there is no recording to end; SIGUSR1 begins one")
        await self.stop_recording()

    def _note_hot_loop(self, name: str, found: HotLoop) -> None:
        self.metrics.count_hot_loop(name)
        self.hot_loops.append((self._now(), name, found))
        _log.warning("%s", found, extra={"controller": name})

    def _check_started(self) -> str:
        if self.is_stopping:
            raise NotReady("stopping")
        if not self._started.is_set():
            raise NotReady("starting")
        if self._member is not None:
            return f"one of {len(self._member.view)} members" if self.is_leader else "waiting to join the shards"
        return "leader" if self.is_leader else "waiting to become the leader"

    def _check_watches(self) -> Iterator[CheckResult]:
        for name, managed in self._clusters.items():
            prefix = f"watch/{name}" if name else "watch"
            yield from watch_check_results(managed.cluster.stats(), prefix=prefix)


class ManagedCluster(Runnable):
    """Keeps a cluster open while the manager runs; one that was open before stays open."""

    def __init__(self, name: str, cluster: Cluster, *, ended: Callable[[Runnable, Exception], None]) -> None:
        super().__init__(f"cluster {name}".strip(), self._keep_open, ended=ended)
        self.cluster = cluster
        self._opened = asyncio.Event()
        self._open_error: Exception | None = None

    async def wait_open(self) -> None:
        """Returns when the cluster is open; NotReady, with the cause, if it could not be opened."""
        await self._opened.wait()
        if self._open_error is not None:
            raise NotReady(f"{self.name} could not be opened: {self._open_error}") from self._open_error

    async def _keep_open(self) -> None:
        try:
            is_ours = await _open(self.cluster)
        except Exception as error:
            self._open_error = error
            self._opened.set()
            raise
        self._opened.set()
        try:
            await asyncio.Event().wait()
        finally:
            if is_ours:
                await self.cluster.aclose()


class HostedController(Runnable):
    """One controller in a manager; `running` is the running controller, once it runs.

    A `held` controller fills its caches and its queue, but reconciles nothing before `release`. With a `fence`, all its
    writes, by a context or by the context's client, fail as soon as the fence raises.
    """

    def __init__(
        self,
        controller: Controller[Any],
        managed: Callable[[], ManagedCluster],
        *,
        observer: Observer,
        count: Callable[[], CountReconciles],
        now: Callable[[], datetime] = wall_clock,
        on_hot_loop: Callable[[HotLoop], object],
        on_crash: Callable[[Exception], object],
        ended: Callable[[Runnable, Exception], None],
        tracer: Callable[[], Tracer | None] = lambda: None,
    ) -> None:
        super().__init__(controller.name, self._host, ended=ended)
        self.controller = controller
        self.running: RunningController[Any] | None = None
        self.held = False
        self.fence: Callable[[], object] | None = None
        self.keys: ShardedController | None = None
        self._managed_cluster = managed
        self._observer = observer
        self._count = count
        self._now = now
        self._on_hot_loop = on_hot_loop
        self._on_crash = on_crash
        self._tracer = tracer
        self._is_up = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether it runs, and no request is due and no reconcile runs."""
        return self.running is not None and self.running.is_idle

    async def wait_running(self) -> RunningController[Any]:
        """The running controller, as soon as it runs."""
        await self._is_up.wait()
        assert self.running is not None, "set before the event"
        return self.running

    async def wait_idle(self) -> None:
        """Returns once it is idle; there may be delayed requests."""
        await (await self.wait_running()).wait_idle()

    def enqueue(self, ref: Ref[Any], reason: Reason | str = OUTSIDE) -> None:
        """Enqueues an object; NotReady before it runs."""
        if self.running is None:
            raise NotReady(f"controller {self.name} is not running yet: await wait_running() first")
        self.running.enqueue(ref, reason)

    def release(self) -> None:
        """Starts the reconciles of a held controller."""
        self.held = False
        if self.running is not None:
            self.running.release()

    def depth(self) -> int:
        """How many requests are due; delayed ones are not counted."""
        return 0 if self.running is None else self.running.stats().ready

    def enqueued(self) -> int:
        """How many new requests were enqueued so far."""
        return 0 if self.running is None else self.running.stats().enqueued

    def ages(self) -> list[float]:
        """The seconds that each running reconcile has taken so far."""
        return [] if self.running is None else self.running.ages()

    def flush(self) -> None:
        """Has all finished reconciles counted by the metrics."""
        if self.running is not None:
            self.running.history.flush()

    async def stop_gracefully(self, within: float | None) -> None:
        """Waits for the running reconciles, at most so many seconds."""
        if self.running is not None:
            await self.running.stop(math.inf if within is None else within)

    async def _host(self) -> None:
        managed = self._managed_cluster()
        await managed.wait_open()
        made = running(
            self.controller,
            managed.cluster,
            observer=self._observer,
            fence=self.fence,
            keys=self.keys,
            held=self.held,
            count=self._count(),
            on_hot_loop=self._on_hot_loop,
            on_crash=self._on_crash,
            now=self._now,
        )
        async with made as self.running:
            self.running.trace(self._tracer())  # before anything is awaited: no reconcile has started yet
            if self.keys is not None:
                self.keys.attach(self.running)
            self._is_up.set()
            if not self.held:  # released while it was starting
                self.running.release()
            await asyncio.Event().wait()


async def _open(cluster: Cluster) -> bool:
    """Opens a cluster; False if it was open already."""
    try:
        await cluster.__aenter__()
    except NotReady:
        return False
    return True
