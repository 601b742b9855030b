import asyncio
import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from levelset.apiserver.package_data import read_data
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs.response_format import form_of
from levelset.apiserver.verbs.watch_feeds import Feeds, Topic, Watcher, feeds_of
from levelset.errors import ConfigError, Expired
from levelset.storage import MemoryStorage

read_data()


class Taker:
    """A sink that keeps what it is given."""

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


def make(storage: MemoryStorage | None = None) -> tuple[World, Topic]:
    world = World(storage or MemoryStorage(), Catalog(builtin_kinds()))
    served = world.catalog.find("", "v1", "configmaps")
    assert served is not None
    return world, Topic(served, "n", None)


def put(world: World, name: str, size: int = 1) -> None:
    metadata = f'{{"name":"{name}","namespace":"n"}}'
    value = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata},"data":{{"k":"{"x" * size}"}}}}'
    assert isinstance(world.storage, MemoryStorage)
    world.storage.put_nowait(f"/registry/core/configmaps/n/{name}", value.encode(), expected=None)


async def ticks(number: int = 3) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_all_that_changes_in_one_tick_is_one_write() -> None:
    world, topic = make()
    takers = [Taker() for _ in range(3)]
    for taker in takers:
        feeds_of(world).join(topic, Watcher(taker), after=0)
    for name in ("a", "b", "c"):
        put(world, name)
    await ticks()
    assert [(taker.names, taker.writes) for taker in takers] == [(["a", "b", "c"], 1)] * 3


async def test_one_who_joins_between_a_change_and_its_sending_gets_it_once() -> None:
    world, topic = make()
    early, late = Taker(), Taker()
    feeds_of(world).join(topic, Watcher(early), after=0)
    put(world, "a")
    feeds_of(world).join(topic, Watcher(late), after=0)
    put(world, "b")
    await ticks()
    assert (early.names, late.names) == (["a", "b"], ["a", "b"])


async def test_a_forgotten_revision_is_refused_before_anything_is_sent() -> None:
    world, topic = make()
    for name in ("a", "b"):
        put(world, name)
    await world.storage.compact(2)
    taker = Taker()
    with pytest.raises(Expired):
        feeds_of(world).join(topic, Watcher(taker), after=1)
    assert taker.data == b""
    taker.close()
    assert feeds_of(world).size == 0


async def test_one_whose_changes_are_forgotten_before_they_are_sent_is_told() -> None:
    world, topic = make()
    taker = Taker()
    feeds_of(world).join(topic, Watcher(taker), after=0)
    for name in ("a", "b"):
        put(world, name)
    await world.storage.compact(2)
    await ticks()
    assert json.loads(taker.data)["object"]["reason"] == "Expired"
    assert taker.is_closed
    assert feeds_of(world).size == 0


async def test_one_who_joins_a_feed_that_has_missed_something_gets_a_new_one() -> None:
    world, topic = make()
    early, late = Taker(), Taker()
    feeds_of(world).join(topic, Watcher(early), after=0)
    for name in ("a", "b"):
        put(world, name)
    await world.storage.compact(2)
    feeds_of(world).join(topic, Watcher(late), after=2)
    assert (early.is_closed, late.is_closed) == (True, False)
    put(world, "c")
    await ticks()
    assert late.names == ["c"]


async def test_one_who_falls_behind_is_cut_and_the_others_go_on() -> None:
    world, topic = make()
    slow, quick = Taker(), Taker()
    for taker in (slow, quick):
        feeds_of(world).join(topic, Watcher(taker), after=0)
    slow.is_backed_up = True
    for number in range(10):
        put(world, f"c{number}", 1_000_000)
        await ticks()
    assert (slow.is_cut, quick.is_cut, len(quick.names)) == (True, False, 10)
    assert feeds_of(world).watchers == 1


async def test_one_who_falls_behind_in_tables_is_cut_although_another_has_just_joined() -> None:
    world, topic = make()
    topic = replace(topic, form=form_of("Table", "v1", include="Object"))
    slow = Taker()
    feeds_of(world).join(topic, Watcher(slow), after=0)
    slow.is_backed_up = True
    for name in "abcdefghij":
        feeds_of(world).join(topic, Watcher(Taker()), after=world.storage.revision)
        put(world, name, 2**20)
        await ticks()
    assert slow.is_cut


async def test_a_change_that_cannot_be_shown_cuts_those_who_watch_it_and_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, topic = make()

    def fail(tree: Any) -> None:
        raise KeyError(tree["metadata"]["name"])

    broken, whole = Taker(), Taker()
    feeds_of(world).join(replace(topic, served=replace(topic.served, from_stored=fail)), Watcher(broken), after=0)
    feeds_of(world).join(topic, Watcher(whole), after=0)
    with caplog.at_level(logging.CRITICAL):
        for name in ("a", "b"):
            put(world, name)
            await ticks()
    assert (broken.is_cut, whole.names, feeds_of(world).size) == (True, ["a", "b"], 1)


async def test_one_who_catches_up_starts_from_nothing() -> None:
    world, topic = make()
    taker = Taker()
    feeds_of(world).join(topic, Watcher(taker), after=0)
    for number in range(20):
        taker.is_backed_up = number % 4 != 0
        put(world, f"c{number}", 1_000_000)
        await ticks()
    assert not taker.is_cut


async def test_the_last_one_to_leave_closes_the_feed() -> None:
    world, topic = make()
    takers = [Taker(), Taker()]
    for taker in takers:
        feeds_of(world).join(topic, Watcher(taker), after=0)
    takers[0].close()
    assert feeds_of(world).size == 1
    takers[1].close()
    assert feeds_of(world).size == 0
    put(world, "a")
    await ticks()
    assert takers[1].data == b""


async def test_after_the_end_a_watch_ends_at_once() -> None:
    world, topic = make()
    early, late = Taker(), Taker()
    feeds_of(world).join(topic, Watcher(early), after=0)
    feeds_of(world).close()
    feeds_of(world).join(topic, Watcher(late), after=0)
    assert (early.is_closed, late.is_closed, late.data) == (True, True, b"")


def test_a_storage_that_must_be_waited_for_is_refused() -> None:
    world, _ = make()
    world.reader = None
    with pytest.raises(ConfigError, match="MemoryStorage"):
        Feeds(world)
