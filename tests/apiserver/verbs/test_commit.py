import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.verbs import commit, create_and_update, delete
from levelset.storage import SqliteStorage
from tests.apiserver.support.server_state import HeldStorage, SlowStorage, make_state, widget


async def test_a_write_of_a_disconnected_client_still_notifies_listeners() -> None:
    storage = SlowStorage()
    state, served = make_state(storage=storage)
    events: list[Any] = []
    state.listeners.append(lambda _, before, after: events.append((before, after)))
    task = asyncio.ensure_future(create_and_update.create(state, served, "x", widget()))
    await storage.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(before, after["metadata"]["name"]) for before, after in events] == [(None, "a")]


async def test_a_removal_of_a_disconnected_client_still_notifies_listeners() -> None:
    storage = SlowStorage()
    state, served = make_state(storage=storage)
    await create_and_update.create(state, served, "x", widget())
    storage.started.clear()
    events: list[Any] = []
    state.listeners.append(lambda _, before, after: events.append((before and before["metadata"]["name"], after)))
    task = asyncio.ensure_future(delete.delete(state, served, "x", "a"))
    await storage.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events == [("a", None)]


async def test_a_failed_write_of_a_disconnected_client_is_silent() -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    storage = HeldStorage()
    state, served = make_state(storage=storage)
    key = served.key("x", "a")
    await storage.put(key, b"{}", expected=0)
    pending = storage.hold(key)
    write = asyncio.ensure_future(commit.put(state, served, key, b"{}", old=None, tree=widget()))
    await asyncio.sleep(0)
    write.cancel()
    pending.set()
    await asyncio.gather(write, return_exceptions=True)
    del write
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []


async def test_a_twice_cancelled_write_ends_after_its_commit() -> None:
    storage = HeldStorage()
    state, served = make_state(storage=storage)
    pending = storage.hold(served.key("x", "a"))
    write = asyncio.ensure_future(commit.put(state, served, served.key("x", "a"), b"{}", old=None, tree=widget()))
    for _ in range(3):
        await asyncio.sleep(0)
        write.cancel()
    assert not write.done()
    pending.set()
    with pytest.raises(asyncio.CancelledError):
        await write
    assert storage.revision == 1


async def test_a_group_commit_of_a_disconnected_client_still_notifies_listeners(tmp_path: Path) -> None:
    async with await SqliteStorage.open(tmp_path / "data.db") as storage:
        state, served = make_state(storage=storage)
        events: list[Any] = []
        state.listeners.append(lambda _, before, after: events.append((before is None, after is None)))
        tree = widget()
        item = await commit.put(state, served, served.key("x", "a"), b"{}", old=None, tree=tree)
        put = commit.put(state, served, served.key("x", "b"), b"{}", old=None, tree=widget(name="b"))
        remove = commit.remove(state, served, item, old=tree)
        tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(put), asyncio.ensure_future(remove)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(end) for end in ends] == [asyncio.CancelledError] * 2
        assert events == [(True, False), (True, False), (False, True)]


async def test_a_failed_group_commit_of_a_disconnected_client_notifies_no_listener(tmp_path: Path) -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with await SqliteStorage.open(tmp_path / "data.db") as storage:
        state, served = make_state(storage=storage)
        events: list[Any] = []
        state.listeners.append(lambda _, before, after: events.append((before, after)))
        key = served.key("x", "a")
        winner = storage.put_pending(key, b"{}", expected=0)
        write = asyncio.ensure_future(commit.put(state, served, key, b"{}", old=None, tree=widget()))
        await asyncio.sleep(0)
        write.cancel()
        assert isinstance((await asyncio.gather(write, return_exceptions=True))[0], asyncio.CancelledError)
        del write
        gc.collect()
        assert (winner.done(), events, complaints) == (True, [], [])
