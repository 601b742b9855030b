"""Many controllers in one process: what starts before what, who leads, and how it all ends.

```python
async with Manager(client, leader=LeaderElection(name="shop"), health=8081) as manager:
    manager.add(websites)
    await manager.wait_stopped()
```

Where controllers work: the clusters of a manager, by name, opened with it and closed with it.

A controller as a member of a manager: started with its cluster, drained when the manager stops.
"""

import asyncio
import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Literal, Self

from levelset.client.client import Client, Where
from levelset.errors import ConfigError, NotReady
from levelset.objects.ref import Ref
from levelset.runtime.cache.cluster import Cluster
from levelset.runtime.controller.context_dependencies import wall_clock
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.hot_loops import HotLoop
from levelset.runtime.controller.observers import NullObserver, Observer, Observers
from levelset.runtime.controller.reconcile_history import Counts
from levelset.runtime.controller.request import OUTSIDE, Reason
from levelset.runtime.controller.running_controller import RunningController, running
from levelset.runtime.manager.admin import Admin, Inside
from levelset.runtime.manager.health import Check, Finding, Health, watch_findings
from levelset.runtime.manager.http_endpoints import Address, Pages
from levelset.runtime.manager.leader_election import Elector, LeaderElection, fencing, stamp
from levelset.runtime.manager.lifecycle import Life, Member, Phase, Work
from levelset.runtime.manager.metrics import Metrics
from levelset.runtime.manager.webhook_hosting import WebhookHosting
from levelset.runtime.webhook.webhook_set import Several, Webhooks

__all__ = ["MAIN", "Hosted", "LifeHook", "Manager", "Place"]

MAIN = ""
"""The name of the cluster that a manager was made with."""


class Place(Member):
    """Holds a cluster open; one that was open before stays so after."""

    def __init__(self, name: str, cluster: Cluster, *, ended: Callable[[Member, Exception], None]) -> None:
        super().__init__(f"cluster {name}".strip(), self._hold, ended=ended)
        self.cluster = cluster
        self._opened = asyncio.Event()

    async def wait_open(self) -> None:
        """Returns when controllers can be given this cluster."""
        await self._opened.wait()

    async def _hold(self) -> None:
        is_ours = await _open(self.cluster)
        self._opened.set()
        try:
            await asyncio.Event().wait()
        finally:
            if is_ours:
                await self.cluster.aclose()


async def _open(cluster: Cluster) -> bool:
    """Opens a cluster; False if somebody has done so already."""
    try:
        await cluster.__aenter__()
    except NotReady:
        return False
    return True


class Hosted(Member):
    """Runs one controller; `running` is what runs, from the moment it does.

    One that is `held` fills its caches and its queue, and looks at nothing before `release`. With a `fence`, whatever
    it writes, by a context or by the context's client, is refused as soon as that raises.
    """

    def __init__(
        self,
        controller: Controller[Any],
        place: Callable[[], Place],
        *,
        observer: Observer,
        count: Callable[[], Counts],
        now: Callable[[], datetime] = wall_clock,
        on_hot_loop: Callable[[HotLoop], object],
        ended: Callable[[Member, Exception], None],
    ) -> None:
        super().__init__(controller.name, self._host, ended=ended)
        self.controller = controller
        self.running: RunningController[Any] | None = None
        self.held = False
        self.fence: Callable[[], object] | None = None
        self._place = place
        self._observer = observer
        self._count = count
        self._now = now
        self._on_hot_loop = on_hot_loop
        self._is_up = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to do now."""
        return self.running is not None and self.running.is_idle

    async def wait_running(self) -> RunningController[Any]:
        """What runs, as soon as it does."""
        await self._is_up.wait()
        assert self.running is not None, "it is up"
        return self.running

    async def wait_idle(self) -> None:
        """Returns once it runs and has nothing to do now; looks may be planned for later."""
        await (await self.wait_running()).wait_idle()

    def enqueue(self, ref: Ref[Any], reason: Reason | str = OUTSIDE) -> None:
        """Asks for a look at an object; NotReady before it runs."""
        if self.running is None:
            raise NotReady(f"{self.name} does not run yet: await wait_running() first")
        self.running.enqueue(ref, reason)

    def release(self) -> None:
        """Lets it look at its objects."""
        self.held = False
        if self.running is not None:
            self.running.release()

    def depth(self) -> int:
        """How many requests wait, those for a later time left out."""
        return 0 if self.running is None else self.running.stats().ready

    def asked(self) -> int:
        """How many new requests there were so far."""
        return 0 if self.running is None else self.running.stats().asked

    def ages(self) -> list[float]:
        """For how many seconds each look that is under way has gone on."""
        return [] if self.running is None else self.running.ages()

    def settle(self) -> None:
        """Has everything counted that came of its looks so far."""
        if self.running is not None:
            self.running.history.settle()

    async def ask_to_stop(self, within: float | None) -> None:
        """Lets the looks that are under way come to their end."""
        if self.running is not None:
            await self.running.stop(math.inf if within is None else within)

    async def _host(self) -> None:
        place = self._place()
        await place.wait_open()
        client = place.cluster.client
        made = running(
            self.controller,
            place.cluster,
            observer=self._observer,
            fence=self.fence,
            held=self.held,
            client=client if self.fence is None else client.hooked(fencing(self.fence)),
            count=self._count(),
            on_hot_loop=self._on_hot_loop,
            now=self._now,
        )
        async with made as self.running:
            self._is_up.set()
            if not self.held:  # released while it was being put together
                self.running.release()
            await asyncio.Event().wait()


_log: Final = logging.getLogger("levelset.runtime.manager")

_HOST: Final = "apiserver"

Moment = Literal["elected", "start", "stop"]

LifeHook = Callable[[], Awaitable[object] | None]
"""Is called at a moment of a manager's life; may be a coroutine function."""


