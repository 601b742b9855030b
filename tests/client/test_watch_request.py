import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.client.client import Client
from levelset.client.internals import list_page
from levelset.client.object_types import Kind, OnlyMetadata
from levelset.client.patches import MergePatch
from levelset.client.transport.interface import Call, Response, Send
from levelset.client.watch_events import EventReader, WatchEvent
from levelset.errors import BadObject, ConfigError, Expired, Forbidden, NotFound, Unreachable
from levelset.objects import encode_tree
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import WEBSITE, Website, failing, fake_response, open_client, recording, website

COMPACT = Call(method="POST", path="/levelset/compact", about="compact")


def line(type_: str, tree: Any) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), encode_tree(tree))


def tree(name: str, version: str = "1", **more: Any) -> Any:
    return {"metadata": {"name": name, "resourceVersion": version}, **more}


def shape(events: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(event.type, event.cached.head.name if event.cached else "") for event in events]


async def take(batches: Any, number: int) -> list[WatchEvent]:
    events: list[WatchEvent] = []
    while len(events) < number:
        events += await anext(batches)
    return events


@pytest.mark.parametrize("kind", [Website, WEBSITE, OnlyMetadata(Website)], ids=["typed", "bare", "metadata"])
async def test_a_watch_sees_added_modified_and_deleted_objects(kind: Kind[Any]) -> None:  # K14
    async with open_client() as client:
        version = (await client.list(Website)).resource_version
        async with client.watch(kind, resource_version=version) as batches:
            site = await client.create(website("blog"))
            await client.patch(site.ref, MergePatch({"spec": {"replicas": 2}}))
            await client.delete(site.ref)
            events = await take(batches, 3)
        assert shape(events) == [("ADDED", "blog"), ("MODIFIED", "blog"), ("DELETED", "blog")]
        versions = [int(event.cached.head.resource_version) for event in events if event.cached]
        assert versions == sorted(set(versions))


async def test_events_that_arrive_together_are_one_batch() -> None:
    async with open_client() as client:
        for name in "abc":
            await client.create(website(name))
        async with client.watch(Website, bookmarks=False) as batches:
            assert shape(await anext(batches)) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


async def test_a_streaming_list_ends_with_its_bookmark() -> None:  # kube-rs 87
    calls: list[Call] = []
    async with open_client(hooks=[recording(calls)]) as client:
        await client.create(website("a"))
        calls.clear()
        async with client.watch(Website, send_initial_events=True) as batches:
            events = await take(batches, 2)
        assert [(event.type, event.is_initial_end) for event in events] == [("ADDED", False), ("BOOKMARK", True)]
        assert "sendInitialEvents=true" in calls[0].query
        assert "resourceVersionMatch=NotOlderThan" in calls[0].query
        with pytest.raises(ConfigError, match="bookmark"):
            await anext(client.watch(Website, send_initial_events=True, bookmarks=False))


async def test_a_watch_takes_the_selectors_and_transforms_of_a_list() -> None:
    async with open_client() as client:
        await client.create(website("a", labels={"l": "1"}, image="nginx:1"))
        await client.create(website("b", labels={"l": "2"}))

        def caddy(raw: bytes) -> bytes:
            assert b"managedFields" not in raw
            return raw.replace(b"nginx", b"caddy")

        options: Any = {
            "labels": "l=1",
            "namespace": "default",
            "managed_fields": False,
            "transform": caddy,
            "bookmarks": False,
        }
        async with client.watch(Website, **options) as batches:
            (event,) = await anext(batches)
        assert event.cached is not None
        assert event.cached.read(Website).spec.image == "caddy:1"


async def test_an_expired_version_is_an_error_event_with_its_exception() -> None:
    async with open_client() as client:
        await client.create(website("a"))
        await client.send(COMPACT)
        async with client.watch(Website, resource_version="1") as batches:
            (event,) = await anext(batches)
        assert event.type == "ERROR"
        assert isinstance(event.status, Expired)


@pytest.mark.parametrize(("status", "error"), [(410, Expired), (403, Forbidden), (404, NotFound)])
async def test_a_refused_watch_raises_on_opening_and_is_not_retried(status: int, error: type[Exception]) -> None:
    calls: list[Call] = []
    async with open_client(wire_hooks=[recording(calls), failing(fake_response(status), when=_is_watch)]) as client:
        with pytest.raises(error, match="watch Website in all namespaces"):
            async with client.watch(Website):
                pass
        assert len(calls) == 1


def _is_watch(call: Call) -> bool:
    return call.verb == "watch"


async def test_a_watch_is_never_retried_even_if_the_server_is_busy() -> None:
    calls: list[Call] = []
    async with open_client(wire_hooks=[recording(calls), failing(*[fake_response(503)] * 3)]) as client:
        with pytest.raises(Exception, match="503"):
            await anext(client.watch(Website))
        with pytest.raises(Exception, match="503"):
            await list_page(client, Website)
        assert [call.verb for call in calls] == ["watch", "list"]


