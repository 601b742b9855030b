import asyncio
from typing import Any

from levelset.storage import MemoryStorage
from tests.apiserver.box import Box, open_box
from tests.apiserver.clock import virtual

EVENTS = "/api/v1/namespaces/default/events"


def event(name: str) -> Any:
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    return {"metadata": {"name": name}, "involvedObject": about, "type": "Normal", "reason": "Tested"}


async def names(box: Box) -> list[str]:
    await box.server.idle()
    return [item["metadata"]["name"] for item in (await box.ask("GET", EVENTS))[1]["items"]]


@virtual
async def test_events_go_an_hour_after_they_were_last_written() -> None:
    async with open_box() as box:
        for name in ("a", "b"):
            await box.make(EVENTS, event(name))
        await asyncio.sleep(1800)
        patch = {"count": 2}
        await box.ask("PATCH", f"{EVENTS}/a", patch, kind="application/merge-patch+json")
        await asyncio.sleep(1799)
        assert await names(box) == ["a", "b"]
        await asyncio.sleep(2)
        assert await names(box) == ["a"]
        await asyncio.sleep(1801)
        assert await names(box) == []


@virtual
async def test_an_event_that_was_deleted_is_not_missed() -> None:
    async with open_box() as box:
        await box.make(EVENTS, event("a"))
        await box.ask("DELETE", f"{EVENTS}/a")
        await asyncio.sleep(3601)
        assert await names(box) == []


@virtual
async def test_events_from_before_the_start_go_too() -> None:
    storage = MemoryStorage()
    async with open_box(storage) as box:
        await box.make(EVENTS, event("a"))
    async with open_box(storage) as box:
        assert await names(box) == ["a"]
        await asyncio.sleep(3601)
        assert await names(box) == []


@virtual
async def test_both_views_of_an_event_have_one_life() -> None:
    async with open_box() as box:
        await box.make(EVENTS, event("a"))
        status, _ = await box.ask("DELETE", "/apis/events.k8s.io/v1/namespaces/default/events/a")
        assert status == 200
        await asyncio.sleep(3601)
        assert await names(box) == []
