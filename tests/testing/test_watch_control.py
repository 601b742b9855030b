"""Watch events can be held back, and watches cut off and expired, without losing events."""

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
from levelset.testing.watch_control import DelayedWatches, WatchControl, WatchedEvent


class Settings(Object, api="v1", kind="ConfigMap"):
    """A ConfigMap."""


def settings(name: str) -> Settings:
    return Settings(metadata=ObjectMeta(name=name, namespace="test"))


@asynccontextmanager
async def watching(hook: Hook) -> AsyncGenerator[tuple[Cluster, Cache], None]:
    """A cluster, and a cache of ConfigMaps behind a hook."""
    async with (
        open_cluster() as cluster,
        await Client.connect(cluster.environment.target, wire_hooks=[hook]) as client,
        Cache(client) as cache,
    ):
        cache.declare(Settings, namespace="test")
        await cache.wait_ready()
        yield cluster, cache


async def shown(cache: Cache) -> list[str]:
    """The names in the cache once the loop is idle."""
    await asyncio.sleep(0.001)
    return [one.name for one in await cache.list(Settings, namespace="test", read="stale")]


@virtual
async def test_held_events_are_delivered_in_order_when_released() -> None:
    watches = WatchControl()
    async with watching(watches) as (cluster, cache):
        held = watches.hold(lambda event: event.name == "b")
        for name in ("a", "b", "c"):
            await cluster.create(settings(name))
        assert await shown(cache) == ["a"]
        assert watches.is_holding
        held.release()
        assert await shown(cache) == ["a", "b", "c"]


@virtual
async def test_on_event_is_called_for_each_delivered_event() -> None:
    events: list[WatchedEvent] = []
    watches = WatchControl(on_event=events.append)
    async with watching(watches) as (cluster, cache):
        await cluster.create(settings("a"))
        await cluster.delete(settings("a").ref)
        assert await shown(cache) == []
    assert [one.type for one in events if one.name == "a"] == ["ADDED", "DELETED"]
    assert str(events[-1]).startswith("DELETED ConfigMap/test/a at ")


@virtual
async def test_several_clients_share_one_control_with_their_own_observers() -> None:
    watches, events = WatchControl(), list[str]()
    async with watching(watches.observed_by(lambda event: events.append(event.name))) as (cluster, cache):
        watches.hold(lambda event: event.name == "b")
        await cluster.create(settings("a"))
        await cluster.create(settings("b"))
        assert await shown(cache) == ["a"]
    assert "a" in events
    assert "b" not in events


@virtual
async def test_a_watch_that_is_cut_resumes_where_it_was() -> None:
    watches = WatchControl()
    async with watching(watches) as (cluster, cache):
        await cluster.create(settings("a"))
        assert await shown(cache) == ["a"]
        assert watches.cut("ConfigMap") == 1
        assert watches.cut("Secret") == 0
        await cluster.create(settings("b"))
        await asyncio.sleep(60)
        assert await shown(cache) == ["a", "b"]
        assert cache.stats()[0].relists == 0


@virtual
async def test_a_watch_that_expires_is_relisted_without_the_events_in_between() -> None:
    events: list[str] = []
    watches = WatchControl(on_event=lambda event: events.append(f"{event.type} {event.name}"))
    async with watching(watches) as (cluster, cache):
        held = watches.hold(lambda event: event.name == "a")
        await cluster.create(settings("a"))
        await cluster.delete(settings("a").ref)
        await cluster.create(settings("b"))
        watches.expire()
        held.release()
        await asyncio.sleep(60)
        assert await shown(cache) == ["b"]
        assert cache.stats()[0].relists == 1
    assert "ADDED a" not in events


@virtual
async def test_a_watch_that_is_closed_while_it_is_held_ends() -> None:
    watches = WatchControl()
    async with watching(watches) as (cluster, _):
        watches.hold(lambda _: True)
        await cluster.create(settings("a"))
        await asyncio.sleep(1)


@virtual
async def test_events_of_a_delayed_watch_arrive_late() -> None:
    async with watching(DelayedWatches(2.0)) as (cluster, cache):
        for name in ("a", "b"):
            began = timing.now()
            await cluster.create(settings(name))
            while name not in await shown(cache):  # noqa: ASYNC110  # the time is virtual
                await asyncio.sleep(0.1)
            assert 2.0 <= timing.now() - began < 2.2
