"""What comes on watches can be held, cut off and expired, and nothing is lost that a watch must not lose."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from levelset import Object, ObjectMeta
from levelset.aio import timing
from levelset.client import Client, Hook
from levelset.runtime.cache import Cluster as Cache
from levelset.testing import Cluster
from levelset.testing.cluster import open_cluster
from levelset.testing.virtual_time import virtual
from levelset.testing.watch_control import LateWatches, WatchedEvent, Watches


class Box(Object, api="v1", kind="ConfigMap"):
    """Something to watch."""


def box(name: str) -> Box:
    return Box(metadata=ObjectMeta(name=name, namespace="test"))


@asynccontextmanager
async def watching(hook: Hook) -> AsyncGenerator[tuple[Cluster, Cache], None]:
    """A cluster, and a cache of boxes behind a hook."""
    async with (
        open_cluster() as cluster,
        await Client.connect(cluster.stage.where, wire_hooks=[hook]) as client,
        Cache(client) as cache,
    ):
        cache.declare(Box, namespace="test")
        await cache.wait_ready()
        yield cluster, cache


async def shown(cache: Cache) -> list[str]:
    """The names in the cache once nothing can happen any more without time passing."""
    await asyncio.sleep(0.001)
    return [one.name for one in await cache.list(Box, namespace="test", read="stale")]


@virtual
async def test_what_is_held_comes_when_it_is_released_and_in_order() -> None:
    watches = Watches()
    async with watching(watches) as (cluster, cache):
        held = watches.hold(lambda event: event.name == "b")
        for name in ("a", "b", "c"):
            await cluster.create(box(name))
        assert await shown(cache) == ["a"]
        assert watches.is_holding
        held.release()
        assert await shown(cache) == ["a", "b", "c"]


@virtual
async def test_each_event_is_told_when_it_is_handed_on() -> None:
    told: list[WatchedEvent] = []
    watches = Watches(on_event=told.append)
    async with watching(watches) as (cluster, cache):
        await cluster.create(box("a"))
        await cluster.delete(box("a").ref)
        assert await shown(cache) == []
    assert [one.type for one in told if one.name == "a"] == ["ADDED", "DELETED"]
    assert str(told[-1]).startswith("DELETED ConfigMap/test/a at ")


@virtual
async def test_several_clients_have_one_hand_and_are_told_apart() -> None:
    watches, told = Watches(), list[str]()
    async with watching(watches.telling(lambda event: told.append(event.name))) as (cluster, cache):
        watches.hold(lambda event: event.name == "b")
        await cluster.create(box("a"))
        await cluster.create(box("b"))
        assert await shown(cache) == ["a"]
    assert "a" in told
    assert "b" not in told


@virtual
async def test_a_watch_that_is_cut_goes_on_where_it_was() -> None:
    watches = Watches()
    async with watching(watches) as (cluster, cache):
        await cluster.create(box("a"))
        assert await shown(cache) == ["a"]
        assert watches.cut("ConfigMap") == 1
        assert watches.cut("Secret") == 0
        await cluster.create(box("b"))
        await asyncio.sleep(60)
        assert await shown(cache) == ["a", "b"]
        assert cache.stats()[0].relists == 0


@virtual
async def test_a_watch_that_expires_is_listed_anew_and_what_happened_meanwhile_is_not_told() -> None:
    told: list[str] = []
    watches = Watches(on_event=lambda event: told.append(f"{event.type} {event.name}"))
    async with watching(watches) as (cluster, cache):
        held = watches.hold(lambda event: event.name == "a")
        await cluster.create(box("a"))
        await cluster.delete(box("a").ref)
        await cluster.create(box("b"))
        watches.expire()
        held.release()
        await asyncio.sleep(60)
        assert await shown(cache) == ["b"]
        assert cache.stats()[0].relists == 1
    assert "ADDED a" not in told


@virtual
async def test_a_watch_that_is_closed_while_it_is_held_ends() -> None:
    watches = Watches()
    async with watching(watches) as (cluster, _):
        watches.hold(lambda _: True)
        await cluster.create(box("a"))
        await asyncio.sleep(1)


@virtual
async def test_everything_on_a_late_watch_comes_as_much_later() -> None:
    async with watching(LateWatches(2.0)) as (cluster, cache):
        for name in ("a", "b"):
            began = timing.now()
            await cluster.create(box(name))
            while name not in await shown(cache):  # noqa: ASYNC110  # the time is virtual
                await asyncio.sleep(0.1)
            assert 2.0 <= timing.now() - began < 2.2