@virtual
async def test_a_watch_ends_when_the_server_ends_it() -> None:
    async with open_client() as client:
        began = asyncio.get_running_loop().time()
        found = [shape(events) async for events in client.watch(Website, resource_version="0", timeout=7)]
        assert asyncio.get_running_loop().time() - began >= 7
        assert all(kind == "BOOKMARK" for events in found for kind, _ in events)


async def test_a_watch_of_less_than_a_second_is_refused() -> None:  # kube-rs 87
    async with open_client() as client:
        with pytest.raises(ConfigError, match="at least 1"):
            await anext(client.watch(Website, timeout=0))


async def test_closing_a_watch_frees_its_feed_on_the_server() -> None:
    async with open_client() as client:
        async with client.watch(Website, resource_version="0", bookmarks=False) as batches:
            reader = asyncio.create_task(anext(batches))
            await asyncio.sleep(0)
            await client.create(website("a"))
            await reader
            assert _watchers(client) == 1
        assert _watchers(client) == 0
        await batches.aclose()


def _watchers(client: Client) -> int:
    transport: Any = client._pipeline._transport
    return int(transport._server.state.feeds.watchers)


async def test_closing_the_client_ends_a_watch_that_is_being_read() -> None:
    async with open_client() as client:
        async with client.watch(Website, resource_version="0", bookmarks=False) as batches:
            reader = asyncio.create_task(anext(batches))
            for _ in range(3):
                await asyncio.sleep(0)
            await client.aclose()
            with pytest.raises(Unreachable, match="closed"):
                await reader
        with pytest.raises(Unreachable, match="closed"):
            await client.list(Website)


async def test_a_stream_that_is_cut_in_the_middle_of_an_event_is_unreachable() -> None:
    async def cut(call: Call, send: Send) -> Response:
        return Response(status=200, body=line("ADDED", tree("a")) + b'{"type":"ADDED","obj')

    async with open_client(crd=False, hooks=[cut]) as client:
        batches = client.watch(Website)
        assert shape(await anext(batches)) == [("ADDED", "a")]
        with pytest.raises(Unreachable, match="in the middle"):
            await anext(batches)


def test_events_are_the_same_wherever_the_bytes_are_cut() -> None:
    big = tree("b", data="x" * 3000, text='a "quoted"\\nline')
    whole = line("ADDED", tree("a")) + line("MODIFIED", big) + b"\n" + line("DELETED", tree("c"))
    expected = EventReader(WEBSITE).feed(whole)
    for size in (1, 2, 7, 100, 1000, 3100):
        reader = EventReader(WEBSITE)
        chunks = [whole[at : at + size] for at in range(0, len(whole), size)]
        found = [event for chunk in chunks for event in reader.feed(chunk)]
        assert [(one.type, one.cached and one.cached.raw) for one in found] == [
            (one.type, one.cached and one.cached.raw) for one in expected
        ]
        assert reader.finish() == []
    assert shape(expected) == [("ADDED", "a"), ("MODIFIED", "b"), ("DELETED", "c")]


@pytest.mark.parametrize(
    "text",
    [
        b'{"object":{"metadata":{"name":"a"}},"type":"ADDED"}\n',
        b'{ "type": "ADDED", "object": {"metadata":{"name":"a"}} }\r\n',
        b'{"type":"ADDED","object":{"metadata":{"name":"a"}},"extra":[1]}\n',
        b'{"type":"ADDED","object":{"metadata":{"name":"a"}} }\n',
    ],
)
def test_an_event_may_have_any_json_form(text: bytes) -> None:
    (event,) = EventReader(WEBSITE).feed(text)
    assert event.cached is not None
    assert event.cached.raw.strip() == b'{"metadata":{"name":"a"}}'


def test_a_last_line_without_an_end_still_counts() -> None:
    reader = EventReader(WEBSITE)
    assert reader.feed(line("ADDED", tree("a"))[:-1]) == []
    assert shape(reader.finish()) == [("ADDED", "a")]
    assert reader.finish() == []


@pytest.mark.parametrize(
    "text",
    [
        b"nonsense\n",
        b"[]\n",
        b'{"type":"ADDED","object":null}\n',
        b'{"type":"ADDED","object":{"metadata":{"name":7}}}\n',
        b'{"type":"RENAMED","object":{"metadata":{}}}\n',
        b'{"type":"MODIFIED"}\n',
        b'{"type":"ADDED","object":' + b"[" * 5000 + b"}\n",
        b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}\n',
        b"{}\n",
    ],
)
def test_a_line_that_is_not_an_event_is_an_error_with_kind_and_size(text: bytes) -> None:
    with pytest.raises(BadObject, match=rf"a line of {len(text) - 1} bytes in the watch of example.dev/v1 Website"):
        EventReader(WEBSITE).feed(text)


