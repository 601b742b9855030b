"""Own writes that a cache never observes, or observes in another form: no read hangs, and none is stale."""

import asyncio
from typing import Any

import pytest

from levelset.client.internals import with_settings
from levelset.client.object_types import OnlyMetadata
from levelset.client.patches import MergePatch
from levelset.client.transport.interface import Call, Response, Send
from levelset.errors import NotFound, Unreachable
from levelset.objects import Ref, replace
from levelset.runtime.cache.cluster import cluster_sources
from levelset.testing.virtual_time import virtual
from tests.runtime.cache.cluster_bench import Bench, Config, config, open_bench

__all__: list[str] = []

BLOG = Ref(Config, "blog", "default")


async def at_once(reading: Any) -> Any:
    async with asyncio.timeout(0.1):
        return await reading


@virtual
async def test_a_write_outside_of_the_selector_does_not_delay_reads() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config, labels="tier=a")
        await bench.cluster.wait_ready()
        await bench.client.create(config("blog", "1", tier="b"))
        await bench.client.patch(BLOG, MergePatch({"data": {"value": "2"}}))
        assert list(await at_once(bench.cluster.list(Config, labels="tier=a"))) == []
        assert (await at_once(bench.cluster.get(BLOG))).data == {"value": "2"}, "read live: the selector may exclude it"
        assert await at_once(bench.cluster.find(BLOG, read="stale")) is None
        await bench.client.delete(BLOG)
        assert list(await at_once(bench.cluster.list(Config, labels="tier=a"))) == []


@virtual
async def test_an_object_that_leaves_the_selector_by_an_own_write_is_gone_from_the_next_list() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog", tier="a"))
        bench.cluster.declare(Config, labels="tier=a")
        assert len(await bench.cluster.list(Config, labels="tier=a")) == 1
        bench.holding.hold()
        await bench.client.patch(BLOG, MergePatch({"metadata": {"labels": {"tier": "b"}}}))
        listing = asyncio.ensure_future(bench.cluster.list(Config, labels="tier=a"))
        assert await bench.is_waiting(listing)
        bench.holding.release()
        assert list(await listing) == []


@virtual
async def test_an_object_that_enters_the_selector_by_an_own_write_is_in_the_next_list() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog", tier="b"))
        bench.cluster.declare(Config, labels="tier=a")
        await bench.cluster.wait_ready()
        bench.holding.hold()
        await bench.client.patch(BLOG, MergePatch({"metadata": {"labels": {"tier": "a"}}}))
        listing = asyncio.ensure_future(bench.cluster.list(Config, labels="tier=a"))
        assert await bench.is_waiting(listing)
        bench.holding.release()
        assert [one.name for one in await listing] == ["blog"]


@virtual
async def test_a_write_to_another_namespace_or_kind_does_not_delay_reads() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config, namespace="default")
        await bench.cluster.wait_ready()
        bench.holding.hold()
        await bench.client.create(config("blog", namespace="kube-public"))
        await bench.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "more"}})
        await at_once(bench.cluster.list(Config, namespace="default"))


@virtual
async def test_a_delete_blocked_by_finalizers_shows_the_deletion_timestamp_and_ends_with_the_last_finalizer() -> None:
    async with open_bench() as bench:
        made = config("blog").with_metadata(finalizers=("example.dev/hold",))
        await bench.other.create(made)
        bench.cluster.declare(Config)
        await bench.cluster.get(BLOG)
        bench.holding.hold()
        await bench.client.delete(BLOG)
        reading = asyncio.ensure_future(bench.cluster.get(BLOG))
        assert await bench.is_waiting(reading)
        bench.holding.release()
        assert (await reading).metadata.deletion_timestamp is not None
        bench.holding.hold()
        await bench.client.patch(BLOG, MergePatch({"metadata": {"finalizers": None}}))
        finding = asyncio.ensure_future(bench.cluster.find(BLOG))
        assert await bench.is_waiting(finding)
        bench.holding.release()
        assert await finding is None


@virtual
async def test_a_write_that_changes_nothing_does_not_delay_reads() -> None:
    async with open_bench() as bench:
        made = await bench.other.create(config("blog", "1"))
        bench.cluster.declare(Config)
        await bench.cluster.get(BLOG)
        bench.holding.hold()
        same = await bench.client.update(made)
        assert same.metadata.resource_version == made.metadata.resource_version
        await bench.client.patch(BLOG, MergePatch({}))
        await at_once(bench.cluster.get(BLOG))
        await at_once(bench.cluster.list(Config))


