"""Managers on a real API server, in virtual time: order, failures and shutdown."""

import asyncio

import pytest

from levelset.aio import Crashed, Unstopped, timing
from levelset.client import Client
from levelset.errors import ConfigError, NotReady
from levelset.objects import GroupVersionKind
from levelset.runtime.cache import Cluster
from levelset.runtime.controller import Controller, source
from levelset.runtime.manager import Manager
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import ConfigMap, Website, website
from tests.runtime.manager.recording import EventLog, open_server, recording_controller, run_manager, websites


@virtual
async def test_work_of_every_replica_starts_before_leader_only_work_and_ends_after_it():
    events = EventLog()
    async with open_server() as server:
        manager = Manager(server)
        manager.add_task("work", events.task("work"))
        manager.add_task("report", events.task("report"), leader_only=False)
        manager.on_start(events.hook("caches are there"))
        manager.on_elected(events.hook("it leads"))
        manager.on_stop(events.hook("all has ended"))
        async with manager:
            await manager.wait_elected()
            await asyncio.sleep(1)
    assert events == [
        "caches are there",
        "report starts",
        "it leads",
        "work starts",
        "work ends",
        "report ends",
        "all has ended",
    ]


@virtual
async def test_a_controller_reconciles_existing_and_new_objects():
    events = EventLog()
    async with open_server() as server, await Client.connect(server) as client:
        await client.create(website("blog"))
        async with Manager(server) as manager:
            manager.add(recording_controller(events))
            await manager.wait_idle()
            assert events == ["reconciles blog", "is done with blog"]
            await client.create(website("shop"))
            await asyncio.sleep(1)
            assert events[2:] == ["reconciles shop", "is done with shop"]


@virtual
async def test_two_controllers_of_a_manager_share_one_watch():
    async with open_server() as server, Manager(server) as manager:
        manager.add(recording_controller(EventLog()).with_options(name="one"))
        manager.add(recording_controller(EventLog()).with_options(name="two"))
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
async def test_a_cache_that_never_syncs_fails_the_start_with_its_cause():
    async with open_server() as server, Cluster(await Client.connect(server)) as cluster:
        cluster.declare(GroupVersionKind("nowhere.dev", "v1", "Nothing"))
        with pytest.raises(Crashed) as caught:
            await run_manager(Manager(cluster, sync_within=60))
        assert isinstance(caught.value.exceptions[0], NotReady)
        assert "Nothing" in str(caught.value.exceptions[0])
        assert 60 <= timing.now() <= 61


@virtual
async def test_a_controller_of_another_cluster_works_there():
    events = EventLog()
    async with open_server() as one, open_server() as other, await Client.connect(other) as client:
        await client.create(website("far"))
        manager = Manager(one)
        manager.add_cluster("other", Cluster(client))
        manager.add(recording_controller(events), cluster="other")
        async with manager:
            await manager.wait_idle()
        assert events == ["reconciles far", "is done with far"]
        with pytest.raises(ConfigError, match="no cluster 'third'"):
            Manager(one).add(recording_controller(events), cluster="third")


@virtual
async def test_tasks_and_controllers_are_leader_only_by_default():
    events = EventLog()
    async with open_server() as server:
        manager = Manager(server)
        manager.on_elected(lambda: asyncio.sleep(100))
        manager.add_task("work", events.task("work"))
        manager.add(recording_controller(events))
        async with manager:
            await asyncio.sleep(50)
            assert events == []


@virtual
async def test_runnables_added_after_the_start_run_at_once_and_are_rejected_while_stopping():
    events = EventLog()
    async with open_server() as server:
        async with Manager(server) as manager:
            await manager.wait_elected()
            manager.add_task("work", events.task("work"))
            manager.add(recording_controller(events))
            await manager.wait_idle()
            assert events == ["work starts"]
        with pytest.raises(ConfigError, match="the manager is stopping"):
            manager.add_task("late", events.task("late"))


@virtual
async def test_a_controller_can_be_removed_and_added_again_and_nothing_of_it_stays():
    events = EventLog()
    controller = recording_controller(events)
    async with open_server() as server, Manager(server) as manager:
        manager.add(controller)
        await manager.wait_idle()
        await manager.remove(controller)
        await manager.client.create(website("blog"))
        await asyncio.sleep(60)
        assert events == []
        assert not manager.cluster.stats()
        assert manager.controllers == {}
        assert 'controller="websites"' not in manager.metrics.registry.render()
        manager.add(controller)
        await manager.wait_idle()
        assert events == ["reconciles blog", "is done with blog"]
        with pytest.raises(ConfigError, match="'unknown'"):
            await manager.remove("unknown")


@virtual
async def test_the_first_failure_stops_everything_and_all_errors_are_raised_together():
    events = EventLog()

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
        manager.add_task("work", events.task("work"))
        manager.add_task("bad", fails)
        manager.add_task("worse", fails_at_the_end)
        with pytest.raises(Crashed) as caught:
            await run_manager(manager)
    assert [type(error) for error in caught.value.exceptions] == [ValueError, KeyError]
    assert caught.value.exceptions[0].__notes__ == ["in 'bad' of the manager"]
    assert events == ["work starts", "work ends"]
    assert timing.now() < 10


