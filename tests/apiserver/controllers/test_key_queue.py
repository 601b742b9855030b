import asyncio

from levelset.apiserver.controllers.key_queue import Worker
from levelset.errors import Conflict
from tests.apiserver.clock import virtual


@virtual
async def test_keys_are_worked_on_in_order_and_each_waits_only_once() -> None:
    done: list[str] = []

    async def act(key: str) -> None:
        done.append(key)

    worker = Worker("test", act)
    for key in ("a", "b", "a"):
        worker.add(key)
    assert not worker.is_idle
    worker.start()
    await worker.wait_idle()
    assert (done, worker.is_idle) == (["a", "b"], True)
    await worker.stop()


@virtual
async def test_a_key_that_is_added_while_it_is_worked_on_comes_again() -> None:
    done: list[str] = []

    async def act(key: str) -> None:
        done.append(key)
        if len(done) == 1:
            worker.add(key)
        await asyncio.sleep(1)

    worker = Worker("test", act)
    worker.start()
    worker.add("a")
    await worker.wait_idle()
    assert done == ["a", "a"]
    await worker.stop()


@virtual
async def test_work_that_fails_is_tried_again_after_a_growing_while() -> None:
    times: list[float] = []
    loop = asyncio.get_running_loop()

    async def act(_: str) -> None:
        times.append(round(loop.time(), 3))
        if len(times) < 4:
            raise Conflict("somebody was faster")

    worker = Worker("test", act)
    worker.start()
    worker.add("a")
    await asyncio.sleep(10)
    assert times == [0.0, 0.05, 0.15, 0.35]
    await worker.stop()


@virtual
async def test_a_failure_does_not_hold_up_other_keys(caplog: object) -> None:
    done: list[str] = []

    async def act(key: str) -> None:
        if key == "bad":
            raise ValueError(key)
        done.append(key)

    worker = Worker("test", act)
    worker.start()
    worker.add("bad")
    worker.add("good")
    await worker.wait_idle()
    assert done == ["good"]
    await worker.stop()


@virtual
async def test_stopping_ends_what_is_under_way_and_what_would_come_again() -> None:
    started = asyncio.Event()

    async def act(_: str) -> None:
        started.set()
        await asyncio.sleep(1000)

    worker = Worker("test", act)
    worker.start()
    worker.add("a")
    await started.wait()
    await worker.stop()
    await worker.stop()
