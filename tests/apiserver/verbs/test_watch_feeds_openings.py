"""Watches of kinds that are too big to be shown at once."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs.response_format import form_of
from levelset.apiserver.verbs.watch_feeds import Topic, Watcher, feeds_of
from levelset.errors import Expired
from levelset.http import Sink, iterate
from levelset.storage import MemoryStorage
from tests.apiserver.verbs.test_watch_feeds_feeds import Taker, make, put, ticks

MANY = 600


def fill(world: World, number: int = MANY, size: int = 1) -> list[str]:
    names = [f"c{one:05}" for one in range(number)]
    for name in names:
        put(world, name, size)
    return names


def remove(world: World, name: str) -> None:
    assert isinstance(world.storage, MemoryStorage)
    world.storage.delete_nowait(f"/registry/core/configmaps/n/{name}", expected=None)


def shape(data: bytes) -> list[tuple[str, str]]:
    events = [json.loads(line) for line in data.splitlines()]
    return [(event["type"], event["object"].get("metadata", {}).get("name", "")) for event in events]


async def opened(world: World, taker: Taker) -> None:
    """Returns when the watcher has joined the others, or its watch has ended."""
    for _ in range(1000):
        if taker.is_closed or any(feed.size for feed in feeds_of(world)._feeds.values()):
            return
        await asyncio.sleep(0)
    raise AssertionError("it never joined")


async def test_a_big_kind_is_sent_in_slices_and_others_run_in_between() -> None:
    world, topic = make()
    names = fill(world)
    taker = Taker()
    feeds_of(world).join(topic, Watcher(taker), after=None)
    assert (taker.writes, len(taker.names)) == (1, 250)
    await ticks(1)
    assert len(taker.names) == 250  # it takes no two turns in a row
    await opened(world, taker)
    assert (taker.names, taker.writes) == (names, 3)


async def test_big_objects_make_small_slices() -> None:
    world, topic = make()
    names = fill(world, 20, 100_000)
    taker = Taker()
    feeds_of(world).join(topic, Watcher(taker), after=None)
    assert len(taker.names) == 3
    await opened(world, taker)
    assert taker.names == names


async def test_a_small_kind_is_sent_at_once_and_in_one_write() -> None:
    world, topic = make()
    names = fill(world, 200)
    taker = Taker()
    feeds_of(world).join(topic, Watcher(taker), after=None, ends_initial=True)
    assert (taker.names, taker.writes, feeds_of(world).size) == ([*names, ""], 1, 1)


async def test_what_changes_meanwhile_comes_once_and_after_the_state_of_the_first_moment() -> None:
    world, topic = make()
    names = fill(world)
    taker = Taker()
    moment = world.storage.revision
    feeds_of(world).join(topic, Watcher(taker), after=None, ends_initial=True)
    remove(world, names[-1])
    put(world, "new")
    await opened(world, taker)
    put(world, "newer")
    await ticks()
    told = shape(taker.data)
    assert told[:MANY] == [("ADDED", name) for name in names]
    assert told[MANY:] == [("BOOKMARK", ""), ("DELETED", names[-1]), ("ADDED", "new"), ("ADDED", "newer")]
    end = json.loads(taker.data.splitlines()[MANY])["object"]["metadata"]
    assert end["resourceVersion"] == str(moment)


async def test_a_long_past_is_sent_in_slices_too() -> None:
    world, topic = make()
    names = fill(world)
    taker = Taker()
    feeds_of(world).join(topic, Watcher(taker), after=100)
    put(world, "last")
    await opened(world, taker)
    assert (taker.names, taker.writes) == ([*names[100:], "last"], 3)


async def test_what_is_forgotten_before_it_was_sent_ends_the_watch_with_an_error() -> None:
    world, topic = make()
    fill(world)
    taker = Taker()
    feeds_of(world).join(topic, Watcher(taker), after=None, ends_initial=True)
    for name in ("a", "b"):
        put(world, name)
    await world.storage.compact(world.storage.revision)
    await opened(world, taker)
    *state, last = [json.loads(line) for line in taker.data.splitlines()]
    assert [event["type"] for event in state] == ["ADDED"] * MANY + ["BOOKMARK"]
    assert (last["type"], last["object"]["code"], taker.is_closed, taker.is_cut) == ("ERROR", 410, True, False)


async def test_one_that_begins_with_what_is_forgotten_is_refused_before_anything_is_sent() -> None:
    world, topic = make()
    fill(world)
    await world.storage.compact(200)
    taker = Taker()
    with pytest.raises(Expired):
        feeds_of(world).join(topic, Watcher(taker), after=100)
    assert (taker.data, feeds_of(world).watchers) == (b"", 0)


@pytest.mark.parametrize("how", ["leave", "stop", "vanish"])
async def test_an_opening_ends_when_the_client_leaves_the_server_stops_or_the_kind_vanishes(how: str) -> None:
    world, topic = make()
    fill(world)
    taker = Taker()
    before = asyncio.all_tasks()
    feeds_of(world).join(topic, Watcher(taker), after=None)
    match how:
        case "leave":
            taker.close()
        case "stop":
            feeds_of(world).close()
        case _:
            world.catalog.remove(topic.served)
    assert (taker.is_closed, feeds_of(world).watchers) == (True, 0)
    await ticks()
    assert (len(taker.names), asyncio.all_tasks()) == (250, before)


def open_body(world: World, topic: Topic) -> AsyncGenerator[bytes, None]:
    def push(sink: Sink) -> None:
        feeds_of(world).join(topic, Watcher(sink), after=None)

    return iterate(push)


async def test_a_client_that_does_not_read_is_not_written_ahead_to() -> None:
    world, topic = make()
    names = fill(world, 100, 100_000)
    async with aclosing(open_body(world, topic)) as pieces:
        data = await anext(pieces)
        await ticks(500)
        second = await anext(pieces)
        assert max(len(data), len(second)) < 1_000_000
        data += second
        while len(shape(data)) < len(names):
            data += await anext(pieces)
    assert shape(data) == [("ADDED", name) for name in names]
    await ticks()
    assert feeds_of(world).watchers == 0


async def test_the_columns_of_a_table_come_once_however_many_slices_there_are() -> None:
    world, topic = make()
    fill(world)
    taker = Taker()
    topic = replace(topic, form=form_of("Table", "v1", include="Object"))
    feeds_of(world).join(topic, Watcher(taker), after=None)
    await opened(world, taker)
    put(world, "new")
    await ticks()
    headed = [bool(json.loads(line)["object"]["columnDefinitions"]) for line in taker.data.splitlines()]
    assert headed == [True] + [False] * MANY


async def test_an_object_that_cannot_be_shown_cuts_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    world, topic = make()
    names = fill(world)

    def fail(tree: Any) -> None:
        if tree["metadata"]["name"] == names[400]:
            raise KeyError(tree["metadata"]["name"])

    taker = Taker()
    served = replace(topic.served, from_stored=fail, since=10_000)
    with caplog.at_level(logging.CRITICAL):
        feeds_of(world).join(replace(topic, served=served), Watcher(taker), after=None)
        await opened(world, taker)
    assert (taker.is_cut, feeds_of(world).watchers) == (True, 0)


async def test_watchers_that_join_while_much_changes_all_end_up_with_what_there_is() -> None:
    random, (world, topic) = Random(4), make()
    names = fill(world, 900)
    takers: list[Taker] = []
    for turn in range(60):
        for name in random.sample(names, 40):
            change = remove if await world.storage.get(f"{topic.prefix}{name}") else put
            change(world, name)
        if turn % 4 == 0:
            takers.append(Taker())
            feeds_of(world).join(topic, Watcher(takers[-1]), after=None)
        await ticks(random.randrange(3))
    await ticks(100)
    page = await world.storage.list(topic.prefix)
    there = {item.key.rpartition("/")[2] for item in page.items}
    for taker in takers:
        seen: set[str] = set()
        for type_, name in shape(taker.data):
            assert (name in seen) == (type_ == "DELETED")
            seen.symmetric_difference_update({name})
        assert seen == there
