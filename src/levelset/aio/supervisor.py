"""Supervised tasks: a `Supervisor` owns named tasks, decides about their crashes, and stops them in two steps.

`Interruption` wakes a task out of a wait and takes the cancellation back, as `asyncio.timeout` does, for any reason.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, Self

import msgspec

from levelset.aio import timing

__all__ = [
    "Crash",
    "Crashed",
    "Interruption",
    "Restart",
    "Supervisor",
    "Unstopped",
    "Verdict",
    "explain_cancellation",
]


class Interruption:
    """A section of one task that other tasks may interrupt: `enter`, wait for something, `leave`.

    In between, `interrupt` raises CancelledError in that task. `leave` returns whether this interruption was its only
    cause; only then may the task continue.
    """

    __slots__ = ("_cancels", "_interrupted", "task")

    def __init__(self) -> None:
        self.task: asyncio.Task[object] | None = None
        """The task inside the section; None if there is none."""
        self._cancels = 0  # its pending cancellations when it entered
        self._interrupted = False

    @property
    def is_cancelled(self) -> bool:
        """Whether the task was also cancelled from elsewhere since it entered."""
        return self.task is not None and self.task.cancelling() - self._interrupted > self._cancels

    def enter(self) -> None:
        """Begins the section, for the current task; no other task may be inside."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("an Interruption can only be used inside a task")
        self.task, self._cancels = task, task.cancelling()

    def interrupt(self) -> None:
        """Wakes the task inside; no effect the second time, or when called by that task itself."""
        if self.task is None or self._interrupted or self.task is asyncio.current_task():
            return
        self._interrupted = True
        self.task.cancel()

    def leave(self) -> bool:
        """Ends the section; returns whether it was interrupted, and not cancelled from elsewhere. Repeatable."""
        task, self.task = self.task, None
        if task is None or not self._interrupted:
            return False
        self._interrupted = False
        return task.uncancel() <= self._cancels


def explain_cancellation(error: asyncio.CancelledError) -> RuntimeError:
    """The failure of work that awaited something cancelled; raises the error if the current task itself is cancelled.

    For tasks that must go on: a CancelledError from inside would end them without a trace.
    """
    task = asyncio.current_task()
    if task is None or task.cancelling():
        raise error
    found = RuntimeError("something that was awaited was cancelled, but not the task that awaited it")
    found.__cause__ = error
    return found


Work = Coroutine[Any, Any, object]


class Crash(msgspec.Struct, frozen=True):
    """A task has raised an error; `count` is how often a task of that name has done so."""

    name: str
    error: Exception
    count: int


class Verdict(Enum):
    """What `on_crash` may decide, besides `Restart`."""

    STOP = auto()
    """Stop all tasks and raise the error: the default without `on_crash`."""

    CONTINUE = auto()
    """Let the other tasks continue; the error is not raised, only `on_crash` gets it."""


class Restart(msgspec.Struct, frozen=True):
    """The verdict to run the task again, `after` so many seconds."""

    after: float = 0.0


class Crashed(ExceptionGroup[Exception]):
    """Tasks of a supervisor have crashed, or could not be stopped; a note on each error names the task.

    What to do: handle the errors of the group with `except*`; correct the one that crashed first, since the others
    may follow from it.
    """

    def derive(self, excs: Sequence[Exception], /) -> "Crashed":  # type: ignore[override]
        """The same group with other errors, for `except*`."""
        return Crashed(self.message, excs)


class Unstopped(Exception):
    """Tasks ignored their cancellation and were left running; `names` lists them.

    What to do: let the tasks in `names` end on cancellation: they catch CancelledError, or block the event loop.
    """

    def __init__(self, supervisor: str, names: Sequence[str], within: float) -> None:
        listed = ", ".join(names)
        super().__init__(
            f"{supervisor}: still running {within} s after being cancelled: {listed}; do they swallow CancelledError?"
        )
        self.names = tuple(names)


