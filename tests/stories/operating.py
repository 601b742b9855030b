"""Runs an operator in the world of a story, as one process would: a client, a cluster and a manager of its own."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from levelset import Controller, Manager
from levelset.aio import timing
from levelset.client import Hook
from tests.stories.world import World

__all__ = ["operating", "until"]


@asynccontextmanager
async def operating(
    world: World, *controllers: Controller[Any], who: str = "operator", hooks: tuple[Hook, ...] = (), **options: Any
) -> AsyncGenerator[Manager, None]:
    """A manager that runs these controllers with a client of its own."""
    async with await world.client(who, *hooks) as client, Manager(client, health=None, **options) as manager:
        for one in controllers:
            manager.add(one)
        yield manager


async def until(is_so: Callable[[], Awaitable[bool]], *, within: float, every: float = 1.0) -> float:
    """Looks again and again until something is so; gives when it was."""
    end = timing.now() + within
    while not await is_so():
        assert timing.now() < end, f"this is not so after {within:g} seconds"
        await asyncio.sleep(every)
    return timing.now()
