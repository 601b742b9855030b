"""The feeds of watches: shared pushes, initial events in slices, converted watches, event encoding."""

import asyncio
import json
import logging
from contextlib import aclosing
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from msgspec import structs

from levelset.apiserver.package_data import load_package_data
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.registry.selectors import read_selectors
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import response_format
from levelset.apiserver.verbs.response_format import representation_of
from levelset.apiserver.verbs.watch import ConvertedWatch, Encoder, Feed, Topic, Watcher, error_event, feeds_of
from levelset.errors import Expired
from levelset.http import Chunks, Sink, iterate
from levelset.storage import Change, Item, MemoryStorage
from levelset.testing.virtual_time import virtual
from tests.apiserver.support.in_process_server import CONFIGMAPS, open_server
from tests.apiserver.support.slow_converter import SlowConverter, served, value

load_package_data()


class RecordingSink:
    """A sink that records what is written to it."""

    def __init__(self) -> None:
        self.data = b""
        self.writes = 0
        self.is_closed = self.is_backed_up = self.is_cut = False
        self.backlog = 0
        self._callbacks: list[Any] = []

    @property
    def names(self) -> list[str]:
        return [json.loads(line)["object"]["metadata"].get("name", "") for line in self.data.splitlines()]

    def write(self, data: bytes, /) -> None:
        self.writes += 1
        self.data += data

    def close(self) -> None:
        self.is_closed = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def abort(self) -> None:
        self.is_cut = True
        self.close()

    def when_closed(self, callback: Any, /) -> None:
        self._callbacks.append(callback)

    async def wait_drained(self) -> None:
        return


def make(storage: MemoryStorage | None = None) -> tuple[ServerState, Topic]:
    state = ServerState(storage or MemoryStorage(), Catalog(builtin_kinds()))
    served = state.catalog.find("", "v1", "configmaps")
    assert served is not None
    return state, Topic(served, "n", None)


def put(state: ServerState, name: str, size: int = 1) -> None:
    metadata = f'{{"name":"{name}","namespace":"n"}}'
    value = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata},"data":{{"k":"{"x" * size}"}}}}'
    assert isinstance(state.storage, MemoryStorage)
    state.storage.put_nowait(f"/registry/core/configmaps/n/{name}", value.encode(), expected=None)


async def ticks(number: int = 3) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_all_changes_of_one_loop_iteration_are_one_write() -> None:
    state, topic = make()
    takers = [RecordingSink() for _ in range(3)]
    for sink in takers:
        feeds_of(state).join(topic, Watcher(sink), after=0)
    for name in ("a", "b", "c"):
        put(state, name)
    await ticks()
    assert [(sink.names, sink.writes) for sink in takers] == [(["a", "b", "c"], 1)] * 3


async def test_a_watcher_that_joins_between_a_change_and_its_push_gets_it_once() -> None:
    state, topic = make()
    early, late = RecordingSink(), RecordingSink()
    feeds_of(state).join(topic, Watcher(early), after=0)
    put(state, "a")
    feeds_of(state).join(topic, Watcher(late), after=0)
    put(state, "b")
    await ticks()
    assert (early.names, late.names) == (["a", "b"], ["a", "b"])


async def test_a_compacted_revision_is_rejected_before_anything_is_sent() -> None:
    state, topic = make()
    for name in ("a", "b"):
        put(state, name)
    await state.storage.compact(2)
    sink = RecordingSink()
    with pytest.raises(Expired):
        feeds_of(state).join(topic, Watcher(sink), after=1)
    assert sink.data == b""
    sink.close()
    assert feeds_of(state).size == 0


async def test_a_watcher_whose_changes_are_compacted_gets_an_error_event() -> None:
    state, topic = make()
    sink = RecordingSink()
    feeds_of(state).join(topic, Watcher(sink), after=0)
    for name in ("a", "b"):
        put(state, name)
    await state.storage.compact(2)
    await ticks()
    assert json.loads(sink.data)["object"]["reason"] == "Expired"
    assert sink.is_closed
    assert feeds_of(state).size == 0


