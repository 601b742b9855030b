"""Managers on a real API server, in virtual time: order, failures, and the end."""

import asyncio

import pytest

from levelset.aio import Crashed, Unstopped, timing
from levelset.client import Client
from levelset.errors import ConfigError, NotReady
from levelset.objects import GroupVersionKind
from levelset.runtime.cache import Cluster
from levelset.runtime.controller import Controller, source
from levelset.runtime.manager import Manager
from tests.apiserver.clock import virtual
from tests.client.world import ConfigMap, Website, website
from tests.runtime.manager.shop import Diary, live, noting, open_server, websites


@virtual
async def test_what_every_replica_does_starts_before_what_only_a_leader_does_and_ends_after_it():
    diary = Diary()
    async with open_server() as server:
        manager = Manager(server)
        manager.add_task("work", diary.task("work"))
        manager.add_task("report", diary.task("report"), leader_only=False)
        manager.on_start(diary.hook("caches are there"))
        manager.on_elected(diary.hook("it leads"))
        manager.on_stop(diary.hook("all has ended"))
        async with manager:
            await manager.wait_elected()
            await asyncio.sleep(1)
    assert diary == [
        "caches are there",
        "report starts",
        "it leads",
        "work starts",
        "work ends",
        "report ends",
        "all has ended",
    ]


@virtual
async def test_a_controller_looks_at_what_is_there_and_at_what_comes():
    diary = Diary()
    async with open_server() as server, await Client.connect(server) as client:
        await client.create(website("blog"))
        async with Manager(server) as manager:
            manager.add(noting(diary))
            await manager.wait_idle()
            assert diary == ["looks at blog", "is done with blog"]
            await client.create(website("shop"))
            await asyncio.sleep(1)
            assert diary[2:] == ["looks at shop", "is done with shop"]


@virtual
async def test_two_controllers_of_a_manager_share_one_watch():
    async with open_server() as server, Manager(server) as manager:
        manager.add(noting(Diary()).with_options(name="one"))
        manager.add(noting(Diary()).with_options(name="two"))
        await manager.wait_idle()
        assert len(manager.cluster.stats()) == 1
        assert set(manager.controllers) == {"one", "two"}


@virtual
async def test_caches_that_were_declared_before_have_synced_when_others_start():
    async with open_server() as server, await Client.connect(server) as client, await Client.connect(server) as far:
        await client.create(website("blog"))
        async with Cluster(client) as near, Cluster(far) as more:
            seen = []
            handles = [near.declare(Website), more.declare(Website)]
            manager = Manager(near)
            manager.add_cluster("more", more)
            manager.on_start(lambda: seen.extend(handle.is_ready for handle in handles))
            async with manager:
                await manager.wait_started()
            assert seen == [True, True]


@virtual
async def test_a_cache_that_never_syncs_ends_the_start_with_its_cause():
    async with open_server() as server, Cluster(await Client.connect(server)) as cluster:
        cluster.declare(GroupVersionKind("nowhere.dev", "v1", "Nothing"))
        with pytest.raises(Crashed) as caught:
            await live(Manager(cluster, sync_within=60))
        assert isinstance(caught.value.exceptions[0], NotReady)
        assert "Nothing" in str(caught.value.exceptions[0])
        assert 60 <= timing.now() <= 61


@virtual
async def test_a_controller_of_another_cluster_works_there():
    diary = Diary()
    async with open_server() as one, open_server() as other, await Client.connect(other) as client:
        await client.create(website("far"))
        manager = Manager(one)
        manager.add_cluster("other", Cluster(client))
        manager.add(noting(diary), cluster="other")
        async with manager:
            await manager.wait_idle()
        assert diary == ["looks at far", "is done with far"]
        with pytest.raises(ConfigError, match="there is no cluster 'third'"):
            Manager(one).add(noting(diary), cluster="third")


@virtual
async def test_tasks_and_controllers_are_for_the_leader_unless_told_otherwise():
    diary = Diary()
    async with open_server() as server:
        manager = Manager(server)
        manager.on_elected(lambda: asyncio.sleep(100))
        manager.add_task("work", diary.task("work"))
        manager.add(noting(diary))
        async with manager:
            await asyncio.sleep(50)
            assert diary == []


