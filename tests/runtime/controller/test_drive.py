"""`drive`: the controller loop over any stream of refs, a store and a client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from levelset.aio import Backoff, Channel
from levelset.client.object_types import Item
from levelset.errors import NotReady
from levelset.objects import Ref, encode
from levelset.objects.cached_object import decode_cached
from levelset.runtime.cache import store
from levelset.runtime.controller import Action, Context, Outcome, Request, drive, requeue
from levelset.runtime.watch import Init, InitApply, InitDone, by, watch
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.controller_loop import RecordingReconciler, Web, WebStatus, open_loop, web, web_ref

__all__: list[str] = []

Refs = Channel[Ref[Web] | Request[Web]]


def filled(*names: str) -> tuple[Any, Any]:
    sites, writer = store(Web)
    there = [InitApply(Item(decode_cached(encode(web(name))), sites.view)) for name in names]
    writer.apply([Init(), *there, InitDone("1")])
    return sites, writer


@virtual
async def test_streams_from_a_watch_drive_a_reconciler_that_writes() -> None:
    async def step(site: Web, ctx: Context) -> None:
        await ctx.set_status(site, WebStatus(seen=1))

    async with open_loop() as loop:
        sites, writer = store(Web)
        changed = watch(loop.client, Web).reflect(writer).applied().changed(by.generation).refs()
        await loop.other.create(web("a"))
        seen: list[Outcome[Web]] = []
        async with aclosing(drive(changed, step, reading=sites, writing=loop.client)) as outcomes:
            async for outcome in outcomes:
                seen.append(outcome)
                if len(seen) == 2:
                    break
                await loop.other.create(web("b"))
        assert [(one.ref.name, one.result) for one in seen] == [("a", "done"), ("b", "done")]
        assert (await loop.other.get(web_ref("b"))).status == WebStatus(seen=1)


@virtual
async def test_the_end_of_the_requests_ends_the_outcomes_after_due_ones_and_drops_delayed_ones() -> None:
    async def step(site: Web, _: Context) -> Action:
        await asyncio.sleep(1)
        return requeue(60)

    async with open_loop() as loop:
        requests: Refs = Channel(capacity=10)
        for name in "abcab":
            requests.push(web_ref(name))
        requests.push(web_ref("missing"))
        requests.close()
        sites, _ = filled("a", "b", "c")
        found = [one async for one in drive(requests, step, reading=sites, writing=loop.client, concurrency=2)]
        assert sorted((one.ref.name, one.result) for one in found) == [
            ("a", "requeued"),
            ("b", "requeued"),
            ("c", "requeued"),
            ("missing", "gone"),
        ]


@virtual
async def test_no_reconcile_before_the_store_is_filled_and_a_store_that_never_is_raises() -> None:
    async with open_loop() as loop:
        sites, writer = store(Web)
        requests: Refs = Channel(capacity=10)
        requests.push(web_ref())
        recorded = RecordingReconciler()
        reading = asyncio.ensure_future(anext(drive(requests, recorded, reading=sites, writing=loop.client)))
        await asyncio.sleep(10)
        assert recorded.names == []
        writer.close(ValueError("the watch is dead"))
        with pytest.raises(NotReady, match="the watch is dead"):
            await reading


@virtual
async def test_an_error_of_the_requests_is_raised_and_an_error_of_the_reconciler_is_an_outcome() -> None:
    async def requests() -> AsyncIterator[Ref[Web]]:
        yield web_ref("a")
        await asyncio.sleep(20)
        raise OSError("the line is dead")

    async def step(_: Web, __: Context) -> None:
        raise ValueError("no")

    async with open_loop() as loop:
        sites, _ = filled("a")
        seen: list[str] = []
        steady = Backoff(first=8.0, jitter=0.0, quiet=None)
        outcomes = drive(requests(), step, reading=sites, writing=loop.client, backoff=steady)
        for _ in range(2):
            one = await anext(outcomes)
            seen.append(f"{one.error} {one.attempt}")
        with pytest.raises(OSError, match="the line is dead"):
            await anext(outcomes)
        assert seen == ["no 0", "no 1"]


@virtual
async def test_a_slow_consumer_slows_the_workers_down_and_nothing_is_lost() -> None:
    async with open_loop() as loop:
        names = [f"w{number}" for number in range(20)]
        sites, _ = filled(*names)
        requests: Refs = Channel(capacity=100)
        for name in names:
            requests.push(web_ref(name))
        recorded, seen = RecordingReconciler(), list[str]()
        async with aclosing(drive(requests, recorded, reading=sites, writing=loop.client, concurrency=2)) as outcomes:
            seen.append((await anext(outcomes)).ref.name)
            await asyncio.sleep(10)
            assert len(recorded.reconciles) < 10
            requests.close()
            seen.extend([one.ref.name async for one in outcomes])
        assert sorted(seen) == sorted(names)


@virtual
async def test_closing_the_outcomes_ends_everything() -> None:
    async def step(_: Web, __: Context) -> None:
        await asyncio.sleep(100)

    async with open_loop() as loop:
        sites, _ = filled("a", "b")
        requests: Refs = Channel(capacity=10)
        requests.push(web_ref("a"))
        outcomes = drive(requests, step, reading=sites, writing=loop.client, timeout=5.0)
        assert (await anext(outcomes)).result == "timed_out"
        requests.push(web_ref("b"))
        await asyncio.sleep(1)
        await outcomes.aclose()