def test_a_line_may_be_long_but_not_endless() -> None:
    reader = EventReader(WEBSITE)
    text = line("ADDED", tree("a", data="x" * 5_000_000))
    chunks = [text[at : at + 65536] for at in range(0, len(text), 65536)]
    assert shape([event for chunk in chunks for event in reader.feed(chunk)]) == [("ADDED", "a")]
    with pytest.raises(BadObject, match="longer than the limit of 1000 bytes"):
        EventReader(WEBSITE, limit=1000).feed(b"x" * 1001)


def test_errors_become_events_whatever_wraps_them() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Gone", "message": "too old"}
    bare = encode_tree(status) + b"\n"
    events = EventReader(WEBSITE).feed(line("ERROR", status) + bare + b'{"type":"ERROR"}\n')
    assert [type(event.status).__name__ for event in events] == ["Expired", "Expired", "ServerFailed"]
    assert str(events[0].status) == "watch Website: too old"


MANY = [
    line("ADDED", tree("a")),
    line("ADDED", tree("b")),
    line("BOOKMARK", tree("")),
    b'{"type":"ADDED","object":{"metadata":{"name":"c"}},"extra":[1]}\n',
    line("ADDED", tree("d")),
    line("MODIFIED", tree("e", metadata={"name": "e", "managedFields": [{"a": {}}], "uid": "u"})),
    line("MODIFIED", tree("f", metadata={"name": "f", "uid": "u", "managedFields": [{"a": {}}]})),
    b"\n \n",
    line("MODIFIED", tree("g", metadata={"name": "g", "uid": "u", "managedFields": []})),
    line("DELETED", tree("h")),
    line("DELETED", tree("i")),
    line("MODIFIED", tree("j")),
]


def test_lines_read_as_a_batch_equal_lines_read_one_by_one() -> None:
    whole = b"".join(MANY)
    expected = [event for one in MANY for event in EventReader(WEBSITE, managed_fields=False).feed(one)]
    assert [name for _, name in shape(expected)] == ["a", "b", "", *"cdefghij"]
    assert not any(b"managedFields" in event.cached.raw for event in expected if event.cached is not None)
    for size in (1, 50, 90, 300, len(whole)):
        reader = EventReader(WEBSITE, managed_fields=False)
        chunks = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert [event for chunk in chunks for event in reader.feed(chunk)] == expected


def test_each_object_of_a_batch_is_transformed_once() -> None:
    seen: list[bytes] = []

    def remember(raw: bytes) -> bytes:
        seen.append(raw)
        return raw

    reader = EventReader(WEBSITE, transform=remember)
    events = reader.feed(b"".join([line("MODIFIED", tree(name)) for name in "abc"]))
    assert seen == [event.cached.raw for event in events if event.cached is not None]


OTHERS = [
    b"\n",
    b"  \n",
    b'{"type":"MODIFIED","object":{"metadata":{"name":"a"}}}\r\n',
    b'{"type":"MODIFIED","object":{"metadata":{"name":"a"}}} \n',
    b'{"type":"MODIFIED","object":{"metadata":{"name":"a"}},"more":{}}\n',
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}\n',
    b'{"type":"MODIFIED", "object":{"metadata":{"name":"a"}}}\n',
]


@given(
    some.lists(some.sampled_from([*[line("MODIFIED", tree(name)) for name in "abc"], *MANY, *OTHERS]), max_size=12),
    some.integers(0, 11),
    some.integers(1, 400),
)
def test_batches_of_similar_lines_equal_lines_read_one_by_one(lines: list[bytes], more: int, size: int) -> None:
    lines += [line("MODIFIED", tree(str(number))) for number in range(more)]
    whole = b"".join(lines)
    expected = [event for one in lines for event in EventReader(WEBSITE).feed(one)]
    assert EventReader(WEBSITE).feed(whole) == expected
    reader = EventReader(WEBSITE)
    assert [event for at in range(0, len(whole), size) for event in reader.feed(whole[at : at + size])] == expected


@pytest.mark.parametrize(
    "odd",
    [
        b'"\n',
        b"}\n",
        b'{"type":"MODIFIED","object":\n',
        b'{"type":"MODIFIED","object":}\n',
        b'{"type":"MODIFIED","object":{}}\n',
    ],
)
@pytest.mark.parametrize("place", [0, 1, 3])
def test_an_invalid_line_within_a_batch_is_an_error(odd: bytes, place: int) -> None:
    lines = [line("MODIFIED", tree(name)) for name in "abc"]
    with pytest.raises(BadObject) as alone:
        EventReader(WEBSITE).feed(odd)
    with pytest.raises(BadObject) as among:
        EventReader(WEBSITE).feed(b"".join([*lines[:place], odd, *lines[place:]]))
    assert str(among.value) == str(alone.value)