@virtual
async def test_what_is_added_after_the_start_runs_at_once_and_is_refused_at_the_end():
    diary = Diary()
    async with open_server() as server:
        async with Manager(server) as manager:
            await manager.wait_elected()
            manager.add_task("work", diary.task("work"))
            manager.add(noting(diary))
            await manager.wait_idle()
            assert diary == ["work starts"]
        with pytest.raises(ConfigError, match="the manager is stopping"):
            manager.add_task("late", diary.task("late"))


@virtual
async def test_a_controller_can_be_removed_and_added_again_and_nothing_of_it_stays():
    diary = Diary()
    controller = noting(diary)
    async with open_server() as server, Manager(server) as manager:
        manager.add(controller)
        await manager.wait_idle()
        await manager.remove(controller)
        await manager.client.create(website("blog"))
        await asyncio.sleep(60)
        assert diary == []
        assert not manager.cluster.stats()
        assert manager.controllers == {}
        assert 'controller="websites"' not in manager.metrics.registry.render()
        manager.add(controller)
        await manager.wait_idle()
        assert diary == ["looks at blog", "is done with blog"]
        with pytest.raises(ConfigError, match="'nobody'"):
            await manager.remove("nobody")


@virtual
async def test_the_first_that_fails_stops_everything_and_all_errors_are_raised_together():
    diary = Diary()

    async def fails() -> None:
        await asyncio.sleep(5)
        raise ValueError("boom")

    async def fails_at_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyError("while stopping")

    async with open_server() as server:
        manager = Manager(server)
        manager.add_task("work", diary.task("work"))
        manager.add_task("bad", fails)
        manager.add_task("worse", fails_at_the_end)
        with pytest.raises(Crashed) as caught:
            await live(manager)
    assert [type(error) for error in caught.value.exceptions] == [ValueError, KeyError]
    assert caught.value.exceptions[0].__notes__ == ["in 'bad' of the manager"]
    assert diary == ["work starts", "work ends"]
    assert timing.now() < 10


@virtual
async def test_what_ends_by_itself_or_is_cancelled_by_the_manager_is_no_failure():
    async def short() -> None:
        await asyncio.sleep(1)

    async with open_server() as server, Manager(server) as manager:
        manager.add_task("short", short)
        manager.add_task("long", Diary().task("long"))
        await asyncio.sleep(10)
        await manager.stop()
        await manager.wait_stopped()


@virtual
async def test_an_error_of_a_hook_stops_the_manager():
    def fails() -> None:
        raise ValueError("boom")

    async with open_server() as server:
        manager = Manager(server)
        manager.on_elected(fails)
        with pytest.raises(Crashed, match="manager failed"):
            await live(manager)


@virtual
async def test_an_error_of_the_block_is_raised_as_it_is_after_an_orderly_end():
    diary = Diary()
    async with open_server() as server:
        manager = Manager(server)
        manager.add_task("work", diary.task("work"))
        with pytest.raises(ValueError, match="mine"):
            await live(manager, then=ValueError("mine"))
    assert diary == ["work starts", "work ends"]


@pytest.mark.parametrize(
    ("grace", "last", "ended"),
    [
        (0.0, "is torn from blog", 1),
        (5.0, "is torn from blog", 6),
        (30.0, "is done with blog", 10),
        (None, "is done with blog", 10),
    ],
)
@virtual
async def test_reconciles_that_run_may_finish_within_the_grace(grace, last, ended):
    diary = Diary()
    async with open_server() as server, await Client.connect(server) as client:
        await client.create(website("blog"))
        async with Manager(server, grace=grace) as manager:
            manager.add(noting(diary, seconds=10))
            await asyncio.sleep(1)
        assert diary == ["looks at blog", last]
        assert timing.now() == pytest.approx(ended, abs=0.1)


@virtual
async def test_hurry_ends_the_grace():
    diary = Diary()
    async with open_server() as server, await Client.connect(server) as client:
        await client.create(website("blog"))
        async with Manager(server, grace=None) as manager:
            manager.add(noting(diary, seconds=1000))
            await asyncio.sleep(1)
            asyncio.get_running_loop().call_later(5, manager.hurry)
        assert diary == ["looks at blog", "is torn from blog"]
        assert timing.now() == pytest.approx(6, abs=0.1)


