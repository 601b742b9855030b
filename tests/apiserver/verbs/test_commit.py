import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.verbs import commit, create_and_update, delete
from levelset.storage import SqliteStorage
from tests.apiserver.writes import HeldStorage, SlowStorage, make_world, widget


async def test_a_write_whose_client_left_is_still_told() -> None:
    storage = SlowStorage()
    world, served = make_world(storage=storage)
    heard: list[Any] = []
    world.listeners.append(lambda _, before, after: heard.append((before, after)))
    task = asyncio.ensure_future(create_and_update.create(world, served, "x", widget()))
    await storage.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(before, after["metadata"]["name"]) for before, after in heard] == [(None, "a")]


async def test_a_removal_whose_client_left_is_still_told() -> None:
    storage = SlowStorage()
    world, served = make_world(storage=storage)
    await create_and_update.create(world, served, "x", widget())
    storage.started.clear()
    heard: list[Any] = []
    world.listeners.append(lambda _, before, after: heard.append((before and before["metadata"]["name"], after)))
    task = asyncio.ensure_future(delete.delete(world, served, "x", "a"))
    await storage.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard == [("a", None)]


async def test_a_write_that_fails_after_its_client_left_complains_to_nobody() -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    storage = HeldStorage()
    world, served = make_world(storage=storage)
    key = served.key("x", "a")
    await storage.put(key, b"{}", expected=0)
    landing = storage.hold(key)
    write = asyncio.ensure_future(commit.put(world, served, key, b"{}", old=None, tree=widget()))
    await asyncio.sleep(0)
    write.cancel()
    landing.set()
    await asyncio.gather(write, return_exceptions=True)
    del write
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []


async def test_a_client_that_leaves_twice_is_let_go_when_its_write_is_over() -> None:
    storage = HeldStorage()
    world, served = make_world(storage=storage)
    landing = storage.hold(served.key("x", "a"))
    write = asyncio.ensure_future(commit.put(world, served, served.key("x", "a"), b"{}", old=None, tree=widget()))
    for _ in range(3):
        await asyncio.sleep(0)
        write.cancel()
    assert not write.done()
    landing.set()
    with pytest.raises(asyncio.CancelledError):
        await write
    assert storage.revision == 1


async def test_a_write_to_a_file_whose_client_left_is_still_told(tmp_path: Path) -> None:
    async with await SqliteStorage.open(tmp_path / "data.db") as storage:
        world, served = make_world(storage=storage)
        heard: list[Any] = []
        world.listeners.append(lambda _, before, after: heard.append((before is None, after is None)))
        tree = widget()
        item = await commit.put(world, served, served.key("x", "a"), b"{}", old=None, tree=tree)
        put = commit.put(world, served, served.key("x", "b"), b"{}", old=None, tree=widget(name="b"))
        remove = commit.remove(world, served, item, old=tree)
        tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(put), asyncio.ensure_future(remove)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(end) for end in ends] == [asyncio.CancelledError] * 2
        assert heard == [(True, False), (True, False), (False, True)]


async def test_a_write_to_a_file_that_fails_after_its_client_left_is_told_to_nobody(tmp_path: Path) -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with await SqliteStorage.open(tmp_path / "data.db") as storage:
        world, served = make_world(storage=storage)
        heard: list[Any] = []
        world.listeners.append(lambda _, before, after: heard.append((before, after)))
        key = served.key("x", "a")
        winner = storage.put_landing(key, b"{}", expected=0)
        write = asyncio.ensure_future(commit.put(world, served, key, b"{}", old=None, tree=widget()))
        await asyncio.sleep(0)
        write.cancel()
        assert isinstance((await asyncio.gather(write, return_exceptions=True))[0], asyncio.CancelledError)
        del write
        gc.collect()
        assert (winner.done(), heard, complaints) == (True, [], [])
