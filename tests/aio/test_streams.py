"""A stream closes what it opened, whatever ends the reading."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable

import pytest

from levelset.aio import Channel, Closed, Leading, Stream, merge, timing
from tests.aio.sources import Source


async def broken(number: int) -> int:
    raise LookupError(number)


def chained(source: Source) -> Stream[int]:
    """A stream with one stage of each sort."""
    return Stream(source).map(lambda n: n + 1).where(lambda n: n > 0).flat_map(lambda n: [n]).take(100)


async def test_it_reads_any_async_iterable_to_its_end() -> None:
    source = Source(1, 2, 3)
    assert [number async for number in Stream(source)] == [1, 2, 3]
    assert source.closed


def test_a_source_that_is_not_iterable_is_refused_at_once() -> None:
    with pytest.raises(TypeError):
        Stream([1, 2])  # type: ignore[arg-type]  # the mistake under test


async def test_the_end_closes_everything_without_a_block() -> None:
    source = Source(1, 2)
    assert [number async for number in chained(source)] == [2, 3]
    assert source.closed


async def test_an_error_of_the_source_closes_everything_without_a_block() -> None:
    source = Source(1, error=OSError("lost"))
    stream = chained(source)
    with pytest.raises(OSError, match="lost"):
        [number async for number in stream]
    assert source.closed
    assert [number async for number in stream] == []


async def test_an_error_of_a_stage_closes_everything_before_it_is_raised() -> None:
    source = Source(1, 2, endless=True)
    with pytest.raises(LookupError):
        await anext(Stream(source).map(broken).map(str))
    assert source.closed


async def test_a_reader_cancelled_while_it_waits_has_closed_everything_without_a_block() -> None:
    source = Source(endless=True)
    reader = asyncio.create_task(chained(source).to_list())
    await timing.sleep(1)
    reader.cancel()
    await asyncio.wait([reader])
    assert reader.cancelled()
    assert source.closed


async def test_a_timeout_around_a_read_closes_the_stream() -> None:
    source = Source(endless=True)
    stream = chained(source)
    with pytest.raises(TimeoutError):
        async with timing.within(1):
            await anext(stream)
    assert source.closed
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_break_inside_a_block_closes_everything() -> None:
    source = Source(1, 2, 3)
    async with chained(source) as stream:
        async for _ in stream:
            break
    assert (source.taken, source.closed) == ([1], True)


async def test_break_without_a_block_closes_nothing_until_it_is_collected() -> None:
    source = Source(1, 2, 3)
    stream = chained(source)
    async for _ in stream:
        break
    assert not source.closed
    del stream
    gc.collect()
    await timing.sleep(1)
    assert source.closed


async def test_an_error_in_the_body_closes_everything_inside_a_block() -> None:
    source = Source(1, 2, 3)

    async def read() -> None:
        async with chained(source) as stream:
            async for number in stream:
                raise LookupError(number)

    with pytest.raises(LookupError):
        await read()
    assert source.closed


async def test_a_cancellation_in_the_body_closes_everything_inside_a_block() -> None:
    source = Source(1, 2, 3)

    async def read() -> None:
        async with chained(source) as stream:
            async for _ in stream:
                await timing.sleep(1000)

    reader = asyncio.create_task(read())
    await timing.sleep(1)
    reader.cancel()
    await asyncio.wait([reader])
    assert reader.cancelled()
    assert source.closed


async def test_a_stream_that_is_never_read_closes_its_source() -> None:
    source = Source(1)
    numbers: Channel[int] = Channel(capacity=1)
    async with chained(source), Stream(numbers).map(str):
        pass
    assert not source.opened
    with pytest.raises(Closed):
        await numbers.send(1)


async def test_after_aclose_there_is_nothing_more_and_a_second_time_does_nothing() -> None:
    source = Source(1, 2, 3)
    stream = chained(source)
    assert await anext(stream) == 2
    await stream.aclose()
    await stream.aclose()
    assert source.closed
    assert [number async for number in stream] == []


async def test_aclose_from_another_task_ends_a_reader_that_waits() -> None:
    source = Source(1, endless=True)
    stream = chained(source)
    reader = asyncio.create_task(stream.to_list())
    await timing.sleep(1)
    await stream.aclose()
    assert source.closed
    assert await reader == [2]
    assert reader.cancelling() == 0


async def test_a_cancellation_during_aclose_is_not_swallowed() -> None:
    stream = chained(Source(endless=True))
    reader = asyncio.create_task(stream.to_list())
    await timing.sleep(1)
    closing = asyncio.create_task(stream.aclose())
    await asyncio.sleep(0)
    reader.cancel()
    await asyncio.wait([reader, closing])
    assert reader.cancelled()


async def test_a_stage_may_close_the_stream_it_is_part_of() -> None:
    source = Source(1, 2, 3)

    async def last(number: int) -> int:
        await stream.aclose()
        return number

    stream = Stream(source).map(last)
    assert await stream.to_list() == [1]
    assert source.closed


async def test_two_readers_at_once_are_refused() -> None:
    stream = Stream(Source(endless=True))
    reader = asyncio.create_task(stream.to_list())
    await timing.sleep(1)
    with pytest.raises(RuntimeError, match="two tasks read from one stream"):
        await anext(stream)
    await stream.aclose()
    await reader


async def test_an_error_while_closing_after_an_error_is_reported_not_lost() -> None:
    reports: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context["exception"]))

    async def source() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise OSError("cannot close")

    with pytest.raises(LookupError):
        await anext(Stream(source()).map(broken))
    assert [str(error) for error in reports] == ["cannot close"]


async def test_an_error_while_closing_is_raised_if_there_is_no_other() -> None:
    async def source() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise OSError("cannot close")

    stream = Stream(source())
    assert await anext(stream) == 1
    with pytest.raises(OSError, match="cannot close"):
        await stream.aclose()


async def test_merge_gives_the_items_of_all_and_ends_when_all_have_ended() -> None:
    sources = [Source(1, 2), Source(), Source(3)]
    assert sorted(await merge(*sources).to_list()) == [1, 2, 3]
    assert all(source.closed for source in sources)


async def test_merge_of_nothing_ends_at_once() -> None:
    assert await merge().to_list() == []


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(merge, id="merge"),
        pytest.param(lambda stream: stream.debounce(Leading(1.0)), id="debounce"),
        pytest.param(lambda stream: stream.batch(1, within=1.0).map(lambda batch: batch[0]), id="batch"),
        pytest.param(lambda stream: stream.take_until(asyncio.Event()), id="take_until"),
    ],
)
async def test_a_stream_with_tasks_dropped_without_being_closed_warns_and_ends_them(
    stage: Callable[[Stream[int]], Stream[int]],
) -> None:
    source = Source(1, endless=True)
    held = [stage(Stream(source)).map(str)]
    assert await anext(held[0]) == "1"
    with pytest.warns(ResourceWarning, match="was dropped without being closed"):
        held.clear()
    await timing.sleep(1)
    assert source.closed


async def test_closing_a_merge_closes_its_sources_in_the_tasks_that_read_them() -> None:
    sources = [Source(1, endless=True), Source(2, endless=True)]
    async with merge(*sources).map(str) as merged:
        assert {await anext(merged), await anext(merged)} == {"1", "2"}
    assert all(source.closed and source.tasks == {"merge"} for source in sources)
