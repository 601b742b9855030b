"""Runs one controller: opens its informers, queue and workers, waits for the caches, and stops in order.

```python
async with running(websites, cluster) as controller:
    await controller.wait_ready()
    await controller.wait_idle()
```

`assemble` wires the loop together: informers report changes to listeners (`event_handlers.py`), which enqueue requests;
the scheduler keeps one entry per object; workers (`worker.py`) take what is due and reconcile it (`reconcile.py`), and
the resulting action goes back to the scheduler.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

import msgspec
from msgspec.structs import replace

from levelset.aio import Backoff, Crash, Delays, Restart, Supervisor, Verdict, timing
from levelset.client.object_types import Kind, view_of
from levelset.errors import ConfigError
from levelset.objects.ref import Ref
from levelset.runtime.cache import Change, Cluster, Handle, Index, Store
from levelset.runtime.cache.cluster import cluster_sources
from levelset.runtime.cache.reader import CacheSource
from levelset.runtime.cache.subscribers import ListenerHandle
from levelset.runtime.controller import event_handlers
from levelset.runtime.controller.actions import Action, Outcome
from levelset.runtime.controller.applied_cache import AppliedCache
from levelset.runtime.controller.context_dependencies import ContextDependencies, open_dependencies
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.error_policy import ConflictTracker, Delay, ErrorHandler, ErrorPolicy
from levelset.runtime.controller.event_handlers import Listener, Target
from levelset.runtime.controller.observers import NullObserver, Observer
from levelset.runtime.controller.reconcile import Handlers, ReconcileInvoker
from levelset.runtime.controller.reconcile_history import CountReconciles, ReconcileHistory
from levelset.runtime.controller.relations import Every, Owns, References, Remembers, Source, Watches
from levelset.runtime.controller.request import OUTSIDE, REMEMBERED, REQUEUED, Reason, Request
from levelset.runtime.controller.request_queue import (
    KeyFilter,
    RequestQueue,
    can_restart,
    enqueue_all,
    filtered_enqueue,
    follow_source,
    follow_ticks,
    observed_enqueue,
)
from levelset.runtime.controller.traced_tasks import Tracer
from levelset.runtime.controller.worker import OnCrash, Slot, WorkerPool
from levelset.runtime.queue import DEFAULT_BACKOFF, NORMAL, Due, Scheduler
from levelset.runtime.watch import Predicate, all_of, any_of

__all__ = [
    "ControllerInformers",
    "ControllerParts",
    "Engine",
    "LoopOptions",
    "OwnCache",
    "RunningController",
    "RunningStats",
    "assemble",
    "is_namespaced",
    "open_engine",
    "open_queue",
    "running",
]

K = TypeVar("K")

_WORKER_BACKOFF: Final = Backoff(first=0.05, cap=5.0)
"""The delay before a worker whose queue failed is restarted."""
_SOURCE_BACKOFF: Final = Backoff(first=0.5, cap=30.0, quiet=120.0)
"""The delay before a source that failed is restarted."""

_log = logging.getLogger(__name__)


def running(
    controller: Controller[K],
    cluster: Cluster,
    *,
    observer: Observer | None = None,
    fence: Callable[[], object] | None = None,
    keys: KeyFilter | None = None,
    held: bool = False,
    grace: float = 30.0,
    sync_within: float | None = None,
    history: int = 1000,
    count: CountReconciles | None = None,
    on_crash: OnCrash | None = None,
    **dependencies: Any,
) -> "RunningController[K]":
    """Runs the controller on a cluster for the length of an `async with`.

    A manager does this for its controllers; use it directly for one controller without leader election and health.

    No reconcile starts before all caches have synced and their objects are enqueued; with `held`, not before `release`
    either, so that a standby replica has warm caches and a filled queue. NotReady stops the controller if the caches
    have not synced within `sync_within` seconds. `fence` is called before each write and raises if writes are no longer
    allowed, and `keys` says which objects are reconciled here. Leaving the block stops the controller: running
    reconciles have `grace` seconds to end. `history` is the number of outcomes to keep. `count` gets the finished
    reconciles in batches, the last when the controller stops. `on_crash` is called with each error in a task or
    callback of the controller itself that it has survived. `dependencies` are further options of `open_dependencies`,
    such as a recorder.
    """
    chosen: Observer = NullObserver() if observer is None else observer
    options = {**dependencies, "fence": fence, "keys": keys}
    return RunningController(
        controller,
        cluster,
        chosen,
        options,
        held=held,
        grace=grace,
        sync_within=sync_within,
        on_crash=on_crash,
        history=ReconcileHistory(history, count=count, ref_of=view_of(controller.kind).ref_at),
    )


class RunningStats(msgspec.Struct, frozen=True):
    """The state of a running controller in numbers."""

    name: str
    is_ready: bool
    ready: int
    """Requests that are due and wait for a worker."""
    delayed: int
    """Requests that are not due yet."""
    running: int
    """Objects that are being reconciled right now."""
    workers: int
    reconciles: int
    """Reconciles so far."""
    enqueued: int
    """New requests so far; those merged into a queued request, requeues and retries are not counted."""
    failing: int
    """Objects whose last reconcile failed."""
    retrying: int = 0
    """Objects whose last reconcile failed or met a conflict, and that are reconciled again because of it."""


class RunningController(Generic[K]):
    """A controller that runs; made by `running`. `history` holds its latest outcomes."""

    def __init__(
        self,
        controller: Controller[K],
        cluster: Cluster,
        observer: Observer,
        dependencies: dict[str, Any],
        *,
        held: bool,
        grace: float,
        sync_within: float | None,
        history: ReconcileHistory[K],
        on_crash: OnCrash | None = None,
    ) -> None:
        self.controller = controller
        self.cluster = cluster
        self.history = history
        self._observer = observer
        self._options = dependencies
        self._held = held
        self.is_paused = False
        """Whether `pause` holds its reconciles."""
        self._grace = grace
        self._sync_within = sync_within
        self._count_crash = on_crash
        self._ready = asyncio.Event()
        self._stopped = asyncio.Event()
        self._stack = AsyncExitStack()
        self._parts: ControllerParts[K] | None = None
        self._supervisor = Supervisor(name=controller.name, on_crash=self._on_crash)
        self._workers = tuple(f"worker {number}" for number in range(controller.concurrency))
        self._delays: dict[str, Delays] = {}

    @property
    def name(self) -> str:
        """The controller's name."""
        return self.controller.name

    @property
    def is_ready(self) -> bool:
        """Whether its caches have synced and all their objects are enqueued; it may still be held."""
        return self._ready.is_set()

    @property
    def is_idle(self) -> bool:
        """Whether it is ready, no request is due and no reconcile runs; there may be delayed requests."""
        scheduler = self._running.queue.scheduler
        return self.is_ready and not scheduler.running and not scheduler.ready

    @property
    def store(self) -> Store[K]:
        """The cached objects that it reconciles; ConfigError for a controller of several namespaces."""
        if len(self.stores) > 1:
            raise ConfigError(f"{self.name} has several namespaces: use stores, which has one for each of them")
        return self.stores[0]

    @property
    def stores(self) -> Sequence[Store[K]]:
        """The cached objects that it reconciles, one store for each namespace of the controller."""
        return self._running.informers.stores

    @property
    def informers(self) -> "ControllerInformers[K]":
        """The informers that it uses."""
        return self._running.informers

    @property
    def scheduler(self) -> Scheduler[str, Reason]:
        """The scheduler; requests are identified by the keys of their objects' refs."""
        return self._running.queue.scheduler

    @property
    def dependencies(self) -> ContextDependencies:
        """What its contexts share."""
        return self._running.engine.dependencies

    def stats(self) -> RunningStats:
        """Its state in numbers."""
        parts = self._running
        scheduler = parts.queue.scheduler
        return RunningStats(
            name=self.name,
            is_ready=self.is_ready,
            ready=scheduler.ready,
            delayed=scheduler.delayed,
            running=scheduler.running,
            workers=self.controller.concurrency,
            reconciles=self.history.total,
            enqueued=scheduler.adds,
            failing=len(parts.engine.error_handler.failures),
            retrying=len(parts.engine.error_handler.retrying),
        )

    def ages(self) -> list[float]:
        """The seconds that each running reconcile has taken so far."""
        return self._running.engine.workers.ages()

    def mark_reconciles(self, *, is_on: bool) -> None:
        """Has the reconciles that start from now on set `RECONCILE` (`traced_tasks.py`), or not."""
        self._running.engine.workers.mark(is_on=is_on)

    def enqueue(self, ref: Ref[Any], reason: Reason | str = OUTSIDE, *, priority: int = NORMAL) -> None:
        """Enqueues an object; ConfigError if it is of another kind."""
        queue = (self._parts or self._running).queue
        queue.enqueue((queue.target.key(ref),), Reason(reason) if isinstance(reason, str) else reason, priority)

    async def enqueue_all(self) -> None:
        """Enqueues all objects with low priority."""
        await enqueue_all(self.stores, self._running.queue.enqueue)

    def enqueue_keys(self, keys: Collection[str], reason: Reason, priority: int) -> None:
        """Enqueues the objects with these keys."""
        self._running.queue.enqueue(keys, reason, priority)

    def own_handles(self) -> Sequence[Handle[K]]:
        """The informers of the controller's own kind, one for each of its namespaces."""
        return self.informers.handles[: len(self.controller.namespaces)]

    def cancel_running(self, keys: Collection[str], reason: str) -> None:
        """Cancels the running reconciles of these objects; each counts as failed, for this reason."""
        self._running.engine.workers.cancel(keys, reason)

    def forget(self, keys: Iterable[str]) -> None:
        """Drops what is queued and remembered of objects that are no longer reconciled here."""
        parts, ref_of = self._running, view_of(self.controller.kind).ref_at
        for key in keys:
            parts.queue.scheduler.cancel(key)
            ref = ref_of(key)
            for states in parts.engine.dependencies.states:
                states.forget(ref)
            parts.engine.dependencies.forget(ref)
            parts.engine.error_handler.forget(ref)

    def trace(self, tracer: Tracer | None) -> None:
        """Has this tracer record the reconciles that start from now on; None ends that."""
        self._running.engine.workers.tracer = tracer

    def release(self) -> None:
        """Starts the reconciles of a controller that was started `held`, as soon as it is ready."""
        self._held = False
        if self.is_ready and not self.is_paused:
            self._running.queue.scheduler.release()

    def pause(self) -> None:
        """Starts no reconciles until `resume`; requests are queued, and running reconciles finish."""
        self.is_paused = True
        self._running.queue.scheduler.hold()

    def resume(self) -> None:
        """Ends a `pause`."""
        self.is_paused = False
        if self.is_ready and not self._held:
            self._running.queue.scheduler.release()

    async def wait_ready(self, within: float | None = None) -> None:
        """Returns once it is ready; NotReady names what has not synced `within` so many seconds."""
        await self._running.informers.wait_synced(within)
        await self._ready.wait()

    async def wait_idle(self) -> None:
        """Returns once it is idle."""
        await self._ready.wait()
        await self._running.queue.scheduler.wait_idle()

    async def wait_stopped(self) -> None:
        """Returns once it has been stopped."""
        await self._stopped.wait()

    async def stop(self, grace: float | None = None) -> None:
        """Starts no more reconciles, waits for the running ones, and cancels those that take longer than `grace`.

        Informers and dependencies are closed when the block is left. A second call waits for the same end.
        """
        parts = self._running
        parts.informers.close()
        parts.queue.scheduler.close(drain=False)
        try:
            async with timing.within(self._grace if grace is None else grace):
                await self._supervisor.wait(*self._workers)
        except TimeoutError:
            pass  # they are cancelled below
        await self._supervisor.stop()
        self._stopped.set()

    async def __aenter__(self) -> Self:
        if self._parts is not None:
            raise RuntimeError(f"controller {self.name} was started already; call running(...) again for another run")
        async with AsyncExitStack() as stack:
            self._parts = await assemble(
                self.controller,
                self.cluster,
                stack,
                observer=self._observer,
                history=self.history,
                on_crash=self._count_crash,
                **self._options,
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
            self.history.flush()
            await self._stack.__aexit__(kind, error, trace)

    @property
    def _running(self) -> "ControllerParts[K]":
        if self._parts is None:
            raise RuntimeError(f"controller {self.name} is not started: use it in `async with`")
        return self._parts

    def _start(self, parts: "ControllerParts[K]") -> None:
        start = self._supervisor.start
        start("gate", self._release_when_synced(parts))
        for worker in self._workers:
            start(worker, parts.engine.workers.work)
            self._delays[worker] = _WORKER_BACKOFF.delays()
        for number, relation in enumerate((*self.controller.relations, *self.controller.sources)):
            name = f"relation {number}"
            match relation:
                case Source():
                    start(name, partial(follow_source, relation, parts.queue.target, parts.queue.enqueue))
                case Every():
                    start(name, partial(follow_ticks, relation, parts.informers.stores, parts.queue.enqueue))
                case _:
                    continue
            if can_restart(relation):
                self._delays[name] = _SOURCE_BACKOFF.delays()

    async def _release_when_synced(self, parts: "ControllerParts[K]") -> None:
        await parts.informers.wait_synced(self._sync_within)
        self._ready.set()
        if not self._held:
            parts.queue.scheduler.release()

    def _on_crash(self, crash: Crash) -> Verdict | Restart:
        delays = self._delays.get(crash.name)
        if delays is None:
            return Verdict.STOP
        after = delays.next_delay(timing.now())
        what, level = ("a worker", logging.ERROR) if crash.name in self._workers else ("a source", logging.WARNING)
        message = "%s: %s failed and is restarted after %.1f s: %s"
        _log.log(level, message, self.name, what, after, crash.error, exc_info=crash.error)
        if self._count_crash is not None:
            self._count_crash(crash.error)
        return Restart(after)


class ControllerInformers(Generic[K]):
    """The informers of one running controller: of its own kind and of its relations, in each of their namespaces.

    They are declared at the cluster, which shares each informer among all that declare the same. Listeners are attached
    from `open` until `close`; the informers run until the stack is left.
    """

    def __init__(
        self, controller: Controller[K], cluster: Cluster, queue: RequestQueue, on_crash: OnCrash | None = None
    ) -> None:
        self._on_crash = on_crash
        self._controller = controller
        self._cluster = cluster
        self._queue = queue
        self._subscriptions: list[ListenerHandle[Any]] = []
        self._unlisten: list[Any] = []
        self._owned: list[Handle[Any]] = []
        self.handles: list[Handle[Any]] = []
        """The informers, those of the controller's own kind first."""

    @property
    def stores(self) -> Sequence[Store[K]]:
        """The cached objects of the controller's own kind, one store for each namespace."""
        return [handle.store for handle in self.handles[: len(self._controller.namespaces)]]

    @property
    def caches(self) -> "Mapping[str | None, OwnCache[K]]":
        """The caches of the controller's own kind by namespace, with the own writes that they do not show yet."""
        sources = {one.informer: one for one in cluster_sources(self._cluster)}
        own = zip(self._controller.namespaces, self.handles, strict=False)
        return {namespace: OwnCache(handle.store, sources[handle.informer]) for namespace, handle in own}

    @property
    def is_synced(self) -> bool:
        """Whether all informers have synced and all listeners have seen their first lists."""
        return all(one.is_ready for one in self.handles) and all(one.is_synced for one in self._subscriptions)

    async def open(self, stack: AsyncExitStack) -> None:
        """Declares all informers and attaches the listeners; leaving the stack releases the informers."""
        controller, indexes = self._controller, await self._indexes()
        target, enqueue = self._queue.target, self._queue.enqueue
        own = event_handlers.self_listener(target, _own_predicate(controller), enqueue, report=self._report)
        for namespace in controller.namespaces:
            declared = self._cluster.declare(
                controller.kind, namespace=namespace, labels=controller.labels, indexes=list(indexes.values())
            )
            self._subscribe(await stack.enter_async_context(declared), own)
        for relation in controller.relations:
            if isinstance(relation, Remembers):
                self._unlisten.append(relation.states.listen(self._enqueue_remembered))
            elif isinstance(relation, Owns | Watches | References):
                listener = self._listener(relation, indexes)
                for namespace in controller.watched_namespaces(relation):
                    declared = self._cluster.declare(
                        relation.kind, namespace=namespace, labels=relation.labels, indexes=relation.indexes
                    )
                    self._subscribe(await stack.enter_async_context(declared), listener)
                    if isinstance(relation, Owns):
                        self._owned.append(self.handles[-1])

    async def wait_synced(self, within: float | None = None) -> None:
        """Returns once all have synced; NotReady names those that have not."""
        until = timing.deadline(within)
        for handle in self.handles:
            await handle.wait_ready(timing.remaining(until))
        for subscription in self._subscriptions:
            await subscription.wait_synced(timing.remaining(until))

    def close(self) -> None:
        """Detaches the listeners; the objects stay readable."""
        for subscription in self._subscriptions:
            subscription.close()
        for unlisten in self._unlisten:
            unlisten()
        self._unlisten.clear()

    def follow_deleted_children(self, applied: AppliedCache) -> None:
        """Drops what is remembered of applied children as soon as they are deleted, by the garbage collector too."""

        def listen(changes: Sequence[Change[Any]]) -> None:
            for change in changes:
                if change.after is None:
                    applied.forget_deleted(change.ref, change.cached.uid)

        for handle in self._owned:
            self._subscriptions.append(handle.listen(listen, replay=False))

    def _subscribe(self, handle: Handle[Any], listener: Listener) -> None:
        self.handles.append(handle)
        self._subscriptions.append(handle.listen(listener))

    def _enqueue_remembered(self, ref: Ref[Any]) -> None:
        self._queue.enqueue((self._queue.target.key(ref),), REMEMBERED, NORMAL)

    def _listener(self, relation: Owns | Watches | References, indexes: dict[int, Index[Any]]) -> Listener:
        target, enqueue = self._queue.target, self._queue.enqueue
        filtered = replace(relation, when=_both(self._controller.event_filter, relation.when))
        match filtered:
            case Owns():
                return event_handlers.owner_listener(target, filtered, enqueue, report=self._report)
            case Watches():
                return event_handlers.mapped_listener(target, filtered, enqueue, report=self._report)
            case References():
                index = indexes[id(relation)]
                return event_handlers.reference_listener(
                    target, filtered, index, self.stores, enqueue, report=self._report
                )

    def _report(self, what: str, name: str, error: Exception) -> None:
        event_handlers.log_error(f"{self._controller.name}: {what}", name, error)
        if self._on_crash is not None:
            self._on_crash(error)

    async def _indexes(self) -> dict[int, Index[Any]]:
        found: dict[int, Index[Any]] = {}
        for relation in self._references():
            found[id(relation)] = event_handlers.reference_index(
                relation,
                self._controller.kind,
                namespaced=await is_namespaced(self._cluster, relation.kind),
                namespace=self._cluster.client.namespace,
            )
        return found

    def _references(self) -> Sequence[References]:
        return [one for one in self._controller.relations if isinstance(one, References)]


def _own_predicate(controller: Controller[Any]) -> Predicate:
    """Which changes of the controller's own objects trigger a reconcile; no filter hides what a cleanup needs."""
    chosen = controller.when if controller.event_filter is None else all_of(controller.event_filter, controller.when)
    if controller.for_stream is not None:
        chosen = event_handlers.DELETION_STARTS
    if controller.finalizer is None or chosen is event_handlers.SELF_CHANGES:
        return chosen
    return any_of(chosen, event_handlers.CleanupChanges(controller.finalizer))


def _both(one: Predicate | None, other: Predicate | None) -> Predicate | None:
    return (other or one) if one is None or other is None else all_of(one, other)


class OwnCache(msgspec.Struct, Generic[K], frozen=True):
    """The store of a controller's own objects, and which own writes it does not show yet, if that is known."""

    store: Store[K]
    source: CacheSource | None = None


class LoopOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a controller that concern its queue and workers."""

    name: str
    debounce: float = 0.0
    timeout: float | None = None
    backoff: Delay = DEFAULT_BACKOFF
    on_error: ErrorPolicy | None = None


class Engine(msgspec.Struct, Generic[K], frozen=True, kw_only=True):
    """What processes requests: the workers, what their contexts share, and the error handler."""

    dependencies: ContextDependencies
    error_handler: ErrorHandler
    workers: WorkerPool[K]


class ControllerParts(msgspec.Struct, Generic[K], frozen=True, kw_only=True):
    """The parts of a running controller."""

    queue: RequestQueue
    informers: "ControllerInformers[K]"
    engine: Engine[K]


async def assemble(
    controller: Controller[K],
    cluster: Cluster,
    stack: AsyncExitStack,
    *,
    observer: Observer,
    history: ReconcileHistory[K],
    on_crash: OnCrash | None = None,
    scheduler: Scheduler[str, Reason] | None = None,
    keys: KeyFilter | None = None,
    **options: Any,
) -> ControllerParts[K]:
    """Opens the parts of a controller: informers feed the queue, but its scheduler is held and no worker runs yet.

    Leaving the stack closes everything; `options` are those of `open_dependencies`. A given `scheduler` is used instead
    of one that is made for the controller.
    """
    settings = LoopOptions(
        name=controller.name,
        debounce=controller.debounce,
        timeout=controller.timeout,
        backoff=controller.backoff,
        on_error=controller.on_error,
    )
    queue = await open_queue(controller.kind, cluster, settings, observer=observer, scheduler=scheduler, keys=keys)
    informers = ControllerInformers(controller, cluster, queue, on_crash)
    await informers.open(stack)
    engine = await open_engine(
        controller.kind,
        _handlers(controller),
        queue,
        settings,
        stack=stack,
        cluster=cluster,
        caches=informers.caches,
        history=history,
        on_crash=on_crash,
        **options,
    )
    informers.follow_deleted_children(engine.dependencies.applied)
    return ControllerParts(queue=queue, informers=informers, engine=engine)


async def open_queue(
    kind: Kind[Any],
    cluster: Cluster,
    settings: LoopOptions,
    *,
    observer: Observer,
    scheduler: Scheduler[str, Reason] | None = None,
    keys: KeyFilter | None = None,
) -> RequestQueue:
    """Opens a queue whose scheduler is held; the observer is notified of each new request."""
    target = Target(view_of(kind), await is_namespaced(cluster, kind), cluster.client.namespace)
    if scheduler is None:
        gate = None if keys is None else keys.admits
        scheduler = Scheduler(debounce=settings.debounce, held=True, gate=gate, name=settings.name)
    enqueue = observed_enqueue(settings.name, scheduler, observer)
    if keys is not None:
        enqueue = filtered_enqueue(enqueue, keys)
    return RequestQueue(target=target, scheduler=scheduler, enqueue=enqueue, observer=observer)


async def open_engine(
    kind: Kind[K],
    handlers: Handlers[K],
    queue: RequestQueue,
    settings: LoopOptions,
    *,
    stack: AsyncExitStack,
    cluster: Cluster,
    caches: Mapping[str | None, OwnCache[K]],
    history: ReconcileHistory[K],
    deliver: Callable[[Outcome[K]], Awaitable[None]] | None = None,
    on_crash: OnCrash | None = None,
    **options: Any,
) -> Engine[K]:
    """Opens the workers and dependencies for a queue; closed with the stack. `caches` are by namespace."""
    scheduler, target, conflicts = queue.scheduler, queue.target, ConflictTracker()

    def wake(ref: Ref[Any]) -> None:
        queue.enqueue((target.key(ref),), REQUEUED, NORMAL)

    def is_superseded(ref: Ref[Any]) -> bool:
        return scheduler.is_superseded(target.key(ref))

    opening = open_dependencies(
        cluster,
        controller_name=settings.name,
        states=handlers.states,
        conflicts=conflicts,
        is_superseded=is_superseded,
        wake=wake,
        ref_of=target.view.ref_at,
        **options,
    )
    dependencies = await stack.enter_async_context(opening)
    stores = _Stores([cache.store for cache in caches.values()])
    error_handler = ErrorHandler(
        conflicts=conflicts, store=stores, backoff=settings.backoff, on_error=settings.on_error
    )
    invokers = {
        namespace: ReconcileInvoker(
            kind, handlers, dependencies, store=cache.store, error_handler=error_handler, source=cache.source
        )
        for namespace, cache in caches.items()
    }
    invoker = next(iter(invokers.values()))
    workers: WorkerPool[K] = WorkerPool(
        scheduler,
        invoker.start if len(invokers) == 1 else partial(_start_by_namespace, invokers, invoker),
        name=settings.name,
        ref_of=target.view.ref_at,
        error_handler=error_handler,
        observer=queue.observer,
        history=history,
        timeout=settings.timeout,
        give_up=invoker.give_up,
        on_crash=on_crash,
        deliver=deliver,
    )
    stack.callback(workers.close)
    return Engine(dependencies=dependencies, error_handler=error_handler, workers=workers)


class _Stores(msgspec.Struct, frozen=True):
    """Several stores that are read as one."""

    stores: Sequence[Store[Any]]

    def get(self, of: Ref[Any], /) -> Any:
        """The cached object, or None."""
        return next((store.get(of) for store in self.stores if of in store), None)


def _start_by_namespace(
    invokers: Mapping[str | None, ReconcileInvoker[K]],
    fallback: ReconcileInvoker[K],
    key: str,
    request: Request[K] | Due[str, Reason],
    slot: Slot,
) -> Awaitable[Action | None]:
    """Starts a reconcile with the cache of the key's namespace; in another namespace every object is gone."""
    return invokers.get(key.partition("/")[0], fallback).start(key, request, slot)


def _handlers(controller: Controller[K]) -> Handlers[K]:
    return Handlers(
        reconcile=controller.reconcile,
        cleanup=controller.cleanup,
        finalizer=controller.finalizer,
        gone=controller.gone,
        gave_up=controller.gave_up,
        states=tuple(one.states for one in controller.relations if isinstance(one, Remembers)),
    )


async def is_namespaced(cluster: Cluster, kind: Any) -> bool:
    """Whether a kind is namespaced; needs a discovery request only for a kind without a class."""
    view = view_of(kind)
    if view.definition is not None:
        return view.definition.namespaced
    return (await cluster.client.resource(kind)).namespaced
