"""An event loop in virtual time: when no task can run, the clock jumps to the next timer instead of waiting.

```python
async def nap() -> float:
    await asyncio.sleep(3600)
    return asyncio.get_running_loop().time()


assert run(nap()) == 3600.0  # at once
```

The loop stops while a thread of `asyncio.to_thread` works, and results arrive in the order of submission, so that runs
are deterministic. Sockets, pipes and subprocesses are refused (`REFUSED`), and so are threads of one's own that call
into the loop. A loop that can never continue raises `Stuck`, with the place in which each task waits; one that never
lets time pass raises `HotLoop`, with the tasks that run.
"""

import asyncio
import contextlib
import functools
import inspect
import math
import os
import select
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Executor
from contextvars import Context
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn, ParamSpec, TypeVar, TypeVarTuple, Unpack

from levelset.errors import ConfigError
from levelset.testing.lean_loop import LeanLoop

__all__ = [
    "REFUSED",
    "HotLoop",
    "RealTime",
    "RealWork",
    "Stuck",
    "ThreadJobs",
    "VirtualLoop",
    "describe_tasks",
    "refusal",
    "run",
    "virtual",
]

_MOST: Final = 20


class Stuck(RuntimeError):
    """All tasks wait for something that cannot happen; the message names each task and where it waits.

    What to do: read the list of tasks in the message: one waits for an event, a lock or a queue that nothing sets, or
    time must be let pass with `advance`.
    """


class HotLoop(RuntimeError):
    """Tasks run for ever while virtual time stands still; the message names them, and the reconciles they make.

    What to do: wait for something in the loop that the message shows, or end it: a reconciler that writes in each
    reconcile what causes the next one has to compare before it writes.
    """


def describe_tasks(loop: asyncio.AbstractEventLoop) -> str:
    """A line for each pending task, with the innermost frame outside of asyncio in which it waits."""
    tasks = sorted(asyncio.all_tasks(loop), key=_order)
    if not tasks:
        return ""
    lines = [f"  {task.get_name()} waits in {_place(task)}" for task in tasks[:_MOST]]
    if len(tasks) > _MOST:
        lines.append(f"  and {len(tasks) - _MOST} more")
    return ":\n" + "\n".join(lines)


def _order(task: "asyncio.Task[Any]") -> tuple[int, str]:
    """A sort key: the order of creation for default names (`Task-7`), then by name."""
    name = task.get_name()
    number = name.removeprefix("Task-")
    return (int(number), "") if number.isdigit() else (1_000_000_000, name)


def _place(task: "asyncio.Task[Any]") -> str:
    frames = list(_frames(task.get_coro()))
    if not frames:
        return "an unknown place"
    shown = [one for one in frames if not _is_library(one)] or frames
    inner = shown[-1]
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
"""Real seconds without work after which a thread is assumed to wait for the loop, which waits for the thread."""
_WORK: Final = 0.01
"""The share of a core that the process uses at least while a thread works: on a busy machine it does not get more."""
_MAX_PATIENCE: Final = 300.0
"""Real seconds after which a thread is assumed to wait for the loop in any case."""
_PATIENCE_DAEMON: Final = 1.0
"""Real seconds after which a daemon thread is taken for one that does not concern the loop."""
_POLL: Final = 0.01


