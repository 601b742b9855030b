"""An event loop whose time is virtual: when nothing can run, the clock jumps to the next timer instead of waiting.

```python
async def nap() -> float:
    await asyncio.sleep(3600)
    return asyncio.get_running_loop().time()


assert run(nap()) == 3600.0  # at once
```

Who waits, and where: what is said of the tasks of a loop that will never go on.

Threads under virtual time: the loop stands still while one works, and their results come in the order of asking.

What a loop in virtual time refuses, and what it says to whoever tries.
"""

import asyncio
import contextlib
import functools
import inspect
import math
import select
import selectors
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent import futures
from concurrent.futures import Executor
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn, ParamSpec, TypeVar, TypeVarTuple, Unpack

from levelset.errors import ConfigError

__all__ = [
    "REFUSED",
    "Jobs",
    "RealTime",
    "RealWork",
    "Stuck",
    "VirtualLoop",
    "describe_tasks",
    "refusal",
    "run",
    "virtual",
]

_MOST: Final = 20


class Stuck(RuntimeError):
    """Nothing can happen any more, and yet somebody waits; the message says who, and where."""


def describe_tasks(loop: asyncio.AbstractEventLoop) -> str:
    """A line for each task that is not done, with the innermost line of ours or the user's in which it waits."""
    tasks = sorted(asyncio.all_tasks(loop), key=_order)
    if not tasks:
        return ""
    lines = [f"  {task.get_name()} waits in {_place(task)}" for task in tasks[:_MOST]]
    if len(tasks) > _MOST:
        lines.append(f"  and {len(tasks) - _MOST} more")
    return ":\n" + "\n".join(lines)


def _order(task: "asyncio.Task[Any]") -> tuple[int, str]:
    """The tasks in the order in which they were made, as far as their names tell."""
    name = task.get_name()
    number = name.removeprefix("Task-")
    return (int(number), "") if number.isdigit() else (1_000_000_000, name)


def _place(task: "asyncio.Task[Any]") -> str:
    frames = list(_frames(task.get_coro()))
    if not frames:
        return "a place that cannot be seen"
    told = [one for one in frames if not _is_library(one)] or frames
    inner = told[-1]
    return f"{inner.f_code.co_qualname} ({Path(inner.f_code.co_filename).name}:{inner.f_lineno})"


def _frames(awaited: Any) -> Iterator[FrameType]:
    """The frames of a coroutine that waits, the outermost first."""
    while awaited is not None:
        if inspect.iscoroutine(awaited):
            frame, awaited = awaited.cr_frame, awaited.cr_await
        elif inspect.isgenerator(awaited):
            frame, awaited = awaited.gi_frame, awaited.gi_yieldfrom
        elif inspect.isasyncgen(awaited):
            frame, awaited = awaited.ag_frame, awaited.ag_await
        else:
            return
        if frame is not None:
            yield frame


def _is_library(frame: FrameType) -> bool:
    return "/asyncio/" in frame.f_code.co_filename.replace("\\", "/")


T = TypeVar("T")

_PATIENCE: Final = 10.0
"""Real seconds after which a thread is taken to wait for the very loop that waits for it."""


class Jobs:
    """Functions that were handed to threads, one thread for all of them unless somebody brings an executor."""

    def __init__(self) -> None:
        self._pool: futures.ThreadPoolExecutor | None = None
        self._waiting: list[tuple[asyncio.Future[Any], futures.Future[Any], Callable[..., Any]]] = []
        self._bell: tuple[socket.socket, socket.socket] | None = None

    @property
    def are_waiting(self) -> bool:
        """Whether results have yet to be given to those who wait for them."""
        return bool(self._waiting)

    def add(
        self,
        loop: asyncio.AbstractEventLoop,
        executor: futures.Executor | None,
        func: Callable[..., T],
        *args: Any,
    ) -> "asyncio.Future[T]":
        """What the function gives; it begins at once."""
        if self._bell is None:
            self._bell = socket.socketpair()
            for end in self._bell:
                end.setblocking(False)
        if executor is None:
            executor = self._pool = self._pool or futures.ThreadPoolExecutor(1, "virtual-time")
        given: asyncio.Future[T] = loop.create_future()
        job = executor.submit(func, *args)
        self._waiting.append((given, job, func))
        job.add_done_callback(self._ring)
        return given

    def finish(self) -> None:
        """Waits for all of them, and hands out what they gave; Stuck if one does not come to its end."""
        until = time.monotonic() + _PATIENCE
        while not all(job.done() for _, job, _ in self._waiting):
            self._listen(until)
        waiting, self._waiting = self._waiting, []
        for given, job, _ in waiting:
            if not given.done():
                _pass_on(job, given)

    def close(self) -> None:
        """Ends the thread."""
        for _, job, _ in self._waiting:
            job.cancel()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        for end in self._bell or ():
            end.close()
        self._bell = None

    def _ring(self, _: "futures.Future[Any]") -> None:
        # Closed, or full of rings that nobody has heard yet: either way there is nothing to add.
        with contextlib.suppress(OSError):
            if self._bell is not None:
                self._bell[1].send(b".")

    def _listen(self, until: float) -> None:
        assert self._bell is not None, "who waits has been added"
        if not select.select([self._bell[0]], [], [], max(0.0, until - time.monotonic()))[0]:
            names = ", ".join(_name(func) for _, job, func in self._waiting if not job.done())
            raise Stuck(
                f"a thread has worked for {_PATIENCE:g} real seconds at {names}: in virtual time the loop stands still "
                "meanwhile, and the thread must not wait for it"
            )
        self._bell[0].recv(4096)


