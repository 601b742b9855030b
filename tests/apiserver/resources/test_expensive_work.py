"""Expensive work: in one thread at a time, whatever becomes of the requests that wait for it."""

import asyncio
import threading

import pytest

from levelset.apiserver.resources.expensive_work import ExpensiveWork


async def test_the_result_and_the_error_of_the_work_reach_the_caller() -> None:
    expensive, here = ExpensiveWork(), threading.get_ident()
    assert await expensive.run(threading.get_ident) != here
    with pytest.raises(ZeroDivisionError):
        await expensive.run(lambda: 1 // 0)


async def test_inline_work_runs_on_the_event_loop() -> None:
    expensive = ExpensiveWork()
    expensive.is_inline = True
    assert await expensive.run(threading.get_ident) == threading.get_ident()


async def test_a_cancelled_request_keeps_its_place_until_its_thread_has_ended() -> None:
    expensive, began, release = ExpensiveWork(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        release.wait(120)
        raise ValueError("of no interest to a client that is gone")

    first = asyncio.ensure_future(expensive.run(work))
    await asyncio.sleep(0)
    assert await asyncio.to_thread(began.wait, 120)
    first.cancel()
    await asyncio.wait([first])
    second = asyncio.ensure_future(expensive.run(threading.get_ident))
    await asyncio.wait([second], timeout=0.05)
    assert first.cancelled()
    assert not second.done()
    release.set()
    await asyncio.wait_for(second, 120)
