"""Virtual time for tests with real sockets: each test awaits what must arrive before it advances time."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from levelset.testing.virtual_time import run

__all__ = ["virtual"]


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs an async test on its own virtual loop with real sockets; no task may be left behind."""

    @functools.wraps(test)
    def running(*args: Any, **kwargs: Any) -> None:
        run(_checked(test(*args, **kwargs)), sockets=True)

    return running


async def _checked(test: Coroutine[Any, Any, None]) -> None:
    await test
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"still running after the test: {[task.get_name() for task in left]}"
