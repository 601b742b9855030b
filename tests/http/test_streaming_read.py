import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from levelset.errors import Unreachable
from levelset.http import Response, Sink
from levelset.http.streaming import iterate, read_all


async def two() -> AsyncIterator[bytes]:
    yield b"one "
    yield b"two"


def push(sink: Sink) -> None:
    sink.write(b"one ")
    sink.write(b"two")
    sink.close()


async def test_every_form_of_body_reads_the_same():
    for body in (b"one two", two(), push):
        assert await read_all(Response(200, body=body)) == b"one two"


async def test_pushes_of_one_loop_iteration_are_one_chunk():
    sinks: list[Sink] = []
    async with aclosing(iterate(sinks.append)) as chunks:
        first = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        sinks[0].write(b"a")
        sinks[0].write(b"b")
        assert await first == b"ab"
    assert sinks[0].is_closed


async def test_closing_a_pushed_body_notifies_the_producer():
    sinks: list[Sink] = []
    ended: list[bool] = []

    def begin(sink: Sink) -> None:
        sink.write(b"x")
        sink.when_closed(lambda: ended.append(True))
        sinks.append(sink)

    async with aclosing(iterate(begin)) as chunks:
        assert await anext(chunks) == b"x"
    assert ended == [True]


async def test_closing_the_reader_closes_the_iterator():
    closed: list[bool] = []

    async def body() -> AsyncIterator[bytes]:
        try:
            yield b"x"
            yield b"y"
        finally:
            closed.append(True)

    async with aclosing(iterate(body())) as chunks:
        await anext(chunks)
    assert closed == [True]


async def test_a_slow_reader_backs_the_producer_up():
    sinks: list[Sink] = []
    async with aclosing(iterate(sinks.append)) as chunks:
        first = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        sink = sinks[0]
        sink.write(b"x")
        await first
        sink.write(b"y" * 300_000)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert sink.is_backed_up
        sink.write(b"z")
        assert sink.backlog == 300_001
        waiting = asyncio.ensure_future(sink.wait_drained())
        assert len(await anext(chunks)) == 300_000
        assert await anext(chunks) == b"z"
        await waiting
        assert not sink.is_backed_up


async def test_an_aborted_body_is_unreachable():
    with pytest.raises(Unreachable, match="aborted"):
        await read_all(Response(200, body=lambda sink: sink.abort()))


async def test_a_pushed_body_begins_when_it_is_read_and_a_closed_one_has_ended():
    sinks: list[Sink] = []
    chunks = iterate(sinks.append)
    await chunks.aclose()
    assert sinks == []
    with pytest.raises(StopAsyncIteration):
        await anext(chunks)
    assert sinks == []


async def test_cancelling_the_reader_ends_a_pushed_body():
    sinks: list[Sink] = []
    chunks = iterate(sinks.append)
    reading = asyncio.ensure_future(anext(chunks))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert reading.cancelled()
    assert sinks[0].is_closed
    with pytest.raises(StopAsyncIteration):
        await anext(chunks)
