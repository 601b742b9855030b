import asyncio
import threading

import pytest

from levelset.errors import NotFound
from levelset.storage import Mismatch, PendingWriter, SqliteStorage


@pytest.fixture
async def storage(tmp_path):
    async with await SqliteStorage.open(tmp_path / "data.db") as storage:
        yield storage


async def test_a_write_can_be_started_without_waiting_and_awaited_later(storage):
    assert isinstance(storage, PendingWriter)
    pending = storage.put_pending("/a", b"1", expected=0)
    assert storage.revision == 0
    change = await pending
    assert (change.after, storage.revision) == (await storage.get("/a"), 1)
    removal = await storage.delete_pending("/a", expected=1)
    assert (removal.before, await storage.get("/a")) == (change.after, None)


async def test_a_cancelled_task_is_cancelled_when_its_write_is_done(storage):
    gate = threading.Event()
    storage._writer.submit(lambda _: gate.wait(), lambda _: None)
    pending = storage.put_pending("/a", b"1", expected=0)
    task = asyncio.ensure_future(wait(pending))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (storage.revision, pending.result().revision) == (1, 1)


async def test_a_write_that_conflicts_with_the_file_is_refused_immediately(storage):
    await storage.put("/a", b"1", expected=0)
    with pytest.raises(Mismatch):
        storage.put_pending("/a", b"2", expected=7)
    with pytest.raises(NotFound):
        storage.delete_pending("/b", expected=None)


async def test_a_write_that_conflicts_with_a_pending_write_is_refused_after_its_commit(storage):
    winner, loser = (storage.put_pending("/a", b"", expected=0) for _ in range(2))
    assert not loser.done()
    with pytest.raises(Mismatch):
        await loser
    assert winner.done()


async def test_callbacks_run_in_the_loop_iteration_of_the_commit(storage):
    await storage.put("/a", b"0", expected=0)  # the first write of a file goes to the thread
    calls: list[object] = []
    won, lost = (storage.put_pending("/b", b"1", expected=0) for _ in range(2))
    won.when_done(lambda pending: calls.append((pending.result().revision, storage.revision)))
    lost.when_done(lambda pending: calls.append(type(pending.exception())))
    assert not calls
    await won
    with pytest.raises(Mismatch):
        await lost
    assert calls == [(2, 2), Mismatch]


async def test_a_single_write_is_committed_in_the_next_loop_iteration(storage):
    await storage.put("/a", b"0", expected=0)  # the first write of a file goes to the thread
    pending = storage.put_pending("/b", b"1", expected=0)
    assert not pending.done()
    await asyncio.sleep(0)
    assert pending.done()


async def test_several_writes_wait_one_more_loop_iteration_for_others_to_join(storage):
    await storage.put("/a", b"0", expected=0)
    crowd = [storage.put_pending(f"/b{number}", b"1", expected=0) for number in range(2)]
    await asyncio.sleep(0)
    assert not crowd[0].done()
    crowd.append(storage.put_pending("/c", b"1", expected=0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [one.done() for one in crowd] == [True] * 3


async def wait(pending: asyncio.Future[object]) -> object:
    return await pending
