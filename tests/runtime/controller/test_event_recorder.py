"""Events: aggregated, bounded, and never in the reconciler's way."""

from typing import Any

from levelset.aio import timing
from levelset.client import Answer, Call, Send
from levelset.objects import GroupVersionKind, Ref
from levelset.objects.names import is_dns1123_subdomain, is_qualified_name
from levelset.runtime.controller.event_recorder import About, Occurrence, Recorder, event_name, reporter_name
from tests.apiserver.clock import virtual
from tests.client.world import Namespace, answering
from tests.runtime.controller.desk import Desk, Site, config, open_desk, site

EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")


async def events(desk: Desk, namespace: str = "default") -> list[dict[str, Any]]:
    await desk.services.recorder.wait_idle()
    return [one.tree for one in await desk.other.list(EVENT, namespace=namespace)]


@virtual
async def test_an_event_says_what_happened_to_which_object_and_who_says_so() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        desk.context(blog).record(blog, "Scaled", "now 3 replicas")
        (event,) = await events(desk)
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
    async with open_desk() as desk:
        blog = await desk.start(site())
        ctx = desk.context(blog)
        ctx.record(blog, "Failed", "first", warning=True)
        assert len(await events(desk)) == 1
        await timing.sleep(60)
        ctx.record(blog, "Failed", "second", warning=True)
        (event,) = await events(desk)
        assert (event["note"], event["series"]["count"]) == ("first", 2)
        assert event["series"]["lastObservedTime"] > event["eventTime"]


@virtual
async def test_events_that_differ_in_more_than_their_note_are_several() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        ctx = desk.context(blog)
        ctx.record(blog, "A", "x")
        ctx.record(blog, "B", "x")
        ctx.record(blog, "A", "x", warning=True)
        ctx.record(blog, "A", "x", action="Delete")
        ctx.record(blog, "A", "x", related=config(namespace="default"))
        ctx.record(site("shop"), "A", "x")
        assert len(await events(desk)) == 6


@virtual
async def test_an_object_without_a_namespace_has_its_events_in_default() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        desk.context(blog).record(Ref(Namespace, "kube-system"), "Seen", "there it is")
        (event,) = await events(desk)
        assert event["metadata"]["namespace"] == "default"
        assert event["regarding"]["name"] == "kube-system"


@virtual
async def test_what_happens_again_after_six_minutes_is_a_new_event() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        ctx = desk.context(blog)
        for wait in (350, 350, 370, 0):
            ctx.record(blog, "Failed", "again")
            await desk.services.recorder.wait_idle()
            await timing.sleep(wait)
        found = await events(desk)
        assert sorted(one.get("series", {}).get("count", 1) for one in found) == [1, 3]


@virtual
async def test_what_happens_again_before_it_was_written_is_counted_and_written_once() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        for _ in range(100):
            desk.context(blog).record(blog, "Failed", "again")
        (event,) = await events(desk)
        assert event["series"]["count"] == 100
        assert len(desk.writes) == 1


@virtual
async def test_an_event_that_the_server_has_forgotten_is_made_anew() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        desk.context(blog).record(blog, "Failed", "one")
        (event,) = await events(desk)
        await desk.other.delete(EVENT, event["metadata"]["name"])
        desk.context(blog).record(blog, "Failed", "two")
        (event,) = await events(desk)
        assert (event["note"], event.get("series")) == ("two", None)


@virtual
async def test_a_server_that_refuses_events_does_not_disturb_anybody() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())

        async def refuse(call: Call, send: Send) -> Answer | None:
            return answering(403, b"{}") if "events" in call.path else None

        desk.faults.append(refuse)
        desk.context(blog).record(blog, "Failed", "one")
        await desk.services.recorder.wait_idle()
        assert (desk.services.recorder.written, desk.services.recorder.dropped) == (0, 1)
        desk.faults.clear()
        desk.context(blog).record(blog, "Failed", "two")
        assert len(await events(desk)) == 1


@virtual
async def test_more_events_than_the_queue_holds_are_dropped_and_counted() -> None:
    async with open_desk() as desk, Recorder(desk.client, "small", most=3) as recorder:
        for number in range(10):
            recorder.record(site(), f"Reason{number}", "x")
        assert recorder.dropped == 7
        await recorder.wait_idle()
        assert recorder.written == 3


@virtual
async def test_what_waits_at_the_end_is_written_but_not_for_ever() -> None:
    async with open_desk() as desk:
        async with Recorder(desk.client, "quick") as recorder:
            recorder.record(site(), "Stopped", "x")
        assert recorder.written == 1
        recorder.record(site(), "Late", "x")
        assert recorder.dropped == 1

        async def hang(call: Call, send: Send) -> Answer | None:
            await timing.sleep(1000)
            return None

        desk.faults.append(hang)
        began = timing.now()
        async with Recorder(desk.client, "slow", grace=2.0) as recorder:
            recorder.record(site(), "Stopped", "x")
            await timing.sleep(1)
        assert timing.now() - began < 4


@virtual
async def test_no_event_is_written_once_the_fence_has_fallen() -> None:
    def fence() -> None:
        raise RuntimeError("the lease is lost")

    async with open_desk() as desk, Recorder(desk.client, "fenced", fence=fence) as recorder:
        recorder.record(site(), "Failed", "x")
        await recorder.wait_idle()
        assert (recorder.written, recorder.dropped) == (0, 1)


@virtual
async def test_words_that_are_too_long_or_missing_do_not_fail() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        desk.context(blog).record(blog, "R" * 500, "n" * 5000, action="A" * 500)
        desk.context(blog).record(blog, "", "", action="")
        assert len(await events(desk)) == 2


def test_the_name_of_an_event_is_a_name_however_long_that_of_its_object_is() -> None:
    about = About("v1", "Pod", "a" * 240 + "." + "b" * 12, "default", "")
    name = event_name(Occurrence("Normal", "A", "R", "c", "i", about), 2**63)
    assert is_dns1123_subdomain(name)


def test_any_controller_may_report() -> None:
    assert reporter_name("sites") == "sites"
    for odd in ("", "a b", "ü", "x" * 200, "--"):
        assert is_qualified_name(reporter_name(odd))
    assert Ref(Site, "x").name == "x"
