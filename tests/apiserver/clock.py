"""Virtual time for tests: a loop that never waits, whose clock jumps to the next timer when nothing is ready."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["VirtualLoop", "virtual"]


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at 0.0 seconds. Code that would wait for ever fails at once instead."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("every task waits for something that cannot happen any more")
        if not ready and timeout is not None and timeout > 0:
            self.now += timeout
        return ready


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs an async test on a virtual loop of its own; no task may be left behind."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(_checked(test(*args, **kwargs)))

    return run


async def _checked(test: Coroutine[Any, Any, None]) -> None:
    await test
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"still running after the test: {[task.get_name() for task in left]}"
