"""The lean event loop does what asyncio's own loop does, in the same order; it only takes fewer calls."""

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from levelset.testing.lean_loop import LeanLoop


class _Clock:
    """A clock that stands still until a loop would wait, in place of a selector's wait."""

    now = 0.0


def _in_virtual_time(loop: Any) -> Any:
    clock, selector = _Clock(), loop._selector

    def select(timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "the program has ended"
        clock.now += timeout
        return []

    selector.select = select
    loop.time = lambda: clock.now
    loop._clock_resolution = 1e-9
    return loop


class _Program:
    """Callbacks, timers and tasks that schedule and cancel others by random numbers; `log` is the order of all."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seed: int) -> None:
        self.log: list[tuple[float, str]] = []
        self._loop = loop
        self._random = Random(seed)
        self._handles: list[asyncio.Handle] = []
        self._left = 1500

    def step(self, name: str) -> None:
        self.log.append((self._loop.time(), name))
        for number in range(self._random.choice((0, 1, 1, 2, 3))):
            self._schedule(f"{name[-20:]}.{number}")
        if self._random.random() < 0.3 and self._handles:
            self._handles.pop(self._random.randrange(len(self._handles))).cancel()
        if self._random.random() < 0.02:
            raise ValueError(name)

    async def work(self, name: str) -> None:
        self.log.append((self._loop.time(), name))
        await asyncio.sleep(self._random.choice((0, 0, 1.0, 2.5)))
        self.step(name)

    def _schedule(self, name: str) -> None:
        self._left -= 1
        if self._left < 0:
            return
        # Few different times: most timers are due at the same moment as others.
        delay = self._random.choice((0.0, 1.0, 1.0, 2.0, 50.0, 200_000.0))
        match self._random.randrange(4):
            case 0:
                self._handles.append(self._loop.call_soon(self.step, f"soon {name}"))
            case 1:
                self._handles.append(self._loop.call_later(delay, self.step, f"later {name}"))
            case 2:
                self._handles.append(self._loop.call_at(self._loop.time() + delay, self.step, f"at {name}"))
            case _:
                task = self._loop.create_task(self.work(f"task {name}"), name=f"task {name}")
                task.add_done_callback(lambda one: self.log.append((self._loop.time(), f"done {one.get_name()}")))


async def _run(program: _Program) -> None:
    loop = asyncio.get_running_loop()
    for number in range(150):
        loop.call_later(number % 3, program.step, str(number))
    await asyncio.sleep(1_000_000.0)


def _play(loop: asyncio.AbstractEventLoop, seed: int) -> list[tuple[float, str]]:
    errors: list[str] = []
    loop.set_exception_handler(lambda _loop, context: errors.append(str(context.get("exception"))))
    program = _Program(loop, seed)
    try:
        loop.run_until_complete(_run(program))
    finally:
        loop.close()
    return [*program.log, *((-1.0, one) for one in errors)]


@pytest.mark.parametrize("seed", range(12))
def test_runs_the_same_callbacks_in_the_same_order_as_asyncio(seed: int) -> None:
    ours = _play(_in_virtual_time(LeanLoop()), seed)
    theirs = _play(_in_virtual_time(asyncio.SelectorEventLoop()), seed)
    assert len(ours) > 300
    assert ours == theirs


@pytest.fixture
def loop() -> Iterator[LeanLoop]:
    made = LeanLoop()
    yield made
    made.close()


def test_reports_an_error_to_the_exception_handler_and_goes_on(loop: LeanLoop) -> None:
    reported: list[Any] = []
    loop.set_exception_handler(lambda _loop, context: reported.append((str(context["exception"]), context["message"])))
    ran: list[str] = []

    def fail() -> None:
        raise ValueError("no such thing")

    loop.call_soon(fail)
    loop.call_soon(ran.append, "after")
    loop.run_until_complete(asyncio.sleep(0))
    assert ran == ["after"]
    assert reported[0][0] == "no such thing"
    assert "fail" in reported[0][1]


def test_an_interrupt_ends_the_loop(loop: LeanLoop) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    loop.call_soon(interrupt)
    waiting = loop.create_task(asyncio.sleep(1.0))
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(waiting)
    waiting.cancel()
    loop.run_until_complete(asyncio.wait([waiting]))


def test_refuses_callbacks_once_it_is_closed() -> None:
    loop = LeanLoop()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(print)
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(1.0, print)
    waiting = asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="closed"):
        loop.create_task(waiting).cancel()
    waiting.close()


def test_in_debug_mode_an_error_shows_where_its_callback_was_scheduled(loop: LeanLoop) -> None:
    reported: list[Any] = []
    loop.set_debug(True)
    loop.set_exception_handler(lambda _loop, context: reported.append(context["handle"]))
    loop.call_soon(int, "no number")
    loop.call_later(0.0, int, "no number")
    loop.run_until_complete(asyncio.sleep(0.01))
    assert [__file__ in repr(one) for one in reported] == [True, True]


def test_a_task_factory_makes_the_tasks(loop: LeanLoop) -> None:
    made: list[str] = []

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> "asyncio.Task[Any]":
        made.append(coro.__name__)
        return asyncio.Task(coro, loop=loop, **options)

    loop.set_task_factory(factory)

    async def main() -> str:
        return await asyncio.create_task(asyncio.sleep(0, "done"), name="inner")

    assert loop.run_until_complete(main()) == "done"
    assert made == ["main", "sleep"]
