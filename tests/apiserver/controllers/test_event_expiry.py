import asyncio
from typing import Any

from levelset.storage import MemoryStorage
from levelset.testing.virtual_time import virtual
from tests.apiserver.support.in_process_server import InProcessServer, open_server

EVENTS = "/api/v1/namespaces/default/events"


def event(name: str) -> Any:
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    return {"metadata": {"name": name}, "involvedObject": about, "type": "Normal", "reason": "Tested"}


async def names(api: InProcessServer) -> list[str]:
    await api.server.idle()
    return [item["metadata"]["name"] for item in (await api.request("GET", EVENTS))[1]["items"]]


@virtual
async def test_events_expire_an_hour_after_their_last_write() -> None:
    async with open_server() as api:
        for name in ("a", "b"):
            await api.create(EVENTS, event(name))
        await asyncio.sleep(1800)
        patch = {"count": 2}
        await api.request("PATCH", f"{EVENTS}/a", patch, kind="application/merge-patch+json")
        await asyncio.sleep(1799)
        assert await names(api) == ["a", "b"]
        await asyncio.sleep(2)
        assert await names(api) == ["a"]
        await asyncio.sleep(1801)
        assert await names(api) == []


@virtual
async def test_a_deleted_event_does_not_disturb_expiry() -> None:
    async with open_server() as api:
        await api.create(EVENTS, event("a"))
        await api.request("DELETE", f"{EVENTS}/a")
        await asyncio.sleep(3601)
        assert await names(api) == []


@virtual
async def test_events_from_before_the_start_expire_too() -> None:
    storage = MemoryStorage()
    async with open_server(storage) as api:
        await api.create(EVENTS, event("a"))
    async with open_server(storage) as api:
        assert await names(api) == ["a"]
        await asyncio.sleep(3601)
        assert await names(api) == []


@virtual
async def test_both_api_groups_of_events_share_one_expiry() -> None:
    async with open_server() as api:
        await api.create(EVENTS, event("a"))
        status, _ = await api.request("DELETE", "/apis/events.k8s.io/v1/namespaces/default/events/a")
        assert status == 200
        await asyncio.sleep(3601)
        assert await names(api) == []
