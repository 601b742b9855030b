"""An event loop whose time is virtual: when nothing can run, the clock jumps to the next timer instead of waiting.

```python
async def nap() -> float:
    await asyncio.sleep(3600)
    return asyncio.get_running_loop().time()


assert run(nap()) == 3600.0  # at once
```
"""

import asyncio
import functools
import math
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Final, ParamSpec, TypeVar, TypeVarTuple, Unpack

from levelset.testing.refusing import REFUSED, refusal
from levelset.testing.stuck import Stuck, describe_tasks
from levelset.testing.threads import Jobs

__all__ = ["VirtualLoop", "run", "virtual"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_DAY: Final = 86400.0


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at 0.0 seconds, and never waits.

    Whatever needs the world outside (sockets, pipes, processes, name lookups) is refused with an explanation: the clock
    would run away from it. Threads are allowed: while one works, everything here stands still, so that the order of
    events is the same each time. Code that would wait for ever fails at once with Stuck, which says who waits where;
    so does code that lets more time pass than `limit`.

    With `sockets` the world outside is let in, for tests of transports: then the clock jumps while bytes are on their
    way, and what must arrive before a timer has to be awaited without one.
    """

    def __init__(self, *, limit: float = math.inf, sockets: bool = False) -> None:
        self._jumping = _JumpingSelector(self)
        super().__init__(self._jumping)
        self.limit = limit
        """The time at which somebody has waited too long; `advance` of a cluster moves it."""
        self._jobs = Jobs()
        for name in () if sockets else REFUSED:
            setattr(self, name, refusal(name))

    def time(self) -> float:
        """The virtual time, in seconds."""
        return self._jumping.now

    async def idle(self) -> None:
        """Returns when nothing can run any more without time passing."""
        waiter: asyncio.Future[None] = self.create_future()
        self._jumping.idlers.append(waiter)
        await waiter

    async def jump(self, until: float) -> None:
        """Returns when the clock has jumped once: to the next timer, or to `until` if that comes first."""
        bell = self.call_at(until, _nothing)
        waiter: asyncio.Future[None] = self.create_future()
        self._jumping.jumpers.append(waiter)
        try:
            await waiter
        finally:
            bell.cancel()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        """What the function gives, worked out in a thread; nothing else happens here meanwhile."""
        return self._jobs.add(self, executor, func, *args)

    def close(self) -> None:
        """Ends the loop, and its threads."""
        self._jobs.close()
        super().close()

    def settle_jobs(self) -> bool:
        """Returns when all threads are done; whether there were any, so that their results are on their way now."""
        if not self._jobs.are_waiting:
            return False
        self._jobs.finish()
        return True

    @property
    def _clock_resolution(self) -> float:
        """How early a timer may ring: not at all. Whoever waits for the exact time would else be rung for ever."""
        return math.ulp(self._jumping.now)

    @_clock_resolution.setter
    def _clock_resolution(self, value: float) -> None:
        """Takes no notice of what asyncio says of the real clock."""


class _JumpingSelector(selectors.DefaultSelector):
    """Says that time has passed, where another selector would wait for it to pass."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.now = 0.0
        self.idlers: list[asyncio.Future[None]] = []
        self.jumpers: list[asyncio.Future[None]] = []
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        had_jobs = self._loop.settle_jobs()
        ready = super().select(0)
        if not ready and not had_jobs and (timeout is None or timeout > 0) and not _wake(self.idlers):
            self._jump(timeout)
            _wake(self.jumpers)
        return ready

    def _jump(self, timeout: float | None) -> None:
        if timeout is None:
            raise Stuck(f"every task waits for something that cannot happen any more{describe_tasks(self._loop)}")
        if self.now + timeout > self._loop.limit:
            raise Stuck(
                f"{_words(self._loop.limit)} of virtual time have passed, and the end is not in sight: somebody waits "
                "for what does not happen, or means to let time pass, which `advance` of a cluster does"
                f"{describe_tasks(self._loop)}"
            )
        self.now += timeout


def _wake(waiting: "list[asyncio.Future[None]]") -> bool:
    """Wakes those who wait; whether there was anybody."""
    woken = [one for one in waiting if not one.done()]
    waiting.clear()
    for one in woken:
        one.set_result(None)
    return bool(woken)


def _nothing() -> None:
    """A timer that only stands for a time."""


def _words(seconds: float) -> str:
    return f"{seconds / _DAY:g} days" if seconds >= _DAY else f"{seconds:g} seconds"


def run(main: Coroutine[Any, Any, T], /, *, limit: float = math.inf, sockets: bool = False) -> T:
    """Runs a coroutine to its end in virtual time, on a loop of its own; see VirtualLoop for the options."""
    with asyncio.Runner(loop_factory=functools.partial(VirtualLoop, limit=limit, sockets=sockets)) as runner:
        return runner.run(main)


def virtual(test: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """Makes an async test run in virtual time, on a loop of its own; no task may be left behind."""

    @functools.wraps(test)
    def running(*args: P.args, **kwargs: P.kwargs) -> R:
        return run(_checked(test(*args, **kwargs)))

    return running


async def _checked(test: Coroutine[Any, Any, R]) -> R:
    result = await test
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"still running after the test: {sorted(task.get_name() for task in left)}"
    return result