@virtual
async def test_to_be_cancelled_is_to_stop_and_to_be_cancelled_again_is_to_hurry():
    diary = Diary()

    async def main(server):
        async with Manager(server, grace=60) as manager:
            manager.add(noting(diary, seconds=1000))
            await manager.wait_stopped()

    async with open_server() as server, await Client.connect(server) as client:
        await client.create(website("blog"))
        task = asyncio.get_running_loop().create_task(main(server))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(10)
        assert diary == ["looks at blog"]
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert diary == ["looks at blog", "is torn from blog"]


@virtual
async def test_a_name_is_there_once():
    async with open_server() as server:
        manager = Manager(server)
        manager.add(noting(Diary()))
        with pytest.raises(ConfigError, match="there is a 'websites' in this manager already"):
            manager.add(noting(Diary()))
        manager.add(noting(Diary()).with_options(name="other"))


@virtual
async def test_a_manager_is_for_one_block():
    async with open_server() as server:
        async with Manager(server) as manager:
            pass
        with pytest.raises(RuntimeError, match="one `async with`"):
            async with manager:
                pass


@virtual
async def test_waiting_for_what_will_not_happen_any_more_is_not_ready():
    async with open_server() as server:
        manager = Manager(server)
        manager.on_elected(lambda: asyncio.sleep(100))
        with pytest.raises(NotReady, match="has not been started"):
            _ = manager.cluster
        async with manager:
            waiting = asyncio.get_running_loop().create_task(manager.wait_elected())
            await asyncio.sleep(1)
            await manager.stop()
            with pytest.raises(NotReady, match="will not happen"):
                await waiting


@virtual
async def test_a_cluster_that_was_open_before_stays_open():
    async with open_server() as server, Cluster(await Client.connect(server)) as cluster:
        async with Manager(cluster) as manager:
            await manager.wait_started()
        async with cluster.declare(ConfigMap) as handle:
            await handle.wait_ready()


@virtual
async def test_a_source_that_fails_for_good_stops_the_manager():
    async def refs():
        yield website("blog").ref
        raise ValueError("no more")

    async def reconcile(site, ctx):
        pass

    async with open_server() as server:
        manager = Manager(server)
        manager.add(Controller(Website, reconcile, source(refs())))
        with pytest.raises(Crashed):
            await live(manager)


@virtual
async def test_a_reconciler_that_fails_harms_nobody():
    async def reconcile(site, ctx):
        raise ValueError("boom")

    async with open_server() as server, await Client.connect(server) as client:
        await client.create(website("blog"))
        async with Manager(server) as manager:
            manager.add(websites(reconcile))
            await asyncio.sleep(60)
            shown = manager.metrics.registry.render()
            assert 'controller_runtime_reconcile_total{controller="websites",result="error"}' in shown
            assert not manager.is_stopping


@virtual
async def test_no_task_is_left_after_the_end_with_events_under_way_and_without():
    async with open_server() as server, await Client.connect(server) as client:
        before = asyncio.all_tasks()
        async with Manager(server) as manager:
            manager.add(noting(Diary(), seconds=0.01))
            await manager.wait_idle()
        assert asyncio.all_tasks() == before
        async with Manager(server, grace=0.0) as manager:
            manager.add(noting(Diary(), seconds=5))
            await manager.wait_elected()
            for number in range(50):
                await client.create(website(f"site-{number}"))
        assert asyncio.all_tasks() == before


@virtual
async def test_a_task_that_ignores_its_cancellation_is_named_and_left():
    async def stubborn() -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    over = asyncio.Event()
    async with open_server() as server:
        manager = Manager(server, grace=1.0)
        manager.add_task("stubborn", stubborn)
        with pytest.raises(Crashed) as caught:
            await live(manager, then=ValueError("mine"))
        assert [type(error) for error in caught.value.exceptions] == [ValueError, Unstopped]
        over.set()
        await asyncio.sleep(1)


@virtual
async def test_what_was_added_can_be_asked_for_objects_once_it_runs():
    diary = Diary()
    async with open_server() as server, await Client.connect(server) as client:
        blog = await client.create(website("blog"))
        async with Manager(server) as manager:
            hosted = manager.add(noting(diary))
            with pytest.raises(NotReady, match="does not run yet"):
                hosted.enqueue(blog.ref)
            await hosted.wait_idle()
            hosted.enqueue(blog.ref, "for the test")
            await hosted.wait_idle()
            assert diary.count("looks at blog") == 2
