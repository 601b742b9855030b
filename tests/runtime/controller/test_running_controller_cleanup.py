"""Finalizers, saves and conflicts of a running controller, as other clients observe them."""

from typing import Any

import pytest

from levelset.aio import timing
from levelset.client import Call, MergePatch, Response, Send
from levelset.errors import GiveUp
from levelset.objects import replace
from levelset.runtime.controller import Action, Context, Controller, owns
from levelset.runtime.watch import by, where
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import fake_response
from tests.runtime.controller.controller_loop import (
    ConfigMap,
    ControllerLoop,
    RecordingReconciler,
    Web,
    WebStatus,
    child,
    open_loop,
    web,
    web_ref,
)

OURS = "websites.example.dev/levelset-website"
THEIRS = "example.org/theirs"


async def find(loop: ControllerLoop) -> Web | None:
    return await loop.other.find(web_ref())


def tidy(reconcile: RecordingReconciler, cleanup: RecordingReconciler) -> Controller[Web]:
    return Controller(Web, reconcile, cleanup=cleanup, finalizer=OURS)


@virtual
async def test_an_object_has_its_finalizer_before_it_is_reconciled_for_the_first_time() -> None:
    reconcile, cleanup = RecordingReconciler(), RecordingReconciler()
    async with open_loop() as loop, loop.run(tidy(reconcile, cleanup)) as started:
        await loop.other.create(web())
        await loop.settle(started)
        assert [one.metadata.finalizers for one in reconcile.objects] == [(OURS,)]
        assert len(loop.writes) == 1
        assert cleanup.reconciles == []


FILTERS: list[dict[str, Any]] = [
    {"when": by.generation},
    {"when": by.labels},
    {"event_filter": by.annotations},
    {"event_filter": where(lambda one: one.metadata.labels.get("paused") != "true")},
]


@pytest.mark.parametrize("options", FILTERS, ids=["generation", "labels", "annotations", "where"])
@virtual
async def test_no_filter_hides_the_finalizer_that_was_added_nor_the_deletion(options: dict[str, Any]) -> None:
    reconcile, cleanup = RecordingReconciler(), RecordingReconciler()
    controller = Controller(Web, reconcile, cleanup=cleanup, finalizer=OURS, **options)
    async with open_loop() as loop, loop.run(controller) as started:
        await loop.settle(started)
        await loop.other.create(web())
        await loop.settle(started)
        assert [one.metadata.finalizers for one in reconcile.objects] == [(OURS,)]
        await loop.other.patch(web_ref(), MergePatch({"metadata": {"labels": {"paused": "true"}}}))
        await loop.other.delete(web_ref())
        await loop.settle(started)
        assert cleanup.names == ["blog"]
        assert await find(loop) is None


@virtual
async def test_what_a_filter_hides_still_causes_no_reconcile_with_a_cleanup() -> None:
    reconcile, cleanup = RecordingReconciler(), RecordingReconciler()
    controller = Controller(Web, reconcile, cleanup=cleanup, finalizer=OURS, when=by.generation)
    async with open_loop() as loop, loop.run(controller) as started:
        await loop.other.create(web())
        await loop.settle(started)
        await loop.other.patch(web_ref(), MergePatch({"metadata": {"labels": {"a": "b"}}}))
        await loop.other.patch(web_ref(), MergePatch({"metadata": {"finalizers": [THEIRS, OURS]}}))
        await loop.settle(started)
        assert len(reconcile.objects) == 1


@virtual
async def test_an_object_that_is_being_deleted_without_our_finalizer_is_left_alone() -> None:
    reconcile, cleanup = RecordingReconciler(), RecordingReconciler()
    async with open_loop() as loop:
        await loop.other.create(web().with_metadata(finalizers=(THEIRS,)))
        await loop.other.delete(web_ref())
        async with loop.run(tidy(reconcile, cleanup)) as started:
            await loop.settle(started)
            found = await find(loop)
            assert found is not None
            assert found.metadata.finalizers == (THEIRS,)
            assert reconcile.reconciles == cleanup.reconciles == []


@virtual
async def test_an_object_that_was_never_reconciled_successfully_is_cleaned_up_too() -> None:
    async def fail(site: Web, ctx: Context) -> Action | None:
        raise ValueError("never")

    reconcile, cleanup = RecordingReconciler(fail), RecordingReconciler()
    async with open_loop() as loop, loop.run(tidy(reconcile, cleanup)) as started:
        await loop.other.create(web())
        await loop.settle(started)
        await loop.other.delete(web_ref())
        await loop.settle(started)
        assert cleanup.names == ["blog"]
        assert await find(loop) is None


