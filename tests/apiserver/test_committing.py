import asyncio
from typing import Any

import pytest

from levelset.apiserver import deleting, writing
from tests.apiserver.writes import SlowStorage, make_world, widget


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
