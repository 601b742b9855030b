"""Batches: consecutive items in lists, by size and by time, and no item is dropped."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.aio import Batcher, Stream, timing
from tests.aio.sources import Source, timed

times = st.lists(st.integers(0, 80).map(lambda eighths: eighths / 8), max_size=40).map(sorted)


@given(times=times, size=st.integers(1, 5), eighths=st.integers(0, 40))
def test_every_item_is_in_one_batch_in_order_and_in_time(times: list[float], size: int, eighths: int) -> None:
    within = eighths / 8
    batcher: Batcher[float] = Batcher(size=size, within=within)
    batches: list[tuple[float, list[float]]] = []
    for now in times:
        while (due := batcher.next_due()) is not None and due < now:
            batches.append((due, batcher.take()))
        batcher.add(now, now=now)
        if batcher.is_full:
            assert batcher.is_due(now)
            batches.append((now, batcher.take()))
    if (due := batcher.next_due()) is not None:
        batches.append((due, batcher.take()))
    assert [item for _, batch in batches for item in batch] == times
    assert all(0 < len(batch) <= size and when <= batch[0] + within for when, batch in batches)
    assert all(len(batch) == size or when == batch[0] + within for when, batch in batches)


@pytest.mark.parametrize(("size", "within"), [(0, 1.0), (1, -1.0), (1, math.inf), (1, math.nan)])
def test_a_batch_without_items_or_without_an_end_is_refused(size: int, within: float) -> None:
    with pytest.raises(ValueError, match=r"batch\("):
        Batcher[int](size=size, within=within)


async def test_a_batch_is_emitted_when_it_is_full_or_its_time_has_come() -> None:
    stream = Stream(timed((0.0, 1), (0.1, 2), (0.2, 3), (5.0, 4), (5.9, 5), (6.5, 6))).batch(3, within=1.0)
    assert [(batch, timing.now()) async for batch in stream] == [([1, 2, 3], 0.2), ([4, 5], 6.0), ([6], 6.5)]


async def test_a_later_item_does_not_postpone_a_batch() -> None:
    stream = Stream(timed((0.0, 1), (0.9, 2), (1.8, 3), (9.0, 4))).batch(10, within=1.0)
    assert [(batch, timing.now()) async for batch in stream] == [([1, 2], 1.0), ([3], 2.8), ([4], 9.0)]


async def test_items_are_collected_while_the_reader_is_busy_and_a_full_batch_makes_the_source_wait() -> None:
    source = Source(*range(7))
    batches: list[list[int]] = []
    async with Stream(source).batch(2, within=1.0) as stream:
        async for batch in stream:
            batches.append(batch)
            await timing.sleep(5)
            assert len(source.taken) <= 2 * len(batches) + 3  # the batch that waits, and one item at its door
    assert batches == [[0, 1], [2, 3], [4, 5], [6]]


async def test_what_is_pending_is_emitted_before_the_error_of_the_source() -> None:
    stream = Stream(Source(1, 2, 3, error=LookupError("lost"))).batch(2, within=60.0)
    assert [await anext(stream), await anext(stream)] == [[1, 2], [3]]
    with pytest.raises(LookupError, match="lost"):
        await anext(stream)


async def test_a_batched_stream_of_nothing_ends_at_once() -> None:
    assert await Stream(Source()).batch(2, within=1.0).to_list() == []


async def test_leaving_a_batched_stream_early_closes_its_source() -> None:
    source = Source(1, 2, 3, endless=True)
    async with Stream(source).batch(2, within=1.0) as stream:
        assert await anext(stream) == [1, 2]
    assert source.closed


async def test_a_reader_that_is_cancelled_while_it_waits_closes_the_source() -> None:
    source = Source(1, endless=True)
    reader = asyncio.create_task(Stream(source).batch(5, within=60.0).to_list())
    await timing.sleep(1)
    reader.cancel()
    await asyncio.wait([reader])
    assert source.closed