def _name(func: Any) -> str:
    wrapped: tuple[Any, ...] = getattr(func, "args", ())  # as `to_thread` does it
    return str(getattr(wrapped[0] if wrapped else func, "__qualname__", func))


def _pass_on(job: "futures.Future[Any]", given: "asyncio.Future[Any]") -> None:
    if job.cancelled():
        given.cancel()
    elif (error := job.exception()) is not None:
        given.set_exception(error)
    else:
        given.set_result(job.result())


_INSIDE: Final = "give an object of this process to whoever needs it (`Client.connect(server)` needs no socket)"
_PROCESS: Final = (
    "hand the part that starts it to your code as a function or an object, and give another one in the test"
)

REFUSED: Final = {
    "add_reader": ("a file descriptor", _INSIDE),
    "add_writer": ("a file descriptor", _INSIDE),
    "connect_accepted_socket": ("a socket", _INSIDE),
    "connect_read_pipe": ("a pipe", _INSIDE),
    "connect_write_pipe": ("a pipe", _INSIDE),
    "create_connection": ("a connection", _INSIDE),
    "create_datagram_endpoint": ("a datagram socket", _INSIDE),
    "create_server": ("a listening socket", _INSIDE),
    "create_unix_connection": ("a connection", _INSIDE),
    "create_unix_server": ("a listening socket", _INSIDE),
    "getaddrinfo": ("a name lookup", _INSIDE),
    "getnameinfo": ("a name lookup", _INSIDE),
    "sendfile": ("a socket", _INSIDE),
    "sock_accept": ("a socket", _INSIDE),
    "sock_connect": ("a socket", _INSIDE),
    "sock_recv": ("a socket", _INSIDE),
    "sock_recv_into": ("a socket", _INSIDE),
    "sock_recvfrom": ("a socket", _INSIDE),
    "sock_recvfrom_into": ("a socket", _INSIDE),
    "sock_sendall": ("a socket", _INSIDE),
    "sock_sendfile": ("a socket", _INSIDE),
    "sock_sendto": ("a socket", _INSIDE),
    "start_tls": ("a connection", _INSIDE),
    "subprocess_exec": ("a process", _PROCESS),
    "subprocess_shell": ("a process", _PROCESS),
}
"""Methods of an event loop that wait for the world outside: what they open, and what to do instead."""


class RealTime(ConfigError):
    """Something was asked that only virtual time can do."""


class RealWork(ConfigError):
    """Something was asked of the world outside while time was virtual."""


def refusal(name: str) -> Callable[..., NoReturn]:
    """A method that refuses to do what the one of this name does, and says why."""
    what, instead = REFUSED[name]

    def refuse(*args: Any, **_: Any) -> NoReturn:
        raise RealWork(
            f"{name}({_shown(args)}): {what} needs real time, and time is virtual here: the clock jumps on before any "
            f"answer can come. Either {instead}, or take real time for this test: @pytest.mark.real_time"
        )

    return refuse


def _shown(args: tuple[Any, ...]) -> str:
    """The arguments that say something to a person."""
    told = [repr(one) for one in args if isinstance(one, str | bytes | int)]
    return ", ".join(told)[:200]


P = ParamSpec("P")
R = TypeVar("R")

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
