"""A controller at work: informers feed a scheduler, workers take from it, and everything ends in order.

```python
async with running(websites, cluster) as controller:
    await controller.wait_ready()
    await controller.wait_idle()
```

The informers of a controller: its own kind and those of its relations, and who hears of their changes.

All of them are declared at the cluster, which shares them with whoever declares the same. A controller has synced when
each of them has been filled *and* each listener here has been shown what was there.

The parts of a running controller, and how they are put together: `assemble` is the map of the whole loop.

Informers tell `Following` of changes; triggers turn them into requests; the scheduler keeps one place for each object;
the runner's workers take what is due; the invocation looks at it, and its answer goes back to the scheduler.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

import msgspec

from levelset.aio import Backoff, Crash, Delays, Restart, Supervisor, Verdict, timing
from levelset.client.object_types import Kind, view_of
from levelset.objects.ref import Ref
from levelset.runtime.cache import Cluster, Handle, Index, Store
from levelset.runtime.cache.reader import CacheSource
from levelset.runtime.cache.subscribers import Listening
from levelset.runtime.controller import triggers
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.context_dependencies import Services, open_services
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.error_policy import Answering, Conflicts, Delay, ErrorPolicy
from levelset.runtime.controller.observers import NullObserver, Observer
from levelset.runtime.controller.reconcile import Duties, Invocation
from levelset.runtime.controller.reconcile_history import Counts, History
from levelset.runtime.controller.relations import Every, Owns, References, Remembers, Source, Watches
from levelset.runtime.controller.request import OUTSIDE, REMEMBERED, REQUEUED, Reason
from levelset.runtime.controller.request_queue import (
    Desk,
    ask_all,
    can_restart,
    follow_source,
    follow_ticks,
    open_asking,
)
from levelset.runtime.controller.triggers import Listener, Target
from levelset.runtime.controller.worker import Runner
from levelset.runtime.queue import NORMAL, TRANSIENT, Scheduler

__all__ = [
    "Engine",
    "Following",
    "Parts",
    "RunningController",
    "RunningStats",
    "Tuning",
    "assemble",
    "is_namespaced",
    "open_desk",
    "open_engine",
    "running",
]

K = TypeVar("K")


class Following(Generic[K]):
    """What one running controller follows, from `open` until `close`; the informers go on until the stack is left."""

    def __init__(self, controller: Controller[K], cluster: Cluster, desk: Desk) -> None:
        self._controller = controller
        self._cluster = cluster
        self._desk = desk
        self._feeds: list[Listening[Any]] = []
        self._unlisten: list[Any] = []
        self.handles: list[Handle[Any]] = []
        """The informers, the controller's own first."""

    @property
    def own(self) -> Handle[K]:
        """The informer of the controller's own kind."""
        return self.handles[0]

    @property
    def store(self) -> Store[K]:
        """The controller's own objects."""
        return self.own.store

    @property
    def source(self) -> CacheSource:
        """The same as reads see it, with the own writes that it has yet to show."""
        return next(one for one in self._cluster.sources if one.informer is self.own.informer)

    @property
    def is_synced(self) -> bool:
        """Whether everything is there, and has been shown."""
        return all(one.is_ready for one in self.handles) and all(one.is_synced for one in self._feeds)

    async def open(self, stack: AsyncExitStack) -> None:
        """Declares everything and begins to listen; leaving the stack lets go of the informers."""
        controller, indexes = self._controller, await self._indexes()
        own = await stack.enter_async_context(
            self._cluster.declare(
                controller.kind,
                namespace=controller.namespace,
                labels=controller.labels,
                indexes=list(indexes.values()),
            )
        )
        self._hear(own, triggers.self_changes(self._desk.target, controller.when, self._desk.ask_all))
        for relation in controller.relations:
            if isinstance(relation, Remembers):
                self._unlisten.append(relation.states.listen(self._remember))
            elif isinstance(relation, Owns | Watches | References):
                handle = await stack.enter_async_context(
                    self._cluster.declare(
                        relation.kind,
                        namespace=relation.namespace,
                        labels=relation.labels,
                        indexes=relation.indexes,
                    )
                )
                self._hear(handle, self._listener(relation, indexes))

    async def wait_synced(self, within: float | None = None) -> None:
        """Returns once everything is there and has been shown; NotReady names what is not."""
        until = timing.deadline(within)
        for handle in self.handles:
            await handle.wait_ready(timing.remaining(until))
        for feed in self._feeds:
            await feed.wait_synced(timing.remaining(until))

    def close(self) -> None:
        """Listens no more; the objects stay readable."""
        for feed in self._feeds:
            feed.close()
        for unlisten in self._unlisten:
            unlisten()
        self._unlisten.clear()

    def _hear(self, handle: Handle[Any], listener: Listener) -> None:
        self.handles.append(handle)
        self._feeds.append(handle.listen(listener))

    def _remember(self, ref: Ref[Any]) -> None:
        self._desk.ask(self._desk.target.key(ref), REMEMBERED, NORMAL)

    def _listener(self, relation: Owns | Watches | References, indexes: dict[int, Index[Any]]) -> Listener:
        target, ask_all = self._desk.target, self._desk.ask_all
        match relation:
            case Owns():
                return triggers.owners(target, relation, ask_all)
            case Watches():
                return triggers.targets(target, relation, ask_all)
            case References():
                return triggers.referrers(target, relation, indexes[id(relation)], self.store, ask_all)

    async def _indexes(self) -> dict[int, Index[Any]]:
        found: dict[int, Index[Any]] = {}
        for relation in self._references():
            found[id(relation)] = triggers.reference_index(
                relation,
                self._controller.kind,
                namespaced=await is_namespaced(self._cluster, relation.kind),
                namespace=self._cluster.client.namespace,
            )
        return found

    def _references(self) -> Sequence[References]:
        return [one for one in self._controller.relations if isinstance(one, References)]


