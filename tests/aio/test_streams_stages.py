"""What each stage of a stream does with the items."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from levelset.aio import Leading, Stream, Trailing, merge, timing
from tests.aio.sources import Source, timed


async def doubled(number: int) -> int:
    await asyncio.sleep(0)
    return number * 2


async def odd(number: int) -> bool:
    return number % 2 == 1


async def boom() -> None:
    await timing.sleep(1)
    raise LookupError("boom")


async def test_map_takes_a_plain_or_an_async_function() -> None:
    assert await Stream.of(1, 2).map(str).to_list() == ["1", "2"]
    assert await Stream.of(1, 2).map(doubled).to_list() == [2, 4]
    assert await Stream.of(1, 2).map(lambda n: doubled(n + 0)).to_list() == [2, 4]


async def test_where_takes_a_plain_or_an_async_predicate() -> None:
    assert await Stream.of(1, 2, 3).where(lambda n: n > 1).to_list() == [2, 3]
    assert await Stream.of(1, 2, 3).where(odd).to_list() == [1, 3]


async def test_flat_map_takes_iterables_and_async_iterables() -> None:
    assert await Stream.of(1, 2, 0, 3).flat_map(range).to_list() == [0, 0, 1, 0, 1, 2]
    assert await Stream.of(1, 2).flat_map(lambda n: Stream.of(n, n)).to_list() == [1, 1, 2, 2]


async def test_flat_map_closes_what_its_function_made_when_it_stops_early() -> None:
    inner, outer = Source(1, 2, 3), Source(1)
    async with Stream(outer).flat_map(lambda _: inner) as stream:
        assert await anext(stream) == 1
    assert inner.closed
    assert outer.closed


async def test_flat_map_closes_a_plain_generator_too() -> None:
    closed: list[bool] = []

    def numbers(_: int) -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            closed.append(True)

    async with Stream.of(1).flat_map(numbers) as stream:
        assert await anext(stream) == 0
    assert closed == [True]


async def test_take_ends_without_waiting_for_one_item_more() -> None:
    source = Source(1, 2, endless=True)
    assert await Stream(source).take(2).to_list() == [1, 2]
    assert (source.taken, source.closed) == ([1, 2], True)
    assert await Stream.of(1).take(0).to_list() == []


def test_take_refuses_a_negative_number() -> None:
    with pytest.raises(ValueError, match=r"take\(-1\)"):
        Stream.of(1).take(-1)


async def test_merge_yields_items_as_they_arrive() -> None:
    merged = merge(timed((1, 1), (4, 4)), timed((2, 2), (3, 3)))
    assert await merged.to_list() == [1, 2, 3, 4]


async def test_merge_raises_the_first_error_after_earlier_items_and_closes_the_others() -> None:
    bad, good = Source(1, error=OSError("lost")), Source(endless=True)
    seen: list[int] = []
    with pytest.raises(OSError, match="lost"):
        await merge(good, bad).map(seen.append).to_list()
    assert (seen, good.closed, bad.closed) == ([1], True, True)


async def test_merge_reads_ahead_no_further_than_its_capacity() -> None:
    source = Source(*range(100))
    async with merge(source, capacity=3) as merged:
        assert await anext(merged) == 0
        await timing.sleep(1)
        assert len(source.taken) == 1 + 3 + 1


async def test_merge_of_a_failing_source_does_not_lose_a_second_error() -> None:
    reports: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context["exception"]))

    async def grumpy() -> AsyncIterator[int]:
        try:
            await asyncio.Event().wait()
            yield 1
        finally:
            raise ValueError("second")

    with pytest.raises(OSError, match="first"):
        await merge(grumpy(), Source(error=OSError("first"))).to_list()
    assert [str(error) for error in reports] == ["second"]


async def test_an_error_read_ahead_is_raised_on_closing() -> None:
    merged = merge(Source(1, error=OSError("lost")))
    assert await anext(merged) == 1
    await timing.sleep(1)
    with pytest.raises(OSError, match="lost"):
        await merged.aclose()


async def test_a_source_cancelled_from_outside_is_an_error() -> None:
    async def stumbling() -> AsyncIterator[int]:
        yield 1
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="cancelled from outside"):
        await merge(stumbling(), Source(endless=True)).to_list()


async def test_a_merge_that_is_never_read_closes_every_source() -> None:
    inner = [Stream(Source(1)), Stream(Source(2))]
    await merge(*inner).aclose()
    assert [await stream.to_list() for stream in inner] == [[], []]


async def test_take_until_an_event_ends_a_waiting_reader() -> None:
    stop, source = asyncio.Event(), Source(1, endless=True)
    asyncio.get_running_loop().call_later(2, stop.set)
    assert await Stream(source).take_until(stop).map(str).to_list() == ["1"]
    assert (timing.now(), source.closed) == (2.0, True)


async def test_take_until_an_event_that_is_set_reads_nothing() -> None:
    stop, source = asyncio.Event(), Source(1)
    stop.set()
    assert await Stream(source).take_until(stop).to_list() == []
    assert not source.opened


async def test_take_until_while_the_reader_is_busy_ends_at_its_next_read() -> None:
    stop, source = asyncio.Event(), Source(1, 2, 3)
    async with Stream(source).take_until(stop) as stream:
        assert await anext(stream) == 1
        stop.set()
        await timing.sleep(1)
        assert [number async for number in stream] == []
    assert source.taken == [1]


async def test_take_until_a_coroutine_runs_it_and_a_failure_of_it_is_raised() -> None:
    assert await Stream(Source(1, endless=True)).take_until(timing.sleep(3)).to_list() == [1]
    with pytest.raises(LookupError, match="boom"):
        await Stream(Source(1, endless=True)).take_until(boom()).to_list()


async def test_take_until_cancels_its_coroutine_when_the_source_ends_first() -> None:
    assert await Stream.of(1, 2).take_until(timing.sleep(1e9)).to_list() == [1, 2]
    assert timing.now() == 0.0


async def test_take_until_a_future_leaves_the_future_alone() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    assert await Stream.of(1).take_until(future).to_list() == [1]
    assert not future.done()
    asyncio.get_running_loop().call_later(1, future.set_result, None)
    assert await Stream(Source(2, endless=True)).take_until(future).to_list() == [2]
    assert await Stream(Source(3)).take_until(future).to_list() == []


async def test_take_until_that_is_never_read_leaves_no_coroutine_behind() -> None:
    await Stream.of(1).take_until(timing.sleep(1)).aclose()


async def test_two_stops_at_the_same_moment_end_the_stream_once() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(1, stop.set)
    stream = Stream(Source(1, endless=True)).take_until(stop).map(str).take_until(stop)
    assert await stream.to_list() == ["1"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_debounce_keeps_the_schedule_of_the_first_item() -> None:
    stream = Stream(timed((0.0, 1), (0.3, 2), (1.2, 3))).debounce(Leading(1.0))
    assert [(number, timing.now()) async for number in stream] == [(1, 1.0), (3, 2.2)]


async def test_debounce_can_wait_for_silence() -> None:
    stream = Stream(timed((0.0, 1), (0.5, 2), (5.0, 3))).debounce(Trailing(after=1.0, within=2.0))
    assert [(number, timing.now()) async for number in stream] == [(2, 1.5), (3, 6.0)]


async def test_debounce_handles_each_key_independently() -> None:
    stream = Stream(timed((0.0, 1), (0.5, 2), (0.6, 3))).debounce(Leading(1.0), key=lambda n: n % 2)
    assert [(number, timing.now()) async for number in stream] == [(1, 1.0), (2, 1.5)]


async def test_debounce_absorbs_triggers_while_its_reader_is_busy() -> None:
    answered: list[tuple[int, float]] = []
    async with Stream(timed((0.0, 1), (2.0, 2), (3.0, 3), (4.0, 4))).debounce(Leading(1.0)) as stream:
        async for number in stream:
            answered.append((number, timing.now()))
            await timing.sleep(9)
    assert answered == [(1, 1.0), (2, 10.0)]


async def test_debounce_raises_the_error_of_its_source_also_a_timeout() -> None:
    with pytest.raises(TimeoutError, match="from the source"):
        await Stream(Source(1, error=TimeoutError("from the source"))).debounce(Leading(1.0)).to_list()


async def test_debounce_closes_its_source_when_it_is_left_early() -> None:
    source = Source(1, endless=True)
    async with Stream(source).debounce(Leading(1.0)) as stream:
        assert await anext(stream) == 1
    assert source.closed


async def test_a_merge_closed_before_its_tasks_took_their_first_step_closes_every_source() -> None:
    inner = [Stream(Source(1)), Stream(Source(2))]
    reader = asyncio.create_task(merge(*inner).to_list())
    await asyncio.sleep(0)
    reader.cancel()
    await asyncio.wait([reader])
    assert [await stream.to_list() for stream in inner] == [[], []]
