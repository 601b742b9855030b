"""An event loop for tests that never waits: when nothing is ready, its clock jumps to the next timer."""

import asyncio
import math
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["VirtualLoop", "VirtualPolicy", "run"]

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at 0.0 seconds. Code that would wait for ever fails at once instead."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    @property
    def _clock_resolution(self) -> float:
        """How early a timer may ring: not at all. Whoever waits for the exact time would else be rung for ever."""
        return math.ulp(self._jumping.now)

    @_clock_resolution.setter
    def _clock_resolution(self, value: float) -> None:
        """Takes no notice of what asyncio says of the real clock."""


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


class VirtualPolicy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return VirtualLoop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end on a loop of its own: one example of a property test."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