async def is_namespaced(cluster: Cluster, kind: Any) -> bool:
    """Whether the objects of a kind live in namespaces; the server is asked only about a kind without a class."""
    view = view_of(kind)
    if view.definition is not None:
        return view.definition.namespaced
    return (await cluster.client.resource(kind)).namespaced


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """How a loop goes."""

    name: str
    debounce: float = 0.0
    timeout: float | None = None
    backoff: Delay = TRANSIENT
    on_error: ErrorPolicy | None = None


@dataclass(frozen=True, kw_only=True)
class Engine(Generic[K]):
    """What works requests off: workers that look, what their contexts act with, and what is known of failures."""

    services: Services
    answering: Answering
    runner: Runner[K]


@dataclass(frozen=True, kw_only=True)
class Parts(Generic[K]):
    """All of a running controller."""

    desk: Desk
    following: Following[K]
    engine: Engine[K]


async def assemble(
    controller: Controller[K],
    cluster: Cluster,
    stack: AsyncExitStack,
    *,
    observer: Observer,
    history: History[K],
    **options: Any,
) -> Parts[K]:
    """Puts a controller together: its informers are declared and heard, but its scheduler is held, and nobody works.

    Leaving the stack closes everything; `options` are those of `open_services`.
    """
    tuning = Tuning(
        name=controller.name,
        debounce=controller.debounce,
        timeout=controller.timeout,
        backoff=controller.backoff,
        on_error=controller.on_error,
    )
    desk = await open_desk(controller.kind, cluster, tuning, observer=observer)
    following = Following(controller, cluster, desk)
    await following.open(stack)
    engine = await open_engine(
        controller.kind,
        _duties(controller),
        desk,
        tuning,
        stack=stack,
        cluster=cluster,
        store=following.store,
        source=following.source,
        history=history,
        **options,
    )
    return Parts(desk=desk, following=following, engine=engine)


async def open_desk(kind: Kind[Any], cluster: Cluster, tuning: Tuning, *, observer: Observer) -> Desk:
    """A desk whose scheduler is held; each new request is told to the observer."""
    target = Target(view_of(kind), await is_namespaced(cluster, kind), cluster.client.namespace)
    scheduler: Scheduler[str, Reason] = Scheduler(debounce=tuning.debounce, held=True, name=tuning.name)
    ask, ask_all = open_asking(tuning.name, scheduler, observer)
    return Desk(target=target, scheduler=scheduler, ask=ask, ask_all=ask_all, observer=observer)


async def open_engine(
    kind: Kind[K],
    duties: Duties[K],
    desk: Desk,
    tuning: Tuning,
    *,
    stack: AsyncExitStack,
    cluster: Cluster,
    store: Store[K],
    history: History[K],
    source: CacheSource | None = None,
    deliver: Callable[[Outcome[K]], Awaitable[None]] | None = None,
    **options: Any,
) -> Engine[K]:
    """The engine for a desk, closed with the stack."""
    scheduler, target, conflicts = desk.scheduler, desk.target, Conflicts()

    def wake(ref: Ref[Any]) -> None:
        desk.ask(target.key(ref), REQUEUED, NORMAL)

    def is_superseded(ref: Ref[Any]) -> bool:
        return scheduler.is_superseded(target.key(ref))

    opening = open_services(
        cluster,
        controller_name=tuning.name,
        states=duties.states,
        conflicts=conflicts,
        is_superseded=is_superseded,
        wake=wake,
        ref_of=target.view.ref_at,
        **options,
    )
    services = await stack.enter_async_context(opening)
    answering = Answering(conflicts=conflicts, store=store, backoff=tuning.backoff, on_error=tuning.on_error)
    invocation = Invocation(kind, duties, services, store=store, answering=answering, source=source)
    runner: Runner[K] = Runner(
        scheduler,
        invocation.look,
        name=tuning.name,
        ref_of=target.view.ref_at,
        answering=answering,
        observer=desk.observer,
        history=history,
        timeout=tuning.timeout,
        deliver=deliver,
        shortcut=invocation,
    )
    stack.callback(runner.close)
    return Engine(services=services, answering=answering, runner=runner)