class ThreadJobs:
    """Functions that run in threads: one shared thread, unless the caller passes an executor."""

    def __init__(self) -> None:
        self._pool: futures.ThreadPoolExecutor | None = None
        self.waiting: list[tuple[asyncio.Future[Any], futures.Future[Any], Callable[..., Any]]] = []
        """The functions whose results have not been delivered yet."""
        self._wakeup: tuple[socket.socket, socket.socket] | None = None
        self.threads: set[threading.Thread] = set()
        """The threads that have worked."""

    @property
    def is_pending(self) -> bool:
        """Whether results have not been delivered yet."""
        return bool(self.waiting)

    def add(
        self,
        loop: asyncio.AbstractEventLoop,
        executor: futures.Executor | None,
        func: Callable[..., T],
        *args: Any,
    ) -> "asyncio.Future[T]":
        """Starts the function at once; returns a future for its result."""
        if self._wakeup is None:
            self._wakeup = socket.socketpair()
            for end in self._wakeup:
                end.setblocking(False)
        if executor is None:
            executor = self._pool = self._pool or futures.ThreadPoolExecutor(1, "virtual-time")
        given: asyncio.Future[T] = loop.create_future()
        job = executor.submit(self._work, func, *args)
        self.waiting.append((given, job, func))
        job.add_done_callback(self._notify)
        return given

    def finish(self) -> None:
        """Waits for all functions and delivers their results in order; Stuck if one does not finish."""
        began = time.monotonic()
        while not all(job.done() for _, job, _ in self.waiting):
            self._wait_notified(began)
        waiting, self.waiting = self.waiting, []
        for given, job, _ in waiting:
            if not given.done():
                _deliver(job, given)

    def _work(self, func: Callable[..., T], *args: Any) -> T:
        self.threads.add(threading.current_thread())
        return func(*args)

    def close(self) -> None:
        """Stops the thread."""
        for _, job, _ in self.waiting:
            job.cancel()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        for end in self._wakeup or ():
            end.close()
        self._wakeup = None

    def _notify(self, _: "futures.Future[Any]") -> None:
        # The socket is closed, or its buffer is full of unread notifications: nothing to add in either case.
        with contextlib.suppress(OSError):
            if self._wakeup is not None:
                self._wakeup[1].send(b".")

    def _wait_notified(self, began: float) -> None:
        assert self._wakeup is not None, "add() creates the sockets"
        worked = time.process_time()
        while not select.select([self._wakeup[0]], [], [], _PATIENCE)[0]:
            before, worked = worked, time.process_time()
            passed = time.monotonic() - began
            has_worked = worked - before >= _WORK * _PATIENCE or any(map(_is_runnable, list(self.threads)))
            if not has_worked or passed > _MAX_PATIENCE:
                names = ", ".join(_name(func) for _, job, func in self.waiting if not job.done())
                raise Stuck(
                    f"a thread has been running {names} for {passed:.3g} real seconds: in virtual time the loop stops "
                    "while a thread runs, so a thread must not wait for the loop"
                )
        self._wakeup[0].recv(4096)


