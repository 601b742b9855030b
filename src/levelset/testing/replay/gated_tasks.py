"""The tasks of a replayed reconcile: each resumes only at its next entry of the recording."""

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from types import TracebackType
from typing import Any, Protocol, TypeVar

from levelset.runtime.controller.traced_tasks import CURRENT, TracedTask

__all__ = ["GatedAwait", "GatedCoroutine", "GatedTask", "RecordedOrder"]

T = TypeVar("T")


class GatedTask(TracedTask, eq=False, gc=True, kw_only=True):
    """A reconcile or a task of it; `gate` is what it waits for before it may go on, None while it runs or waits."""

    root: int
    gate: "asyncio.Future[None] | None" = None
    coroutine: Any = None
    """What it runs, to say where it waits."""

    def park(self) -> "asyncio.Future[None]":
        """A new gate."""
        self.gate = asyncio.get_running_loop().create_future()
        return self.gate

    def open(self) -> None:
        """Opens the gate."""
        gate, self.gate = self.gate, None
        if gate is not None and not gate.done():
            gate.set_result(None)


class RecordedOrder(Protocol):
    """The order in which the recorded tasks resumed."""

    def may_resume(self, task: GatedTask, /, *, is_yield: bool) -> bool:
        """Whether the task goes on now; its entry of the recording is then done."""
        ...


class GatedAwait(Awaitable[T]):
    """Awaits an awaitable; each time that it could resume it first waits for its entry of the recording."""

    __slots__ = ("_awaited", "_order", "_task")

    def __init__(self, awaited: Awaitable[T], task: GatedTask, order: RecordedOrder) -> None:
        self._awaited = awaited
        self._task = task
        self._order = order
        task.coroutine = awaited

    def __await__(self) -> Generator[Any, Any, T]:
        steps, task, order = self._awaited.__await__(), self._task, self._order
        error: BaseException | None = None
        while True:
            try:
                waited_for = steps.send(None) if error is None else steps.throw(error)
            except StopIteration as stop:
                result: T = stop.value
                return result
            error = None
            try:
                yield waited_for
            except BaseException as raised:  # noqa: BLE001 -- it is thrown into the awaitable
                error = raised
            while not task.requests and not order.may_resume(task, is_yield=waited_for is None):
                try:
                    yield from task.park()
                except BaseException as raised:  # noqa: BLE001 -- as above: a cancellation waits for its entry, too
                    error = raised


class GatedCoroutine(Coroutine[Any, Any, Any]):
    """The coroutine of a task that a reconcile has started; each of its steps waits for its entry of the recording."""

    __slots__ = ("_coroutine", "_error", "_order", "_task", "_waited_for")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], task: GatedTask, order: RecordedOrder) -> None:
        self._coroutine = coroutine
        self._task = task
        self._order = order
        self._error: BaseException | None = None
        self._waited_for: Any = self
        task.coroutine = coroutine

    def send(self, value: Any, /) -> Any:
        """Resumes if its entry is the next one, and otherwise waits for it; returns what the task waits for."""
        CURRENT.set(self._task)
        task = self._task
        if not task.requests and not self._order.may_resume(task, is_yield=self._waited_for is None):
            gate: Any = task.park()
            gate._asyncio_future_blocking = True
            return gate
        error, self._error = self._error, None
        self._waited_for = self._coroutine.send(value) if error is None else self._coroutine.throw(error)
        return self._waited_for

    def throw(self, kind: Any, value: BaseException | object = None, _: TracebackType | None = None, /) -> Any:
        """Resumes with an error, such as a cancellation, when its entry is the next one."""
        given: Any = kind if isinstance(kind, BaseException) else value
        self._error = given if isinstance(given, BaseException) else asyncio.CancelledError()
        return self.send(None)

    def close(self) -> None:
        """Closes the coroutine."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        # What describes a waiting coroutine, such as `cr_frame` and `cr_await`.
        return getattr(self._coroutine, name)
