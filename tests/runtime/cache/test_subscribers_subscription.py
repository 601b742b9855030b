"""Subscriptions: receive, drain, close and cancel."""

import asyncio

import pytest

from levelset.aio.channel import Closed, WouldBlock
from levelset.errors import NotReady
from levelset.testing.virtual_time import virtual
from tests.runtime.cache.sites import VIEW, applied, cached_site, listed, summarize
from tests.runtime.cache.test_informer import open_informer


@virtual
async def test_a_reader_that_waits_is_woken_by_the_next_change() -> None:
    async with open_informer() as d, d.informer.subscribe(VIEW) as reader:
        waiting = asyncio.create_task(reader.receive())
        await asyncio.sleep(0)
        await d.send(listed(cached_site("a")), 1)
        assert summarize([await waiting]) == ["*+a1"]
        with pytest.raises(WouldBlock):
            reader.receive_nowait()
        with pytest.raises(TimeoutError):
            await reader.receive(within=3)


@virtual
async def test_a_reader_that_is_cancelled_loses_nothing() -> None:
    async with open_informer() as d, d.informer.subscribe(VIEW) as reader:
        waiting = asyncio.create_task(reader.receive())
        await asyncio.sleep(0)
        waiting.cancel()
        d.feed.batches.send_nowait(("1", listed(cached_site("a"))))
        await asyncio.sleep(1)
        assert waiting.cancelled()
        assert summarize([await reader.receive(within=1)]) == ["*+a1"]


@virtual
async def test_a_batch_can_be_taken_at_once_up_to_a_limit() -> None:
    async with open_informer() as d, d.informer.subscribe(VIEW) as reader:
        await d.send(listed(*(cached_site(f"s{n}", n) for n in range(5))), 5)
        assert (len(reader), summarize(reader.drain(2)), len(reader)) == (5, ["*+s00", "*+s11"], 3)
        assert len(reader.drain()) == 3
        assert reader.drain() == []


@virtual
async def test_closing_it_ends_the_reader_that_waits_and_drops_what_was_not_read() -> None:
    async with open_informer() as d:
        reader, other = d.informer.subscribe(VIEW), d.informer.subscribe(VIEW)
        waiting = asyncio.create_task(anext(reader, None))
        await asyncio.sleep(0)
        reader.close()
        assert await waiting is None
        await d.send(applied(cached_site("a")), 1)
        other.close()
        with pytest.raises(Closed):
            await other.receive()
        with pytest.raises(NotReady):
            await other.wait_synced()


@virtual
async def test_a_second_reader_of_one_subscription_is_refused() -> None:
    async with open_informer() as d, d.informer.subscribe(VIEW) as reader:
        waiting = asyncio.create_task(reader.receive())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="subscribe once per task"):
            await reader.receive()
        waiting.cancel()


@virtual
async def test_an_empty_kind_is_synced_as_soon_as_the_informer_is() -> None:
    async with open_informer() as d, d.informer.subscribe(VIEW) as reader:
        await d.send(listed(), 1)
        await reader.wait_synced(within=1)
