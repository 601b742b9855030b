"""The two steps of stopping a supervisor: a grace period, then cancellation."""

import asyncio

import pytest

from levelset.aio import Crashed, Supervisor, Unstopped, timing


class Worker:
    """Finishes its work after `stopping`; records how it ended."""

    def __init__(self, *, finishing: float = 0.0, cleaning: float = 0.0) -> None:
        self.ended = ""
        self._finishing = finishing
        self._cleaning = cleaning

    async def work(self, tasks: Supervisor) -> None:
        try:
            await tasks.stopping.wait()
            await timing.sleep(self._finishing)
            self.ended = f"finished at {timing.now():g}"
        except asyncio.CancelledError:
            await timing.sleep(self._cleaning)
            self.ended = f"cancelled at {timing.now():g}"
            raise


async def deaf(until: float) -> None:
    while timing.now() < until:
        try:
            await timing.sleep_until(until)
        except asyncio.CancelledError:
            continue


async def running(tasks: Supervisor, *workers: Worker, graceful: bool = True) -> None:
    for number, worker in enumerate(workers):
        tasks.start(f"worker-{number}", worker.work(tasks), graceful=graceful)
    await timing.sleep(1)


async def test_a_graceful_task_gets_the_grace_period() -> None:
    worker = Worker(finishing=3)
    async with Supervisor(grace=5) as tasks:
        await running(tasks, worker)
    assert worker.ended == "finished at 4"


async def test_a_graceful_task_that_takes_too_long_is_cancelled() -> None:
    quick, slow = Worker(finishing=1), Worker(finishing=100, cleaning=2)
    async with Supervisor(grace=5, cancel_within=5) as tasks:
        await running(tasks, quick, slow)
    assert (quick.ended, slow.ended) == ("finished at 2", "cancelled at 8")


async def test_all_others_are_cancelled_at_once_and_only_once() -> None:
    worker = Worker(cleaning=3)
    graceful = Worker(finishing=1)
    async with Supervisor(grace=5, cancel_within=5) as tasks:
        await running(tasks, worker, graceful=False)
        tasks.start("graceful", graceful.work(tasks), graceful=True)
    assert (worker.ended, graceful.ended) == ("cancelled at 4", "finished at 2")


async def test_a_task_that_ignores_its_cancellation_is_named_and_not_waited_for() -> None:
    async def main() -> None:
        async with Supervisor(name="manager", cancel_within=5) as tasks:
            tasks.start("deaf", deaf(until=1000))
            tasks.start("good", asyncio.Event().wait())
            await timing.sleep(1)

    with pytest.raises(Crashed) as crashed:
        await main()
    (error,) = crashed.value.exceptions
    assert isinstance(error, Unstopped)
    assert (error.names, timing.now()) == (("deaf",), 6.0)
    assert str(error) == "manager: still running 5 s after being cancelled: deaf; do they swallow CancelledError?"
    await timing.sleep_until(1001)


async def test_stop_can_be_called_inside_the_block() -> None:
    worker = Worker(finishing=3)
    async with Supervisor(grace=5) as tasks:
        await running(tasks, worker)
        await tasks.stop()
        assert worker.ended == "finished at 4"


async def test_a_single_task_can_be_stopped() -> None:
    one, two = Worker(), Worker()
    async with Supervisor() as tasks:
        await running(tasks, one, two)
        await tasks.stop("worker-0")
        assert (one.ended, two.ended, tasks.running) == ("cancelled at 1", "", ("worker-1",))
        await tasks.stop("nobody")


async def test_a_crash_while_stopping_is_raised_and_does_not_shorten_the_grace_of_others() -> None:
    worker = Worker(finishing=3)

    async def crash(tasks: Supervisor) -> None:
        await tasks.stopping.wait()
        raise LookupError

    async def main() -> None:
        async with Supervisor(grace=5) as tasks:
            tasks.start("bad", crash(tasks), graceful=True)
            await running(tasks, worker)
            await tasks.stop()

    with pytest.raises(Crashed):
        await main()
    assert worker.ended == "finished at 4"


async def test_a_cancellation_from_outside_stops_gracefully() -> None:
    worker = Worker(finishing=3)

    async def main() -> None:
        async with Supervisor(grace=5) as tasks:
            await running(tasks, worker)
            await asyncio.Event().wait()

    task = asyncio.create_task(main())
    await timing.sleep(2)
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), worker.ended) == (True, "finished at 5")


async def test_a_cancellation_while_stopping_skips_the_grace_period() -> None:
    worker = Worker(finishing=100, cleaning=1)

    async def main() -> None:
        async with Supervisor(grace=50, cancel_within=5) as tasks:
            await running(tasks, worker)

    task = asyncio.create_task(main())
    await timing.sleep(2)
    task.cancel()
    await timing.sleep(0.5)
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), worker.ended) == (True, "cancelled at 3")


async def test_a_cancellation_of_stop_still_stops_everything_first() -> None:
    worker = Worker(finishing=100, cleaning=1)
    reached: list[str] = []

    async def main() -> None:
        async with Supervisor(grace=50, cancel_within=5) as tasks:
            await running(tasks, worker)
            await tasks.stop()
            reached.append("after stop")

    task = asyncio.create_task(main())
    await timing.sleep(2)
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), worker.ended, reached) == (True, "cancelled at 3", [])


async def test_a_crash_together_with_a_cancellation_loses_neither() -> None:
    steps: list[str] = []

    async def crash() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError

    async def main() -> None:
        try:
            async with Supervisor() as tasks:
                tasks.start("bad", crash())
                await asyncio.Event().wait()
        except Crashed:
            steps.append("the crash was seen")
        await timing.sleep(1)
        steps.append("the cancellation was lost")

    task = asyncio.create_task(main())
    await timing.sleep(1)
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), steps) == (True, ["the crash was seen"])


async def test_a_supervisor_inside_a_timeout_times_out() -> None:
    worker = Worker()

    async def main() -> None:
        async with timing.within(5), Supervisor() as tasks:
            await running(tasks, worker, graceful=False)
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await main()
    assert worker.ended == "cancelled at 5"