class Supervisor:
    """Owns named tasks for the length of an `async with`; leaving the block stops them.

    The tasks serve the block: at its end they are stopped (`await wait()` first to wait for their own end). Stopping
    has two steps. First `stopping` is set: tasks started with `graceful=True` watch it and have `grace` seconds to
    finish; all others are cancelled at once. Then the remaining tasks are cancelled and have `cancel_within` seconds;
    those that ignore it are named in an Unstopped error, and not waited for any longer.

    When a task raises, `on_crash` decides; by default everything stops: the block is cancelled, as by a TaskGroup, and
    a Crashed group is raised with every error, including that of the block. An error of the block alone is raised as
    it is. Cancelling the block stops the tasks; a second cancellation while stopping skips the grace period.
    """

    def __init__(
        self,
        *,
        name: str = "supervisor",
        grace: float = 10.0,
        cancel_within: float = 5.0,
        on_crash: Callable[[Crash], Verdict | Restart] | None = None,
    ) -> None:
        if not (grace >= 0 and cancel_within > 0):
            raise ValueError(
                f"{name}: grace must be at least 0 and cancel_within more than 0, not {grace} and {cancel_within}"
            )
        self.name = name
        self.grace = grace
        self.cancel_within = cancel_within
        self.stopping = asyncio.Event()
        self._on_crash = on_crash
        self._entries: dict[str, _Entry] = {}
        self._crashes: Counter[str] = Counter()
        self._errors: list[Exception] = []
        self._fatal: BaseException | None = None
        self._block = Interruption()
        self._used = False

    @property
    def running(self) -> tuple[str, ...]:
        """The names of the tasks that have not ended, in the order in which they were started."""
        return tuple(self._entries)

    def start(self, name: str, work: Work | Callable[[], Work], *, graceful: bool = False) -> None:
        """Starts a task under a name that no running task has.

        Give the function instead of the coroutine if the task may be restarted. `graceful` tasks watch `stopping`.
        """
        problem = self._problem(name)
        if problem is not None:
            if isinstance(work, Coroutine):
                work.close()  # never awaited: avoids the warning
            raise RuntimeError(problem)
        if callable(work):
            self._launch(_Entry(name, graceful=graceful, again=work), work())
        else:
            self._launch(_Entry(name, graceful=graceful), work)

    async def wait(self, *names: str) -> None:
        """Waits until the tasks with these names, or all tasks, have ended; a restart is not an end."""
        while tasks := [entry.task for entry in self._entries.values() if not names or entry.name in names]:
            await asyncio.wait(tasks)

    async def stop(self, name: str | None = None) -> None:
        """Stops all tasks in two steps, as leaving the block would; or cancels the task of that name.

        Returns when they have ended, at the latest after `grace` plus `cancel_within` seconds. Raises Unstopped for a
        single task that ignores its cancellation; otherwise Unstopped is raised when the block is left.
        """
        if name is None:
            cancelled = await self._stop_all()
        else:
            entries = [entry for entry in self._entries.values() if entry.name == name]
            cancelled = await self._cancel_and_wait(entries)
            if any(entry.given_up for entry in entries):
                _cancel_again(cancelled)
                raise self._unstopped(entries)
        if cancelled is not None:
            raise cancelled

    async def __aenter__(self) -> Self:
        if self._used:
            raise RuntimeError(f"{self.name}: a supervisor can be entered once; make another")
        self._used = True
        self._block.enter()
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        was_interrupted = self._block.leave() and isinstance(error, asyncio.CancelledError)
        cancelled = await self._stop_all()
        if was_interrupted:
            error = None
        elif isinstance(error, asyncio.CancelledError):
            cancelled, error = error, None
        self._raise_errors(error, cancelled)

    def _raise_errors(self, error: BaseException | None, cancelled: asyncio.CancelledError | None) -> None:
        if self._fatal is not None:
            raise self._fatal
        if error is not None and not isinstance(error, Exception):
            for crash in self._errors:
                self._report(crash)
        elif self._errors:
            errors = [*([error] if error is not None else []), *self._errors]
            _cancel_again(cancelled)
            raise Crashed(f"{self.name}: {len(self._errors)} of its tasks failed", errors)
        elif error is not None:
            _cancel_again(cancelled)
        elif cancelled is not None:
            raise cancelled

    def _problem(self, name: str) -> str | None:
        if self._block.task is None:
            return f"{self.name}: cannot start {name!r} outside of its `async with` block"
        if self.stopping.is_set():
            return f"{self.name}: cannot start {name!r}, it is stopping"
        if name in self._entries:
            return f"{self.name}: a task named {name!r} is running already; stop it first, or choose another name"
        return None

    def _launch(self, entry: "_Entry", work: Work) -> None:
        entry.task = asyncio.get_running_loop().create_task(work, name=f"{self.name}/{entry.name}")
        entry.has_ended = False
        self._entries[entry.name] = entry
        entry.task.add_done_callback(partial(self._ended, entry))

    def _ended(self, entry: "_Entry", task: "asyncio.Task[object]") -> None:
        del self._entries[entry.name]
        entry.has_ended = True
        error = self._error_of(entry, task)
        if error is None:
            return
        error.add_note(f"in task {entry.name!r} of {self.name!r}")
        if entry.given_up:
            self._report(error)
        elif isinstance(error, Exception):
            self._judge(entry, error)
        else:
            self._fatal = error
            self._fail()

    def _error_of(self, entry: "_Entry", task: "asyncio.Task[object]") -> BaseException | None:
        if not task.cancelled():
            return task.exception()
        if entry.is_cancelled or self.stopping.is_set() or self._block.is_cancelled:
            return None
        # Not cancelled by the supervisor: it awaited something cancelled, and would silently vanish.
        return RuntimeError("the task was cancelled, but not by its supervisor")

    def _judge(self, entry: "_Entry", error: Exception) -> None:
        self._crashes[entry.name] += 1
        match self._verdict(Crash(entry.name, error, self._crashes[entry.name])):
            case Restart(after) if entry.again is not None:
                self._launch(entry, _run_later(after, entry.again))
            case Verdict.CONTINUE:
                pass
            case verdict:
                if isinstance(verdict, Restart):
                    error.add_note("it cannot be restarted: start it with a function, not with a coroutine")
                self._errors.append(error)
                self._fail()

    def _verdict(self, crash: Crash) -> Verdict | Restart:
        if self._on_crash is None or self.stopping.is_set():
            return Verdict.STOP
        try:
            return self._on_crash(crash)
        except Exception as error:  # noqa: BLE001 -- raised at the end of the block, with the crash itself
            error.add_note(f"in on_crash of {self.name!r}")
            self._errors.append(error)
            return Verdict.STOP

    def _fail(self) -> None:
        if not self.stopping.is_set():
            self.stopping.set()
            _cancel(entry for entry in self._entries.values() if not entry.graceful)
            self._block.interrupt()

    async def _stop_all(self) -> asyncio.CancelledError | None:
        """Stops all tasks that were not given up; returns a cancellation that arrived meanwhile, if any."""
        self.stopping.set()
        entries = [entry for entry in self._entries.values() if not entry.given_up]
        _cancel(entry for entry in entries if not entry.graceful)
        second: asyncio.CancelledError | None = None
        try:
            await _wait_ended([entry for entry in entries if entry.graceful], self.grace)
        except asyncio.CancelledError as error:
            second = error
        cancelled = await self._cancel_and_wait(entries)
        if any(entry.given_up for entry in entries):
            self._errors.append(self._unstopped(entries))
        return cancelled or second

    async def _cancel_and_wait(self, entries: "Sequence[_Entry]") -> asyncio.CancelledError | None:
        _cancel(entries)
        cancelled: asyncio.CancelledError | None = None
        deadline = timing.now() + self.cancel_within
        while True:
            try:
                await _wait_ended(entries, deadline - timing.now())
                break
            except asyncio.CancelledError as error:
                cancelled = error
        for entry in entries:
            entry.given_up = not entry.has_ended
        return cancelled

    def _unstopped(self, entries: "Sequence[_Entry]") -> Unstopped:
        return Unstopped(self.name, [entry.name for entry in entries if entry.given_up], self.cancel_within)

    def _report(self, error: BaseException) -> None:
        context = {"message": f"{self.name}: a task failed too late for its error to be raised", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)