@virtual
async def test_a_dry_run_does_not_delay_reads() -> None:
    async with open_bench() as bench:
        made = await bench.other.create(config("blog", "1"))
        bench.cluster.declare(Config)
        await bench.cluster.get(BLOG)
        bench.holding.hold()
        await bench.client.create(config("new"), dry_run=True)
        await with_settings(bench.client, dry_run=True).update(replace(made, data={}))
        await bench.client.delete(BLOG, dry_run=True)
        await bench.client.delete_collection(Config, namespace="default", dry_run=True)
        assert (await at_once(bench.cluster.get(BLOG))).data == {"value": "1"}
        assert await at_once(bench.cluster.find(Config, "new")) is None


@virtual
async def test_a_failed_write_does_not_delay_reads() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        bench.holding.hold()
        with pytest.raises(NotFound):
            await bench.client.delete(BLOG)
        await at_once(bench.cluster.list(Config))


@virtual
async def test_a_deletecollection_is_waited_for() -> None:
    async with open_bench() as bench:
        for number in range(3):
            await bench.other.create(config(f"n{number}", tier="a"))
        bench.cluster.declare(Config)
        assert len(await bench.cluster.list(Config, labels="tier=a")) == 3
        bench.holding.hold()
        await bench.client.delete_collection(Config, namespace="default", labels="tier=a")
        listing = asyncio.ensure_future(bench.cluster.list(Config, labels="tier=a"))
        assert await bench.is_waiting(listing)
        bench.holding.release()
        assert list(await listing) == []
        assert bench.holding.count("list") <= 2, "one for the cache, if any, and a small one to learn the version"


@virtual
async def test_the_deletion_of_an_object_that_was_never_cached_does_not_delay_reads() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog"))
        bench.holding.hold_lists()
        bench.cluster.declare(Config)
        await asyncio.sleep(0.1)
        await bench.client.delete(BLOG)
        bench.holding.release()
        assert await at_once(bench.cluster.find(BLOG)) is None
        assert [len(source.writes) for source in cluster_sources(bench.cluster)] == [0]


@virtual
async def test_a_version_that_is_not_a_number_means_a_live_read_at_once() -> None:
    async def opaque(call: Call, send: Send) -> Response:
        answer = await send(call)
        if call.verb != "patch":
            return answer
        body = answer.body.replace(b'"resourceVersion":"', b'"resourceVersion":"x-')
        return Response(status=answer.status, headers=answer.headers, body=body)

    async with open_bench(wire_hooks=[opaque]) as bench:
        await bench.other.create(config("blog", "1"))
        bench.cluster.declare(Config)
        await bench.cluster.get(BLOG)
        bench.holding.hold()
        await bench.client.patch(BLOG, MergePatch({"data": {"value": "2"}}))
        assert (await at_once(bench.cluster.get(BLOG))).data == {"value": "2"}


@virtual
async def test_closing_the_cluster_ends_waiting_reads() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        bench.holding.hold()
        await bench.client.create(config("blog"))
        reading = asyncio.ensure_future(bench.cluster.get(BLOG))
        assert await bench.is_waiting(reading)
        await bench.cluster.aclose()
        assert (await at_once(reading)).name == "blog", "read from the server instead"


@virtual
async def test_a_derived_client_counts_as_the_same_writer() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        bench.holding.hold()
        await with_settings(bench.client, manager="another").create(config("one"))
        await bench.client.in_namespace("default").create(config("two"))
        reading = asyncio.ensure_future(bench.cluster.list(Config, namespace="default"))
        assert await bench.is_waiting(reading)
        bench.holding.release()
        assert {"one", "two"} <= {one.name for one in await reading}


@virtual
async def test_own_writes_are_waited_for_through_a_relist() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        bench.holding.hold()
        await bench.client.create(config("blog"))
        storage = bench.server.state.storage
        await storage.compact(storage.revision)
        reading = asyncio.ensure_future(bench.cluster.get(BLOG))
        assert await bench.is_waiting(reading)
        bench.holding.cut()
        bench.holding.release()
        assert (await reading).name == "blog"
        assert bench.holding.count("get") == 0


@virtual
async def test_writes_to_undeclared_kinds_are_not_recorded() -> None:
    async with open_bench() as bench:
        for number in range(50):
            await bench.client.create(config(f"n{number}"))
        bench.cluster.declare(Config, namespace="kube-public")
        await bench.client.delete(Config, "n0")
        assert [len(source.writes) for source in cluster_sources(bench.cluster)] == [0]


@virtual
async def test_no_unseen_writes_remain_once_everything_is_observed() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        for number in range(20):
            await bench.client.create(config(f"n{number}"))
            await bench.client.delete(Config, f"n{number}")
        await bench.cluster.list(Config)
        assert [len(source.writes) for source in cluster_sources(bench.cluster)] == [0]


