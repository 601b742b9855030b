"""A page is told what changes while it looks, and nothing is done when nobody does."""

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from levelset.client import Client, MergePatch
from levelset.dashboard import Feed
from levelset.errors import TooManyRequests, Unreachable
from levelset.http import iterate
from levelset.testing.virtual_time import virtual
from tests.client.world import CONFIG_MAP, WEBSITE, failing
from tests.dashboard.stage import open_client, tree


async def told(feed: Feed, *kinds: Any, status: bool = False) -> AsyncGenerator[Any, None]:
    """What a page hears, message by message."""
    async with aclosing(iterate(feed.open(kinds, status=status))) as pieces:
        async for piece in pieces:
            for block in piece.decode().split("\n\n"):
                if block.startswith("event: change\ndata: "):
                    yield json.loads(block.partition("data: ")[2])


def opened(client: Client, pulse: list[int] | None = None) -> Feed:
    return Feed(lambda: client, lambda: list(pulse or []))


@virtual
async def test_a_change_is_told_by_name_and_the_watch_ends_with_the_page() -> None:
    async with open_client() as client:
        feed = opened(client)
        assert not feed.watched
        async with aclosing(told(feed, CONFIG_MAP)) as page:
            assert (await anext(page))["kinds"] == {"v1/ConfigMap": None}  # now it is watched: look at all once
            await client.create(tree("v1", "ConfigMap", "settings", data={}))
            assert (await anext(page))["kinds"] == {"v1/ConfigMap": ["default/settings"]}
            assert (len(feed.watched), feed.readers) == (1, 1)
        assert (len(feed.watched), feed.readers) == (0, 0)
        await feed.close()


@virtual
async def test_many_pages_share_a_watch() -> None:
    async with open_client() as client:
        feed = opened(client)
        async with aclosing(told(feed, CONFIG_MAP)) as one:
            await anext(one)
            async with aclosing(told(feed, CONFIG_MAP, WEBSITE)) as two:
                await anext(two)
                assert set(feed.watched) == {CONFIG_MAP, WEBSITE}
                assert len([task for task in asyncio.all_tasks() if task.get_name().startswith("dashboard/")]) == 2
            assert feed.watched == (CONFIG_MAP,)
        await feed.close()


@virtual
async def test_changes_of_one_object_are_told_once_and_many_as_all() -> None:
    async with open_client() as client:
        feed = opened(client)
        async with aclosing(told(feed, CONFIG_MAP)) as page:
            await anext(page)
            made = await client.create(tree("v1", "ConfigMap", "settings", data={}))
            for number in range(3):
                await client.patch(made.ref, MergePatch({"data": {"a": str(number)}}))
            assert (await anext(page))["kinds"] == {"v1/ConfigMap": ["default/settings"]}
            for number in range(60):
                await client.create(tree("v1", "ConfigMap", f"map-{number}", data={}))
            said = [(await anext(page))["kinds"]["v1/ConfigMap"]]
            while said[-1] is not None:
                said.append((await anext(page))["kinds"]["v1/ConfigMap"])
        assert all(len(names) <= 50 for names in said if names is not None)
        await feed.close()


@virtual
async def test_a_page_is_told_at_most_four_times_in_a_second() -> None:
    async with open_client() as client:
        feed = opened(client)
        async with aclosing(told(feed, CONFIG_MAP)) as page:
            await anext(page)
            times: list[float] = []
            for number in range(3):
                await client.create(tree("v1", "ConfigMap", f"map-{number}", data={}))
                await anext(page)
                times.append(asyncio.get_running_loop().time())
        assert [round(after - before, 2) >= 0.25 for before, after in itertools.pairwise(times)] == [True] * 2
        await feed.close()


@virtual
async def test_the_controllers_are_looked_at_only_while_somebody_wants_to_know() -> None:
    async with open_client() as client:
        pulse = [0]
        asked: list[float] = []

        def feel() -> list[int]:
            asked.append(asyncio.get_running_loop().time())
            return list(pulse)

        feed = Feed(lambda: client, feel)
        async with aclosing(told(feed, status=True)) as page:
            waiting = asyncio.ensure_future(anext(page))
            await asyncio.sleep(5.5)
            assert not waiting.done()  # nothing is new
            pulse[0] = 1
            assert await waiting == {"kinds": {}, "status": True}
        before = len(asked)
        await asyncio.sleep(60)
        assert len(asked) == before
        await feed.close()


@virtual
async def test_a_watch_that_breaks_is_opened_again_and_everything_looked_at() -> None:
    async with open_client() as client:
        cut = [Unreachable("cut")] * 2
        broken = client.hooked(failing(*cut, when=lambda call: call.verb == "watch"))
        feed = opened(broken)
        async with aclosing(told(feed, CONFIG_MAP)) as page:
            assert (await anext(page))["kinds"] == {"v1/ConfigMap": None}
            assert asyncio.get_running_loop().time() > 0.0  # it has waited before it tried again
        await feed.close()


@virtual
async def test_closing_ends_all_pages_and_sends_later_ones_away() -> None:
    async with open_client() as client:
        feed = opened(client)
        page = told(feed, CONFIG_MAP)
        await anext(page)
        await feed.close()
        assert [one async for one in page] == []
        assert [one async for one in told(feed, CONFIG_MAP)] == []
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("dashboard/")]


@virtual
async def test_there_are_only_so_many_pages_and_kinds() -> None:
    async with open_client() as client:
        feed = opened(client)
        with pytest.raises(TooManyRequests):
            feed.open([CONFIG_MAP._replace(kind=f"K{number}") for number in range(9)])
        pages = [told(feed, status=True) for _ in range(32)]
        waiting = [asyncio.ensure_future(anext(page)) for page in pages]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests, match="at most 32 pages"):
            feed.open([])
        await feed.close()
        await asyncio.gather(*waiting, return_exceptions=True)


class Stuffed:
    """A reader that takes nothing for a while."""

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
async def test_for_a_page_that_does_not_read_nothing_piles_up() -> None:
    async with open_client() as client:
        feed, sink = opened(client), Stuffed()
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
