import asyncio
from contextvars import ContextVar

from levelset.apiserver.controllers.key_queue import KeyQueue
from levelset.errors import Conflict
from levelset.testing.virtual_time import virtual


@virtual
async def test_keys_are_processed_in_order_and_queued_once() -> None:
    done: list[str] = []

    async def act(key: str) -> None:
        done.append(key)

    worker = KeyQueue("test", act)
    for key in ("a", "b", "a"):
        worker.add(key)
    assert not worker.is_idle
    worker.start()
    await worker.wait_idle()
    assert (done, worker.is_idle) == (["a", "b"], True)
    await worker.stop()


@virtual
async def test_a_key_added_during_its_processing_is_processed_again() -> None:
    done: list[str] = []

    async def act(key: str) -> None:
        done.append(key)
        if len(done) == 1:
            worker.add(key)
        await asyncio.sleep(1)

    worker = KeyQueue("test", act)
    worker.start()
    worker.add("a")
    await worker.wait_idle()
    assert done == ["a", "a"]
    await worker.stop()


@virtual
async def test_a_failed_key_is_retried_with_exponential_backoff() -> None:
    times: list[float] = []
    loop = asyncio.get_running_loop()

    async def act(_: str) -> None:
        times.append(round(loop.time(), 3))
        if len(times) < 4:
            raise Conflict("another writer was faster")

    worker = KeyQueue("test", act)
    worker.start()
    worker.add("a")
    await asyncio.sleep(10)
    assert times == [0.0, 0.05, 0.15, 0.35]
    await worker.stop()


@virtual
async def test_a_failed_key_does_not_block_others(caplog: object) -> None:
    done: list[str] = []

    async def act(key: str) -> None:
        if key == "bad":
            raise ValueError(key)
        done.append(key)

    worker = KeyQueue("test", act)
    worker.start()
    worker.add("bad")
    worker.add("good")
    await worker.wait_idle()
    assert done == ["good"]
    await worker.stop()


@virtual
async def test_stop_cancels_the_current_key_and_pending_retries() -> None:
    started = asyncio.Event()

    async def act(_: str) -> None:
        started.set()
        await asyncio.sleep(1000)

    worker = KeyQueue("test", act)
    worker.start()
    worker.add("a")
    await started.wait()
    await worker.stop()
    await worker.stop()


@virtual
async def test_a_key_whose_processing_awaits_something_cancelled_is_retried_and_the_queue_goes_on() -> None:
    done: list[str] = []

    async def act(key: str) -> None:
        done.append(key)
        if len(done) == 1:
            raise asyncio.CancelledError

    worker = KeyQueue("test", act)
    worker.start()
    worker.add("a")
    worker.add("b")
    await asyncio.sleep(10)
    assert done == ["a", "b", "a"]
    await worker.stop()


@virtual
async def test_keys_are_processed_in_the_context_of_the_start_and_not_of_what_adds_them() -> None:
    adding: ContextVar[str] = ContextVar("adding", default="the start")
    seen: list[str] = []

    async def act(_: str) -> None:
        seen.append(adding.get())

    worker = KeyQueue("test", act)
    worker.start()
    adding.set("a request")
    worker.add("a")
    await worker.wait_idle()
    assert seen == ["the start"]
    await worker.stop()


@virtual
async def test_a_stopped_queue_processes_nothing_until_it_is_started_again() -> None:
    done: list[str] = []

    async def act(key: str) -> None:
        done.append(key)

    worker = KeyQueue("test", act)
    worker.start()
    await worker.stop()
    worker.add("a")
    await asyncio.sleep(1)
    assert done == []
    worker.start()
    await worker.wait_idle()
    assert done == ["a"]
    await worker.stop()
