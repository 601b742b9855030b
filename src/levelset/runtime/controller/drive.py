"""The loop by hand: requests from any stream, a reconciler, a store to read from and a client to write with.

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
from levelset.aio.streams import Crew
from levelset.client.client import Client
from levelset.client.object_types import Kind, OnlyMetadata, View
from levelset.objects.ref import Ref
from levelset.runtime.cache import Cluster, Store
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.error_policy import Delay, ErrorPolicy
from levelset.runtime.controller.observers import NullObserver, Observer
from levelset.runtime.controller.reconcile import Duties, Reconcile
from levelset.runtime.controller.reconcile_history import History
from levelset.runtime.controller.relations import Source
from levelset.runtime.controller.request import Request
from levelset.runtime.controller.request_queue import Desk, follow_source
from levelset.runtime.controller.running_controller import Tuning, open_desk, open_engine
from levelset.runtime.queue import TRANSIENT

__all__ = ["DriveOptions", "drive"]

K = TypeVar("K")

_CONCURRENCY: Final = 4


class DriveOptions(TypedDict, total=False):
    """How the loop goes; the same options as those of a Controller."""

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
    """Looks at whatever the requests name, and yields what came of each look; what a Controller does with its parts.

    No look happens before the store has been filled. An object that the store does not have is `gone`. When the
    requests end, what is due is looked at, what waits for a later time is dropped, and the outcomes end; an error of
    theirs is raised. Whoever reads the outcomes slowly slows the looks down; to stop, close the generator (`aclosing`).

    `ctx` reads everything but the objects of the store from the server.
    """
    name = options.get("name", "drive")
    outcomes: Channel[Outcome[K]] = Channel(capacity=max(1, options.get("concurrency", _CONCURRENCY)), name=name)
    crew, errors = Crew(name), list[BaseException]()
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
    """Everything that happens, in a task of its own: a generator may be read by one task and closed by another."""
    tuning, concurrency, watching = _read_options(options)
    kind, view = _kind(reading.view), reading.view
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Cluster(writing, undeclared="live"))
        desk = await open_desk(kind, cluster, tuning, observer=watching)
        engine = await open_engine(
            kind,
            Duties(reconcile=reconcile),
            desk,
            tuning,
            stack=stack,
            cluster=cluster,
            store=reading,
            history=History(1, ref_of=view.ref_at),
            deliver=partial(_deliver, outcomes),
            stores={view.gvk: reading},
        )
        try:
            async with Supervisor(name=tuning.name) as supervisor:
                supervisor.start("gate", _open_gate(reading, desk))
                supervisor.start("requests", _follow(requests, reading, desk))
                for number in range(concurrency):
                    supervisor.start(f"worker {number}", engine.runner.work())
                await supervisor.wait()
        except Crashed as crashed:
            raise crashed.exceptions[0] from None


def _read_options(options: DriveOptions) -> tuple[Tuning, int, Observer]:
    observer = options.get("observer")
    watching: Observer = NullObserver() if observer is None else observer
    tuning = Tuning(
        name=options.get("name", "drive"),
        debounce=options.get("debounce", 0.0),
        timeout=options.get("timeout"),
        backoff=options.get("backoff", TRANSIENT),
        on_error=options.get("on_error"),
    )
    return tuning, options.get("concurrency", _CONCURRENCY), watching


async def _open_gate(reading: Store[Any], desk: Desk) -> None:
    await reading.wait_ready()
    desk.scheduler.release()


async def _follow(requests: AsyncIterable[Any], reading: Store[Any], desk: Desk) -> None:
    await follow_source(Source(requests), desk.target, desk.ask)
    await _open_gate(reading, desk)
    desk.scheduler.close(drain=True)


async def _deliver(outcomes: Channel[Outcome[Any]], outcome: Outcome[Any]) -> None:
    with suppress(Closed):  # nobody reads any more, and everything is about to end
        await outcomes.send(outcome)


def _kind(view: View[K]) -> Kind[K]:
    if view.is_metadata:
        return OnlyMetadata(view.gvk)
    return view.gvk if view.definition is None else view.class_
