"""The event feed: notifications of changes while pages are open, and no watches otherwise."""

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from levelset.client import Client, MergePatch
from levelset.client.internals import with_hook
from levelset.dashboard import EventFeed
from levelset.errors import TooManyRequests, Unreachable
from levelset.http import iterate
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import CONFIG_MAP, WEBSITE, failing
from tests.dashboard.fixtures import open_client, tree


async def messages(feed: EventFeed, *kinds: Any, status: bool = False) -> AsyncGenerator[Any, None]:
    """The messages that a page receives."""
    async with aclosing(iterate(feed.open(kinds, status=status))) as pieces:
        async for piece in pieces:
            for block in piece.decode().split("\n\n"):
                if block.startswith("event: change\ndata: "):
                    yield json.loads(block.partition("data: ")[2])


def opened(client: Client, pulse: list[int] | None = None) -> EventFeed:
    return EventFeed(lambda: client, lambda: list(pulse or []))


@virtual
async def test_a_change_is_sent_by_name_and_the_watch_ends_with_the_page() -> None:
    async with open_client() as client:
        feed = opened(client)
        assert not feed.watched
        async with aclosing(messages(feed, CONFIG_MAP)) as page:
            assert (await anext(page))["kinds"] == {
                "v1/ConfigMap": None
            }  # the watch has started: reload the whole kind
            await client.create(tree("v1", "ConfigMap", "settings", data={}))
            assert (await anext(page))["kinds"] == {"v1/ConfigMap": ["default/settings"]}
            assert (len(feed.watched), feed.subscribers) == (1, 1)
        assert (len(feed.watched), feed.subscribers) == (0, 0)
        await feed.close()


@virtual
async def test_many_pages_share_a_watch() -> None:
    async with open_client() as client:
        feed = opened(client)
        async with aclosing(messages(feed, CONFIG_MAP)) as one:
            await anext(one)
            async with aclosing(messages(feed, CONFIG_MAP, WEBSITE)) as two:
                await anext(two)
                assert set(feed.watched) == {CONFIG_MAP, WEBSITE}
                assert len([task for task in asyncio.all_tasks() if task.get_name().startswith("dashboard/")]) == 2
            assert feed.watched == (CONFIG_MAP,)
        await feed.close()


@virtual
async def test_changes_of_one_object_are_merged_and_many_become_a_reload() -> None:
    async with open_client() as client:
        feed = opened(client)
        async with aclosing(messages(feed, CONFIG_MAP)) as page:
            await anext(page)
            made = await client.create(tree("v1", "ConfigMap", "settings", data={}))
            for number in range(3):
                await client.patch(made.ref, MergePatch({"data": {"a": str(number)}}))
            assert (await anext(page))["kinds"] == {"v1/ConfigMap": ["default/settings"]}
            for number in range(60):
                await client.create(tree("v1", "ConfigMap", f"map-{number}", data={}))
            names_sent = [(await anext(page))["kinds"]["v1/ConfigMap"]]
            while names_sent[-1] is not None:
                names_sent.append((await anext(page))["kinds"]["v1/ConfigMap"])
        assert all(len(names) <= 50 for names in names_sent if names is not None)
        await feed.close()


@virtual
async def test_a_page_receives_at_most_four_events_per_second() -> None:
    async with open_client() as client:
        feed = opened(client)
        async with aclosing(messages(feed, CONFIG_MAP)) as page:
            await anext(page)
            times: list[float] = []
            for number in range(3):
                await client.create(tree("v1", "ConfigMap", f"map-{number}", data={}))
                await anext(page)
                times.append(asyncio.get_running_loop().time())
        assert [round(after - before, 2) >= 0.25 for before, after in itertools.pairwise(times)] == [True] * 2
        await feed.close()


@virtual
async def test_the_status_is_polled_only_while_a_page_subscribes() -> None:
    async with open_client() as client:
        pulse = [0]
        polled: list[float] = []

        def poll() -> list[int]:
            polled.append(asyncio.get_running_loop().time())
            return list(pulse)

        feed = EventFeed(lambda: client, poll)
        async with aclosing(messages(feed, status=True)) as page:
            waiting = asyncio.ensure_future(anext(page))
            await asyncio.sleep(5.5)
            assert not waiting.done()  # no change
            pulse[0] = 1
            assert await waiting == {"kinds": {}, "status": True}
        before = len(polled)
        await asyncio.sleep(60)
        assert len(polled) == before
        await feed.close()


@virtual
async def test_a_broken_watch_is_reopened_and_the_kind_reloaded() -> None:
    async with open_client() as client:
        cut = [Unreachable("cut")] * 2
        broken = with_hook(client, failing(*cut, when=lambda call: call.verb == "watch"))
        feed = opened(broken)
        async with aclosing(messages(feed, CONFIG_MAP)) as page:
            assert (await anext(page))["kinds"] == {"v1/ConfigMap": None}
            assert asyncio.get_running_loop().time() > 0.0  # it waited before the retry
        await feed.close()


@virtual
async def test_closing_ends_all_pages_and_refuses_later_ones() -> None:
    async with open_client() as client:
        feed = opened(client)
        page = messages(feed, CONFIG_MAP)
        await anext(page)
        await feed.close()
        assert [one async for one in page] == []
        assert [one async for one in messages(feed, CONFIG_MAP)] == []
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("dashboard/")]


@virtual
async def test_pages_and_kinds_are_limited() -> None:
    async with open_client() as client:
        feed = opened(client)
        with pytest.raises(TooManyRequests):
            feed.open([CONFIG_MAP._replace(kind=f"K{number}") for number in range(9)])
        pages = [messages(feed, status=True) for _ in range(32)]
        waiting = [asyncio.ensure_future(anext(page)) for page in pages]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests, match="at most 32 pages"):
            feed.open([])
        await feed.close()
        await asyncio.gather(*waiting, return_exceptions=True)


class SlowSink:
    """A sink that reads nothing for a while."""

    def __init__(self) -> None:
        self.is_backed_up, self.is_closed, self.backlog = False, False, 0
        self.pieces: list[bytes] = []

    def write(self, data: bytes, /) -> None:
        self.pieces.append(data)

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def when_closed(self, callback: Callable[[], None], /) -> None:
        pass

    async def wait_drained(self) -> None:
        pass


@virtual
async def test_a_slow_page_has_a_bounded_backlog() -> None:
    async with open_client() as client:
        feed, sink = opened(client), SlowSink()
        feed.open([CONFIG_MAP])(sink)
        await asyncio.sleep(1)
        sink.is_backed_up = True
        before = len(sink.pieces)
        for number in range(200):
            await client.create(tree("v1", "ConfigMap", f"map-{number}", data={}))
            await asyncio.sleep(0.1)
        assert len(sink.pieces) == before
        sink.is_backed_up = False
        await asyncio.sleep(1)
        assert sink.pieces[before:] == [b'event: change\ndata: {"kinds": {"v1/ConfigMap": null}, "status": false}\n\n']
        await feed.close()