@virtual
async def test_a_task_that_returns_or_is_cancelled_by_the_manager_has_not_failed():
    async def short() -> None:
        await asyncio.sleep(1)

    async with open_server() as server, Manager(server) as manager:
        manager.add_task("short", short)
        manager.add_task("long", EventLog().task("long"))
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
            await run_manager(manager)


@virtual
async def test_an_error_of_the_block_is_raised_as_it_is_after_an_orderly_end():
    events = EventLog()
    async with open_server() as server:
        manager = Manager(server)
        manager.add_task("work", events.task("work"))
        with pytest.raises(ValueError, match="mine"):
            await run_manager(manager, then=ValueError("mine"))
    assert events == ["work starts", "work ends"]


@pytest.mark.parametrize(
    ("grace", "last", "ended"),
    [
        (0.0, "is cancelled for blog", 1),
        (5.0, "is cancelled for blog", 6),
        (30.0, "is done with blog", 10),
        (None, "is done with blog", 10),
    ],
)
@virtual
async def test_running_reconciles_may_finish_within_the_grace_period(grace, last, ended):
    events = EventLog()
    async with open_server() as server, await Client.connect(server) as client:
        await client.create(website("blog"))
        async with Manager(server, grace=grace) as manager:
            manager.add(recording_controller(events, seconds=10))
            await asyncio.sleep(1)
        assert events == ["reconciles blog", last]
        assert timing.now() == pytest.approx(ended, abs=0.1)


@virtual
async def test_stop_now_ends_the_grace_period():
    events = EventLog()
    async with open_server() as server, await Client.connect(server) as client:
        await client.create(website("blog"))
        async with Manager(server, grace=None) as manager:
            manager.add(recording_controller(events, seconds=1000))
            await asyncio.sleep(1)
            asyncio.get_running_loop().call_later(5, manager.stop_now)
        assert events == ["reconciles blog", "is cancelled for blog"]
        assert timing.now() == pytest.approx(6, abs=0.1)


@virtual
async def test_a_cancellation_stops_the_manager_and_a_second_one_ends_the_grace_period():
    events = EventLog()

    async def main(server):
        async with Manager(server, grace=60) as manager:
            manager.add(recording_controller(events, seconds=1000))
            await manager.wait_stopped()

    async with open_server() as server, await Client.connect(server) as client:
        await client.create(website("blog"))
        task = asyncio.get_running_loop().create_task(main(server))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(10)
        assert events == ["reconciles blog"]
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert events == ["reconciles blog", "is cancelled for blog"]


@virtual
async def test_names_in_a_manager_are_unique():
    async with open_server() as server:
        manager = Manager(server)
        manager.add(recording_controller(EventLog()))
        with pytest.raises(ConfigError, match="already runs a 'websites'"):
            manager.add(recording_controller(EventLog()))
        manager.add(recording_controller(EventLog()).with_options(name="other"))


@virtual
async def test_a_manager_can_be_entered_only_once():
    async with open_server() as server:
        async with Manager(server) as manager:
            pass
        with pytest.raises(RuntimeError, match="entered only once"):
            async with manager:
                pass


@virtual
async def test_waiting_on_a_stopping_manager_raises_not_ready():
    async with open_server() as server:
        manager = Manager(server)
        manager.on_elected(lambda: asyncio.sleep(100))
        with pytest.raises(NotReady, match="is not started"):
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
async def test_a_source_that_cannot_be_restarted_stops_the_manager_when_it_fails():
    async def refs():
        yield website("blog").ref
        raise ValueError("no more")

    async def reconcile(site, ctx):
        pass

    async with open_server() as server:
        manager = Manager(server)
        manager.add(Controller(Website, reconcile, source(refs())))
        with pytest.raises(Crashed):
            await run_manager(manager)


@virtual
async def test_a_failing_reconciler_does_not_affect_the_manager():
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
async def test_no_task_is_left_after_the_end():
    async with open_server() as server, await Client.connect(server) as client:
        before = asyncio.all_tasks()
        async with Manager(server) as manager:
            manager.add(recording_controller(EventLog(), seconds=0.01))
            await manager.wait_idle()
        assert asyncio.all_tasks() == before
        async with Manager(server, grace=0.0) as manager:
            manager.add(recording_controller(EventLog(), seconds=5))
            await manager.wait_elected()
            for number in range(50):
                await client.create(website(f"site-{number}"))
        assert asyncio.all_tasks() == before


@virtual
async def test_a_task_that_ignores_its_cancellation_is_named_and_abandoned():
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
            await run_manager(manager, then=ValueError("mine"))
        assert [type(error) for error in caught.value.exceptions] == [ValueError, Unstopped]
        over.set()
        await asyncio.sleep(1)


@virtual
async def test_an_added_controller_can_enqueue_objects_once_it_runs():
    events = EventLog()
    async with open_server() as server, await Client.connect(server) as client:
        blog = await client.create(website("blog"))
        async with Manager(server) as manager:
            hosted = manager.add(recording_controller(events))
            with pytest.raises(NotReady, match="is not running yet"):
                hosted.enqueue(blog.ref)
            await hosted.wait_idle()
            hosted.enqueue(blog.ref, "for the test")
            await hosted.wait_idle()
            assert events.count("reconciles blog") == 2
