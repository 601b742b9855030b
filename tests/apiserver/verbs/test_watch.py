import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from levelset.apiserver.server import ApiServer
from levelset.apiserver.verbs.watch import parse_watch
from levelset.errors import BadRequest, Invalid
from levelset.http import Headers, Request, Response, iterate
from levelset.storage import SqliteStorage
from tests.apiserver.box import CONFIGMAPS, METADATA, TABLE, Box, configmap, open_box, widgets
from tests.apiserver.clock import virtual


async def take(events: Any, number: int) -> list[Any]:
    async with asyncio.timeout(600):
        return [await anext(events) for _ in range(number)]


def shape(events: list[Any]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


async def test_a_watch_begins_with_the_present_and_goes_on_with_changes() -> None:
    async with open_box() as box:
        await box.make(CONFIGMAPS, configmap("a"))
        async with aclosing(box.watch(CONFIGMAPS)) as events:
            assert shape(await take(events, 1)) == [("ADDED", "a")]
            await box.ask("PATCH", f"{CONFIGMAPS}/a", {"data": {"k": "1"}}, kind="application/merge-patch+json")
            await box.ask("DELETE", f"{CONFIGMAPS}/a")
            assert shape(await take(events, 2)) == [("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_deletion_carries_the_last_state_and_its_own_version() -> None:
    async with open_box() as box:
        made = await box.make(CONFIGMAPS, {**configmap("a"), "data": {"k": "v"}})
        version = made["metadata"]["resourceVersion"]
        async with aclosing(box.watch(CONFIGMAPS, resourceVersion=version)) as events:
            await box.ask("DELETE", f"{CONFIGMAPS}/a")
            (event,) = await take(events, 1)
        assert event["object"]["data"] == {"k": "v"}
        assert int(event["object"]["metadata"]["resourceVersion"]) > int(version)


async def test_watchers_that_join_at_any_time_see_every_change_once_and_in_order() -> None:
    async with open_box() as box:
        start = await box.revision()
        seen: list[list[str]] = []

        async def follow() -> None:
            async with aclosing(box.watch(CONFIGMAPS, resourceVersion=start)) as events:
                seen.append([event["object"]["metadata"]["resourceVersion"] for event in await take(events, 30)])

        async with asyncio.TaskGroup() as group:
            for number in range(30):
                group.create_task(follow())
                await box.make(CONFIGMAPS, configmap(f"c{number}"))
                await asyncio.sleep(0)
        assert all(one == seen[0] for one in seen)
        assert [int(version) for version in seen[0]] == sorted({int(version) for version in seen[0]})


async def test_watchers_of_the_same_share_one_feed() -> None:
    async with open_box() as box:
        watches = [box.watch(CONFIGMAPS, labelSelector="a=b,c=d"), box.watch(CONFIGMAPS, labelSelector="c=d,a=b")]
        readers = [asyncio.create_task(anext(watch)) for watch in watches]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        feeds = box.server.world.feeds
        assert feeds is not None
        assert (feeds.size, feeds.watchers) == (1, 2)
        await box.make(CONFIGMAPS, configmap("a", labels={"a": "b", "c": "d"}))
        assert await readers[0] == await readers[1]
        for watch in watches:
            await watch.aclose()
        assert (feeds.size, feeds.watchers) == (0, 0)


async def test_objects_enter_and_leave_a_watch_with_a_selector() -> None:
    async with open_box() as box:
        async with aclosing(box.watch(CONFIGMAPS, labelSelector="l=1", resourceVersion=await box.revision())) as events:
            made = await box.make(CONFIGMAPS, configmap("a", labels={"l": "0"}))
            for label in ("1", "2", "1"):
                made["metadata"]["labels"]["l"] = label
                made["metadata"].pop("resourceVersion", None)
                await box.ask("PUT", f"{CONFIGMAPS}/a", made)
            found = await take(events, 3)
        assert shape(found) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]
        assert [event["object"]["metadata"]["labels"]["l"] for event in found] == ["1", "1", "1"]


async def test_a_watch_by_name_sees_no_other_object() -> None:
    async with open_box() as box:
        query = {"fieldSelector": "metadata.name=a", "resourceVersion": await box.revision()}
        async with aclosing(box.watch(CONFIGMAPS, **query)) as events:
            for name in ("ab", "b", "a"):
                await box.make(CONFIGMAPS, configmap(name))
            assert shape(await take(events, 1)) == [("ADDED", "a")]


async def test_a_forgotten_version_is_told_on_the_stream() -> None:
    async with open_box() as box:
        await box.make(CONFIGMAPS, configmap("a"))
        await box.ask("POST", "/levelset/compact")
        events = [event async for event in box.watch(CONFIGMAPS, resourceVersion="1")]
        assert [(event["type"], event["object"]["code"], event["object"]["reason"]) for event in events] == [
            ("ERROR", 410, "Expired")
        ]


@virtual
async def test_a_watch_from_the_future_is_silent_until_its_time_has_come() -> None:
    async with open_box() as box:
        now = int(await box.revision())
        async with aclosing(box.watch(CONFIGMAPS, resourceVersion=str(now + 2))) as events:
            reader = asyncio.create_task(take(events, 1))
            await asyncio.sleep(0)
            for name in ("a", "b", "c"):
                await box.make(CONFIGMAPS, configmap(name))
            assert shape(await reader) == [("ADDED", "c")]


@virtual
async def test_a_watch_ends_properly_after_its_time() -> None:
    async with open_box() as box:
        began = asyncio.get_running_loop().time()
        assert [event async for event in box.watch(CONFIGMAPS, resourceVersion="0", timeoutSeconds="7")] == []
        assert round(asyncio.get_running_loop().time() - began) == 7


@virtual
async def test_without_a_time_a_watch_ends_after_half_an_hour_to_an_hour() -> None:
    async with open_box() as box:
        began = asyncio.get_running_loop().time()
        assert [event async for event in box.watch(CONFIGMAPS, resourceVersion="0")] == []
        assert 1800 <= asyncio.get_running_loop().time() - began <= 3600


@virtual
async def test_bookmarks_come_every_minute_and_before_the_end() -> None:
    async with open_box() as box:
        loop = asyncio.get_running_loop()
        began = loop.time()
        times: list[float] = []
        query = {"allowWatchBookmarks": "true", "timeoutSeconds": "130", "resourceVersion": await box.revision()}
        async for event in box.watch(CONFIGMAPS, **query):
            assert event["type"] == "BOOKMARK"
            assert event["object"]["metadata"]["resourceVersion"] == str(box.storage.revision)
            assert "name" not in event["object"]["metadata"]
            times.append(round(loop.time() - began))
        assert times == [60, 120, 128]


@virtual
async def test_a_bookmark_promises_what_other_kinds_have_reached() -> None:
    async with open_box() as box:
        query = {"allowWatchBookmarks": "true", "resourceVersion": await box.revision()}
        async with aclosing(box.watch(CONFIGMAPS, **query)) as events:
            reader = asyncio.create_task(take(events, 1))
            await asyncio.sleep(0)
            await box.make("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
            (event,) = await reader
        assert event["object"]["metadata"]["resourceVersion"] == str(box.storage.revision)


async def test_initial_events_end_with_a_bookmark_that_says_so() -> None:
    async with open_box() as box:
        await box.make(CONFIGMAPS, configmap("a"))
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        async with aclosing(box.watch(CONFIGMAPS, **query)) as events:
            found = await take(events, 2)
            assert [event["type"] for event in found] == ["ADDED", "BOOKMARK"]
            assert found[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            await box.make(CONFIGMAPS, configmap("b"))
            assert shape(await take(events, 1)) == [("ADDED", "b")]


async def test_initial_events_from_the_future_are_refused() -> None:
    async with open_box() as box:
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "999999"}
        status, tree = await box.ask("GET", CONFIGMAPS, watch="1", **query)
        assert (status, tree["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")


async def test_the_first_table_of_a_watch_has_the_columns() -> None:
    async with open_box() as box:
        async with aclosing(box.watch(CONFIGMAPS, accept=TABLE, resourceVersion=await box.revision())) as events:
            for name in ("a", "b"):
                await box.make(CONFIGMAPS, configmap(name))
            first, second = (event["object"] for event in await take(events, 2))
        assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert second["columnDefinitions"] is None
        assert [table["rows"][0]["cells"][0] for table in (first, second)] == ["a", "b"]


async def test_a_table_watcher_that_joins_others_gets_the_columns_too() -> None:
    async with open_box() as box:
        start = await box.revision()
        async with aclosing(box.watch(CONFIGMAPS, accept=TABLE, resourceVersion=start)) as early:
            await box.make(CONFIGMAPS, configmap("a"))
            await take(early, 1)
            late = box.watch(CONFIGMAPS, accept=TABLE, resourceVersion=await box.revision())
            async with aclosing(late):
                reader = asyncio.create_task(take(late, 1))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                await box.make(CONFIGMAPS, configmap("b"))
                assert (await reader)[0]["object"]["columnDefinitions"] is not None
                assert (await take(early, 1))[0]["object"]["columnDefinitions"] is None


async def test_a_watch_can_send_metadata_alone() -> None:
    async with open_box() as box:
        await box.make(CONFIGMAPS, {**configmap("a"), "data": {"k": "v"}})
        async with aclosing(box.watch(CONFIGMAPS, accept=METADATA)) as events:
            (event,) = await take(events, 1)
        assert (event["object"]["kind"], event["object"].keys()) == (
            "PartialObjectMetadata",
            {"kind", "apiVersion", "metadata"},
        )


async def test_a_watch_ends_when_the_server_stops() -> None:
    async with open_box() as box:
        reader = asyncio.create_task(_all(box))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await box.server.stop()
        assert await reader == []


async def _all(box: Box) -> list[Any]:
    return [event async for event in box.watch(CONFIGMAPS, resourceVersion="0")]


async def test_a_watch_ends_when_its_definition_changes_or_goes() -> None:
    async with open_box() as box:
        path = "/apis/example.com/v1/widgets"
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await box.make(crds, widgets())
        for change in ("columns", "delete"):
            reader = asyncio.create_task(_collect(box, path))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if change == "columns":
                columns = [{"name": "N", "type": "string", "jsonPath": ".spec.n"}]
                patch = [{"op": "add", "path": "/spec/versions/0/additionalPrinterColumns", "value": columns}]
                await box.ask("PATCH", f"{crds}/widgets.example.com", patch, kind="application/json-patch+json")
            else:
                await box.ask("DELETE", f"{crds}/widgets.example.com")
                await box.server.idle()
            assert await reader == []


async def test_a_watch_sees_the_objects_of_a_deleted_definition_go_and_then_ends() -> None:
    async with open_box() as box:
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        path = "/apis/example.com/v1/namespaces/default/widgets"
        await box.make(crds, widgets())
        held = {"name": "held", "finalizers": ["example.com/f"]}
        for metadata in ({"name": "a"}, {"name": "b"}, held):
            await box.make(path, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata})
        reader = asyncio.create_task(_collect(box, path))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await box.ask("DELETE", f"{crds}/widgets.example.com")
        await box.server.idle()
        assert not reader.done()  # it is served for as long as it has objects
        patch = [{"op": "remove", "path": "/metadata/finalizers"}]
        assert (await box.ask("PATCH", f"{path}/held", patch, kind="application/json-patch+json"))[0] == 200
        events = shape(await reader)
        assert events[:3] == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "held")]
        assert sorted(one for one in events if one[0] == "DELETED") == [
            ("DELETED", name) for name in ("a", "b", "held")
        ]
        assert (await box.answer("GET", path, watch="1")).status == 404


async def _collect(box: Box, path: str) -> list[Any]:
    return [event async for event in box.watch(path)]


async def test_a_client_that_does_not_read_is_cut_and_delays_nobody() -> None:
    async with open_box() as box:
        response = await box.answer("GET", CONFIGMAPS, watch="1", resourceVersion=await box.revision())
        stalled = iterate(response.body)
        first = asyncio.create_task(anext(stalled))
        await asyncio.sleep(0)
        async with aclosing(box.watch(CONFIGMAPS, resourceVersion=await box.revision())) as events:
            for number in range(12):
                await box.make(CONFIGMAPS, {**configmap(f"c{number}"), "data": {"k": "x" * 1_000_000}})
                assert shape(await take(events, 1)) == [("ADDED", f"c{number}")]
        await first
        feeds = box.server.world.feeds
        assert feeds is not None
        assert feeds.watchers == 0
        await stalled.aclose()


async def test_a_watch_over_sqlite_sees_what_is_committed(tmp_path: Any) -> None:
    storage = await asyncio.to_thread(SqliteStorage, tmp_path / "data.db")
    async with open_box(storage) as box, aclosing(box.watch(CONFIGMAPS, resourceVersion="4")) as events:
        await box.make(CONFIGMAPS, configmap("a"))
        await box.ask("DELETE", f"{CONFIGMAPS}/a")
        assert shape(await take(events, 2)) == [("ADDED", "a"), ("DELETED", "a")]
    await storage.close()


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"sendInitialEvents": "true"}, Invalid),
        ({"sendInitialEvents": "true", "resourceVersionMatch": "Exact"}, Invalid),
        ({"resourceVersionMatch": "NotOlderThan"}, Invalid),
        ({"timeoutSeconds": "soon"}, BadRequest),
        ({"allowWatchBookmarks": "perhaps"}, BadRequest),
        ({"resourceVersion": "x"}, BadRequest),
    ],
)
def test_parameters_that_make_no_sense_are_refused(query: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_watch({name: (value,) for name, value in query.items()})


async def test_over_a_websocket_every_event_is_a_frame() -> None:
    async with open_box() as box:
        await box.make(CONFIGMAPS, configmap("a"))
        headers = Headers(
            {
                "connection": "Upgrade",
                "upgrade": "websocket",
                "sec-websocket-version": "13",
                "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
            }
        )
        made = box.server.handle(Request("GET", CONFIGMAPS, "watch=1", headers, peer=ApiServer.owner))
        assert isinstance(made, Response)
        assert made.status == 101
        assert made.upgrade is not None
        tunnel = _Tunnel()
        made.upgrade(tunnel)
        size = int.from_bytes(tunnel.sent[0][2:4], "big")
        assert json.loads(tunnel.sent[0][4 : 4 + size])["type"] == "ADDED"
        await box.server.stop()
        assert tunnel.sent[-1] == b"\x88\x02\x03\xe8"
        assert tunnel.is_closed


class _Tunnel:
    is_backed_up = False
    backlog = 0

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_closed = False
        self._callbacks: list[Any] = []

    def write(self, data: bytes, /) -> None:
        self.sent.append(data)

    def close(self) -> None:
        self.is_closed = True
        for callback in self._callbacks:
            callback()

    def abort(self) -> None:
        self.close()

    def when_closed(self, callback: Any, /) -> None:
        self._callbacks.append(callback)

    def when_received(self, callback: Any, /) -> None:
        pass

    async def wait_drained(self) -> None:
        pass