@virtual
async def test_a_read_that_is_cancelled_while_it_waits_leaves_nothing_behind() -> None:
    async with open_bench() as bench:
        bench.cluster.declare(Config)
        await bench.cluster.wait_ready()
        bench.holding.hold()
        await bench.client.create(config("blog"))
        reading = asyncio.ensure_future(bench.cluster.get(BLOG))
        assert await bench.is_waiting(reading)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert [source.waiting for source in cluster_sources(bench.cluster)] == [0]


async def behind(bench: Bench) -> None:
    """The cache has `blog` at 1, and the server at 2."""
    await bench.other.create(config("blog", "1"))
    bench.cluster.declare(Config)
    await bench.cluster.get(BLOG)
    bench.holding.hold()
    await bench.other.patch(BLOG, MergePatch({"data": {"value": "2"}}))


@virtual
async def test_a_consistent_read_waits_for_writes_of_other_clients_too() -> None:
    async with open_bench() as bench:
        await behind(bench)
        getting = asyncio.ensure_future(bench.cluster.get(BLOG, read="consistent"))
        name = "metadata.name=blog"
        listing = asyncio.ensure_future(bench.cluster.list(Config, fields=name, read="consistent", within=5))
        assert await bench.is_waiting(getting)
        assert await bench.is_waiting(listing)
        bench.holding.release()
        assert (await getting).data == {"value": "2"}
        assert [one.data for one in await listing] == [{"value": "2"}]
        assert await bench.cluster.get(BLOG) is await getting, "from the cache, after all"


@virtual
async def test_a_consistent_get_of_a_deleted_object_waits_until_the_cache_drops_it() -> None:
    async with open_bench() as bench:
        await behind(bench)
        await bench.other.delete(BLOG)
        getting = asyncio.ensure_future(bench.cluster.find(BLOG, read="consistent"))
        assert await bench.is_waiting(getting)
        bench.holding.release()
        assert await getting is None


@virtual
async def test_a_consistent_read_goes_to_the_server_when_the_cache_takes_too_long() -> None:
    async with open_bench() as bench:
        await behind(bench)
        assert (await bench.cluster.get(BLOG, read="consistent")).data == {"value": "2"}
        assert {"value": "2"} in [one.data for one in await bench.cluster.list(Config, read="consistent")]


@virtual
async def test_a_consistent_read_of_a_quiet_cluster_comes_from_the_cache_at_once() -> None:
    async with open_bench() as bench:
        await bench.other.create(config("blog", "1"))
        bench.cluster.declare(Config)
        found = await bench.cluster.get(BLOG)
        assert await at_once(bench.cluster.get(BLOG, read="consistent")) is found
        assert found in await at_once(bench.cluster.list(Config, read="consistent"))
        assert await at_once(bench.cluster.find(Config, "none", read="consistent")) is None


@virtual
async def test_a_consistent_read_of_metadata_alone() -> None:
    async with open_bench() as bench:
        await behind(bench)
        reading = asyncio.ensure_future(bench.cluster.get(OnlyMetadata(Config), "blog", read="consistent"))
        assert await bench.is_waiting(reading)
        bench.holding.release()
        truth = await bench.other.get(BLOG)
        assert (await reading).metadata.resource_version == truth.metadata.resource_version


@virtual
async def test_a_consistent_get_does_not_accept_a_change_from_before_the_deletion() -> None:
    async with open_bench() as bench:
        await behind(bench)
        await bench.other.delete(BLOG)
        await bench.other.create(config("more"))
        getting = asyncio.ensure_future(bench.cluster.find(BLOG, read="consistent"))
        assert await bench.is_waiting(getting)
        bench.holding.release()
        assert await getting is None


@virtual
async def test_a_version_that_cannot_be_requested_now_is_requested_by_a_later_read() -> None:
    refused = True

    async def refuse(call: Call, send: Send) -> Response:
        if refused and "limit=1" in call.query:
            raise Unreachable("the connection was reset")
        return await send(call)

    async with open_bench(wire_hooks=[refuse]) as bench:
        await bench.other.create(config("blog", tier="a"))
        bench.cluster.declare(Config)
        await bench.cluster.get(BLOG)
        bench.holding.hold()
        await bench.client.delete_collection(Config, namespace="default", labels="tier=a")
        found = await bench.cluster.list(Config, labels="tier=a")
        assert list(found) == [], "read live, in the end"
        refused = False
        bench.holding.release()
        await asyncio.sleep(1)
        assert list(await bench.cluster.list(Config, labels="tier=a")) == []
        assert [len(source.writes) for source in cluster_sources(bench.cluster)] == [0]
