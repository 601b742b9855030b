"""The parts of a running controller, and how they are put together: `assemble` is the map of the whole loop.

Informers tell `Following` of changes; triggers turn them into requests; the scheduler keeps one place for each object;
the runner's workers take what is due; the invocation looks at it, and its answer goes back to the scheduler.
"""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from levelset.cache import Cluster, Store
from levelset.cache.sources import Source
from levelset.client.kinds import Kind, view_of
from levelset.controller.actions import Outcome
from levelset.controller.answering import Answering
from levelset.controller.conflicts import Conflicts
from levelset.controller.controller import Controller
from levelset.controller.desk import Desk, open_asking
from levelset.controller.following import Following, is_namespaced
from levelset.controller.history import History
from levelset.controller.invocation import Duties, Invocation
from levelset.controller.observing import Observer
from levelset.controller.policies import Delay, ErrorPolicy
from levelset.controller.relations import Remembers
from levelset.controller.requests import REQUEUED, Reason
from levelset.controller.runner import Runner
from levelset.controller.services import Services, open_services
from levelset.controller.triggers import Target
from levelset.objects.identity import Ref
from levelset.schedule import NORMAL, TRANSIENT, Scheduler

__all__ = ["Engine", "Parts", "Tuning", "assemble", "open_desk", "open_engine"]

K = TypeVar("K")


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
    source: Source | None = None,
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
