"""Runs an operator like one process would: with a client, a cluster and a manager of its own."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from levelset import Controller, Manager
from levelset.aio import timing
from levelset.client import Hook
from tests.stories.restartable_server import RestartableServer

__all__ = ["run_operator", "until"]


@asynccontextmanager
async def run_operator(
    server: RestartableServer,
    *controllers: Controller[Any],
    who: str = "operator",
    hooks: tuple[Hook, ...] = (),
    **options: Any,
) -> AsyncGenerator[Manager, None]:
    """A manager that runs these controllers with a client of its own."""
    async with await server.client(who, *hooks) as client, Manager(client, health=None, **options) as manager:
        for one in controllers:
            manager.add(one)
        yield manager


async def until(is_so: Callable[[], Awaitable[bool]], *, within: float, every: float = 1.0) -> float:
    """Polls until a condition is true; returns when that was."""
    end = timing.now() + within
    while not await is_so():
        assert timing.now() < end, f"not true after {within:g} seconds"
        await asyncio.sleep(every)
    return timing.now()