async def test_a_watcher_that_joins_an_expired_feed_gets_a_new_one() -> None:
    state, topic = make()
    early, late = RecordingSink(), RecordingSink()
    feeds_of(state).join(topic, Watcher(early), after=0)
    for name in ("a", "b"):
        put(state, name)
    await state.storage.compact(2)
    feeds_of(state).join(topic, Watcher(late), after=2)
    assert (early.is_closed, late.is_closed) == (True, False)
    put(state, "c")
    await ticks()
    assert late.names == ["c"]


async def test_a_slow_watcher_is_disconnected_and_the_others_continue() -> None:
    state, topic = make()
    slow, quick = RecordingSink(), RecordingSink()
    for sink in (slow, quick):
        feeds_of(state).join(topic, Watcher(sink), after=0)
    slow.is_backed_up = True
    for number in range(10):
        put(state, f"c{number}", 1_000_000)
        await ticks()
    assert (slow.is_cut, quick.is_cut, len(quick.names)) == (True, False, 10)
    assert feeds_of(state).watchers == 1


async def test_a_slow_table_watcher_is_disconnected_although_another_has_just_joined() -> None:
    state, topic = make()
    topic = structs.replace(topic, form=representation_of("Table", "v1", include="Object"))
    slow = RecordingSink()
    feeds_of(state).join(topic, Watcher(slow), after=0)
    slow.is_backed_up = True
    for name in "abcdefghij":
        feeds_of(state).join(topic, Watcher(RecordingSink()), after=state.storage.revision)
        put(state, name, 2**20)
        await ticks()
    assert slow.is_cut


