"""A running controller: start, statistics and stop."""

import asyncio
from typing import Any

import pytest

from levelset.aio import Crashed, timing
from levelset.client import Call, Response, Send
from levelset.errors import ConfigError, NotReady
from levelset.objects import GroupVersionKind, Ref
from levelset.runtime.controller import Action, Context, Controller, RunningController, owns, requeue, running, watches
from levelset.runtime.queue import LOW
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.controller_loop import (
    ConfigMap,
    RecordingReconciler,
    Web,
    WebSpec,
    child,
    open_loop,
    web,
    web_ref,
)

__all__: list[str] = []


async def forbidden(call: Call, _: Send) -> Response | None:
    """Refuses every list and watch of ConfigMaps."""
    if call.verb in {"list", "watch"} and "configmaps" in call.path:
        return Response(status=403, body=b'{"kind":"Status","code":403,"reason":"Forbidden","message":"you may not"}')
    return None


async def until_stopped(controller: RunningController[Any]) -> None:
    async with controller as started:
        await started.wait_stopped()


@virtual
async def test_existing_objects_are_reconciled_once_at_the_start_with_low_priority() -> None:
    async with open_loop() as loop:
        await loop.other.create(web("a"))
        await loop.other.create(web("b"))
        recorded, controller = loop.recording_controller()
        async with loop.run(controller) as started:
            await loop.settle(started)
            assert sorted(recorded.names) == ["a", "b"]
            assert recorded.reasons == [["it was there at the start"]] * 2
            assert recorded.priorities == [LOW, LOW]


@virtual
async def test_no_reconcile_before_every_cache_has_synced_and_its_first_list_is_enqueued() -> None:
    async with open_loop() as loop:
        await loop.other.create(web())
        loop.faults.append(forbidden)
        shown: list[str] = []

        def to(one: ConfigMap) -> list[Ref[Web]]:
            shown.append(one.name)
            return []

        recorded, controller = loop.recording_controller(None, watches(ConfigMap, to=to))
        await loop.other.create(child("settings"))
        async with loop.run(controller, ready=False) as started:
            await asyncio.sleep(60)
            assert (recorded.names, started.is_ready, started.is_idle) == ([], False, False)
            loop.faults.clear()
            await started.wait_idle()
            assert "settings" in shown
            assert recorded.names == ["blog"]
            assert started.is_ready


@virtual
async def test_a_cache_that_does_not_sync_in_time_stops_the_controller_and_is_named() -> None:
    async with open_loop() as loop:
        loop.faults.append(forbidden)
        _, controller = loop.recording_controller(None, owns(ConfigMap))
        began = timing.now()
        with pytest.raises(Crashed) as raised:
            await until_stopped(running(controller, loop.cluster, sync_within=120.0))
        (error,) = raised.value.exceptions
        assert isinstance(error, NotReady)
        assert "ConfigMap" in str(error)
        assert "you may not" in str(error)
        assert 119 < timing.now() - began < 121


@virtual
async def test_waiting_for_readiness_may_have_its_own_timeout() -> None:
    async with open_loop() as loop:
        loop.faults.append(forbidden)
        _, controller = loop.recording_controller(None, owns(ConfigMap))
        async with loop.run(controller, ready=False) as started:
            with pytest.raises(NotReady, match="ConfigMap"):
                await started.wait_ready(within=5)
            loop.faults.clear()
            await started.wait_ready()


@virtual
async def test_stopping_while_the_caches_sync_is_not_an_error() -> None:
    async with open_loop() as loop:
        loop.faults.append(forbidden)
        _, controller = loop.recording_controller(None, owns(ConfigMap))
        async with running(controller, loop.cluster) as started:
            await asyncio.sleep(1)
            await started.stop()
            await started.wait_stopped()


@virtual
async def test_a_kind_that_is_not_served_yet_is_awaited() -> None:
    class Later(Web, api="later.dev/v1", kind="Later"):
        """A kind whose definition comes later."""

    async with open_loop() as loop:
        recorded = RecordingReconciler()
        async with loop.run(Controller(Later, recorded), ready=False) as started:
            await asyncio.sleep(30)
            assert not started.is_ready
            names = {"plural": "laters", "kind": "Later"}
            schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
            version = {"name": "v1", "served": True, "storage": True, "schema": schema}
            spec = {"group": "later.dev", "scope": "Namespaced", "names": names, "versions": [version]}
            crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
            await loop.other.create({**crd, "metadata": {"name": "laters.later.dev"}})
            await started.wait_ready(within=120)
            await loop.other.create(Later.new("x", WebSpec(), namespace="default"))
            await loop.settle(started)
            assert recorded.names == ["x"]


@virtual
async def test_a_second_start_is_an_error_and_a_second_run_is_not() -> None:
    async with open_loop() as loop:
        await loop.other.create(web())
        recorded, controller = loop.recording_controller()
        once = running(controller, loop.cluster)
        with pytest.raises(RuntimeError, match="is not started"):
            once.stats()
        async with once:
            await once.wait_idle()
            with pytest.raises(RuntimeError, match="was started already"):
                await once.__aenter__()
        async with loop.run(controller):
            assert recorded.names == ["blog", "blog"]


@virtual
async def test_a_held_controller_fills_its_queue_and_reconciles_nothing_until_released() -> None:
    async with open_loop() as loop:
        await loop.other.create(web())
        recorded, controller = loop.recording_controller()
        async with loop.run(controller, ready=False, held=True) as started:
            await started.wait_ready()
            await asyncio.sleep(10)
            assert (recorded.names, started.stats().ready, started.is_ready) == ([], 1, True)
            started.release()
            await started.wait_idle()
            assert recorded.names == ["blog"]


