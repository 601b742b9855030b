"""What triggers a reconcile, which object it gets, and what happens around it: cleanup, giving up, conflicts, state."""

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest

from levelset.aio import timing
from levelset.client import OnlyMetadata
from levelset.errors import Conflict, GiveUp, NotCached
from levelset.objects import GroupVersionKind, PartialObjectMetadata, Ref, Resource, Spec, Status, owner_reference
from levelset.objects import replace as replace_fields
from levelset.runtime.controller import Action, Context, Controller, owns, references, remembers, requeue, watches
from levelset.runtime.state import StateMap
from levelset.runtime.watch import by
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.controller_loop import (
    ConfigMap,
    RecordingReconciler,
    Web,
    WebStatus,
    child,
    open_loop,
    web,
    web_ref,
)

__all__: list[str] = []

EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")


@virtual
async def test_a_change_of_the_spec_triggers_a_reconcile_and_an_own_status_write_does_not() -> None:
    async def step(site: Web, ctx: Context) -> None:
        await ctx.set_status(site, WebStatus(seen=site.metadata.generation or 0))

    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(step)
        async with loop.run(controller) as started:
            site = await loop.other.create(web())
            await loop.settle(started)
            assert recorded.names == ["blog"]
            await loop.other.update((await loop.other.get(site.ref)).with_spec(image="other"))
            await loop.settle(started)
            assert len(recorded.names) == 2
            assert recorded.reasons[1] == ["it has changed"]
            assert (await loop.other.get(site.ref)).status == WebStatus(seen=2)
            await asyncio.sleep(600)
            assert (len(recorded.names), len(loop.writes)) == (2, 2), "idle means idle"


@virtual
async def test_changes_during_a_reconcile_cause_one_more_reconcile_that_sees_them_all() -> None:
    async def step(_: Web, __: Context) -> None:
        await asyncio.sleep(10)

    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(step)
        async with loop.run(controller) as started:
            site = await loop.other.create(web())
            for image in "abc":
                await asyncio.sleep(1)
                site = await loop.other.update(site.with_spec(image=image))
            await asyncio.sleep(60)
            await loop.settle(started)
            assert [one.spec.image for one in recorded.objects] == ["nginx", "c"]
            assert recorded.most_of_one == 1


@virtual
async def test_debounced_changes_are_collected_into_one_reconcile() -> None:
    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(None, debounce=3.0)
        async with loop.run(controller) as started:
            site = await loop.other.create(web())
            await asyncio.sleep(1)
            await loop.other.update(site.with_spec(image="b"))
            await asyncio.sleep(10)
            await loop.settle(started)
            assert [one.spec.image for one in recorded.objects] == ["b"]


@virtual
async def test_a_reconciler_reads_the_children_that_it_owns_from_the_cache() -> None:
    seen: list[list[str]] = []

    async def step(site: Web, ctx: Context) -> None:
        await ctx.apply(child("c", a=site.spec.image), owner=site)
        found = await ctx.find(ConfigMap, "c", namespace=site.namespace)
        seen.append([one.data["a"] for one in (*await ctx.children(ConfigMap), found) if one is not None])

    async with open_loop() as loop:
        _, controller = loop.recording_controller(step, owns(ConfigMap))
        async with loop.run(controller) as started:
            await loop.other.create(web(image="b"))
            await loop.settle(started)
            assert seen == [["b", "b"]] * len(seen) != []
            reads = [
                one for one in loop.calls if one.method == "GET" and one.path.endswith(("/c", "/default/configmaps"))
            ]
            assert reads == []


@virtual
async def test_a_read_of_children_that_are_watched_as_metadata_names_the_cure() -> None:
    async def step(_: Web, ctx: Context) -> None:
        assert await ctx.children(OnlyMetadata(ConfigMap)) == []
        with pytest.raises(NotCached, match=r"leave out metadata_only=True in owns\(ConfigMap\)"):
            await ctx.children(ConfigMap)

    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(step, owns(ConfigMap, metadata_only=True))
        async with loop.run(controller) as started:
            await loop.other.create(web())
            await loop.settle(started)
            assert [one.result for one in started.history] == ["done"] * len(recorded.names) != []