async def test_a_change_that_cannot_be_encoded_aborts_only_the_watches_of_its_topic(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state, topic = make()

    def fail(tree: Any) -> None:
        raise KeyError(tree["metadata"]["name"])

    broken, whole = RecordingSink(), RecordingSink()
    feeds_of(state).join(
        structs.replace(topic, served=structs.replace(topic.served, from_stored=fail)), Watcher(broken), after=0
    )
    feeds_of(state).join(topic, Watcher(whole), after=0)
    with caplog.at_level(logging.CRITICAL):
        for name in ("a", "b"):
            put(state, name)
            await ticks()
    assert (broken.is_cut, whole.names, feeds_of(state).size) == (True, ["a", "b"], 1)


async def test_the_backlog_is_reset_when_a_watcher_catches_up() -> None:
    state, topic = make()
    sink = RecordingSink()
    feeds_of(state).join(topic, Watcher(sink), after=0)
    for number in range(20):
        sink.is_backed_up = number % 4 != 0
        put(state, f"c{number}", 1_000_000)
        await ticks()
    assert not sink.is_cut


async def test_the_last_watcher_closes_the_feed() -> None:
    state, topic = make()
    takers = [RecordingSink(), RecordingSink()]
    for sink in takers:
        feeds_of(state).join(topic, Watcher(sink), after=0)
    takers[0].close()
    assert feeds_of(state).size == 1
    takers[1].close()
    assert feeds_of(state).size == 0
    put(state, "a")
    await ticks()
    assert takers[1].data == b""


async def test_a_watch_after_the_shutdown_ends_at_once() -> None:
    state, topic = make()
    early, late = RecordingSink(), RecordingSink()
    feeds_of(state).join(topic, Watcher(early), after=0)
    feeds_of(state).close()
    feeds_of(state).join(topic, Watcher(late), after=0)
    assert (early.is_closed, late.is_closed, late.data) == (True, True, b"")


MANY = 600


def fill(state: ServerState, number: int = MANY, size: int = 1) -> list[str]:
    names = [f"c{one:05}" for one in range(number)]
    for name in names:
        put(state, name, size)
    return names


def remove(state: ServerState, name: str) -> None:
    assert isinstance(state.storage, MemoryStorage)
    state.storage.delete_nowait(f"/registry/core/configmaps/n/{name}", expected=None)


def shape(data: bytes) -> list[tuple[str, str]]:
    events = [json.loads(line) for line in data.splitlines()]
    return [(event["type"], event["object"].get("metadata", {}).get("name", "")) for event in events]


async def opened(state: ServerState, sink: RecordingSink) -> None:
    """Waits until the watcher has joined its feed, or its watch has ended."""
    for _ in range(1000):
        if sink.is_closed or any(feed.size for feed in feeds_of(state)._feeds.values()):
            return
        await asyncio.sleep(0)
    raise AssertionError("it never joined")


async def test_many_initial_events_are_sent_in_slices_with_other_work_in_between() -> None:
    state, topic = make()
    names = fill(state)
    sink = RecordingSink()
    feeds_of(state).join(topic, Watcher(sink), after=None)
    assert (sink.writes, len(sink.names)) == (1, 250)
    await ticks(1)
    assert len(sink.names) == 250  # one slice per loop iteration
    await opened(state, sink)
    assert (sink.names, sink.writes) == (names, 3)


async def test_large_objects_make_small_slices() -> None:
    state, topic = make()
    names = fill(state, 20, 100_000)
    sink = RecordingSink()
    feeds_of(state).join(topic, Watcher(sink), after=None)
    assert len(sink.names) == 3
    await opened(state, sink)
    assert sink.names == names


async def test_few_initial_events_are_sent_at_once_in_one_write() -> None:
    state, topic = make()
    names = fill(state, 200)
    sink = RecordingSink()
    feeds_of(state).join(topic, Watcher(sink), after=None, ends_initial=True)
    assert (sink.names, sink.writes, feeds_of(state).size) == ([*names, ""], 1, 1)


async def test_changes_during_the_initial_events_follow_once_after_them() -> None:
    state, topic = make()
    names = fill(state)
    sink = RecordingSink()
    moment = state.storage.revision
    feeds_of(state).join(topic, Watcher(sink), after=None, ends_initial=True)
    remove(state, names[-1])
    put(state, "new")
    await opened(state, sink)
    put(state, "newer")
    await ticks()
    events = shape(sink.data)
    assert events[:MANY] == [("ADDED", name) for name in names]
    assert events[MANY:] == [("BOOKMARK", ""), ("DELETED", names[-1]), ("ADDED", "new"), ("ADDED", "newer")]
    end = json.loads(sink.data.splitlines()[MANY])["object"]["metadata"]
    assert end["resourceVersion"] == str(moment)


async def test_a_long_history_is_sent_in_slices_too() -> None:
    state, topic = make()
    names = fill(state)
    sink = RecordingSink()
    feeds_of(state).join(topic, Watcher(sink), after=100)
    put(state, "last")
    await opened(state, sink)
    assert (sink.names, sink.writes) == ([*names[100:], "last"], 3)


async def test_history_compacted_before_it_was_sent_ends_the_watch_with_an_error() -> None:
    state, topic = make()
    fill(state)
    sink = RecordingSink()
    feeds_of(state).join(topic, Watcher(sink), after=None, ends_initial=True)
    for name in ("a", "b"):
        put(state, name)
    await state.storage.compact(state.storage.revision)
    await opened(state, sink)
    *initial, last = [json.loads(line) for line in sink.data.splitlines()]
    assert [event["type"] for event in initial] == ["ADDED"] * MANY + ["BOOKMARK"]
    assert (last["type"], last["object"]["code"], sink.is_closed, sink.is_cut) == ("ERROR", 410, True, False)


async def test_a_watch_that_starts_at_compacted_history_is_rejected_before_anything_is_sent() -> None:
    state, topic = make()
    fill(state)
    await state.storage.compact(200)
    sink = RecordingSink()
    with pytest.raises(Expired):
        feeds_of(state).join(topic, Watcher(sink), after=100)
    assert (sink.data, feeds_of(state).watchers) == (b"", 0)


@pytest.mark.parametrize("how", ["leave", "stop", "vanish"])
async def test_initial_events_end_when_client_server_or_kind_is_gone(how: str) -> None:
    state, topic = make()
    fill(state)
    sink = RecordingSink()
    before = asyncio.all_tasks()
    feeds_of(state).join(topic, Watcher(sink), after=None)
    match how:
        case "leave":
            sink.close()
        case "stop":
            feeds_of(state).close()
        case _:
            state.catalog.remove(topic.served)
    assert (sink.is_closed, feeds_of(state).watchers) == (True, 0)
    await ticks()
    assert (len(sink.names), asyncio.all_tasks()) == (250, before)


def open_body(state: ServerState, topic: Topic) -> Chunks:
    def push(sink: Sink) -> None:
        feeds_of(state).join(topic, Watcher(sink), after=None)

    return iterate(push)


async def test_initial_events_are_not_sent_faster_than_the_client_reads() -> None:
    state, topic = make()
    names = fill(state, 100, 100_000)
    async with aclosing(open_body(state, topic)) as pieces:
        data = await anext(pieces)
        await ticks(500)
        second = await anext(pieces)
        assert max(len(data), len(second)) < 1_000_000
        data += second
        while len(shape(data)) < len(names):
            data += await anext(pieces)
    assert shape(data) == [("ADDED", name) for name in names]
    await ticks()
    assert feeds_of(state).watchers == 0


async def test_column_definitions_are_sent_once_for_all_slices() -> None:
    state, topic = make()
    fill(state)
    sink = RecordingSink()
    topic = structs.replace(topic, form=representation_of("Table", "v1", include="Object"))
    feeds_of(state).join(topic, Watcher(sink), after=None)
    await opened(state, sink)
    put(state, "new")
    await ticks()
    headed = [bool(json.loads(line)["object"]["columnDefinitions"]) for line in sink.data.splitlines()]
    assert headed == [True] + [False] * MANY


async def test_an_object_that_cannot_be_encoded_aborts_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    state, topic = make()
    names = fill(state)

    def fail(tree: Any) -> None:
        if tree["metadata"]["name"] == names[400]:
            raise KeyError(tree["metadata"]["name"])

    sink = RecordingSink()
    served = structs.replace(topic.served, from_stored=fail, since=10_000)
    with caplog.at_level(logging.CRITICAL):
        feeds_of(state).join(structs.replace(topic, served=served), Watcher(sink), after=None)
        await opened(state, sink)
    assert (sink.is_cut, feeds_of(state).watchers) == (True, 0)


async def test_watchers_that_join_during_many_changes_all_converge() -> None:
    random, (state, topic) = Random(4), make()
    names = fill(state, 900)
    takers: list[RecordingSink] = []
    for turn in range(60):
        for name in random.sample(names, 40):
            change = remove if await state.storage.get(f"{topic.prefix}{name}") else put
            change(state, name)
        if turn % 4 == 0:
            takers.append(RecordingSink())
            feeds_of(state).join(topic, Watcher(takers[-1]), after=None)
        await ticks(random.randrange(3))
    await ticks(100)
    page = await state.storage.list(topic.prefix)
    there = {item.key.rpartition("/")[2] for item in page.items}
    for sink in takers:
        seen: set[str] = set()
        for type_, name in shape(sink.data):
            assert (name in seen) == (type_ == "DELETED")
            seen.symmetric_difference_update({name})
        assert seen == there


PREFIX = "/registry/example.com/widgets/default/"


class Watch:
    """A watch of widgets with its own server state."""

    def __init__(self) -> None:
        self.slow = SlowConverter()
        self.storage = MemoryStorage()
        self.kind = served(self.slow)
        self.state = ServerState(self.storage, Catalog([self.kind]))
        self.sink = RecordingSink()
        self.watcher = Watcher(self.sink, bookmarks=True)

    async def open(self, *, after: int | None = None, form: Any = None, ends_initial: bool = False) -> None:
        topic = Topic(self.kind, None, None, form)
        feeds_of(self.state).join(topic, self.watcher, after=after, ends_initial=ends_initial)
        await asyncio.sleep(1)

    async def put(self, name: str) -> None:
        await self.storage.put(PREFIX + name, value(name), expected=None)

    @property
    def events(self) -> list[tuple[str, str]]:
        lines = [json.loads(line) for line in self.sink.data.splitlines()]
        return [(one["type"], one["object"].get("metadata", {}).get("name", "")) for one in lines]

    async def end(self) -> None:
        self.watcher.end()
        await asyncio.sleep(1)
        assert feeds_of(self.state).watchers == 0


@virtual
async def test_current_objects_are_converted_with_one_call_and_changes_follow() -> None:
    watch = Watch()
    for name in "ab":
        await watch.put(name)
    await watch.open(ends_initial=True)
    await watch.put("c")
    await watch.storage.delete(f"{PREFIX}a", expected=None)
    await asyncio.sleep(1)
    assert watch.events == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", ""), ("ADDED", "c"), ("DELETED", "a")]
    assert watch.slow.calls[0] == 2
    assert b"example.com/v2" not in watch.sink.data
    await watch.end()


@virtual
async def test_a_converted_watch_resumes_after_the_resource_version_of_its_client() -> None:
    watch = Watch()
    for name in "abc":
        await watch.put(name)
    await watch.open(after=2)
    assert watch.events == [("ADDED", "c")]
    await watch.end()


@virtual
async def test_a_bookmark_of_a_converted_watch_that_cannot_be_sent_is_not_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch, failures = Watch(), fail_once(monkeypatch, ConvertedWatch, "send_bookmark")
    await watch.put("a")
    await watch.open()
    await asyncio.sleep(125)
    assert failures == ["injected"]
    assert [kind for kind, _ in watch.events] == ["ADDED", "BOOKMARK"]
    await watch.end()


@virtual
async def test_a_bookmark_that_cannot_be_sent_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = fail_once(monkeypatch, Feed, "_bookmark")
    async with open_server() as api:
        query = {"allowWatchBookmarks": "true", "timeoutSeconds": "130", "resourceVersion": await api.revision()}
        assert [event["type"] async for event in api.watch(CONFIGMAPS, **query)] == ["BOOKMARK"] * 2
    assert failures == ["injected"]


def fail_once(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[str]:
    """Makes the first call of a method fail; returns what reached the event loop."""
    failures, method = list[str](), getattr(owner, name)

    def fail(*_: Any) -> Any:
        monkeypatch.setattr(owner, name, method)
        raise OSError("injected")

    monkeypatch.setattr(owner, name, fail)
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(str(context["exception"])))
    return failures


@virtual
async def test_a_converted_watch_sends_bookmarks_every_minute_and_on_request() -> None:
    watch = Watch()
    await watch.put("a")
    await watch.open()
    await asyncio.sleep(125)
    assert [kind for kind, _ in watch.events] == ["ADDED", "BOOKMARK", "BOOKMARK"]
    watch.watcher.send_bookmark()
    assert json.loads(watch.sink.data.splitlines()[-1])["object"]["metadata"]["resourceVersion"] == "1"
    await watch.end()


@virtual
async def test_the_first_event_of_a_converted_table_has_the_column_definitions() -> None:
    watch = Watch()
    await watch.put("a")
    await watch.open(form=representation_of("Table", "v1", include=None))
    await watch.put("b")
    await asyncio.sleep(1)
    tables = [json.loads(line)["object"] for line in watch.sink.data.splitlines()]
    assert [table.get("columnDefinitions") is not None for table in tables] == [True, False]
    await watch.end()


@virtual
async def test_a_failed_conversion_ends_the_watch_with_an_error() -> None:
    watch = Watch()
    await watch.open()
    await watch.put("broken")
    await asyncio.sleep(1)
    assert [kind for kind, _ in watch.events] == ["ERROR"]
    assert watch.sink.is_closed
    await watch.end()


@virtual
async def test_an_expired_resource_version_of_a_converted_watch_is_an_error_event() -> None:
    watch = Watch()
    for name in "abc":
        await watch.put(name)
    await watch.storage.compact(2)
    await watch.open(after=1)
    (event,) = [json.loads(line) for line in watch.sink.data.splitlines()]
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    await watch.end()


NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "/registry/core/configmaps/n/a"

load_package_data()


def item(revision: int, label: str = "0", key: str = KEY) -> Item:
    metadata = {"name": key.rpartition("/")[2], "namespace": "n", "labels": {"l": label}}
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}}
    return Item(key, json.dumps(tree, separators=(",", ":")).encode(), revision, 1, 1)


