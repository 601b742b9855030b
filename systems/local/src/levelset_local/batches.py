"""Many writes, some at a time: a few first, and twice as many after each that went well, so that trouble is small."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from levelset import ApiError, Unreachable

__all__ = ["Done", "do_in_batches"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """What was done, and what went wrong first; what is neither was not tried."""

    made: tuple[T, ...] = ()
    error: ApiError | Unreachable | None = None


async def do_in_batches(works: Sequence[Callable[[], Awaitable[T]]], *, first: int = 1) -> Done[T]:
    """Does all of it, `first` of them at once, then twice as many, and so on, until one of a batch has failed."""
    made: list[T] = []
    start, size = 0, first
    while start < len(works):
        results = await _do_together(works[start : start + size])
        made += [one for one, error in results if error is None and one is not None]
        error = next((error for _, error in results if error is not None), None)
        if error is not None:
            return Done(tuple(made), error)
        start, size = start + size, size * 2
    return Done(tuple(made))


async def _do_together(
    works: Sequence[Callable[[], Awaitable[T]]],
) -> list[tuple[T | None, ApiError | Unreachable | None]]:
    if len(works) == 1:
        return [await _try(works[0])]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_try(work)) for work in works]
    return [task.result() for task in tasks]


async def _try(work: Callable[[], Awaitable[T]]) -> tuple[T | None, ApiError | Unreachable | None]:
    try:
        return await work(), None
    except (ApiError, Unreachable) as error:
        return None, error