def _duties(controller: Controller[K]) -> Duties[K]:
    return Duties(
        reconcile=controller.reconcile,
        cleanup=controller.cleanup,
        finalizer=controller.finalizer,
        gone=controller.gone,
        gave_up=controller.gave_up,
        states=tuple(one.states for one in controller.relations if isinstance(one, Remembers)),
    )


_log = logging.getLogger(__name__)

_AGAIN: Final = Backoff(first=0.5, cap=30.0, quiet=120.0)
"""How long a source that failed waits before it is made anew."""


class RunningStats(msgspec.Struct, frozen=True):
    """A running controller in numbers."""

    name: str
    is_ready: bool
    ready: int
    """Requests that are due."""
    delayed: int
    """Requests that wait for their time."""
    running: int
    """Objects that are looked at right now."""
    workers: int
    looks: int
    """How many looks there were so far."""
    asked: int
    """How many new requests there were so far; what was merged into one that waited is none, nor is a look again."""
    failing: int
    """Objects whose last look has failed."""
    troubled: int = 0
    """Objects whose last look has failed or met a conflict, and that are to be looked at again because of it."""


def running(
    controller: Controller[K],
    cluster: Cluster,
    *,
    observer: Observer | None = None,
    fence: Callable[[], object] | None = None,
    held: bool = False,
    grace: float = 30.0,
    sync_within: float | None = None,
    history: int = 1000,
    count: Counts | None = None,
    **services: Any,
) -> "RunningController[K]":
    """The controller at work on this cluster, for the length of an `async with`.

    No look happens before every cache has been filled and its first list handed on; `held`, not before `release`
    either: the caches and the queue are warm then. If the caches are not filled `sync_within` seconds, NotReady stops
    it. `fence` is called before each write and raises if it is no longer allowed. Leaving the block stops it: looks
    under way have `grace` seconds to end. `count` is given what came of the looks, many at a time: at the latest when
    somebody settles the history, or at the end. `services` are further options of `open_services`, such as a recorder.
    """
    watching: Observer = NullObserver() if observer is None else observer
    options = {**services, "fence": fence}
    return RunningController(
        controller,
        cluster,
        watching,
        options,
        held=held,
        grace=grace,
        sync_within=sync_within,
        history=History(history, count=count, ref_of=view_of(controller.kind).ref_at),
    )


