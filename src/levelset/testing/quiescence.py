"""When everything has come to rest: every queue empty, nothing running, no timer due, every watch delivered."""

import asyncio
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from levelset.aio import timing
from levelset.client.client import Client
from levelset.client.object_types import OnlyMetadata
from levelset.objects.cached_object import read_head
from levelset.runtime.cache.reader import CacheSource, may_meet
from levelset.runtime.controller.running_controller import RunningController
from levelset.testing.embedded_server import Inside
from levelset.testing.environment import Process, Stage

__all__ = ["unrest", "wait_settled"]

_PAUSE: Final = 0.05
_QUIET: Final = 3
"""So many looks in a row must find nothing on a real cluster, where a change may be on its way."""


async def wait_settled(stage: Stage, *, within: float, soon: float) -> list[str]:
    """Returns when everything has come to rest: an empty list, or what is still going on when the time is up."""
    until = timing.now() + within
    quiet = 0
    while True:
        if stage.loop is not None:
            await stage.loop.idle()
        found = [*unrest(stage, soon=soon), *await _late(stage)]
        quiet = 0 if found else quiet + 1
        if quiet >= (_QUIET if stage.loop is None else 1) or timing.now() >= until:
            return found
        if stage.loop is None:
            await asyncio.sleep(_PAUSE)
        else:
            await stage.loop.jump(until)


def unrest(stage: Stage, *, soon: float = 0.0) -> Iterator[str]:
    """What keeps the processes of a test from being at rest, each in a sentence; what is in their caches aside."""
    leading = {one.options["leader"].name for one in stage.alive if one.is_elected and one.manager.is_leader}
    for process in stage.alive:
        if process.is_standby:
            if process.options["leader"].name not in leading:
                yield f"{process.name} waits to lead, and nobody leads"
            continue
        for wanted in process.wanted:
            running = process.controllers.get(wanted.name)
            if running is None or not running.is_ready:
                yield f"{wanted.name} has not come up: its caches are not filled"
            else:
                yield from _work(running, soon)


def _work(running: RunningController[Any], soon: float) -> Iterator[str]:
    scheduler, stats, now = running.scheduler, running.stats(), timing.now()
    ref_of = running.store.view.ref_at

    def shown(keys: list[str]) -> str:
        return ", ".join(str(ref_of(key)) for key in keys)

    if stats.running:
        yield f"{running.name} looks at {shown(scheduler.running_keys())}"
    if stats.ready:
        yield f"{running.name} has yet to look at {shown(scheduler.keys())}"
    elif (at := scheduler.next_at()) is not None:
        # A look that the reconciler wishes for later is no unrest; one that waits because something went wrong, is.
        margin = max(running.controller.debounce, soon if stats.troubled else 0.0)
        if at <= now + margin:
            yield f"{running.name} looks again in {at - now:.3f} s at {shown(scheduler.keys())}"
    services = running.services
    if len(services.work):
        yield f"{running.name} has work in the background"
    if not services.recorder.is_idle:
        yield f"{running.name} has events to write"


async def _late(stage: Stage) -> list[str]:
    sources = chain.from_iterable(_sources(one) for one in stage.alive)
    if stage.inside is not None:
        return [said for one in sources if (said := _behind(one, _stored(one, stage.inside)))]
    return [said for one in tuple(sources) if (said := _behind(one, await _listed(one, stage.control)))]


def _sources(process: Process) -> Iterator[CacheSource]:
    yield from process.cache.sources


def _behind(source: CacheSource, wanted: dict[str, str]) -> str | None:
    """What the cache has yet to be shown; None if it is as the server is."""
    kept = source.informer.table.kept
    shown = {key: one.resource_version for key, one in kept.items()}
    if shown == wanted:
        return None
    names = sorted(key for key in shown.keys() | wanted.keys() if shown.get(key) != wanted.get(key))
    return f"the cache of {source.scope} does not show yet what the server has: {', '.join(names[:5])}"


def _stored(source: CacheSource, inside: Inside) -> dict[str, str]:
    """The versions of the objects in the storage that a cache should show, by key."""
    scope = source.scope
    served = inside.server.world.catalog.by_gvk(*scope.gvk)
    if served is None:
        return {}
    items = inside.storage.list_nowait(served.prefix_in(scope.namespace)).items
    if scope.is_selective:
        items = tuple(one for one in items if may_meet(scope, read_head(one.value)))
    start = len(served.prefix)
    found = {one.key[start:]: str(one.revision) for one in items}
    if any(not one.field.startswith("metadata.") for one in scope.fields.requirements):
        # Only the server can tell whether an object meets such a field; we see at least that none is out of date.
        kept = source.informer.table.kept
        found = {key: found.get(key, "") for key in kept}
    return found


async def _listed(source: CacheSource, control: Client) -> dict[str, str]:
    """The same, asked of a server that is not ours."""
    scope = source.scope
    options: dict[str, Any] = {"namespace": scope.namespace, "labels": scope.labels, "fields": scope.fields}
    page = await control.list_kept(OnlyMetadata(scope.gvk), **options)
    items = page.items
    return {f"{one.namespace}/{one.name}" if one.namespace else one.name: one.resource_version for one in items}
