"""Cache sources: which writes concern an informer, and how reads wait for it."""

import asyncio
from typing import Any

import pytest

from levelset.client.request_body import Write
from levelset.objects import FieldSelector, GroupVersionKind, Head, decode_cached
from levelset.runtime.cache.cluster import cluster_sources
from levelset.runtime.cache.reader import CacheSource, may_be_newer, may_match
from levelset.runtime.cache.scope import Scope
from levelset.testing.virtual_time import virtual
from tests.runtime.cache.cluster_bench import Config, config, open_bench

__all__: list[str] = []

CONFIG = GroupVersionKind("", "v1", "ConfigMap")


def written(name: str | None = "a", namespace: str | None = "default", **more: Any) -> Write:
    made: dict[str, Any] = {"gvk": CONFIG, "resource_version": "999999", "uid": "u", **more}
    return Write(name=name, namespace=namespace, **made)


@pytest.mark.parametrize(
    ("write", "count"),
    [
        (written(), 1),
        (written(gvk=GroupVersionKind("", "v2", "ConfigMap")), 1),
        (written(gvk=GroupVersionKind("", "v1", "Secret")), 0),
        (written(gvk=GroupVersionKind("other.dev", "v1", "ConfigMap")), 0),
        (written(namespace="other"), 0),
        (written(None), 1),
        (written(resource_version=None), 0),
    ],
)
@virtual
async def test_a_write_concerns_an_informer_of_its_kind_and_namespace(write: Write, count: int) -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config, namespace="default")
        (source,) = cluster_sources(bench.cluster)
        if source.concerns(write.gvk):
            source.record(write)
        assert len(source.writes) == count


@pytest.mark.parametrize(("labels", "count"), [('{"tier":"a"}', 1), ('{"tier":"b"}', 0), ("null", 0)])
@virtual
async def test_a_write_outside_of_the_selector_does_not_concern_an_informer(labels: str, count: int) -> None:
    head: Head = decode_cached(f'{{"metadata":{{"name":"a","labels":{labels}}}}}'.encode()).head
    async with open_bench() as bench:
        bench.cluster.declare(Config, labels="tier=a")
        (source,) = cluster_sources(bench.cluster)
        source.record(written(head=head))
        assert len(source.writes) == count


@pytest.mark.parametrize(
    ("fields", "is_so"),
    [("metadata.name=a", True), ("metadata.name=b", False), ("metadata.name!=a", False), ("status.phase=Done", True)],
)
def test_a_field_that_only_the_server_can_evaluate_may_match(fields: str, is_so: bool) -> None:
    scope = Scope(CONFIG, fields=FieldSelector.parse(fields))
    assert may_match(scope, Head(name="a")) is is_so


@pytest.mark.parametrize(
    ("version", "than", "is_so"),
    [("7", "8", False), ("8", "8", False), ("9", "8", True), ("10", "9", True), ("x", "x", False), ("x", "9", True)],
)
def test_versions_that_are_not_numbers_are_only_compared_for_equality(version: str, than: str, is_so: bool) -> None:
    assert may_be_newer(version, than) is is_so


@virtual
async def test_every_read_that_waits_is_woken_by_progress() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        (source,) = cluster_sources(bench.cluster)

        async def waits() -> bool:
            return await source.wait_until(lambda: source.find("default/blog") is not None, None)

        waiting = [asyncio.ensure_future(waits()) for _ in range(5)]
        await asyncio.sleep(0.1)
        assert source.waiting == 5
        await bench.other.create(config("blog"))
        assert await asyncio.gather(*waiting) == [True] * 5
        assert source.waiting == 0


@virtual
async def test_a_write_that_timed_out_is_late_and_the_cache_is_stuck_until_it_arrives() -> None:
    async with open_bench(within=2) as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        (source,) = cluster_sources(bench.cluster)
        bench.holding.hold()
        await bench.client.create(config("one"))
        loop = asyncio.get_running_loop()

        async def wait_for(source: CacheSource, key: str) -> bool:
            return await source.wait_seen(source.unseen(key), lambda: source.unseen(key), loop.time() + 2)

        assert not await wait_for(source, "default/one")
        await bench.client.create(config("two"))
        began = loop.time()
        assert not await wait_for(source, "default/two")
        assert loop.time() == began, "a read does not wait for a cache that is known to be stuck"
        bench.holding.release()
        await asyncio.sleep(1)
        assert await wait_for(source, "default/two")


@virtual
async def test_a_read_with_a_short_deadline_does_not_make_the_cache_stuck() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        bench.holding.hold()
        await bench.client.create(config("one"))
        assert await bench.cluster.find(Config, "one", within=0.1) is not None
        reading = asyncio.ensure_future(bench.cluster.get(Config, "one"))
        assert await bench.is_waiting(reading)
        bench.holding.release()
        assert (await reading).name == "one"
        assert bench.holding.count("get") == 1