@virtual
async def test_a_controller_released_before_it_is_ready_starts_when_it_is() -> None:
    async with open_loop() as loop:
        await loop.other.create(web())
        recorded, controller = loop.recording_controller()
        async with loop.run(controller, ready=False, held=True) as started:
            started.release()
            await started.wait_idle()
            assert recorded.names == ["blog"]


def taking(seconds: float, ended: list[str]) -> Any:
    async def step(site: Web, _: Context) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            ended.append(f"{site.name} cancelled")
            raise
        ended.append(f"{site.name} finished")

    return step


@virtual
async def test_running_reconciles_finish_on_a_stop_and_queued_requests_are_dropped() -> None:
    async with open_loop() as loop:
        for name in "abc":
            await loop.other.create(web(name))
        ended: list[str] = []
        _, controller = loop.recording_controller(taking(10, ended), concurrency=2)
        async with loop.run(controller, ready=False) as started:
            await started.wait_ready()
            await asyncio.sleep(1)
            await started.stop(grace=30)
            assert sorted(ended) == ["a finished", "b finished"]
            assert started.stats().ready == 0
            await started.stop()


@virtual
async def test_reconciles_that_take_longer_than_the_grace_period_are_cancelled() -> None:
    async with open_loop() as loop:
        await loop.other.create(web())
        ended: list[str] = []
        _, controller = loop.recording_controller(taking(1000, ended))
        async with loop.run(controller, ready=False, grace=5.0) as started:
            await started.wait_ready()
            await asyncio.sleep(1)
            began = timing.now()
        assert ended == ["blog cancelled"]
        assert 4.5 < timing.now() - began < 5.5


@virtual
async def test_an_error_in_the_block_stops_at_once_and_propagates() -> None:
    async with open_loop() as loop:
        await loop.other.create(web())
        ended: list[str] = []
        _, controller = loop.recording_controller(taking(1000, ended))

        async def fail() -> None:
            async with loop.run(controller, ready=False) as started:
                await started.wait_ready()
                await asyncio.sleep(1)
                raise KeyError("mine")

        with pytest.raises(KeyError):
            await fail()
        assert ended == ["blog cancelled"]


@virtual
async def test_a_running_controller_has_stats_and_history() -> None:
    async def step(site: Web, _: Context) -> Action | None:
        if site.name == "bad":
            raise ValueError("no")
        return requeue(60)

    async with open_loop() as loop:
        await loop.other.create(web("a"))
        await loop.other.create(web("bad"))
        _, controller = loop.recording_controller(step, name="webs")
        async with loop.run(controller) as started:
            stats = started.stats()
            assert (stats.name, stats.is_ready, stats.workers) == ("webs", True, 4)
            assert (stats.ready, stats.delayed, stats.running, stats.reconciles, stats.failing) == (0, 2, 0, 2, 1)
            assert sorted(one.result for one in started.history) == ["failed", "requeued"]
            assert (started.name, len(started.store), started.is_idle) == ("webs", 2, True)
            assert [str(one.scope) for one in started.informers.handles] == ["example.dev/v1 Website"]


@virtual
async def test_enqueue_triggers_a_reconcile_with_a_custom_reason() -> None:
    async with open_loop() as loop:
        await loop.other.create(web("a"))
        await loop.other.create(web("b"))
        recorded, controller = loop.recording_controller()
        async with loop.run(controller) as started:
            recorded.clear()
            started.enqueue(Ref(Web, "a"))
            started.enqueue(web_ref("a"), "the moon is full")
            await started.wait_idle()
            assert recorded.reasons == [["it was enqueued from outside", "the moon is full"]]
            await started.enqueue_all()
            await started.wait_idle()
            assert sorted(recorded.names[1:]) == ["a", "b"]
            with pytest.raises(ConfigError, match="this controller reconciles"):
                started.enqueue(Ref(ConfigMap, "x"))


@virtual
async def test_two_controllers_of_one_kind_both_reconcile_and_share_the_watch() -> None:
    async with open_loop() as loop:
        first, one = loop.recording_controller(None, name="one")
        second, two = loop.recording_controller(None, name="two")
        async with loop.run(one) as started, loop.run(two) as also:
            await loop.other.create(web())
            await loop.settle(started, also)
            assert first.names == second.names == ["blog"]
            watches_of_webs = [call for call in loop.calls if call.verb == "watch" and "websites" in call.path]
            assert len(watches_of_webs) == 1


@virtual
async def test_a_bare_kind_and_a_cluster_scoped_kind_work_like_a_class() -> None:
    async with open_loop() as loop:
        bare, spaces = RecordingReconciler(), RecordingReconciler()
        website = Controller(GroupVersionKind("example.dev", "v1", "Website"), bare)
        namespaces = Controller(GroupVersionKind("", "v1", "Namespace"), spaces)
        async with loop.run(website) as started, loop.run(namespaces) as also:
            await loop.other.create(web())
            await loop.settle(started, also)
            assert bare.objects[0].tree["spec"] == {}
            assert "default" in spaces.names
            also.enqueue(Ref(GroupVersionKind("", "v1", "Namespace"), "default", "nonsense"))
            await loop.settle(also)
            assert (also.history[-1].ref.namespace, also.history[-1].result) == (None, "done")