def topic(form: response_format.Representation | None = None, **parameters: str) -> Topic:
    served = Catalog(builtin_kinds()).find("", "v1", "configmaps")
    assert served is not None
    selectors = read_selectors({name: (value,) for name, value in parameters.items()})
    return Topic(served, "n", None if selectors is None else selectors.resolve(served), form)


def decoded(event: bytes | None) -> Any:
    assert event is None or (event.endswith(b"\n") and event.count(b"\n") == 1)
    return None if event is None else json.loads(event)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, item(2), "ADDED"),
        (item(1), item(2), "MODIFIED"),
        (item(1), None, "DELETED"),
    ],
)
def test_a_change_is_encoded_as_an_event(before: Item | None, after: Item | None, expected: str) -> None:
    event = decoded(Encoder(topic(), lambda: NOW).change(Change(2, KEY, before, after)))
    assert (event["type"], event["object"]["metadata"]["resourceVersion"]) == (expected, "2")
    assert event["object"]["data"] == {"k": "v"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, "1", "ADDED"),
        (None, "0", None),
        ("0", "1", "ADDED"),
        ("1", "1", "MODIFIED"),
        ("1", "0", "DELETED"),
        ("0", "0", None),
        ("1", None, "DELETED"),
        ("0", None, None),
    ],
)
def test_objects_that_start_or_stop_matching_a_selector_are_added_or_deleted(
    before: str | None, after: str | None, expected: str | None
) -> None:
    old = None if before is None else item(1, before)
    new = None if after is None else item(2, after)
    event = decoded(Encoder(topic(labelSelector="l=1"), lambda: NOW).change(Change(2, KEY, old, new)))
    assert (event and event["type"]) == expected
    if event:
        assert event["object"]["metadata"]["labels"] == {"l": "1"}
        assert event["object"]["metadata"]["resourceVersion"] == "2"


