"""A controller at work: informers feed a scheduler, workers take from it, and everything ends in order.

```python
async with running(websites, cluster) as controller:
    await controller.wait_ready()
    await controller.wait_idle()
```
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

import msgspec

from levelset.aio import Backoff, Crash, Delays, Restart, Supervisor, Verdict, timing
from levelset.cache import Cluster, Store
from levelset.client.kinds import view_of
from levelset.controller.assembling import Parts, assemble
from levelset.controller.controller import Controller
from levelset.controller.following import Following
from levelset.controller.history import Counts, History
from levelset.controller.observing import NullObserver, Observer
from levelset.controller.relations import Every, Source
from levelset.controller.requests import OUTSIDE, Reason
from levelset.controller.services import Services
from levelset.controller.sources import ask_all, can_restart, follow_source, follow_ticks
from levelset.objects.identity import Ref
from levelset.schedule import NORMAL, Scheduler

__all__ = ["RunningController", "RunningStats", "running"]

K = TypeVar("K")

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
