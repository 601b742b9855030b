"""Streams and timers that enqueue requests."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from levelset.aio import Broadcast, Channel, Crashed, Slow
from levelset.objects import Ref
from levelset.runtime.controller import Context, Reason, Request, RunningController, every, running, source
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.controller_loop import ConfigMap, Web, open_loop, web, web_ref

__all__: list[str] = []


async def until_stopped(controller: RunningController[Any]) -> None:
    async with controller as started:
        await started.wait_stopped()


@virtual
async def test_items_of_a_stream_before_and_after_the_start_are_reconciled_and_its_end_is_harmless() -> None:
    async with open_loop() as loop:
        await loop.other.create(web())
        outside: Channel[Ref[Web] | Request[Web]] = Channel(capacity=10)
        outside.push(web_ref())
        recorded, controller = loop.recording_controller(None, source(outside))
        async with loop.run(controller) as started:
            assert recorded.reasons == [["it was enqueued from outside", "it was there at the start"]]
            outside.push(Request(web_ref(), (Reason("a call"), Reason("a letter")), priority=5))
            await loop.settle(started)
            assert (recorded.reasons[1], recorded.priorities[1]) == (["a call", "a letter"], 5)
            outside.close()
            started.enqueue(web_ref())
            await loop.settle(started)
            assert len(recorded.reconciles) == 3


@virtual
async def test_an_item_that_is_not_a_ref_of_the_controllers_kind_is_logged_and_the_next_ones_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def stream() -> AsyncIterator[Any]:
        await asyncio.sleep(1)
        yield Ref(ConfigMap, "x")
        yield "blog"
        yield web_ref()

    async with open_loop() as loop:
        await loop.other.create(web())
        recorded, controller = loop.recording_controller(None, source(stream))
        with caplog.at_level(logging.ERROR):
            async with loop.run(controller) as started:
                await asyncio.sleep(2)
                await loop.settle(started)
        assert len(recorded.reconciles) == 2
        assert "this controller reconciles" in caplog.text
        assert "neither a Ref nor a Request" in caplog.text


@virtual
async def test_a_stream_that_fails_is_restarted_if_it_comes_from_a_function() -> None:
    made = 0

    async def stream() -> AsyncIterator[Ref[Web]]:
        nonlocal made
        made += 1
        await asyncio.sleep(1)
        yield web_ref()
        raise OSError("the line is dead")

    async with open_loop() as loop:
        await loop.other.create(web())
        recorded, controller = loop.recording_controller(None, source(stream))
        async with loop.run(controller) as started:
            await asyncio.sleep(30)
            await loop.settle(started)
            assert made > 2
            assert len(recorded.reconciles) >= made


@virtual
async def test_a_stream_that_cannot_be_restarted_stops_the_controller_when_it_fails() -> None:
    async def stream() -> AsyncIterator[Ref[Web]]:
        await asyncio.sleep(1)
        raise OSError("the line is dead")
        yield web_ref()

    async with open_loop() as loop:
        _, controller = loop.recording_controller(None, source(stream()))
        with pytest.raises(Crashed) as raised:
            await until_stopped(running(controller, loop.cluster))
        assert isinstance(raised.value.exceptions[0], OSError)


@virtual
async def test_all_objects_are_reconciled_periodically_with_low_priority() -> None:
    async with open_loop() as loop:
        for name in "ab":
            await loop.other.create(web(name))
        recorded, controller = loop.recording_controller(None, every(60))
        async with loop.run(controller) as started:
            recorded.clear()
            await asyncio.sleep(125)
            await loop.settle(started)
            assert sorted(recorded.names) == ["a", "a", "b", "b"]
            assert recorded.reasons[0] == ["all objects are reconciled"]
            assert set(recorded.priorities) == {-100}


@virtual
async def test_a_tick_of_a_stream_enqueues_all_objects_however_many() -> None:
    async with open_loop() as loop:
        for number in range(1001):
            await loop.other.create(web(f"w{number}"))
        ticks: Channel[None] = Channel(capacity=10)
        recorded, controller = loop.recording_controller(None, every(ticks))
        async with loop.run(controller) as started:
            recorded.clear()
            ticks.push(None)
            ticks.close()
            await loop.settle(started)
            assert len(set(recorded.names)) == 1001


@virtual
async def test_one_stream_may_feed_two_controllers_and_neither_blocks_the_other() -> None:
    calls: Broadcast[Ref[Web]] = Broadcast()
    gate = asyncio.Event()

    async def stand_still(_: Web, __: Context) -> None:
        await gate.wait()

    async with open_loop() as loop:
        for name in "abc":
            await loop.other.create(web(name))
        slow, one = loop.recording_controller(
            stand_still, source(lambda: calls.subscribe(slow=Slow.GROW)), concurrency=1
        )
        quick, two = loop.recording_controller(None, source(lambda: calls.subscribe(slow=Slow.GROW)))
        async with loop.run(one, ready=False) as first, loop.run(two) as second:
            quick.clear()
            for name in "abcc":
                calls.publish(web_ref(name))
            await loop.settle(second)
            assert (sorted(quick.names), len(slow.names)) == (["a", "b", "c"], 1)
            gate.set()
            await loop.settle(first)
            assert sorted(slow.names[-3:]) == ["a", "b", "c"]