@virtual
async def test_a_change_of_a_child_reconciles_its_owner_even_if_only_metadata_is_watched() -> None:
    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(None, owns(ConfigMap, metadata_only=True))
        async with loop.run(controller) as started:
            site = await loop.other.create(web())
            await loop.settle(started)
            recorded.clear()
            made = await loop.other.create(child("c", owner_reference(site, controller=True), a="1"))
            await loop.settle(started)
            await loop.other.delete(made.ref)
            await loop.settle(started)
            assert recorded.names == ["blog", "blog"]
            assert recorded.reasons[0] == ["ConfigMap/default/c has changed"]
            assert [str(one.scope) for one in started.informers.handles][1] == "v1 ConfigMap (metadata only)"


@virtual
async def test_a_referenced_object_triggers_a_reconcile_when_it_is_created_changed_and_deleted() -> None:
    def settings(site: Web) -> list[Ref[ConfigMap]]:
        return [Ref(ConfigMap, site.spec.image, site.namespace)]

    async def step(site: Web, ctx: Context) -> None:
        found = [ctx.cached(ref) for ref in settings(site)]
        seen.append([one.data.get("a") if one else None for one in found])

    seen: list[list[Any]] = []
    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(step, references(ConfigMap, settings))
        await loop.other.create(web("a", image="x"))
        await loop.other.create(web("b", image="y"))
        async with loop.run(controller) as started:
            recorded.clear()
            seen.clear()
            made = await loop.other.create(child("x", a="1"))
            await loop.settle(started)
            await loop.other.update(replace_data(made, a="2"))
            await loop.settle(started)
            await loop.other.delete(made.ref)
            await loop.settle(started)
            assert recorded.names == ["a", "a", "a"]
            assert seen == [["1"], ["2"], [None]]


def replace_data(one: ConfigMap, **data: str) -> ConfigMap:
    return replace_fields(one, data=data)


@virtual
async def test_a_predicate_filters_only_its_own_watch() -> None:
    async with open_loop() as loop:
        everything = watches(ConfigMap, to=lambda _: [web_ref()], when=by.labels)
        recorded, controller = loop.recording_controller(None, everything, when=by.annotations)
        async with loop.run(controller) as started:
            site = await loop.other.create(web())
            made = await loop.other.create(child("c"))
            await loop.settle(started)
            recorded.clear()
            await loop.other.update(site.with_spec(image="b"))
            await loop.other.update(replace_data(made, a="1"))
            await loop.settle(started)
            assert recorded.names == []
            await loop.other.update((await loop.other.get(made.ref)).with_metadata(labels={"a": "b"}))
            await loop.settle(started)
            assert recorded.reasons == [["ConfigMap/default/c has changed"]]


@virtual
async def test_other_objects_may_be_watched_as_metadata_only() -> None:
    given: list[object] = []

    def site_of(one: PartialObjectMetadata) -> list[Ref[Web]]:
        given.append(one)
        return [web_ref(one.metadata.labels["site"])] if "site" in one.metadata.labels else []

    async with open_loop() as loop:
        await loop.other.create(web())
        recorded, controller = loop.recording_controller(None, watches(OnlyMetadata(ConfigMap), to=site_of))
        async with loop.run(controller) as started:
            made = await loop.other.create(child("c", a="1").with_metadata(labels={"site": "blog"}))
            await loop.settle(started)
            await loop.other.delete(made.ref)
            await loop.settle(started)
            assert recorded.reasons[1:] == [["ConfigMap/default/c has changed"]] * 2
            assert {type(one) for one in given} == {PartialObjectMetadata}
            assert [str(one.scope) for one in started.informers.handles][1] == "v1 ConfigMap (metadata only)"


@virtual
async def test_gone_is_called_once_and_the_state_of_the_object_is_dropped() -> None:
    gone: list[str] = []

    async def vanished(ref: Ref[Web], ctx: Context) -> None:
        gone.append(f"{ref} {ctx.object}")

    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(None, gone=vanished)
        async with loop.run(controller) as started:
            site = await loop.other.create(web())
            await loop.settle(started)
            await loop.other.delete(site.ref)
            await loop.settle(started)
            assert (gone, recorded.names) == (["Website/default/blog None"], ["blog"])
            assert started.history[-1].result == "gone"