class Manager:
    """Runs controllers and tasks together, from the beginning to the end of an `async with`.

    At the start: servers for health and metrics, clusters and what is declared in them, what every replica does, the
    election, and at last what only the leader does. At the end the other way round: reconciles that run may finish
    within `grace` seconds (None: whenever they are done), and the Lease is given up when all else has ended. The first
    that fails stops everything: the block is interrupted, and a Crashed group is raised with every error.

    Works with the cluster, or with the client, the server in this process or the Config that it is given; without any,
    KUBECONFIG, the cluster that this process runs in, and `~/.kube/config` are looked at. All controllers share the
    informers of a cluster. What is declared there before the start must have synced within `sync_within` seconds. With
    `admin`, `levelset status`, `why` and `trigger` find it, on this machine and for this user only.

    `webhooks` are asked by a server in this process without any connection; for any other they are served over HTTPS
    and registered in the cluster before anything is read from it (see `levelset.runtime.webhook.Webhooks`).
    `now` is the time of day as conditions, events and Leases say it.
    """

    def __init__(
        self,
        where: Cluster | Client | Where = None,
        *,
        leader: LeaderElection | None = None,
        health: Address | None = None,
        metrics: Address | None = None,
        admin: bool = False,
        grace: float | None = 30.0,
        sync_within: float | None = 120.0,
        observers: Sequence[Observer] = (),
        webhooks: Webhooks | Several = (),
        now: Callable[[], datetime] = wall_clock,
    ) -> None:
        self.health = Health()
        self.metrics = Metrics()
        self._pages = Pages(self.health, self.metrics.registry, {"health": health, "metrics": metrics})
        self._admin = Admin(self._inside()) if admin else None
        self._where = where
        self._leader = leader
        hooks = webhooks if isinstance(webhooks, Webhooks) else Webhooks(webhooks)
        self._hosting = WebhookHosting(hooks, self.health, self.metrics.registry)
        self._grace = grace
        self._sync_within = sync_within
        self._now = now
        self._observer: Observer = Observers(observers) if observers else NullObserver()
        self._life = Life(grace=grace)
        self._places: dict[str, Place] = {}
        self._hooks: dict[Moment, list[LifeHook]] = {"start": [], "elected": [], "stop": []}
        self._elector: Elector | None = None
        self._started, self._elected = asyncio.Event(), asyncio.Event()
        self._is_used = False
        self.health.ready.add("manager", self._check_started)
        self.health.ready.add_source(self._find_watches)

    @property
    def cluster(self) -> Cluster:
        """The cluster that it works with; NotReady before the start."""
        return self._place(MAIN).cluster

    @property
    def client(self) -> Client:
        """The client of that cluster."""
        return self.cluster.client

    @property
    def controllers(self) -> Mapping[str, RunningController[Any]]:
        """The controllers that run, by name."""
        hosted = [one for one in self._life.members.values() if isinstance(one, Hosted)]
        return {one.name: one.running for one in hosted if one.running is not None}

    @property
    def urls(self) -> Mapping[str, str]:
        """Where it is reached: `health`, `metrics` and `webhooks`, as far as they are served."""
        return {**self._pages.urls, **self._hosting.urls}

    @property
    def is_leader(self) -> bool:
        """Whether what only a leader does may happen here; always so without an election, once it has started."""
        return self._elected.is_set() if self._elector is None else self._elector.is_leader

    @property
    def is_stopping(self) -> bool:
        """Whether it has begun to stop."""
        return self._life.stop_wanted.is_set()

    def add(self, controller: Controller[Any], *, cluster: str = MAIN) -> Hosted:
        """Runs this controller too: at once if the time for it has come, otherwise when it comes.

        What is returned knows whether it runs, and lets one ask for objects. ConfigError if there is one of that name,
        if there is no such cluster, and while the manager stops.
        """
        if cluster != MAIN and cluster not in self._places:
            raise ConfigError(f"{controller.name}: there is no cluster {cluster!r} in this manager; add_cluster first")
        hosted = Hosted(
            controller,
            lambda: self._place(cluster),
            observer=self._observer,
            count=lambda: self.metrics.counter(controller.name),
            now=self._now,
            on_hot_loop=lambda found: self._note_hot_loop(controller.name, found),
            ended=self._life.note_failure,
        )
        phase = Phase.WARM_UP if controller.leader_only else Phase.OTHERS
        self._join(hosted, phase)
        self.metrics.add_controller(
            controller.name,
            concurrency=controller.concurrency,
            depth=hosted.depth,
            asked=hosted.asked,
            ages=hosted.ages,
            settle=hosted.settle,
        )
        return hosted

    def add_task(self, name: str, work: Work, *, leader_only: bool = True) -> None:
        """Runs a coroutine function beside the controllers; it may end by itself, and is cancelled at the end.

        Only in the replica that leads unless told otherwise.
        """
        member = Member(name, work, ended=self._life.note_failure)
        self._join(member, Phase.LEADERS if leader_only else Phase.OTHERS)

    def add_cluster(self, name: str, cluster: Cluster) -> None:
        """Has controllers work with another cluster too: `add(controller, cluster=name)`.

        It is opened and closed with the manager, unless it was open before.
        """
        place = Place(name, cluster, ended=self._life.note_failure)
        self._join(place, Phase.CACHES)
        self._places[name] = place
        self.metrics.add_cluster(name, cluster.stats)

    def add_webhooks(self, *webhooks: Webhooks | Several) -> None:
        """Has these asked and converted with, too; ConfigError once it has started."""
        if self._is_used:
            raise ConfigError("webhooks are added before a manager starts: the server may need them for the first list")
        self._hosting.webhooks = self._hosting.webhooks.with_more(*webhooks)

    async def remove(self, what: Controller[Any] | str) -> None:
        """Stops a controller or a task and forgets it; what it does now may end within the grace."""
        name = what if isinstance(what, str) else what.name
        member = self._life.members.get(name)
        if member is None or isinstance(member, Place):
            raise ConfigError(f"there is no controller and no task {name!r} in this manager")
        try:
            await member.stop(self._life.grace)
        finally:
            self._life.leave(name)
            self.metrics.remove_controller(name)

    def add_check(self, name: str, check: Check, *, live: bool = False) -> None:
        """Asks this for `/readyz` too, or with `live` for `/healthz`: a function that raises what is wrong."""
        (self.health.live if live else self.health.ready).add(name, check)

    def on_start(self, hook: LifeHook) -> None:
        """Has a function called once the caches have synced, before anything works with them."""
        self._hooks["start"].append(hook)

    def on_elected(self, hook: LifeHook) -> None:
        """Has a function called once this replica leads, before anything that only a leader does."""
        self._hooks["elected"].append(hook)

    def on_stop(self, hook: LifeHook) -> None:
        """Has a function called when all controllers and tasks have ended, before the caches are closed."""
        self._hooks["stop"].append(hook)

    async def wait_started(self) -> None:
        """Returns once everything runs that does not wait for the election; NotReady if it stops before."""
        await self._wait(self._started)

    async def wait_elected(self) -> None:
        """Returns once this replica leads and what only a leader does has been started; NotReady if it stops before."""
        await self._wait(self._elected)

    async def wait_idle(self) -> None:
        """Returns once no controller has anything to do now; looks may be planned for later."""
        await self.wait_started()
        while True:
            hosted = [one for one in self._life.members.values() if isinstance(one, Hosted)]
            for one in hosted:
                await one.wait_idle()
            if all(one.is_idle for one in hosted):
                return

    async def wait_stopped(self) -> None:
        """Returns when it has stopped, because somebody called `stop`; a failure interrupts the whole block."""
        await self._life.stop_wanted.wait()
        await self.stop()

    async def stop(self) -> None:
        """Stops everything in order, and returns when it has ended. A second call waits for the same."""
        self._life.begin_stop()
        await self._life.wait_over()

    def request_stop(self) -> None:
        """Begins to stop, and does not wait for the end: for a signal, or for what runs inside."""
        self._life.begin_stop()

    def hurry(self) -> None:
        """Stops without grace: whatever still runs is cancelled at once."""
        self._life.hurry()

    async def __aenter__(self) -> Self:
        if self._is_used:
            raise RuntimeError("a manager is for one `async with`; make another one")
        self._is_used = True
        try:
            await self._open()
        except BaseException:
            self._life.begin_stop()
            await self._life.wait_over()
            raise
        self._life.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        await self._life.finish(error)
        return self._life.is_forgiven

    async def _open(self) -> None:
        life = self._life
        life.begin(Phase.SERVERS)
        await self._pages.start()
        life.at_last.append(self._pages.stop)
        if self._admin is not None:
            await self._admin.start()
            life.at_last.append(self._admin.stop)
        life.begin(Phase.WEBHOOKS)
        cluster = await self._connect()
        life.at_last.insert(0, self._hosting.close)
        await self._hosting.open(cluster.client)
        self.add_cluster(MAIN, cluster)
        for place in life.begin(Phase.CACHES):
            place.start()
        for place in self._places.values():
            await place.wait_open()
        if self._leader is not None:
            client = self._leader.client or self.client
            self._elector = Elector(client, self._leader, stamp=lambda: stamp(self._now()))
            self.metrics.add_election(self._leader.name, lambda: self.is_leader)
            # After the servers, before the client that it needs.
            life.at_last.insert(life.at_last.index(self._pages.stop) + 1, self._elector.release)
        life.before_caches.append(lambda: self._tell("stop"))
        life.help("start-up", self._come_up)

    async def _connect(self) -> Cluster:
        where = self._where
        if isinstance(where, Cluster):
            return where
        if isinstance(where, Client):
            return Cluster(where.hooked(self.metrics.counting(_HOST)))
        client = await Client.connect(where, wire_hooks=[self.metrics.counting(_HOST)])
        self._life.at_last.append(client.aclose)
        return Cluster(client)

    async def _come_up(self) -> None:
        life = self._life
        for place in tuple(self._places.values()):
            await place.cluster.wait_ready(self._sync_within)
        await self._tell("start")
        for phase in (Phase.OTHERS, Phase.WARM_UP):
            for member in life.begin(phase):
                self._start(member)
            await asyncio.sleep(0)  # they begin before those of the next phase
        if self._admin is not None:
            await self._admin.announce()
        self._started.set()
        if self._elector is None:
            await self._lead()
        else:
            life.help("election", self._campaign)

    async def _campaign(self) -> None:
        elector = self._elector
        assert elector is not None, "a campaign without an election"
        _log.info("waits to lead", extra={"lease": str(elector.ref), "identity": elector.identity})
        await elector.acquire()
        _log.info("leads", extra={"lease": str(elector.ref), "identity": elector.identity})
        self._life.help("leading", self._lead)
        await elector.keep()

    async def _lead(self) -> None:
        await self._tell("elected")
        for member in self._life.begin(Phase.LEADERS):
            self._start(member)
        for member in tuple(self._life.members.values()):
            if isinstance(member, Hosted):
                member.release()
        self._elected.set()

    def _start(self, member: Member) -> None:
        if isinstance(member, Hosted) and member.controller.leader_only:
            member.held = self._life.reached is not Phase.LEADERS
            member.fence = None if self._elector is None else self._elector.fence
        member.start()

    def _join(self, member: Member, phase: Phase) -> None:
        if self._life.join(member, phase):
            self._start(member)

    async def _tell(self, moment: Moment) -> None:
        for hook in self._hooks[moment]:
            said = hook()
            if inspect.isawaitable(said):
                await said

    async def _wait(self, event: asyncio.Event) -> None:
        wanted = [asyncio.ensure_future(one.wait()) for one in (event, self._life.stop_wanted)]
        try:
            await asyncio.wait(wanted, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in wanted:
                one.cancel()
        if not event.is_set():
            raise NotReady("the manager stops, and what was waited for will not happen")

    def _place(self, name: str) -> Place:
        place = self._places.get(name)
        if place is None:
            raise NotReady("the manager has not been started: use it in `async with`")
        return place

    def _inside(self) -> Inside:
        return Inside(
            controllers=lambda: self.controllers,
            watches=lambda: [one for place in self._places.values() for one in place.cluster.stats()],
            is_leader=lambda: self.is_leader,
        )

    def _note_hot_loop(self, name: str, found: HotLoop) -> None:
        self.metrics.count_hot_loop(name)
        _log.warning("%s", found, extra={"controller": name})

    def _check_started(self) -> str:
        if self.is_stopping:
            raise NotReady("it stops")
        if not self._started.is_set():
            raise NotReady("it has not come up yet")
        return "leads" if self.is_leader else "waits to lead"

    def _find_watches(self) -> Iterator[Finding]:
        for name, place in self._places.items():
            prefix = f"watch/{name}" if name else "watch"
            yield from watch_findings(place.cluster.stats(), prefix=prefix)
