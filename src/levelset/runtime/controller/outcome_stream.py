"""`drive`, the controller loop as a generator: requests from any stream, a reconcile function, a store and a client.

```python
async for outcome in drive(requests, reconcile, reading=sites, writing=client):
    print(outcome.ref, outcome.error or outcome.action)
```
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, Final, TypedDict, TypeVar, Unpack

from levelset.aio import Channel, Closed, Crashed, Supervisor
from levelset.aio.streams import TaskSet
from levelset.client.client import Client
from levelset.client.object_types import Kind, OnlyMetadata, View
from levelset.objects.ref import Ref
from levelset.runtime.cache import Cluster, Store
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.error_policy import Delay, ErrorPolicy
from levelset.runtime.controller.observers import NullObserver, Observer
from levelset.runtime.controller.reconcile import Handlers, Reconcile
from levelset.runtime.controller.reconcile_history import ReconcileHistory
from levelset.runtime.controller.relations import Source
from levelset.runtime.controller.request import Request
from levelset.runtime.controller.request_queue import RequestQueue, follow_source
from levelset.runtime.controller.running_controller import LoopOptions, OwnCache, open_engine, open_queue
from levelset.runtime.queue import DEFAULT_BACKOFF

__all__ = ["DriveOptions", "drive"]

K = TypeVar("K")

_CONCURRENCY: Final = 4


class DriveOptions(TypedDict, total=False):
    """Options of `drive`; they mean the same as those of a Controller."""

    concurrency: int
    timeout: float | None
    debounce: float
    backoff: Delay
    on_error: ErrorPolicy | None
    name: str
    observer: Observer | None


async def drive(
    requests: AsyncIterable[Ref[K] | Request[K]],
    reconcile: Reconcile[K],
    *,
    reading: Store[K],
    writing: Client,
    **options: Unpack[DriveOptions],
) -> AsyncGenerator[Outcome[K], None]:
    """Reconciles the objects that the requests name, and yields the outcome of each reconcile.

    For requests that come from streams of your own instead of the relations of a `Controller`.

    No reconcile starts before the store is filled. An object that the store does not have is `gone`. When the requests
    end, those that are due are reconciled, delayed ones are dropped, and the outcomes end; an error that the stream of
    requests raises is raised here. A slow consumer of the outcomes slows the workers down. To stop, close the generator
    (`aclosing`).

    `ctx` reads everything but the objects of the store from the API server.
    """
    name = options.get("name", "drive")
    outcomes: Channel[Outcome[K]] = Channel(capacity=max(1, options.get("concurrency", _CONCURRENCY)), name=name)
    crew, errors = TaskSet(name), list[BaseException]()
    work = _run(requests, reconcile, reading=reading, writing=writing, outcomes=outcomes, options=options)
    crew.start(work, partial(_end, outcomes, errors))
    try:
        async for outcome in outcomes:
            yield outcome
    finally:
        outcomes.abandon()
        await crew.stop()
    if errors:
        raise errors[0]


def _end(outcomes: Channel[Any], errors: list[BaseException], task: "asyncio.Task[None]") -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        errors.append(error)
    outcomes.close()


async def _run(
    requests: AsyncIterable[Ref[K] | Request[K]],
    reconcile: Reconcile[K],
    *,
    reading: Store[K],
    writing: Client,
    outcomes: Channel[Outcome[K]],
    options: DriveOptions,
) -> None:
    """Runs the loop in a task of its own: a generator may be read by one task and closed by another."""
    settings, concurrency, observer = _read_options(options)
    kind, view = _kind(reading.view), reading.view
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Cluster(writing, undeclared="live"))
        queue = await open_queue(kind, cluster, settings, observer=observer)
        engine = await open_engine(
            kind,
            Handlers(reconcile=reconcile),
            queue,
            settings,
            stack=stack,
            cluster=cluster,
            caches={None: OwnCache(reading)},
            history=ReconcileHistory(1, ref_of=view.ref_at),
            deliver=partial(_deliver, outcomes),
            stores={view.gvk: reading},
        )
        try:
            async with Supervisor(name=settings.name) as supervisor:
                supervisor.start("gate", _release_when_filled(reading, queue))
                supervisor.start("requests", _follow(requests, reading, queue))
                for number in range(concurrency):
                    supervisor.start(f"worker {number}", engine.workers.work())
                await supervisor.wait()
        except Crashed as crashed:
            raise crashed.exceptions[0] from None


def _read_options(options: DriveOptions) -> tuple[LoopOptions, int, Observer]:
    observer = options.get("observer")
    chosen: Observer = NullObserver() if observer is None else observer
    settings = LoopOptions(
        name=options.get("name", "drive"),
        debounce=options.get("debounce", 0.0),
        timeout=options.get("timeout"),
        backoff=options.get("backoff", DEFAULT_BACKOFF),
        on_error=options.get("on_error"),
    )
    return settings, options.get("concurrency", _CONCURRENCY), chosen


async def _release_when_filled(reading: Store[Any], queue: RequestQueue) -> None:
    await reading.wait_ready()
    queue.scheduler.release()


async def _follow(requests: AsyncIterable[Any], reading: Store[Any], queue: RequestQueue) -> None:
    await follow_source(Source(requests), queue.target, queue.enqueue)
    await _release_when_filled(reading, queue)
    queue.scheduler.close(drain=True)


async def _deliver(outcomes: Channel[Outcome[Any]], outcome: Outcome[Any]) -> None:
    with suppress(Closed):  # the generator was closed, and everything is about to end
        await outcomes.send(outcome)


def _kind(view: View[K]) -> Kind[K]:
    if view.is_metadata:
        return OnlyMetadata(view.gvk)
    return view.gvk if view.definition is None else view.class_