def _is_runnable(thread: threading.Thread) -> bool:
    """Whether a thread runs, or would if a processor were free, and waits for nothing else; only Linux tells."""
    try:
        # A file that the kernel generates when it is read: this never waits for a disk.
        descriptor = os.open(f"/proc/self/task/{thread.native_id}/stat", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.read(descriptor, 4096).rpartition(b")")[2].split()[0] == b"R"
    except (OSError, IndexError):
        return False
    finally:
        os.close(descriptor)


def _name(func: Any) -> str:
    wrapped: tuple[Any, ...] = getattr(func, "args", ())  # as `to_thread` does it
    return str(getattr(wrapped[0] if wrapped else func, "__qualname__", func))


def _deliver(job: "futures.Future[Any]", given: "asyncio.Future[Any]") -> None:
    if job.cancelled():
        given.cancel()
    elif (error := job.exception()) is not None:
        given.set_exception(error)
    else:
        given.set_result(job.result())


_INSIDE: Final = "pass an in-process object instead (`Client.connect(server)` needs no socket)"
_PROCESS: Final = "pass the part that starts it to your code as a function or an object, and replace it in the test"

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
"""Methods of an event loop that need real I/O: what they open, and what to do instead."""


class RealTime(ConfigError):
    """An operation needs virtual time, but time is real.

    What to do: remove `@pytest.mark.real_time` from the test, or do not use `advance` in it.
    """


class RealWork(ConfigError):
    """An operation needs real I/O, but time is virtual.

    What to do: connect to the server of the test, use `asyncio.to_thread` for blocking code, or mark the test with
    `@pytest.mark.real_time`.
    """


def refusal(name: str) -> Callable[..., NoReturn]:
    """A replacement for a method of the loop that raises RealWork."""
    what, instead = REFUSED[name]

    def refuse(*args: Any, **_: Any) -> NoReturn:
        raise RealWork(
            f"{name}({_shown(args)}): {what} needs real time, and time is virtual here: the clock would jump ahead "
            f"before a response arrives. Either {instead}, or run this test in real time: @pytest.mark.real_time"
        )

    return refuse


def _shown(args: tuple[Any, ...]) -> str:
    """The readable arguments of a call."""
    shown = [repr(one) for one in args if isinstance(one, str | bytes | int)]
    return ", ".join(shown)[:200]


_REFUSALS: Final = {name: refusal(name) for name in REFUSED}
P = ParamSpec("P")
R = TypeVar("R")

Ts = TypeVarTuple("Ts")

_DAY: Final = 86400.0
_MOST_ROUNDS: Final = 100_000
"""Rounds of the loop in one instant, without progress, that are a hot loop: a second or two, however slow each is."""
_SAMPLED: Final = 100
"""In how many of the last rounds the running tasks are counted."""
_UNPOLLED: Final = _MOST_ROUNDS - _SAMPLED
_MOST_HOT: Final = 5


class VirtualLoop(LeanLoop):
    """An event loop that starts at 0.0 seconds and never waits.

    Real I/O (sockets, pipes, processes, name lookups) raises RealWork: the clock would jump ahead of it. Threads are
    allowed: the loop stops while one works, so that the order of events is deterministic. Code that would wait for ever
    fails at once with Stuck, and so does code that lets more time pass than `limit`.

    `sockets` allows real I/O, for tests of transports: then the clock jumps while bytes are in flight, so await data
    without a timeout.
    """

    _csock: Any = None
    """The end of the pipe to which asyncio writes, if there is one."""
    is_polled = False
    """Whether there is something to poll: sockets, or the pipe for signals."""

    def __init__(self, *, limit: float = math.inf, sockets: bool = False) -> None:
        self._jumping = _JumpingSelector(self)
        self.has_sockets = sockets
        """Whether real I/O is allowed."""
        super().__init__(self._jumping)
        self.advance_clock(0.0)
        self.limit = limit
        """The time at which the loop raises Stuck; `advance` of a cluster extends it."""
        self.jobs = ThreadJobs()
        self.unpolled = 0 if sockets else _UNPOLLED
        self._known: set[threading.Thread] = set()
        """The threads that ran already when the loop was started, or that do not concern it."""
        if not sockets:
            vars(self).update(_REFUSALS)

    def _make_self_pipe(self) -> None:
        # asyncio's loops have a pipe by which threads and signals wake them. This one never waits, so only signals need
        # it, and to open one costs more than all else of a new loop.
        if self.has_sockets:
            self._open_pipe()

    def _open_pipe(self) -> None:
        super()._make_self_pipe()  # type: ignore[misc]  # of asyncio's selector loops
        self.is_polled = True

    def _close_self_pipe(self) -> None:
        if self.is_polled:
            super()._close_self_pipe()  # type: ignore[misc]  # as above

    def add_signal_handler(self, sig: int, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        """As of every loop."""
        if not self.is_polled:
            self._open_pipe()
        super().add_signal_handler(sig, callback, *args)

    def time(self) -> float:
        """The virtual time, in seconds."""
        return self._jumping.now

    def advance_clock(self, seconds: float) -> None:
        """Advances the virtual time; a timer fires at most one ulp early.

        With more, as asyncio has it for real clocks, code that waits for an exact time would spin for ever.
        """
        self._jumping.now += seconds
        self._clock_resolution = math.ulp(self._jumping.now)

    async def idle(self) -> None:
        """Waits until no task can run before time advances."""
        waiter: asyncio.Future[None] = self.create_future()
        self._jumping.idlers.append(waiter)
        await waiter

    async def jump(self, until: float) -> None:
        """Waits for one jump of the clock: to the next timer, or to `until` if that comes first."""
        timer = self.call_at(until, _nothing)
        waiter: asyncio.Future[None] = self.create_future()
        self._jumping.jumpers.append(waiter)
        try:
            await waiter
        finally:
            timer.cancel()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        """Runs the function in a thread; the loop stops until it returns."""
        self.unpolled = 0
        return self.jobs.add(self, executor, func, *args)

    def run_forever(self) -> None:
        """Runs until stopped; threads that are started meanwhile may not call into the loop."""
        self._known = set(threading.enumerate())
        super().run_forever()

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As of every loop, for the thread of the loop and while the loop waits for threads; else raises RealWork.

        Then the loop fails, too: the clock may have jumped while the thread worked.
        """
        if self._is_foreign_thread():
            error = RealWork(
                f"the thread {threading.current_thread().name!r} calls into the loop, and time is virtual here: the "
                "clock does not wait for a thread of your own. Either run its work with asyncio.to_thread, or run this "
                "test in real time: @pytest.mark.real_time"
            )
            self.fail(error)
            raise error
        return super().call_soon_threadsafe(callback, *args, context=context)

    def _is_foreign_thread(self) -> bool:
        """Whether the loop runs in another thread, and does not wait for this one."""
        if self.has_sockets or vars(self)["_thread_id"] in {None, threading.get_ident()}:
            return False
        return not self.jobs.is_pending and threading.current_thread() not in self.jobs.threads

    def wait_threads(self) -> None:
        """Waits in real time for threads that were started while the loop runs, before the clock jumps.

        Most end, or call in and are refused. RealWork if one still runs after ten seconds; a daemon thread is taken for
        one that does not concern the loop after one second.
        """
        for thread in () if self.has_sockets else threading.enumerate():
            if thread not in self._known:
                self._known.add(thread)
                if thread not in self.jobs.threads:
                    self._wait_thread(thread)

    def _wait_thread(self, thread: threading.Thread) -> None:
        until = time.monotonic() + (_PATIENCE_DAEMON if thread.daemon else _PATIENCE)
        while thread.is_alive() and self._jumping.failure is None and time.monotonic() < until:
            self._jumping.pause(_POLL)
        if thread.is_alive() and self._jumping.failure is None and not thread.daemon:
            self.fail(
                RealWork(
                    f"the thread {thread.name!r} has been running for {_PATIENCE:g} real seconds, and time is virtual "
                    "here: the clock does not wait for a thread of your own. Run its work with asyncio.to_thread, make "
                    "it a daemon if it does not concern the loop, or run this test in real time: @pytest.mark.real_time"
                )
            )

    def end_tasks(self) -> None:
        """Cancels the tasks that are left and waits for them, and closes asynchronous generators."""
        if left := asyncio.all_tasks(self):
            for task in left:
                task.cancel()
            self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            for task in left:
                if not task.cancelled() and (error := task.exception()) is not None:
                    message = "a task failed when it was cancelled at the end"
                    self.call_exception_handler({"message": message, "exception": error, "task": task})
        if vars(self)["_asyncgens"]:
            self.run_until_complete(self.shutdown_asyncgens())

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """As of every loop, but for interrupts: `run` has raised them, although no one awaits the task they ended."""
        if not isinstance(context.get("exception"), KeyboardInterrupt | SystemExit):
            super().call_exception_handler(context)

    def close(self) -> None:
        """Closes the loop and stops its thread."""
        self.jobs.close()
        super().close()

    def note_progress(self) -> None:
        """Starts the count of rounds in the current instant again; without it, many of them are a HotLoop."""
        self.rounds = 0

    def fail(self, error: Exception) -> None:
        """Stops the loop with this error, which `run` then raises."""
        self._jumping.failure = error
        self.unpolled = 0

    def ready_tasks(self) -> "Iterator[asyncio.Task[Any]]":
        """The tasks that run in the next round."""
        ready: Sequence[Any] = tuple(vars(self)["_ready"])
        for handle in ready:
            # asyncio has no other way from a scheduled callback to its task; its own debug output does the same.
            task = getattr(handle._callback, "__self__", None)
            if isinstance(task, asyncio.Task):
                yield task

    @property
    def is_ready(self) -> bool:
        """Whether a callback can run now: a thread may have added one."""
        return bool(self._ready)

    def settle_jobs(self) -> bool:
        """Waits for all threads; returns whether there were any, so that their results are being delivered."""
        if not self.jobs.is_pending:
            return False
        self.jobs.finish()
        self.unpolled = 0 if self.has_sockets else _UNPOLLED
        return True


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that advances the virtual clock where others would wait."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.now = 0.0
        self.idlers: list[asyncio.Future[None]] = []
        self.jumpers: list[asyncio.Future[None]] = []
        self.failure: Exception | None = None
        self._loop = loop
        self._hot: Counter[asyncio.Task[Any]] = Counter()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        loop = self._loop
        if self.failure is not None or loop.rounds > _UNPOLLED:
            self._check_rounds()
        had_jobs = bool(loop.jobs.waiting) and loop.settle_jobs()
        if timeout == 0 and not loop.has_sockets:
            return []  # tasks are ready, and nothing else can be
        ready = super().select(0) if loop.is_polled else []
        if not ready and not had_jobs and not loop.is_ready and (timeout is None or timeout > 0):
            self._loop.wait_threads()
            if self.failure is not None:
                self._check_rounds()
            if not _wake(self.idlers):
                self._jump(timeout)
                _wake(self.jumpers)
        return ready

    def pause(self, seconds: float) -> None:
        """Waits in real time."""
        super().select(seconds)

    def _jump(self, timeout: float | None) -> None:
        if timeout is None:
            raise Stuck(f"every task waits for something that cannot happen{describe_tasks(self._loop)}")
        if self.now + timeout > self._loop.limit:
            raise Stuck(
                f"{_words(self._loop.limit)} of virtual time have passed: a task waits for something that does not "
                "happen; to let time pass on purpose, use `advance` of a cluster"
                f"{describe_tasks(self._loop)}"
            )
        self._loop.advance_clock(timeout)
        self._loop.rounds = 0

    def _check_rounds(self) -> None:
        """Raises the error that stops the loop, or HotLoop with the tasks of the last rounds if there are too many."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        self._hot.update(self._loop.ready_tasks())
        if self._loop.rounds >= _MOST_ROUNDS:
            hot, self._hot, self._loop.rounds = self._hot, Counter(), 0
            tasks = "".join(f"\n  {task.get_name()} in {_place(task)}" for task, _ in hot.most_common(_MOST_HOT))
            raise HotLoop(
                f"tasks ran for {_MOST_ROUNDS} rounds of the event loop while virtual time stood still at "
                f"{self.now:.3f} s: it would never end; the tasks that run and never wait{':' if tasks else ''}{tasks}"
            )


def _wake(waiting: "list[asyncio.Future[None]]") -> bool:
    """Wakes all waiters; returns whether there were any."""
    woken = [one for one in waiting if not one.done()]
    waiting.clear()
    for one in woken:
        one.set_result(None)
    return bool(woken)


def _nothing() -> None:
    """The callback of a timer that only bounds a jump."""


def _words(seconds: float) -> str:
    return f"{seconds / _DAY:g} days" if seconds >= _DAY else f"{seconds:g} seconds"


def run(main: Coroutine[Any, Any, T], /, *, limit: float = math.inf, sockets: bool = False) -> T:
    """Runs a coroutine in virtual time on its own loop, as `asyncio.run` does; see VirtualLoop for the options.

    An interrupt of the program is raised where it arrives: the loop never waits for one.
    """
    loop = VirtualLoop(limit=limit, sockets=sockets)
    try:
        return loop.run_until_complete(main)
    finally:
        try:
            loop.end_tasks()
        finally:
            loop.close()


def virtual(test: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """Decorates an async test to run in virtual time on its own loop; it must not leave tasks behind."""

    @functools.wraps(test)
    def running(*args: P.args, **kwargs: P.kwargs) -> R:
        return run(_checked(test(*args, **kwargs)))

    return running


async def _checked(test: Coroutine[Any, Any, R]) -> R:
    result = await test
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"still running after the test: {sorted(task.get_name() for task in left)}"
    return result
