"""Events: aggregated, bounded, and recorded without blocking the reconciler."""

from typing import Any

from levelset.aio import timing
from levelset.client import Call, Response, Send
from levelset.objects import GroupVersionKind, Ref
from levelset.objects.names import is_dns1123_subdomain, is_qualified_name
from levelset.runtime.controller.event_recorder import (
    EventKey,
    EventRecorder,
    ObjectReference,
    event_name,
    reporter_name,
)
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import Namespace, fake_response
from tests.runtime.controller.context_environment import ContextEnvironment, Site, config, open_environment, site

EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")


async def events(env: ContextEnvironment, namespace: str = "default") -> list[dict[str, Any]]:
    await env.dependencies.recorder.wait_idle()
    return [one.tree for one in await env.other.list(EVENT, namespace=namespace)]


@virtual
async def test_an_event_names_its_object_its_reason_and_its_reporter() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        env.context(blog).record(blog, "Scaled", "now 3 replicas")
        (event,) = await events(env)
        assert (event["type"], event["reason"], event["note"]) == ("Normal", "Scaled", "now 3 replicas")
        assert (event["action"], event["reportingController"]) == ("Reconcile", "sites")
        assert event["regarding"] == {
            "apiVersion": "example.dev/v1",
            "kind": "Website",
            "name": "blog",
            "namespace": "default",
            "uid": blog.metadata.uid,
        }
        assert event["metadata"]["name"].startswith("blog.")
        assert "series" not in event


@virtual
async def test_a_second_event_of_the_same_becomes_a_series_of_two() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        ctx.record(blog, "Failed", "no space", warning=True)
        assert len(await events(env)) == 1
        await timing.sleep(60)
        ctx.record(blog, "Failed", "no space", warning=True)
        (event,) = await events(env)
        assert (event["note"], event["series"]["count"]) == ("no space", 2)
        assert event["series"]["lastObservedTime"] > event["eventTime"]


@virtual
async def test_events_that_differ_in_anything_are_separate() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        ctx.record(blog, "A", "x")
        ctx.record(blog, "A", "y")
        ctx.record(blog, "B", "x")
        ctx.record(blog, "A", "x", warning=True)
        ctx.record(blog, "A", "x", action="Delete")
        ctx.record(blog, "A", "x", related=config(namespace="default"))
        ctx.record(site("shop"), "A", "x")
        assert len(await events(env)) == 7


@virtual
async def test_an_event_whose_note_keeps_changing_is_combined_after_ten() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        for number in range(30):
            ctx.record(blog, "Polled", f"attempt {number}")
            await timing.sleep(5)
        ctx.record(blog, "Polled", "attempt 3")
        found = {one["note"]: one.get("series", {}).get("count", 1) for one in await events(env)}
        assert found == {
            **{f"attempt {number}": 1 for number in range(10)},
            "(combined from similar events): attempt 10": 21,
        }


@virtual
async def test_changing_notes_are_separate_again_after_ten_quiet_minutes() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        for number in range(12):
            ctx.record(blog, "Polled", f"attempt {number}")
        await timing.sleep(601)
        ctx.record(blog, "Polled", "attempt 12")
        assert "attempt 12" in [one["note"] for one in await events(env)]


@virtual
async def test_events_of_a_cluster_scoped_object_are_in_default() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        env.context(blog).record(Ref(Namespace, "kube-system"), "Seen", "there it is")
        (event,) = await events(env)
        assert event["metadata"]["namespace"] == "default"
        assert event["regarding"]["name"] == "kube-system"


@virtual
async def test_an_event_that_repeats_after_six_minutes_is_a_new_event() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        for wait in (350, 350, 370, 0):
            ctx.record(blog, "Failed", "again")
            await env.dependencies.recorder.wait_idle()
            await timing.sleep(wait)
        found = await events(env)
        assert sorted(one.get("series", {}).get("count", 1) for one in found) == [1, 3]


@virtual
async def test_an_event_that_repeats_before_it_was_written_is_counted_and_written_once() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        for _ in range(100):
            env.context(blog).record(blog, "Failed", "again")
        (event,) = await events(env)
        assert event["series"]["count"] == 100
        assert len(env.writes) == 1


@virtual
async def test_an_event_that_the_server_expired_is_created_again() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        env.context(blog).record(blog, "Failed", "one")
        (event,) = await events(env)
        await env.other.delete(EVENT, event["metadata"]["name"])
        env.context(blog).record(blog, "Failed", "one")
        (event,) = await events(env)
        assert (event["note"], event.get("series")) == ("one", None)


@virtual
async def test_a_server_that_rejects_events_does_not_affect_the_reconciler() -> None:
    async with open_environment() as env:
        blog = await env.start(site())

        async def refuse(call: Call, send: Send) -> Response | None:
            return fake_response(403, b"{}") if "events" in call.path else None

        env.faults.append(refuse)
        env.context(blog).record(blog, "Failed", "one")
        await env.dependencies.recorder.wait_idle()
        assert (env.dependencies.recorder.written, env.dependencies.recorder.dropped) == (0, 1)
        env.faults.clear()
        env.context(blog).record(blog, "Failed", "two")
        assert len(await events(env)) == 1


@virtual
async def test_events_beyond_the_buffer_are_dropped_and_counted() -> None:
    async with open_environment() as env, EventRecorder(env.client, "small", most=3) as recorder:
        for number in range(10):
            recorder.record(site(), f"Reason{number}", "x")
        assert recorder.dropped == 7
        await recorder.wait_idle()
        assert recorder.written == 3


@virtual
async def test_pending_events_are_written_at_the_end_within_the_grace_period() -> None:
    async with open_environment() as env:
        async with EventRecorder(env.client, "quick") as recorder:
            recorder.record(site(), "Stopped", "x")
        assert recorder.written == 1
        recorder.record(site(), "Late", "x")
        assert recorder.dropped == 1

        async def hang(call: Call, send: Send) -> Response | None:
            await timing.sleep(1000)
            return None

        env.faults.append(hang)
        began = timing.now()
        async with EventRecorder(env.client, "slow", grace=2.0) as recorder:
            recorder.record(site(), "Stopped", "x")
            await timing.sleep(1)
        assert timing.now() - began < 4


@virtual
async def test_no_event_is_written_once_the_fence_raises() -> None:
    def fence() -> None:
        raise RuntimeError("the lease is lost")

    async with open_environment(fence=fence) as env:
        recorder = env.dependencies.recorder
        recorder.record(site(), "Failed", "x")
        await recorder.wait_idle()
        assert (recorder.written, recorder.dropped) == (0, 1)


@virtual
async def test_fields_that_are_too_long_or_missing_do_not_fail() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        env.context(blog).record(blog, "R" * 500, "n" * 5000, action="A" * 500)
        env.context(blog).record(blog, "", "", action="")
        assert len(await events(env)) == 2


def test_the_name_of_an_event_is_valid_however_long_the_name_of_its_object_is() -> None:
    about = ObjectReference("v1", "Pod", "a" * 240 + "." + "b" * 12, "default", "")
    name = event_name(EventKey("Normal", "A", "R", "c", "i", about, "n"), 2**63)
    assert is_dns1123_subdomain(name)


def test_any_controller_name_becomes_a_valid_reporter() -> None:
    assert reporter_name("sites") == "sites"
    for odd in ("", "a b", "ü", "x" * 200, "--"):
        assert is_qualified_name(reporter_name(odd))
    assert Ref(Site, "x").name == "x"
