"""Event loops with virtual time for tests with real files and processes: timers are skipped, threads are awaited.

While a thread works for the loop, time does not advance. If only a process is left to wait for, the loop really waits.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

__all__ = ["SkippingLoop", "VirtualTimeLoop", "skipping", "virtual_time"]


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Selector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]  # any function
        future = super().run_in_executor(executor, func, *args)
        self._jumping.threads += 1
        future.add_done_callback(self._finished)
        return future

    def _finished(self, _: Any) -> None:
        self._jumping.threads -= 1

    async def shutdown_default_executor(self, *_: Any) -> None:
        # Newer Pythons have a timeout for the threads, which virtual time would skip.
        self._jumping.threads += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._jumping.threads -= 1


class _Selector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if self.threads or timeout is None:
            return super().select(10)
        ready = super().select(0)
        if not ready:
            self.now += timeout
        return ready


def virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs an async test on such a loop of its own."""

    @functools.wraps(test)
    def running(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*args, **kwargs))

    return running


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop in real time that a test can advance."""

    skipped = 0.0

    def time(self) -> float:
        return super().time() + self.skipped


def skipping(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs an async test on such a loop; the test is called with `skip=`, a function of seconds."""

    def running(tmp_path: Path) -> None:
        with asyncio.Runner(loop_factory=SkippingLoop) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, SkippingLoop)

            def skip(seconds: float) -> None:
                loop.skipped += seconds

            runner.run(test(tmp_path, skip))

    running.__name__, running.__doc__ = test.__name__, test.__doc__
    return running
