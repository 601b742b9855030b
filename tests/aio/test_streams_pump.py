"""A pump reads its sources in tasks that end with it."""

import asyncio

import pytest

from levelset.aio import timing
from levelset.aio.streams import Pump, TaskSet
from tests.aio.sources import Source


class Sink:
    """A sink that records everything."""

    def __init__(self) -> None:
        self.items: list[int] = []
        self.ends = 0

    async def take(self, item: int) -> None:
        self.items.append(item)

    def end(self) -> None:
        self.ends += 1

    def pump(self, *sources: Source) -> Pump[int]:
        return Pump([aiter(source) for source in sources], deliver=self.take, ended=self.end, name="pump")


async def test_ended_is_called_once_when_all_sources_have_ended() -> None:
    sink = Sink()
    pump = sink.pump(Source(1), Source(2))
    pump.start()
    pump.start()
    await timing.sleep(1)
    assert (sorted(sink.items), sink.ends, pump.has_failed) == ([1, 2], 1, False)
    await pump.aclose()
    assert sink.ends == 1


async def test_a_failure_calls_ended_and_is_raised_once() -> None:
    sink, other = Sink(), Source(endless=True)
    pump = sink.pump(Source(error=OSError("lost")), other)
    pump.start()
    await timing.sleep(1)
    assert (sink.ends, pump.has_failed, other.closed) == (1, True, True)
    with pytest.raises(OSError, match="lost"):
        await pump.aclose()
    await pump.aclose()


async def test_a_failure_during_a_cancellation_is_reported() -> None:
    reports: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context["exception"]))

    async def slow_to_stop() -> None:
        try:
            await timing.sleep(1000)
        finally:
            await timing.sleep(5)

    pump = Sink().pump(Source(error=OSError("lost")))
    pump.start()
    pump._tasks.start(slow_to_stop(), lambda _: None)
    await timing.sleep(1)
    closing = asyncio.create_task(pump.aclose())
    await timing.sleep(1)
    closing.cancel()
    await asyncio.wait([closing])
    assert (closing.cancelled(), [str(error) for error in reports]) == (True, ["lost"])


async def test_a_task_set_cancelled_while_stopping_still_waits_for_its_tasks() -> None:
    crew, ended = TaskSet("crew"), list[bool]()

    async def slow_to_stop() -> None:
        try:
            await timing.sleep(1000)
        finally:
            await timing.sleep(5)

    crew.start(slow_to_stop(), lambda task: ended.append(task.cancelled()))
    await timing.sleep(1)
    stopping = asyncio.create_task(crew.stop())
    for _ in range(2):
        await timing.sleep(1)
        stopping.cancel()
    await asyncio.wait([stopping])
    assert (stopping.cancelled(), ended, timing.now()) == (True, [True], 6.0)