class _Entry:
    __slots__ = ("again", "given_up", "graceful", "has_ended", "is_cancelled", "name", "task")

    task: "asyncio.Task[object]"

    def __init__(self, name: str, *, graceful: bool, again: Callable[[], Work] | None = None) -> None:
        self.name = name
        self.graceful = graceful
        self.again = again
        self.has_ended = False  # and its callback has run, which is later than task.done()
        self.is_cancelled = False
        self.given_up = False


def _cancel_again(cancelled: asyncio.CancelledError | None) -> None:
    """Delivers a cancellation that was superseded by an error at the next `await`, instead of losing it."""
    task = asyncio.current_task()
    if cancelled is not None and task is not None:
        task.uncancel()
        task.cancel()


def _cancel(entries: "Iterable[_Entry]") -> None:
    for entry in entries:
        if not entry.is_cancelled:  # a second cancellation would interrupt its cleanup
            entry.is_cancelled = True
            entry.task.cancel()


async def _wait_ended(entries: "Sequence[_Entry]", seconds: float) -> None:
    tasks = [entry.task for entry in entries if not entry.has_ended]
    if tasks:
        await asyncio.wait(tasks, timeout=max(0.0, seconds))


async def _run_later(after: float, work: Callable[[], Work]) -> None:
    await timing.sleep(after)
    await work()
