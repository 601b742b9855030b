import asyncio
import threading

import pytest

from levelset.errors import NotFound
from levelset.storage import LandingWriter, Mismatch, SqliteStorage


@pytest.fixture
async def storage(tmp_path):
    async with await SqliteStorage.open(tmp_path / "data.db") as storage:
        yield storage


async def test_a_write_can_be_begun_at_once_and_awaited_later(storage):
    assert isinstance(storage, LandingWriter)
    landing = storage.put_landing("/a", b"1", expected=0)
    assert storage.revision == 0
    change = await landing
    assert (change.after, storage.revision) == (await storage.get("/a"), 1)
    removal = await storage.delete_landing("/a", expected=1)
    assert (removal.before, await storage.get("/a")) == (change.after, None)


async def test_a_task_that_is_cancelled_hears_of_it_when_its_write_is_over(storage):
    gate = threading.Event()
    storage._writer.submit(lambda _: gate.wait(), lambda _: None)
    landing = storage.put_landing("/a", b"1", expected=0)
    task = asyncio.ensure_future(wait(landing))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (storage.revision, landing.result().revision) == (1, 1)


async def test_a_write_that_lost_against_what_is_in_the_file_is_refused_at_once(storage):
    await storage.put("/a", b"1", expected=0)
    with pytest.raises(Mismatch):
        storage.put_landing("/a", b"2", expected=7)
    with pytest.raises(NotFound):
        storage.delete_landing("/b", expected=None)


async def test_a_write_that_lost_against_one_under_way_is_refused_when_that_has_landed(storage):
    winner, loser = (storage.put_landing("/a", b"", expected=0) for _ in range(2))
    assert not loser.done()
    with pytest.raises(Mismatch):
        await loser
    assert winner.done()


async def test_who_asked_is_called_in_the_turn_in_which_the_write_landed(storage):
    await storage.put("/a", b"0", expected=0)  # the first write of a file goes to the thread
    heard: list[object] = []
    won, lost = (storage.put_landing("/b", b"1", expected=0) for _ in range(2))
    won.when_landed(lambda landing: heard.append((landing.result().revision, storage.revision)))
    lost.when_landed(lambda landing: heard.append(type(landing.exception())))
    assert not heard
    await won
    with pytest.raises(Mismatch):
        await lost
    assert heard == [(2, 2), Mismatch]


async def test_who_writes_alone_waits_for_one_turn_of_the_loop(storage):
    await storage.put("/a", b"0", expected=0)  # the first write of a file goes to the thread
    landing = storage.put_landing("/b", b"1", expected=0)
    assert not landing.done()
    await asyncio.sleep(0)
    assert landing.done()


async def test_a_crowd_waits_for_those_who_come_in_the_next_turn(storage):
    await storage.put("/a", b"0", expected=0)
    crowd = [storage.put_landing(f"/b{number}", b"1", expected=0) for number in range(2)]
    await asyncio.sleep(0)
    assert not crowd[0].done()
    crowd.append(storage.put_landing("/c", b"1", expected=0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [one.done() for one in crowd] == [True] * 3


async def wait(landing: asyncio.Future[object]) -> object:
    return await landing
