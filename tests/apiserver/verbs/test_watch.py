import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.server import ApiServer
from levelset.apiserver.verbs.watch import parse_watch_options
from levelset.errors import ApiError, BadRequest, Invalid
from levelset.http import Headers, Request, Response, iterate
from levelset.storage import SqliteStorage
from levelset.testing.virtual_time import virtual
from tests.apiserver.support.in_process_server import (
    CONFIGMAPS,
    METADATA,
    TABLE,
    InProcessServer,
    configmap,
    open_server,
    widgets,
)


def _configmaps() -> ServedResource:
    return next(one for one in builtin_kinds() if one.plural == "configmaps")


async def take(events: Any, number: int) -> list[Any]:
    async with asyncio.timeout(600):
        return [await anext(events) for _ in range(number)]


async def take_all(events: Any) -> list[Any]:
    return [event async for event in events]


def shape(events: list[Any]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


async def test_a_watch_starts_with_the_current_objects_and_continues_with_changes() -> None:
    async with open_server() as api:
        await api.create(CONFIGMAPS, configmap("a"))
        async with aclosing(api.watch(CONFIGMAPS)) as events:
            assert shape(await take(events, 1)) == [("ADDED", "a")]
            await api.request("PATCH", f"{CONFIGMAPS}/a", {"data": {"k": "1"}}, kind="application/merge-patch+json")
            await api.request("DELETE", f"{CONFIGMAPS}/a")
            assert shape(await take(events, 2)) == [("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_deleted_event_has_the_last_state_and_its_own_resource_version() -> None:
    async with open_server() as api:
        made = await api.create(CONFIGMAPS, {**configmap("a"), "data": {"k": "v"}})
        version = made["metadata"]["resourceVersion"]
        async with aclosing(api.watch(CONFIGMAPS, resourceVersion=version)) as events:
            await api.request("DELETE", f"{CONFIGMAPS}/a")
            (event,) = await take(events, 1)
        assert event["object"]["data"] == {"k": "v"}
        assert int(event["object"]["metadata"]["resourceVersion"]) > int(version)


async def test_watchers_that_join_at_any_time_get_every_change_once_and_in_order() -> None:
    async with open_server() as api:
        start = await api.revision()
        seen: list[list[str]] = []

        async def follow() -> None:
            async with aclosing(api.watch(CONFIGMAPS, resourceVersion=start)) as events:
                seen.append([event["object"]["metadata"]["resourceVersion"] for event in await take(events, 30)])

        async with asyncio.TaskGroup() as group:
            for number in range(30):
                group.create_task(follow())
                await api.create(CONFIGMAPS, configmap(f"c{number}"))
                await asyncio.sleep(0)
        assert all(one == seen[0] for one in seen)
        assert [int(version) for version in seen[0]] == sorted({int(version) for version in seen[0]})


async def test_watchers_of_the_same_topic_share_one_feed() -> None:
    async with open_server() as api:
        watches = [api.watch(CONFIGMAPS, labelSelector="a=b,c=d"), api.watch(CONFIGMAPS, labelSelector="c=d,a=b")]
        readers = [asyncio.create_task(anext(watch)) for watch in watches]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        feeds = api.server.state.feeds
        assert feeds is not None
        assert (feeds.size, feeds.watchers) == (1, 2)
        await api.create(CONFIGMAPS, configmap("a", labels={"a": "b", "c": "d"}))
        assert await readers[0] == await readers[1]
        for watch in watches:
            await watch.aclose()
        assert (feeds.size, feeds.watchers) == (0, 0)


async def test_objects_enter_and_leave_a_watch_with_a_selector() -> None:
    async with open_server() as api:
        async with aclosing(api.watch(CONFIGMAPS, labelSelector="l=1", resourceVersion=await api.revision())) as events:
            made = await api.create(CONFIGMAPS, configmap("a", labels={"l": "0"}))
            for label in ("1", "2", "1"):
                made["metadata"]["labels"]["l"] = label
                made["metadata"].pop("resourceVersion", None)
                await api.request("PUT", f"{CONFIGMAPS}/a", made)
            found = await take(events, 3)
        assert shape(found) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]
        assert [event["object"]["metadata"]["labels"]["l"] for event in found] == ["1", "1", "1"]


async def test_a_watch_by_name_gets_no_other_object() -> None:
    async with open_server() as api:
        query = {"fieldSelector": "metadata.name=a", "resourceVersion": await api.revision()}
        async with aclosing(api.watch(CONFIGMAPS, **query)) as events:
            for name in ("ab", "b", "a"):
                await api.create(CONFIGMAPS, configmap(name))
            assert shape(await take(events, 1)) == [("ADDED", "a")]


async def test_an_expired_resource_version_is_an_error_event() -> None:
    async with open_server() as api:
        await api.create(CONFIGMAPS, configmap("a"))
        await api.request("POST", "/levelset/compact")
        events = [event async for event in api.watch(CONFIGMAPS, resourceVersion="1")]
        assert [(event["type"], event["object"]["code"], event["object"]["reason"]) for event in events] == [
            ("ERROR", 410, "Expired")
        ]


@virtual
async def test_a_watch_from_a_future_revision_begins_when_it_is_reached() -> None:
    async with open_server() as api:
        now = int(await api.revision())
        async with aclosing(api.watch(CONFIGMAPS, resourceVersion=str(now + 2))) as events:
            reader = asyncio.create_task(take(events, 1))
            await asyncio.sleep(0)
            for name in ("a", "b", "c"):
                await api.create(CONFIGMAPS, configmap(name))
            assert shape(await reader) == [("ADDED", "c")]


@virtual
async def test_a_watch_from_a_revision_that_is_not_reached_ends_with_an_error_event() -> None:
    async with open_server() as api:
        began, now = asyncio.get_running_loop().time(), int(await api.revision())
        events = [event async for event in api.watch(CONFIGMAPS, resourceVersion="999999")]
        assert asyncio.get_running_loop().time() - began == 3
        assert [(one["type"], one["object"]["code"], one["object"]["message"]) for one in events] == [
            ("ERROR", 504, f"Timeout: Too large resource version: 999999, current: {now}")
        ]


@pytest.mark.parametrize(("reached", "seconds"), [(False, 2), (True, 5)])
@virtual
async def test_the_timeout_of_a_watch_includes_the_wait_for_its_revision(*, reached: bool, seconds: int) -> None:
    async with open_server() as api:
        began, now = asyncio.get_running_loop().time(), int(await api.revision())
        events = api.watch(CONFIGMAPS, resourceVersion=str(now + 1), timeoutSeconds=str(seconds))
        reader = asyncio.create_task(take_all(events))
        await asyncio.sleep(1)
        if reached:
            await api.create(CONFIGMAPS, configmap("a"))
        assert await reader == []
        assert round(asyncio.get_running_loop().time() - began, 3) == seconds


@virtual
async def test_a_watch_ends_after_its_timeout() -> None:
    async with open_server() as api:
        began = asyncio.get_running_loop().time()
        assert [event async for event in api.watch(CONFIGMAPS, resourceVersion="0", timeoutSeconds="7")] == []
        assert round(asyncio.get_running_loop().time() - began) == 7


@virtual
async def test_without_a_timeout_a_watch_ends_after_half_an_hour_to_an_hour() -> None:
    async with open_server() as api:
        began = asyncio.get_running_loop().time()
        assert [event async for event in api.watch(CONFIGMAPS, resourceVersion="0")] == []
        assert 1800 <= asyncio.get_running_loop().time() - began <= 3600


@virtual
async def test_bookmarks_are_sent_every_minute_and_before_the_end() -> None:
    async with open_server() as api:
        loop = asyncio.get_running_loop()
        began = loop.time()
        times: list[float] = []
        query = {"allowWatchBookmarks": "true", "timeoutSeconds": "130", "resourceVersion": await api.revision()}
        async for event in api.watch(CONFIGMAPS, **query):
            assert event["type"] == "BOOKMARK"
            assert event["object"]["metadata"]["resourceVersion"] == str(api.storage.revision)
            assert "name" not in event["object"]["metadata"]
            times.append(round(loop.time() - began))
        assert times == [60, 120, 128]


@virtual
async def test_a_bookmark_has_the_revision_of_other_kinds_too() -> None:
    async with open_server() as api:
        query = {"allowWatchBookmarks": "true", "resourceVersion": await api.revision()}
        async with aclosing(api.watch(CONFIGMAPS, **query)) as events:
            reader = asyncio.create_task(take(events, 1))
            await asyncio.sleep(0)
            await api.create("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
            (event,) = await reader
        assert event["object"]["metadata"]["resourceVersion"] == str(api.storage.revision)


async def test_initial_events_end_with_an_annotated_bookmark() -> None:
    async with open_server() as api:
        await api.create(CONFIGMAPS, configmap("a"))
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        async with aclosing(api.watch(CONFIGMAPS, **query)) as events:
            found = await take(events, 2)
            assert [event["type"] for event in found] == ["ADDED", "BOOKMARK"]
            assert found[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            await api.create(CONFIGMAPS, configmap("b"))
            assert shape(await take(events, 1)) == [("ADDED", "b")]


@virtual
async def test_initial_events_from_a_future_revision_are_waited_for_and_then_an_error_event() -> None:
    async with open_server() as api:
        began, now = asyncio.get_running_loop().time(), int(await api.revision())
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        events = [event async for event in api.watch(CONFIGMAPS, resourceVersion="999999", **query)]
        assert [one["type"] for one in events] == ["ERROR"]
        assert asyncio.get_running_loop().time() - began == 3
        status = events[0]["object"]
        assert (status["code"], status["reason"]) == (504, "Timeout")
        assert status["message"] == f"Timeout: Too large resource version: 999999, current: {now}"
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        assert status["details"] == {"causes": [cause], "retryAfterSeconds": 1}


@virtual
async def test_initial_events_are_sent_when_the_revision_is_reached() -> None:
    async with open_server() as api:
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        later = str(int(await api.revision()) + 2)
        async with aclosing(api.watch(CONFIGMAPS, resourceVersion=later, **query)) as events:
            reader = asyncio.create_task(take(events, 3))
            for name in ("a", "b"):
                await asyncio.sleep(1)
                await api.create(CONFIGMAPS, configmap(name))
            assert [event["type"] for event in await reader] == ["ADDED", "ADDED", "BOOKMARK"]


async def test_the_first_table_of_a_watch_has_the_column_definitions() -> None:
    async with open_server() as api:
        async with aclosing(api.watch(CONFIGMAPS, accept=TABLE, resourceVersion=await api.revision())) as events:
            for name in ("a", "b"):
                await api.create(CONFIGMAPS, configmap(name))
            first, second = (event["object"] for event in await take(events, 2))
        assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert second["columnDefinitions"] is None
        assert [table["rows"][0]["cells"][0] for table in (first, second)] == ["a", "b"]


async def test_a_table_watcher_that_joins_a_feed_gets_the_column_definitions() -> None:
    async with open_server() as api:
        start = await api.revision()
        async with aclosing(api.watch(CONFIGMAPS, accept=TABLE, resourceVersion=start)) as early:
            await api.create(CONFIGMAPS, configmap("a"))
            await take(early, 1)
            late = api.watch(CONFIGMAPS, accept=TABLE, resourceVersion=await api.revision())
            async with aclosing(late):
                reader = asyncio.create_task(take(late, 1))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                await api.create(CONFIGMAPS, configmap("b"))
                assert (await reader)[0]["object"]["columnDefinitions"] is not None
                assert (await take(early, 1))[0]["object"]["columnDefinitions"] is None


async def test_a_watch_can_send_metadata_only() -> None:
    async with open_server() as api:
        await api.create(CONFIGMAPS, {**configmap("a"), "data": {"k": "v"}})
        async with aclosing(api.watch(CONFIGMAPS, accept=METADATA)) as events:
            (event,) = await take(events, 1)
        assert (event["object"]["kind"], event["object"].keys()) == (
            "PartialObjectMetadata",
            {"kind", "apiVersion", "metadata"},
        )


async def test_a_watch_ends_when_the_server_stops() -> None:
    async with open_server() as api:
        reader = asyncio.create_task(_all(api))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await api.server.stop()
        assert await reader == []


async def _all(api: InProcessServer) -> list[Any]:
    return [event async for event in api.watch(CONFIGMAPS, resourceVersion="0")]


async def test_a_watch_ends_when_its_crd_changes_or_is_removed() -> None:
    async with open_server() as api:
        path = "/apis/example.com/v1/widgets"
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await api.create(crds, widgets())
        for change in ("columns", "delete"):
            reader = asyncio.create_task(_collect(api, path))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if change == "columns":
                columns = [{"name": "N", "type": "string", "jsonPath": ".spec.n"}]
                patch = [{"op": "add", "path": "/spec/versions/0/additionalPrinterColumns", "value": columns}]
                await api.request("PATCH", f"{crds}/widgets.example.com", patch, kind="application/json-patch+json")
            else:
                await api.request("DELETE", f"{crds}/widgets.example.com")
                await api.server.idle()
            assert await reader == []


async def test_a_watch_gets_the_deletions_of_a_deleted_crd_and_then_ends() -> None:
    async with open_server() as api:
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        path = "/apis/example.com/v1/namespaces/default/widgets"
        await api.create(crds, widgets())
        held = {"name": "held", "finalizers": ["example.com/f"]}
        for metadata in ({"name": "a"}, {"name": "b"}, held):
            await api.create(path, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata})
        reader = asyncio.create_task(_collect(api, path))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await api.request("DELETE", f"{crds}/widgets.example.com")
        await api.server.idle()
        assert not reader.done()  # served as long as it has objects
        patch = [{"op": "remove", "path": "/metadata/finalizers"}]
        assert (await api.request("PATCH", f"{path}/held", patch, kind="application/json-patch+json"))[0] == 200
        events = shape(await reader)
        assert events[:3] == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "held")]
        assert sorted(one for one in events if one[0] == "DELETED") == [
            ("DELETED", name) for name in ("a", "b", "held")
        ]
        assert (await api.send("GET", path, watch="1")).status == 404


async def _collect(api: InProcessServer, path: str) -> list[Any]:
    return [event async for event in api.watch(path)]


async def test_a_client_that_does_not_read_is_disconnected_and_delays_no_other_watcher() -> None:
    async with open_server() as api:
        response = await api.send("GET", CONFIGMAPS, watch="1", resourceVersion=await api.revision())
        stalled = iterate(response.body)
        first = asyncio.ensure_future(anext(stalled))
        await asyncio.sleep(0)
        async with aclosing(api.watch(CONFIGMAPS, resourceVersion=await api.revision())) as events:
            for number in range(12):
                await api.create(CONFIGMAPS, {**configmap(f"c{number}"), "data": {"k": "x" * 1_000_000}})
                assert shape(await take(events, 1)) == [("ADDED", f"c{number}")]
        await first
        feeds = api.server.state.feeds
        assert feeds is not None
        assert feeds.watchers == 0
        await stalled.aclose()


async def test_a_watch_over_sqlite_gets_committed_changes(tmp_path: Any) -> None:
    storage = await asyncio.to_thread(SqliteStorage, tmp_path / "data.db")
    async with open_server(storage) as api, aclosing(api.watch(CONFIGMAPS, resourceVersion="4")) as events:
        await api.create(CONFIGMAPS, configmap("a"))
        await api.request("DELETE", f"{CONFIGMAPS}/a")
        assert shape(await take(events, 2)) == [("ADDED", "a"), ("DELETED", "a")]
    await storage.close()


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"sendInitialEvents": "true"}, Invalid),
        ({"sendInitialEvents": "true", "resourceVersionMatch": "Exact"}, Invalid),
        ({"resourceVersionMatch": "NotOlderThan"}, Invalid),
        ({"timeoutSeconds": "soon"}, BadRequest),
        ({"resourceVersion": "x"}, ApiError),
    ],
)
def test_invalid_watch_parameters_are_rejected(query: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_watch_options(_configmaps(), {name: (value,) for name, value in query.items()})


async def test_over_a_websocket_every_event_is_a_frame() -> None:
    async with open_server() as api:
        await api.create(CONFIGMAPS, configmap("a"))
        headers = Headers(
            {
                "connection": "Upgrade",
                "upgrade": "websocket",
                "sec-websocket-version": "13",
                "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
            }
        )
        made = api.server.handle(Request("GET", CONFIGMAPS, "watch=1", headers, peer=ApiServer.owner))
        assert isinstance(made, Response)
        assert made.status == 101
        assert made.upgrade is not None
        tunnel = _Tunnel()
        made.upgrade(tunnel)
        size = int.from_bytes(tunnel.sent[0][2:4], "big")
        assert json.loads(tunnel.sent[0][4 : 4 + size])["type"] == "ADDED"
        await api.server.stop()
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

    def hold(self) -> None:
        pass

    def release(self) -> None:
        pass

    async def wait_drained(self) -> None:
        pass
