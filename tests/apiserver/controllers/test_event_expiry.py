import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

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


class Wall:
    """A wall clock that is set by the test, and otherwise follows the event loop."""

    def __init__(self) -> None:
        self.shift = timedelta()

    def __call__(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=asyncio.get_running_loop().time()) + self.shift


@pytest.mark.parametrize("jump", [timedelta(days=400), timedelta(days=-400)], ids=["forward", "back"])
@virtual
async def test_a_jump_of_the_wall_clock_neither_ends_nor_keeps_the_events_of_a_running_server(jump: timedelta) -> None:
    wall = Wall()
    async with open_server(now=wall) as api:
        await api.create(EVENTS, event("a"))
        wall.shift = jump
        await asyncio.sleep(3599)
        assert await names(api) == ["a"]
        await asyncio.sleep(2)
        assert await names(api) == []


@virtual
async def test_events_of_the_future_expire_an_hour_after_the_start() -> None:
    storage, wall = MemoryStorage(), Wall()
    async with open_server(storage, now=wall) as api:
        await api.create(EVENTS, event("a"))
    wall.shift = timedelta(days=-400)
    async with open_server(storage, now=wall) as api:
        await asyncio.sleep(3599)
        assert await names(api) == ["a"]
        await asyncio.sleep(2)
        assert await names(api) == []


@virtual
async def test_an_event_that_happened_again_before_a_restart_expires_an_hour_after_that() -> None:
    storage, wall = MemoryStorage(), Wall()
    async with open_server(storage, now=wall) as api:
        for name in ("core", "series", "old"):
            await api.create(EVENTS, event(name))
        await asyncio.sleep(3000)
        again = (wall()).strftime("%Y-%m-%dT%H:%M:%SZ")
        micro = (wall()).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
        for name, patch in {
            "core": {"lastTimestamp": again, "count": 2},
            "series": {"series": {"count": 2, "lastObservedTime": micro}},
        }.items():
            await api.request("PATCH", f"{EVENTS}/{name}", patch, kind="application/merge-patch+json")
    async with open_server(storage, now=wall) as api:
        await asyncio.sleep(1000)
        assert await names(api) == ["core", "series"]
        await asyncio.sleep(2601)
        assert await names(api) == []