@virtual
async def test_a_related_change_for_a_missing_object_calls_no_reconciler() -> None:
    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(None, watches(ConfigMap, to=lambda _: [web_ref("missing")]))
        async with loop.run(controller) as started:
            await loop.other.create(child("c"))
            await loop.settle(started)
            assert recorded.names == []
            assert [one.result for one in started.history.of(web_ref("missing"))][-1] == "gone"
            assert started.stats().delayed == 0, "and nothing is tried again"


@virtual
async def test_cleanup_runs_before_an_object_is_removed_and_requeue_means_not_done() -> None:
    async def take_down(site: Web, _: Context) -> Action | None:
        downs.append(timing.now())
        return requeue(10) if len(downs) < 3 else None

    downs: list[float] = []
    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(None, cleanup=take_down)
        async with loop.run(controller) as started:
            site = await loop.other.create(web())
            await loop.settle(started)
            assert (await loop.other.get(site.ref)).metadata.finalizers == (controller.finalizer,)
            assert recorded.names == ["blog"], "first the finalizer, then the reconciler"
            await loop.other.delete(site.ref)
            await asyncio.sleep(60)
            await loop.settle(started)
            assert [round(when - downs[0]) for when in downs] == [0, 10, 20]
            assert await loop.other.find(site.ref) is None
            assert recorded.names == ["blog"]


@virtual
async def test_a_cleanup_that_fails_keeps_the_object_and_runs_again() -> None:
    async def take_down(_: Web, ctx: Context) -> None:
        if ctx.attempt == 0:
            raise ValueError("not now")

    async with open_loop() as loop:
        _, controller = loop.recording_controller(None, cleanup=take_down)
        async with loop.run(controller) as started:
            site = await loop.other.create(web())
            await loop.settle(started)
            await loop.other.delete(site.ref)
            await asyncio.sleep(1)
            assert await loop.other.find(site.ref) is not None
            await asyncio.sleep(10)
            assert await loop.other.find(site.ref) is None


@virtual
async def test_giving_up_records_an_event_calls_the_handler_and_ends_with_a_change() -> None:
    async def step(site: Web, _: Context) -> None:
        if site.spec.image == "nginx":
            raise GiveUp("there is no such image")

    async def gave_up(site: Web, error: GiveUp, ctx: Context) -> None:
        said.append(f"{site.name}: {error}")

    said: list[str] = []
    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(step, gave_up=gave_up)
        async with loop.run(controller) as started:
            site = await loop.other.create(web())
            await asyncio.sleep(600)
            assert (recorded.names, said) == (["blog"], ["blog: there is no such image"])
            events = await loop.other.list(EVENT, namespace="default")
            assert [(one.tree["reason"], one.tree["type"]) for one in events] == [("GaveUp", "Warning")]
            await loop.other.update(site.with_spec(image="other"))
            await loop.settle(started)
            assert [one.result for one in started.history] == ["gave_up", "done"]


class ChoosySpec(Spec):
    image: Literal["nginx"] = "nginx"


class Choosy(Resource[ChoosySpec, Status], api="example.dev/v1", kind="Website"):
    """A class that cannot hold every site."""

    spec: ChoosySpec = ChoosySpec()


@virtual
async def test_an_object_that_does_not_fit_its_class_is_given_up_until_it_changes() -> None:
    async with open_loop() as loop:
        recorded = RecordingReconciler()
        async with loop.run(Controller(Choosy, recorded)) as started:
            site = await loop.other.create(web(image="other"))
            await asyncio.sleep(600)
            (outcome,) = started.history
            assert (outcome.result, recorded.names) == ("gave_up", [])
            assert "Website/default/blog" in str(outcome.error)
            await loop.other.update(site.with_spec(image="nginx"))
            await loop.settle(started)
            assert recorded.names == ["blog"]


