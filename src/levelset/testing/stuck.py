"""Who waits, and where: what is said of the tasks of a loop that will never go on."""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

__all__ = ["Stuck", "describe_tasks"]

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