def test_a_deleted_object_of_an_older_schema_is_converted() -> None:
    watched = topic()
    newer = structs.replace(watched, served=structs.replace(watched.served, since=2))
    event = decoded(Encoder(newer, lambda: NOW).change(Change(3, KEY, item(1), None)))
    assert (event["type"], event["object"]["metadata"]["resourceVersion"]) == ("DELETED", "3")


def test_a_name_selector_narrows_the_watched_prefix() -> None:
    assert topic(fieldSelector="metadata.name=a").prefix == KEY
    assert topic(fieldSelector="metadata.name!=a").prefix == "/registry/core/configmaps/n/"
    everywhere = structs.replace(topic(fieldSelector="metadata.name=a"), namespace=None)
    assert everywhere.prefix == "/registry/core/configmaps/"


def test_topics_with_the_same_options_are_equal() -> None:
    one = topic(labelSelector="a=1,b=2")
    assert structs.replace(one) == one
    assert hash(structs.replace(one)) == hash(one)
    assert structs.replace(one, form=response_format.representation_of(response_format.TABLE)) != one


@pytest.mark.parametrize(
    "form",
    [
        None,
        response_format.representation_of(response_format.METADATA),
        response_format.representation_of(response_format.TABLE),
    ],
)
def test_a_bookmark_has_a_resource_version_and_no_name(form: response_format.Representation | None) -> None:
    tree = decoded(Encoder(topic(form), lambda: NOW).bookmark(7, ends_initial=True, with_header=True))["object"]
    if form is not None and form.kind == response_format.TABLE:
        assert tree["metadata"] == {"resourceVersion": "7"}
        tree = tree["rows"][0]["object"]
    assert tree["metadata"]["resourceVersion"] == "7"
    assert tree["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert "name" not in tree["metadata"]


def test_an_error_event_has_a_status() -> None:
    event = decoded(error_event(Expired("too old")))
    assert (event["type"], event["object"]["kind"], event["object"]["code"]) == ("ERROR", "Status", 410)


@virtual
async def test_changes_that_follow_each_other_closely_reach_many_watchers_in_fewer_writes_and_in_order() -> None:
    state, topic = make()
    sinks = [RecordingSink() for _ in range(40)]
    for sink in sinks:
        feeds_of(state).join(topic, Watcher(sink), after=0)
    await ticks()
    put(state, "first")
    await ticks()
    assert {sink.writes for sink in sinks} == {1}  # at once
    for number in range(20):
        put(state, f"m{number:02}")
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.1)
    assert all(sink.names == ["first", *(f"m{number:02}" for number in range(20))] for sink in sinks)
    assert {sink.writes for sink in sinks} <= {5, 6, 7}  # one for each 4 ms
    feeds_of(state).close()