@virtual
async def test_an_object_that_does_not_fit_its_class_is_not_given_up_in_the_name_of_the_one_before_it() -> None:
    async def gave_up(site: Choosy, _: GiveUp, __: Context) -> None:
        said.append(site.name)

    said: list[str] = []
    async with open_loop() as loop:
        recorded = RecordingReconciler()
        async with loop.run(Controller(Choosy, recorded, gave_up=gave_up, concurrency=1)) as started:
            await loop.other.create(web("fits"))
            await loop.other.create(web("other", image="other"))
            await asyncio.sleep(600)
            assert [one.result for one in started.history] == ["done", "gave_up"]
            assert (recorded.names, said) == (["fits"], [])
            assert len(await loop.other.list(EVENT, namespace="default")) == 0


@virtual
async def test_after_a_conflict_the_object_is_read_from_the_server_once() -> None:
    async def step(_: Web, __: Context) -> None:
        if len(recorded.reconciles) == 1:
            raise Conflict("another writer was first")

    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(step)
        async with loop.run(controller) as started:
            await loop.other.create(web())
            await asyncio.sleep(1)
            started.enqueue(web_ref())
            await loop.settle(started)
            assert [one.result for one in started.history] == ["conflict", "done", "done"]
            live = [call for call in loop.calls if call.verb == "get" and call.path.endswith("/websites/blog")]
            assert len(live) == 1
            assert 0.0 < recorded.times[1] < 0.2


@virtual
async def test_a_reconcile_sees_the_controllers_own_writes_even_if_the_watch_is_slow() -> None:
    async def step(site: Web, ctx: Context) -> None:
        seen.append(site.spec.image)
        if site.spec.image == "nginx":
            await ctx.client.update(site.with_spec(image="mine"))
            written.set()

    written, seen = asyncio.Event(), list[str]()
    async with open_loop() as loop:
        _, controller = loop.recording_controller(step)
        async with loop.run(controller) as started:
            await loop.other.create(web())
            await written.wait()
            started.enqueue(web_ref())
            await loop.settle(started)
            assert seen[:1] == ["nginx"]
            assert set(seen[1:]) == {"mine"}


@dataclass(frozen=True)
class Run:
    phase: str = "New"


@virtual
async def test_a_deferred_change_triggers_a_reconcile_and_is_applied_before_it() -> None:
    runs: StateMap[Web, int, Run] = StateMap()

    async def step(site: Web, _: Context) -> None:
        run = runs.get(site.ref) or Run()
        phases.append(run.phase)
        runs.put(site.ref, run)

    phases: list[str] = []
    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(step, remembers(runs))
        async with loop.run(controller) as started:
            site = await loop.other.create(web())
            await loop.settle(started)
            runs.defer(site.ref, lambda run: replace(run, phase="Running"))
            await loop.settle(started)
            assert phases == ["New", "Running"]
            assert recorded.reasons[1] == ["its state map entry has changed"]
            await loop.other.delete(site.ref)
            await loop.settle(started)
            assert len(runs) == 0
        runs.defer(site.ref, lambda run: run)
        assert not started.history.of(site.ref)[3:], "no listener after the end"


@virtual
async def test_a_function_that_is_not_async_fails_with_a_hint(caplog: pytest.LogCaptureFixture) -> None:
    step: Any = lambda site, ctx: None  # only its result shows that it is not async
    async with open_loop() as loop:
        controller = Controller(Web, step)
        await loop.other.create(web())
        with caplog.at_level(logging.WARNING):
            async with loop.run(controller) as started:
                assert "define it with `async def`" in str(started.history[0].error)


@virtual
async def test_a_controller_may_select_metadata_a_namespace_or_labels() -> None:
    async with open_loop() as loop:
        small, chosen = RecordingReconciler(), RecordingReconciler()
        metadata = Controller(OnlyMetadata(Web), small)
        labelled = Controller(Web, chosen, labels="tier=public", namespace="default", name="public")
        async with loop.run(metadata) as one, loop.run(labelled) as two:
            site = await loop.other.create(web("a").with_metadata(labels={"tier": "public"}))
            await loop.other.create(web("b"))
            await loop.settle(one, two)
            assert (sorted(small.names), chosen.names) == (["a", "b"], ["a"])
            assert type(small.objects[0]).__name__ == "PartialObjectMetadata"
            await loop.other.update(site.with_metadata(labels={}))
            await loop.settle(one, two)
            assert two.history[-1].result == "gone", "it is not among the selected ones any more"
