import asyncio
import gc
from typing import Any

import pytest

from levelset.apiserver import committing, deleting, writing
from tests.apiserver.writes import HeldStorage, SlowStorage, make_world, widget


async def test_a_write_whose_client_left_is_still_told() -> None:
    storage = SlowStorage()
    world, served = make_world(storage=storage)
    heard: list[Any] = []
    world.listeners.append(lambda _, before, after: heard.append((before, after)))
    task = asyncio.ensure_future(writing.create(world, served, "x", widget()))
    await storage.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(before, after["metadata"]["name"]) for before, after in heard] == [(None, "a")]


async def test_a_removal_whose_client_left_is_still_told() -> None:
    storage = SlowStorage()
    world, served = make_world(storage=storage)
    await writing.create(world, served, "x", widget())
    storage.started.clear()
    heard: list[Any] = []
    world.listeners.append(lambda _, before, after: heard.append((before and before["metadata"]["name"], after)))
    task = asyncio.ensure_future(deleting.delete(world, served, "x", "a"))
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
    write = asyncio.ensure_future(committing.put(world, served, key, b"{}", old=None, tree=widget()))
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
    write = asyncio.ensure_future(committing.put(world, served, served.key("x", "a"), b"{}", old=None, tree=widget()))
    for _ in range(3):
        await asyncio.sleep(0)
        write.cancel()
    assert not write.done()
    landing.set()
    with pytest.raises(asyncio.CancelledError):
        await write
    assert storage.revision == 1
