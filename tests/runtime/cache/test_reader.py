"""Cached reads see own writes; the watch is delayed, so that a read without waiting would be stale."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from levelset.client.object_types import OnlyMetadata
from levelset.client.patches import MergePatch
from levelset.errors import NotFound
from levelset.objects import GroupVersionKind, Ref, replace
from levelset.testing.virtual_time import virtual
from tests.runtime.cache.cluster_bench import Bench, Config, Website, WebsiteStatus, config, open_bench, website

__all__: list[str] = []

BLOG = Ref(Config, "blog", "default")
SITE = Ref(Website, "blog", "default")


async def create(bench: Bench) -> None:
    await bench.client.create(config("new", "2"))


async def update(bench: Bench) -> None:
    found = await bench.client.get(BLOG)
    await bench.client.update(replace(found, data={"value": "2"}))


async def patch(bench: Bench) -> None:
    await bench.client.patch(BLOG, MergePatch({"data": {"value": "2"}}))


async def apply(bench: Bench) -> None:
    await bench.client.apply(config("blog", "2"), force=True)


async def ensure(bench: Bench) -> None:
    await bench.client.ensure(config("blog"), lambda one: replace(one, data={"value": "2"}))


@pytest.mark.parametrize("write", [update, patch, apply, ensure])
@virtual
async def test_a_get_after_an_update_waits_until_the_cache_has_it(write: Callable[[Bench], Awaitable[None]]) -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog", "1"))
        bench.cluster.declare(Config)
        assert (await bench.cluster.get(BLOG)).data == {"value": "1"}
        bench.holding.hold()
        await write(bench)
        reading = asyncio.ensure_future(bench.cluster.get(BLOG))
        assert await bench.is_waiting(reading)
        bench.holding.release()
        assert (await reading).data == {"value": "2"}
        assert bench.holding.count("get") <= 1, "no live read"


@virtual
async def test_a_get_after_a_create_waits_until_the_cache_has_it() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        bench.holding.hold()
        await create(bench)
        reading = asyncio.ensure_future(bench.cluster.get(Config, "new"))
        assert await bench.is_waiting(reading)
        bench.holding.release()
        assert (await reading).name == "new"
        assert bench.holding.count("get") == 0


@virtual
async def test_a_get_after_a_delete_waits_until_the_object_is_gone() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog"))
        bench.cluster.declare(Config)
        await bench.cluster.get(BLOG)
        bench.holding.hold()
        await bench.client.delete(BLOG)
        reading = asyncio.ensure_future(bench.cluster.find(BLOG))
        assert await bench.is_waiting(reading)
        bench.holding.release()
        assert await reading is None
        with pytest.raises(NotFound, match="get ConfigMap/default/blog"):
            await bench.cluster.get(BLOG)


@virtual
async def test_a_get_after_a_delete_that_the_cache_saw_first_does_not_wait() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog"))
        bench.cluster.declare(Config)
        await bench.cluster.get(BLOG)
        await bench.client.delete(BLOG)
        await asyncio.sleep(1)
        async with asyncio.timeout(0.1):
            assert await bench.cluster.find(BLOG) is None
        assert bench.holding.count("get") == 0


@virtual
async def test_a_get_after_a_delete_and_a_recreate_shows_the_new_object() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog", "old"))
        bench.cluster.declare(Config)
        await bench.cluster.get(BLOG)
        bench.holding.hold()
        await bench.client.delete(BLOG)
        made = await bench.client.create(config("blog", "new"))
        reading = asyncio.ensure_future(bench.cluster.get(BLOG))
        assert await bench.is_waiting(reading)
        bench.holding.release()
        assert (await reading).metadata.uid == made.metadata.uid


@virtual
async def test_an_object_created_and_deleted_before_its_events_arrive_is_never_returned() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        bench.holding.hold()
        await bench.client.create(config("blog"))
        await bench.client.delete(BLOG)
        reading = asyncio.ensure_future(bench.cluster.find(BLOG))
        assert await bench.is_waiting(reading)
        bench.holding.release()
        assert await reading is None
        assert await bench.cluster.find(BLOG) is None


@virtual
async def test_the_delete_of_an_object_that_the_cache_has_not_seen_yet_is_waited_for() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        bench.holding.hold()
        await bench.other.create(config("blog"))
        await bench.client.delete(BLOG)
        reading = asyncio.ensure_future(bench.cluster.list(Config, namespace="default"))
        assert await bench.is_waiting(reading)
        bench.holding.release()
        assert "blog" not in [one.name for one in await reading]


@virtual
async def test_a_status_write_and_a_scale_are_waited_for() -> None:
    async with open_bench() as bench:
        made = await bench.other.create(website("blog"))
        bench.cluster.declare(Website)
        await bench.cluster.get(SITE)
        bench.holding.hold()
        made = await bench.client.update_status(made.with_status(WebsiteStatus(ready=3)))
        await bench.client.scale(SITE, 5)
        reading = asyncio.ensure_future(bench.cluster.get(SITE))
        assert await bench.is_waiting(reading)
        bench.holding.release()
        found = await reading
        assert found.status is not None
        assert (found.status.ready, found.spec.replicas) == (3, 5)


@virtual
async def test_a_list_waits_for_every_own_write_of_its_kind_and_a_get_only_for_its_own() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog"))
        bench.cluster.declare(Config)
        await bench.cluster.get(BLOG)
        bench.holding.hold()
        for number in range(3):
            await bench.client.create(config(f"new-{number}"))
        listing = asyncio.ensure_future(bench.cluster.list(Config, namespace="default"))
        elsewhere = asyncio.ensure_future(bench.cluster.list(Config, namespace="kube-public"))
        assert await bench.is_waiting(listing)
        assert not await bench.is_waiting(elsewhere), "what was written is in another namespace"
        assert (await bench.cluster.get(BLOG)).name == "blog"
        bench.holding.release()
        names = [one.name for one in await listing]
        assert [name for name in names if name.startswith("new-")] == ["new-0", "new-1", "new-2"]


@virtual
async def test_writes_of_other_clients_are_not_waited_for() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog", "1"))
        bench.cluster.declare(Config)
        await bench.cluster.get(BLOG)
        bench.holding.hold()
        await bench.other.patch(BLOG, MergePatch({"data": {"value": "2"}}))
        async with asyncio.timeout(0.1):
            assert (await bench.cluster.get(BLOG)).data == {"value": "1"}
            assert await bench.cluster.list(Config)


@virtual
async def test_a_read_whose_deadline_passes_is_live_and_the_next_one_does_not_wait_again() -> None:
    async with open_bench(within=5) as bench:
        await bench.other.create(config("blog", "1"))
        bench.cluster.declare(Config)
        await bench.cluster.get(BLOG)
        bench.holding.hold()
        await patch(bench)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert (await bench.cluster.get(BLOG)).data == {"value": "2"}
        assert 5 <= loop.time() - began < 5.1
        assert [one.data for one in await bench.cluster.list(Config, fields="metadata.name=blog")] == [{"value": "2"}]
        assert loop.time() - began < 5.1
        assert bench.holding.count("get") == 1
        bench.holding.release()
        await asyncio.sleep(1)
        assert (await bench.cluster.get(BLOG)).data == {"value": "2"}
        assert bench.holding.count("get") == 1, "the cache has caught up and answers again"


@virtual
async def test_the_deadline_can_be_set_for_each_read() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        bench.holding.hold()
        await create(bench)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await bench.cluster.find(Config, "new", within=0.25)
        assert 0.24 < loop.time() - began < 0.26


@virtual
async def test_a_stale_read_does_not_wait() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog", "1"))
        bench.cluster.declare(Config)
        await bench.cluster.get(BLOG)
        bench.holding.hold()
        await patch(bench)
        async with asyncio.timeout(0.1):
            assert (await bench.cluster.get(BLOG, read="stale")).data == {"value": "1"}
            assert {"value": "1"} in [one.data for one in await bench.cluster.list(Config, read="stale")]
        assert bench.holding.count("get") == 0


@virtual
async def test_a_live_read_always_goes_to_the_server() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog", "1"))
        bench.cluster.declare(Config)
        await bench.cluster.get(BLOG)
        bench.holding.hold()
        await bench.other.patch(BLOG, MergePatch({"data": {"value": "2"}}))
        assert (await bench.cluster.get(BLOG, read="live")).data == {"value": "2"}
        found = await bench.cluster.list(Config, read="live", fields="metadata.name=blog")
        assert [one.data for one in found] == [{"value": "2"}]
        assert found[0] is found[0]


def kinds() -> list[Any]:
    gvk = GroupVersionKind("", "v1", "ConfigMap")
    return [Config, gvk, OnlyMetadata(Config), OnlyMetadata(gvk)]


@pytest.mark.parametrize("declared", [Config, OnlyMetadata(Config)])
@virtual
async def test_own_writes_are_waited_for_with_any_projection_of_the_cache(declared: Any) -> None:
    async with open_bench() as bench:
        bench.cluster.declare(declared)
        await bench.cluster.wait_ready()
        bench.holding.hold()
        made = await bench.client.create(config("new"))
        reading = asyncio.ensure_future(bench.cluster.get(OnlyMetadata(Config), "new"))
        assert await bench.is_waiting(reading)
        bench.holding.release()
        assert (await reading).metadata.resource_version == made.metadata.resource_version


@virtual
async def test_typed_dynamic_and_metadata_reads_of_one_kind_agree_and_share_one_watch() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog", "1", tier="a"))
        bench.cluster.declare(Config)
        found = [await bench.cluster.get(kind, "blog") for kind in kinds()]
        assert {one.metadata.resource_version for one in found} == {found[0].metadata.resource_version}
        assert {one.metadata.labels["tier"] for one in found} == {"a"}
        lists = [await bench.cluster.list(kind, labels="tier=a") for kind in kinds()]
        assert [[one.name for one in some] for some in lists] == [["blog"]] * 4
        assert found[2].kind == "PartialObjectMetadata"
        assert len(bench.cluster.declared) == 1
        assert bench.holding.count("watch") <= 1
        assert bench.holding.count("get") == 0