class RunningController(Generic[K]):
    """See `running`. `history` holds what was looked at lately, why, and what came of it."""

    def __init__(
        self,
        controller: Controller[K],
        cluster: Cluster,
        observer: Observer,
        services: dict[str, Any],
        *,
        held: bool,
        grace: float,
        sync_within: float | None,
        history: History[K],
    ) -> None:
        self.controller = controller
        self.cluster = cluster
        self.history = history
        self._observer = observer
        self._options = services
        self._held = held
        self._grace = grace
        self._sync_within = sync_within
        self._ready = asyncio.Event()
        self._stopped = asyncio.Event()
        self._stack = AsyncExitStack()
        self._parts: Parts[K] | None = None
        self._supervisor = Supervisor(name=controller.name, on_crash=self._judge_crash)
        self._workers = tuple(f"worker {number}" for number in range(controller.concurrency))
        self._delays: dict[str, Delays] = {}

    @property
    def name(self) -> str:
        """The controller's name."""
        return self.controller.name

    @property
    def is_ready(self) -> bool:
        """Whether its caches are filled and everything in them has been asked for; it may still be held."""
        return self._ready.is_set()

    @property
    def is_idle(self) -> bool:
        """Whether it is ready, nothing is due and nothing is looked at; looks may be planned for later."""
        scheduler = self._running.desk.scheduler
        return self.is_ready and not scheduler.running and not scheduler.ready

    @property
    def store(self) -> Store[K]:
        """The objects that it looks at."""
        return self._running.following.store

    @property
    def following(self) -> Following[K]:
        """The informers that it uses, for those who report on them."""
        return self._running.following

    @property
    def scheduler(self) -> Scheduler[str, Reason]:
        """Where requests wait, by the keys of their objects' refs, for those who report on them."""
        return self._running.desk.scheduler

    @property
    def services(self) -> Services:
        """What its contexts act with."""
        return self._running.engine.services

    def stats(self) -> RunningStats:
        """How it is doing, in numbers."""
        parts = self._running
        scheduler = parts.desk.scheduler
        return RunningStats(
            name=self.name,
            is_ready=self.is_ready,
            ready=scheduler.ready,
            delayed=scheduler.delayed,
            running=scheduler.running,
            workers=self.controller.concurrency,
            looks=self.history.total,
            asked=scheduler.asked,
            failing=len(parts.engine.answering.failures),
            troubled=len(parts.engine.answering.troubled),
        )

    def ages(self) -> list[float]:
        """For how many seconds each look that is under way has gone on."""
        return self._running.engine.runner.ages()

    def enqueue(self, ref: Ref[Any], reason: Reason | str = OUTSIDE, *, priority: int = NORMAL) -> None:
        """Asks for a look at an object; ConfigError if it is of another kind."""
        desk = (self._parts or self._running).desk
        desk.ask(desk.target.key(ref), Reason(reason) if isinstance(reason, str) else reason, priority)

    async def enqueue_all(self) -> None:
        """Asks for a look at all objects, behind everything else."""
        await ask_all(self.store, self._running.desk.ask)

    def release(self) -> None:
        """Lets a controller that was started `held` begin, as soon as it is ready."""
        self._held = False
        if self.is_ready:
            self._running.desk.scheduler.release()

    async def wait_ready(self, within: float | None = None) -> None:
        """Returns once it is ready; NotReady, naming what is not there, if that takes longer."""
        await self._running.following.wait_synced(within)
        await self._ready.wait()

    async def wait_idle(self) -> None:
        """Returns once it is idle."""
        await self._ready.wait()
        await self._running.desk.scheduler.wait_idle()

    async def wait_stopped(self) -> None:
        """Returns once it has been stopped."""
        await self._stopped.wait()

    async def stop(self, grace: float | None = None) -> None:
        """Takes up nothing more, lets the looks under way end, and cancels those that take longer than `grace`.

        The informers, and what contexts act with, are closed when the block is left. A second call waits for the same.
        """
        parts = self._running
        parts.following.close()
        parts.desk.scheduler.close(drain=False)
        try:
            async with timing.within(self._grace if grace is None else grace):
                await self._supervisor.wait(*self._workers)
        except TimeoutError:
            pass  # they are cancelled now
        await self._supervisor.stop()
        self._stopped.set()

    async def __aenter__(self) -> Self:
        if self._parts is not None:
            raise RuntimeError(f"{self.name} has been started already; call running(...) once more for another run")
        async with AsyncExitStack() as stack:
            self._parts = await assemble(
                self.controller, self.cluster, stack, observer=self._observer, history=self.history, **self._options
            )
            await stack.enter_async_context(self._supervisor)
            self._start(self._parts)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._stopped.is_set():
                await self.stop(0.0 if error is not None else None)
        finally:
            self._stopped.set()
            self.history.settle()
            await self._stack.__aexit__(kind, error, trace)

    @property
    def _running(self) -> Parts[K]:
        if self._parts is None:
            raise RuntimeError(f"{self.name} has not been started: use it in `async with`")
        return self._parts

    def _start(self, parts: Parts[K]) -> None:
        start = self._supervisor.start
        start("gate", self._open_gate(parts))
        for worker in self._workers:
            start(worker, parts.engine.runner.work())
        for number, relation in enumerate(self.controller.relations):
            name = f"relation {number}"
            match relation:
                case Source():
                    start(name, partial(follow_source, relation, parts.desk.target, parts.desk.ask))
                case Every():
                    start(name, partial(follow_ticks, relation, parts.following.store, parts.desk.ask))
                case _:
                    continue
            if can_restart(relation):
                self._delays[name] = _AGAIN.delays()

    async def _open_gate(self, parts: Parts[K]) -> None:
        await parts.following.wait_synced(self._sync_within)
        self._ready.set()
        if not self._held:
            parts.desk.scheduler.release()

    def _judge_crash(self, crash: Crash) -> Verdict | Restart:
        delays = self._delays.get(crash.name)
        if delays is None:
            return Verdict.STOP
        after = delays.next_delay(timing.now())
        _log.warning(
            "%s: a source has failed and is made anew after %.1f s: %s",
            self.name,
            after,
            crash.error,
            exc_info=crash.error,
        )
        return Restart(after)
