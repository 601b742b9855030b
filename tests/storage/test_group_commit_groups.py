import asyncio
import gc
import threading

import pytest

from levelset.errors import NotFound
from levelset.storage import CancelledWrite, Mismatch, SqliteStorage


@pytest.fixture
async def storage(tmp_path):
    async with await SqliteStorage.open(tmp_path / "data.db") as storage:
        yield storage


async def test_a_write_can_be_started_without_waiting_and_awaited_later(storage):
    pending = storage.start_write("/a", b"1", expected=0)
    assert storage.revision == 0
    change = await pending
    assert (change.after, storage.revision) == (await storage.get("/a"), 1)
    removal = await storage.start_write("/a", None, expected=1)
    assert (removal.before, await storage.get("/a")) == (change.after, None)


async def test_a_cancelled_task_is_cancelled_when_its_write_is_done(storage):
    gate = threading.Event()
    storage._writer.submit(lambda _: gate.wait(), lambda _: None)
    pending = storage.start_write("/a", b"1", expected=0)
    task = asyncio.ensure_future(wait(pending))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    assert not task.done()
    gate.set()
    with pytest.raises(CancelledWrite) as cancelled:
        await task
    assert (storage.revision, cancelled.value.change) == (1, pending.result())


async def test_a_put_of_a_cancelled_task_reports_its_change(storage):
    task = asyncio.ensure_future(storage.put("/a", b"1", expected=0))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(CancelledWrite) as cancelled:
        await task
    assert cancelled.value.change.after == await storage.get("/a")


async def test_the_failure_of_a_cancelled_write_is_a_plain_cancellation_and_not_logged(storage):
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    storage.start_write("/a", b"", expected=0)
    task = asyncio.ensure_future(storage.put("/a", b"1", expected=0))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await task
    assert type(cancelled.value) is asyncio.CancelledError
    del task, cancelled
    gc.collect()
    assert complaints == []


async def test_a_write_that_conflicts_with_the_file_is_refused_immediately(storage):
    await storage.put("/a", b"1", expected=0)
    with pytest.raises(Mismatch):
        storage.start_write("/a", b"2", expected=7)
    with pytest.raises(NotFound):
        storage.start_write("/b", None, expected=None)


async def test_a_write_that_conflicts_with_a_pending_write_is_refused_after_its_commit(storage):
    winner, loser = (storage.start_write("/a", b"", expected=0) for _ in range(2))
    assert not loser.done()
    with pytest.raises(Mismatch):
        await loser
    assert winner.done()


async def test_callbacks_run_in_the_loop_iteration_of_the_commit(storage):
    await storage.put("/a", b"0", expected=0)  # the first write of a file goes to the thread
    calls: list[object] = []
    won, lost = (storage.start_write("/b", b"1", expected=0) for _ in range(2))
    won.when_done(lambda pending: calls.append((pending.result().revision, storage.revision)))
    lost.when_done(lambda pending: calls.append(type(pending.exception())))
    assert not calls
    await won
    with pytest.raises(Mismatch):
        await lost
    assert calls == [(2, 2), Mismatch]


async def test_a_single_write_is_committed_in_the_next_loop_iteration(storage):
    await storage.put("/a", b"0", expected=0)  # the first write of a file goes to the thread
    pending = storage.start_write("/b", b"1", expected=0)
    assert not pending.done()
    await asyncio.sleep(0)
    assert pending.done()


async def test_several_writes_wait_one_more_loop_iteration_for_others_to_join(storage):
    await storage.put("/a", b"0", expected=0)
    crowd = [storage.start_write(f"/b{number}", b"1", expected=0) for number in range(2)]
    await asyncio.sleep(0)
    assert not crowd[0].done()
    crowd.append(storage.start_write("/c", b"1", expected=0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [one.done() for one in crowd] == [True] * 3


async def wait(pending: asyncio.Future[object]) -> object:
    return await pending
