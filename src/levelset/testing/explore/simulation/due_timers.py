"""When something is due next in a run: requeues of controllers, and timers and tasks of their code."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from levelset.aio import timing
from levelset.testing.environment import Environment

__all__ = ["next_due"]

_PACKAGE_ROOT: Final = str(Path(__file__).parents[3])
_UNKNOWN: Final = 600.0
"""Seconds after which a task of a controller is checked again: when it continues is not known."""


def next_due(environment: Environment) -> float | None:
    """The loop time at which a controller acts by itself next; None if there is nothing that it waits for."""
    return min(_due_times(environment), default=None)


def _due_times(environment: Environment) -> Iterator[float]:
    for process in environment.alive:
        for running in process.controllers.values():
            at = running.scheduler.next_at()
            if at is not None:
                yield at
            if len(running.dependencies.work):
                yield timing.now() + _UNKNOWN
    loop = asyncio.get_running_loop()
    handles: list[Any] = getattr(loop, "_scheduled", [])
    yield from (one.when() for one in handles if not one.cancelled() and _is_foreign(getattr(one, "_callback", None)))
    if any(_is_foreign_task(one) for one in asyncio.all_tasks()):
        yield timing.now() + _UNKNOWN


def _is_foreign(function: Any) -> bool:
    """Whether a callback is neither of this package nor of asyncio."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is not None and _is_foreign_file(code.co_filename)


def _is_foreign_task(task: "asyncio.Task[Any]") -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and _is_foreign_file(code.co_filename)


def _is_foreign_file(name: str) -> bool:
    return not name.startswith(_PACKAGE_ROOT) and "/asyncio/" not in name.replace("\\", "/")