@virtual
async def test_cleanups_of_two_controllers_do_not_wait_for_each_other() -> None:
    reconcile, cleanup = RecordingReconciler(), RecordingReconciler()
    async with open_loop() as loop, loop.run(tidy(reconcile, cleanup)) as started:
        await loop.other.create(web().with_metadata(finalizers=(THEIRS,)))
        await loop.settle(started)
        await loop.other.delete(web_ref())
        await loop.settle(started)
        found = await find(loop)
        assert found is not None
        assert found.metadata.finalizers == (THEIRS,)
        assert cleanup.names == ["blog"]


@virtual
async def test_a_cleanup_runs_again_if_its_finalizer_could_not_be_removed() -> None:
    reconcile, cleanup = RecordingReconciler(), RecordingReconciler()
    async with open_loop() as loop, loop.run(tidy(reconcile, cleanup)) as started:
        await loop.other.create(web())
        await loop.settle(started)
        rejected: list[Call] = []

        async def refuse_once(call: Call, send: Send) -> Response | None:
            if call.verb != "patch" or rejected:
                return None
            rejected.append(call)
            return fake_response(422, b'{"kind":"Status","code":422,"reason":"Invalid","message":"test failed"}')

        loop.faults.append(refuse_once)
        await loop.other.delete(web_ref())
        await timing.sleep(1)
        await loop.settle(started)
        assert (cleanup.names, cleanup.attempts) == (["blog", "blog"], [0, 0])
        assert await find(loop) is None


@virtual
async def test_a_cleanup_that_gives_up_keeps_the_object_until_something_changes() -> None:
    async def hesitate(site: Web, ctx: Context) -> Action | None:
        if "really" not in site.metadata.labels:
            raise GiveUp("needs a confirmation")
        return None

    reconcile, cleanup = RecordingReconciler(), RecordingReconciler(hesitate)
    async with open_loop() as loop, loop.run(tidy(reconcile, cleanup)) as started:
        await loop.other.create(web())
        await loop.settle(started)
        await loop.other.delete(web_ref())
        await timing.sleep(3600)
        assert cleanup.names == ["blog"]
        await loop.other.patch(web_ref(), MergePatch({"metadata": {"labels": {"really": "yes"}}}))
        await loop.settle(started)
        assert await find(loop) is None


@virtual
async def test_saving_status_and_spec_converges_after_two_reconciles() -> None:
    async def step(site: Web, ctx: Context) -> Action | None:
        wanted = site.with_metadata(annotations={"seen": "yes"})
        await ctx.save(replace(wanted, status=WebStatus(seen=1)))
        return None

    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(step)
        async with loop.run(controller) as started:
            await loop.other.create(web())
            await timing.sleep(600)
            await loop.settle(started)
            found = await find(loop)
            assert found is not None
            assert (found.status, found.metadata.annotations) == (WebStatus(seen=1), {"seen": "yes"})
            assert [call.path.endswith("/status") for call in loop.writes] == [True, False]
            assert len(recorded.reconciles) <= 3


@virtual
async def test_conflicts_are_not_failures_and_end_when_no_other_writer_interferes() -> None:
    left = 5

    async def step(site: Web, ctx: Context) -> Action | None:
        nonlocal left
        if left:
            left -= 1
            await loop.other.patch(site.ref, MergePatch({"metadata": {"labels": {"left": str(left)}}}))
        await ctx.set_status(site, WebStatus(seen=1))
        return None

    async with open_loop() as loop:
        recorded, controller = loop.recording_controller(step)
        async with loop.run(controller) as started:
            await loop.other.create(web())
            await timing.sleep(60)
            await loop.settle(started)
            found = await find(loop)
            assert found is not None
            assert found.status == WebStatus(seen=1)
            assert set(recorded.attempts) == {0}
            assert [one.metadata.labels.get("left") for one in recorded.objects[1:6]] == ["4", "3", "2", "1", "0"]


@virtual
async def test_nothing_is_written_for_an_object_whose_finalizer_is_rejected(caplog: pytest.LogCaptureFixture) -> None:
    async def forbid(call: Call, send: Send) -> Response | None:
        return fake_response(403, b"{}") if call.verb == "patch" else None

    reconcile, cleanup = RecordingReconciler(), RecordingReconciler()
    async with open_loop() as loop:
        loop.faults.append(forbid)
        async with loop.run(tidy(reconcile, cleanup)) as started:
            await loop.other.create(web())
            await loop.settle(started)
            assert reconcile.reconciles == []


@virtual
async def test_what_was_applied_is_forgotten_when_the_garbage_collector_deletes_the_child() -> None:
    async def step(one: Web, ctx: Context) -> None:
        await ctx.apply(child(one.name), owner=one)

    async with open_loop() as loop:
        _, controller = loop.recording_controller(step, owns(ConfigMap))
        async with loop.run(controller) as started:
            for name in "ab":
                await loop.other.create(web(name))
            await loop.settle(started)
            assert len(started.dependencies.applied) == 2
            await loop.other.delete(web_ref("a"))
            await loop.server.idle()
            await loop.settle(started)
            assert len(started.dependencies.applied) == 1
