"""The tasks of reconciles, as a recording, its replay and the dashboard see them.

Every reconcile, and every task that it starts, is one `TracedTask`; `CURRENT` is that of the running code. A `Tracer`
records what these tasks do, or replays it: `levelset.runtime.recording` has the one, `levelset.testing.replay` the
other. Without a tracer `CURRENT` is None, and nothing else happens. `RECONCILE` is less: only which reconcile it is.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from types import TracebackType, coroutine
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec

__all__ = [
    "CURRENT",
    "ENDED",
    "RECONCILE",
    "Resume",
    "RunningReconcile",
    "TracedCoroutine",
    "TracedTask",
    "Tracer",
    "current_task",
    "follow",
    "recorded_value",
]

T = TypeVar("T")


class Tracer(Protocol):
    """Records or replays the reconciles of the controllers of one process."""

    def follow(self, work: Coroutine[Any, Any, T], /) -> Awaitable[T]:
        """Awaits the work of a worker, whose reconciles `begin` and are `finished` in it."""
        ...

    def begin(self, controller: str, key: str, request: Any, began: float, /) -> "TracedTask | None":
        """A reconcile begins in the worker's task; returns that, for `finished`."""
        ...

    def finished(self, task: "TracedTask", record: Any, /) -> None:
        """The reconcile of the worker's task has finished, with this record of the history."""
        ...

    def value(self, task: "TracedTask", name: str, make: Callable[[], Any], /) -> Any:
        """A value that may differ from run to run: made and recorded, or as it was recorded."""
        ...

    def event(self, task: "TracedTask", about: str, reason: str, message: str, is_warning: bool, /) -> None:
        """A task records a Kubernetes Event."""
        ...

    def call(
        self, task: "TracedTask", name: str, arguments: bytes, make: Callable[[], Awaitable[Any]], /
    ) -> Awaitable[Any]:
        """A task calls a client of the outside: called and recorded, or answered as it was recorded."""
        ...


ENDED: Final = -1
"""The requests of a reconcile that has ended."""


class TracedTask:
    """A reconcile, or a task that it has started; `requests` is how many requests of it are under way.

    A reconcile that has ended may still be `CURRENT`: to set a context variable back costs more than this number. It
    then has a number of requests below zero, and nothing belongs to it.

    It is no struct: its number of requests is set often, which costs a struct ten times as much.
    """

    __slots__ = ("number", "requests", "tracer")

    def __init__(self, number: int, tracer: Tracer) -> None:
        self.number = number
        self.tracer = tracer
        self.requests = 0


CURRENT: Final[ContextVar[TracedTask | None]] = ContextVar("levelset_traced_task", default=None)
"""The task of a reconcile that the running code belongs to, or did; None outside of reconciles, or without a tracer."""


class RunningReconcile(msgspec.Struct, frozen=True, gc=False):
    """A reconcile: of which controller, of the object with which key, and when it began on the loop's clock."""

    controller: str
    key: str
    began: float


RECONCILE: Final[ContextVar[RunningReconcile | None]] = ContextVar("levelset_reconcile", default=None)
"""The reconcile that the running code belongs to, also in tasks that it has started; it may have ended meanwhile.

It is set only while `WorkerPool.mark` is on: the dashboard attributes writes and requests with it.
"""


def current_task() -> TracedTask | None:
    """The task of a running reconcile that the running code belongs to; None if there is none, or no tracer."""
    task = CURRENT.get()
    return None if task is None or task.requests < 0 else task


def recorded_value(name: str, make: Callable[[], T]) -> T:
    """The value that a function returns; in a replay the one that was recorded. It must be a number or a text."""
    task = current_task()
    return make() if task is None else cast("T", task.tracer.value(task, name, make))


Resume = Callable[[TracedTask, Any, BaseException | None], Awaitable[Any] | None]
"""Is called when a task goes on: with the task, what it waited for (None: it let others run), and what is raised in it.

If it returns a future, the task waits for that first, and it is called again.
"""


@coroutine
def follow(work: Coroutine[Any, Any, T], resume: Resume) -> Generator[Any, Any, T]:
    """Awaits the work of a worker, and calls `resume` each time that a reconcile of it goes on, outside of requests.

    One generator follows all reconciles of a worker: one for each of them would cost as much as all entries of it.
    """
    current, send, error = CURRENT.get, work.send, None
    while True:
        try:
            waited_for = send(None) if error is None else work.throw(error)
        except StopIteration as stop:
            CURRENT.set(None)
            result: T = stop.value
            return result
        error = None
        try:
            yield waited_for
        except BaseException as raised:  # noqa: BLE001 -- it is thrown into the work
            error = raised
        task = current()
        while task is not None and not task.requests and (gate := resume(task, waited_for, error)) is not None:
            try:
                yield from gate.__await__()
            except BaseException as raised:  # noqa: BLE001 -- as above: a cancellation waits at the gate, too
                error = raised


class TracedCoroutine(Coroutine[Any, Any, Any]):
    """The coroutine of a task that a reconcile has started: calls `resume` at each of its steps outside of requests."""

    __slots__ = ("_coroutine", "_error", "_resume", "_task", "_waited_for")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], task: TracedTask, resume: Resume) -> None:
        self._coroutine = coroutine
        self._task = task
        self._resume = resume
        self._error: BaseException | None = None
        self._waited_for: Any = self

    def send(self, value: Any, /) -> Any:
        """Goes on, and returns what the task waits for next."""
        task, error = self._task, self._error
        CURRENT.set(task)  # at each step: the task may share its context with others
        if not task.requests:
            gate: Any = self._resume(task, self._waited_for, error)
            if gate is not None:
                gate._asyncio_future_blocking = True
                return gate
        self._error = None
        self._waited_for = self._coroutine.send(value) if error is None else self._coroutine.throw(error)
        return self._waited_for

    def throw(self, kind: Any, value: BaseException | object = None, _: TracebackType | None = None, /) -> Any:
        """Goes on with an error, such as a cancellation."""
        if isinstance(kind, BaseException):
            self._error = kind
        else:
            self._error = value if isinstance(value, BaseException) else kind()
        return self.send(None)

    def close(self) -> None:
        """Closes the coroutine."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        # What describes a waiting coroutine, such as `cr_frame` and `cr_await`.
        return getattr(self._coroutine, name)
