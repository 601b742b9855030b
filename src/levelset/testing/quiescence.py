"""Waits until the controllers of a test are idle: queues empty, no reconcile running or failing, caches up to date."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from levelset.aio import timing
from levelset.client.client import Client
from levelset.client.internals import list_page
from levelset.client.object_types import OnlyMetadata
from levelset.objects.cached_object import decode_head
from levelset.runtime.cache.cluster import cluster_sources
from levelset.runtime.cache.reader import CacheSource, may_match
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.running_controller import RunningController
from levelset.testing.embedded_server import EmbeddedServer
from levelset.testing.environment import Environment, Process
from levelset.testing.reconcile_failures import AllowedErrors, describe_error, is_allowed

__all__ = ["FailingReconcile", "failing_reconciles", "pending_work", "wait_settled"]

_PAUSE: Final = 0.05
_QUIET: Final = 3
"""On a real cluster so many checks in a row must find nothing, since a watch event may be in flight."""


async def wait_settled(
    environment: Environment, *, within: float, soon: float, allow_errors: AllowedErrors | None = None
) -> list[str]:
    """Waits until nothing is pending; returns the pending work when the time is up, else an empty list.

    An object whose last reconcile failed is pending, unless its error is allowed: it is waited for until a retry
    succeeds.
    """
    until = timing.now() + within
    quiet = 0
    while True:
        if environment.loop is not None:
            await environment.loop.idle()
        found = [*map(str, failing_reconciles(environment, allow_errors)), *pending_work(environment, soon=soon)]
        is_late = timing.now() >= until
        if not found or is_late:  # reading all that is stored is dear, and needless while work is pending
            found += await _outdated_caches(environment)
        quiet = 0 if found else quiet + 1
        if is_late or quiet >= (_QUIET if environment.loop is None else 1):
            return found
        if environment.loop is None:
            await asyncio.sleep(_PAUSE)
        else:
            await environment.loop.jump(until)


@dataclass(frozen=True, slots=True)
class FailingReconcile:
    """An object whose last reconcile by a running controller failed, or met a conflict."""

    controller: str
    outcome: Outcome[Any]

    def __str__(self) -> str:
        error, attempt = self.outcome.error, self.outcome.attempt + 1
        said = "" if error is None else f": {describe_error(error)}"
        often = f" ({attempt} times in a row)" if attempt > 1 else ""
        return f"{self.controller} fails to reconcile {self.outcome.ref}{said}{often}"


def failing_reconciles(environment: Environment, allow_errors: AllowedErrors | None = None) -> list[FailingReconcile]:
    """The objects that fail at the moment, except for allowed errors; None allows what each process allows."""
    found: list[FailingReconcile] = []
    for process in environment.alive:
        if not process.failures.failing:
            continue
        allowed = process.allow_errors if allow_errors is None else allow_errors
        for (name, _), outcome in process.failures.failing.items():
            if not is_allowed(outcome.error, allowed):
                found.append(FailingReconcile(name, outcome))
    return found


def pending_work(environment: Environment, *, soon: float = 0.0) -> Iterator[str]:
    """The pending work of the controllers of a test, one sentence each; caches are not compared here."""
    leading = {one.options["leader"].name for one in environment.alive if one.is_elected and one.manager.is_leader}
    for process in environment.alive:
        if process.is_standby:
            if process.options["leader"].name not in leading:
                yield f"{process.name} is a standby, and there is no leader"
            continue
        if process.is_joining:
            yield f"{process.name} has not joined the shards yet"
        for wanted in process.wanted:
            running = process.controllers.get(wanted.name)
            if running is None or not running.is_ready:
                yield f"{wanted.name} is not ready: its caches are not synced"
            else:
                yield from _work(running, soon)


def _work(running: RunningController[Any], soon: float) -> Iterator[str]:
    scheduler, stats, now = running.scheduler, running.stats(), timing.now()
    ref_of = running.stores[0].view.ref_at

    def shown(keys: list[str]) -> str:
        return ", ".join(str(ref_of(key)) for key in keys)

    if stats.running:
        yield f"{running.name} is reconciling {shown(scheduler.running_keys())}"
    if stats.ready:
        yield f"{running.name} has queued {shown(scheduler.keys())}"
    elif (at := scheduler.next_at()) is not None:
        # A requeue that the reconciler requested for later is not pending work; a retry after an error is.
        margin = max(running.controller.debounce, soon if stats.retrying else 0.0)
        if at <= now + margin:
            yield f"{running.name} reconciles {shown(scheduler.keys())} again in {at - now:.3f} s"
    services = running.dependencies
    if len(services.work):
        yield f"{running.name} has background work"
    if not services.recorder.is_idle:
        yield f"{running.name} has Events to write"


async def _outdated_caches(environment: Environment) -> list[str]:
    sources = chain.from_iterable(_sources(one) for one in environment.alive)
    if environment.embedded is not None:
        return [text for one in sources if (text := _behind(one, _stored(one, environment.embedded)))]
    return [text for one in tuple(sources) if (text := _behind(one, await _listed(one, environment.control)))]


def _sources(process: Process) -> Iterator[CacheSource]:
    yield from cluster_sources(process.cache)


def _behind(source: CacheSource, wanted: dict[str, str]) -> str | None:
    """The objects in which a cache differs from the server; None if there are none."""
    cached = source.informer.table.cached
    shown = {key: one.resource_version for key, one in cached.items()}
    if shown == wanted:
        return None
    names = sorted(key for key in shown.keys() | wanted.keys() if shown.get(key) != wanted.get(key))
    return f"the cache of {source.scope} is not up to date: {', '.join(names[:5])}"


def _stored(source: CacheSource, embedded: EmbeddedServer) -> dict[str, str]:
    """The stored versions of the objects that a cache should show, by key."""
    scope = source.scope
    served = embedded.server.state.catalog.by_gvk(*scope.gvk)
    if served is None:
        return {}
    items = embedded.storage.list_nowait(served.prefix_in(scope.namespace)).items
    if scope.is_selective:
        items = tuple(one for one in items if may_match(scope, decode_head(one.value)))
    start = len(served.prefix)
    found = {one.key[start:]: str(one.revision) for one in items}
    if any(not one.field.startswith("metadata.") for one in scope.fields.requirements):
        # Only the server can evaluate such a field selector; at least check that no cached object is outdated.
        cached = source.informer.table.cached
        found = {key: found.get(key, "") for key in cached}
    return found


async def _listed(source: CacheSource, control: Client) -> dict[str, str]:
    """The same for a real cluster, by a list request."""
    scope = source.scope
    options: dict[str, Any] = {"namespace": scope.namespace, "labels": scope.labels, "fields": scope.fields}
    page = await list_page(control, OnlyMetadata(scope.gvk), **options)
    items = page.items
    return {f"{one.namespace}/{one.name}" if one.namespace else one.name: one.resource_version for one in items}
