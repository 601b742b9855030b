"""The tasks of reconciles, as a recording, its replay and the dashboard see them.

Every reconcile, and every task that it starts, is one `TracedTask`; `CURRENT` is that of the running code. A `Tracer`
records what these tasks do, or replays it: `levelset.runtime.recording` has the one, `levelset.testing.replay` the
other. Without a tracer `CURRENT` is None, and nothing else happens. `RECONCILE` is less: only which reconcile it is.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec

__all__ = ["CURRENT", "RECONCILE", "RunningReconcile", "TracedTask", "Tracer", "recorded_value"]

T = TypeVar("T")


class Tracer(Protocol):
    """Records or replays the reconciles of the controllers of one process."""

    def start(
        self, controller: str, start: Callable[[str, Any, Any], Awaitable[T]], key: str, request: Any, slot: Any, /
    ) -> Awaitable[T]:
        """Starts a reconcile by `start(key, request, slot)`, in the worker's task; its result is awaited instead."""
        ...

    def give_up(self, handle: Callable[[], Awaitable[T]], /) -> Awaitable[T]:
        """Calls the handler of a reconcile that gave up; what it returns is awaited in its place."""
        ...

    def finished(self, controller: str, record: Any, /) -> None:
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


class TracedTask(msgspec.Struct, eq=False, gc=False):
    """A reconcile, or a task that it has started; `requests` is how many requests of it are under way."""

    number: int
    tracer: Tracer
    requests: int = 0


CURRENT: Final[ContextVar[TracedTask | None]] = ContextVar("levelset_traced_task", default=None)
"""The task of a reconcile that the running code belongs to; None outside of reconciles, and without a tracer."""


class RunningReconcile(msgspec.Struct, frozen=True, gc=False):
    """A reconcile: of which controller, of the object with which key, and when it began on the loop's clock."""

    controller: str
    key: str
    began: float


RECONCILE: Final[ContextVar[RunningReconcile | None]] = ContextVar("levelset_reconcile", default=None)
"""The reconcile that the running code belongs to, also in tasks that it has started; it may have ended meanwhile.

It is set only while `WorkerPool.mark` is on: the dashboard attributes writes and requests with it.
"""


def recorded_value(name: str, make: Callable[[], T]) -> T:
    """The value that a function returns; in a replay the one that was recorded. It must be a number or a text."""
    task = CURRENT.get()
    return make() if task is None else cast("T", task.tracer.value(task, name, make))
