"""Watches that wait for a converter: nothing is missed, nothing comes twice, and everything comes in order."""

import asyncio
import json
from typing import Any

from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs.response_format import form_of
from levelset.apiserver.verbs.watch_feeds import Topic, Watcher, feeds_of
from levelset.storage import MemoryStorage
from tests.apiserver.clock import virtual
from tests.apiserver.slow import Slow, served, value
from tests.apiserver.verbs.test_watch_feeds_feeds import Taker

PREFIX = "/registry/example.com/widgets/default/"


class Watch:
    """A watch of widgets in a world of its own."""

    def __init__(self) -> None:
        self.slow = Slow()
        self.storage = MemoryStorage()
        self.kind = served(self.slow)
        self.world = World(self.storage, Catalog([self.kind]))
        self.sink = Taker()
        self.watcher = Watcher(self.sink, bookmarks=True)

    async def open(self, *, after: int | None = None, form: Any = None, ends_initial: bool = False) -> None:
        topic = Topic(self.kind, None, None, form)
        feeds_of(self.world).join(topic, self.watcher, after=after, ends_initial=ends_initial)
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
        assert feeds_of(self.world).watchers == 0


@virtual
async def test_what_is_there_comes_with_one_call_and_then_every_change() -> None:
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
async def test_a_watch_goes_on_after_the_version_that_its_client_knows() -> None:
    watch = Watch()
    for name in "abc":
        await watch.put(name)
    await watch.open(after=2)
    assert watch.events == [("ADDED", "c")]
    await watch.end()


@virtual
async def test_bookmarks_come_every_minute_and_when_they_are_asked_for() -> None:
    watch = Watch()
    await watch.put("a")
    await watch.open()
    await asyncio.sleep(125)
    assert [kind for kind, _ in watch.events] == ["ADDED", "BOOKMARK", "BOOKMARK"]
    watch.watcher.mark()
    assert json.loads(watch.sink.data.splitlines()[-1])["object"]["metadata"]["resourceVersion"] == "1"
    await watch.end()


@virtual
async def test_the_first_event_of_a_table_carries_the_columns() -> None:
    watch = Watch()
    await watch.put("a")
    await watch.open(form=form_of("Table", "v1", include=None))
    await watch.put("b")
    await asyncio.sleep(1)
    tables = [json.loads(line)["object"] for line in watch.sink.data.splitlines()]
    assert [table.get("columnDefinitions") is not None for table in tables] == [True, False]
    await watch.end()


@virtual
async def test_an_object_that_cannot_be_converted_ends_the_watch_with_an_error() -> None:
    watch = Watch()
    await watch.open()
    await watch.put("broken")
    await asyncio.sleep(1)
    assert [kind for kind, _ in watch.events] == ["ERROR"]
    assert watch.sink.is_closed
    await watch.end()


@virtual
async def test_a_version_that_is_forgotten_is_told_on_the_stream() -> None:
    watch = Watch()
    for name in "abc":
        await watch.put(name)
    await watch.storage.compact(2)
    await watch.open(after=1)
    (event,) = [json.loads(line) for line in watch.sink.data.splitlines()]
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    await watch.end()
