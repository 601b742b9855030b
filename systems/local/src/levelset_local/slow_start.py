"""Slow-start batches of writes: each batch is twice as large as the one before, so that a failing server gets few.

The same as `slowStartBatch` of the controllers of Kubernetes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from levelset import ApiError
from levelset.errors import Forbidden, Unreachable

__all__ = ["BatchResult", "is_namespace_terminating", "slow_start_batch"]

T = TypeVar("T")


class BatchResult(Struct, Generic[T], frozen=True):
    """The results of the calls that succeeded, and the first error; the remaining calls were not made."""

    succeeded: tuple[T, ...] = ()
    error: ApiError | Unreachable | None = None


async def slow_start_batch(calls: Sequence[Callable[[], Awaitable[T]]], *, first: int = 1) -> BatchResult[T]:
    """Makes `first` of the calls concurrently, then twice as many, and so on, until one of a batch fails."""
    succeeded: list[T] = []
    start, size = 0, first
    while start < len(calls):
        results = await _call_all(calls[start : start + size])
        succeeded += [one for one, error in results if error is None and one is not None]
        error = next((error for _, error in results if error is not None), None)
        if error is not None:
            return BatchResult(tuple(succeeded), error)
        start, size = start + size, size * 2
    return BatchResult(tuple(succeeded))


async def _call_all(
    calls: Sequence[Callable[[], Awaitable[T]]],
) -> list[tuple[T | None, ApiError | Unreachable | None]]:
    if len(calls) == 1:
        return [await _try(calls[0])]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_try(call)) for call in calls]
    return [task.result() for task in tasks]


async def _try(call: Callable[[], Awaitable[T]]) -> tuple[T | None, ApiError | Unreachable | None]:
    try:
        return await call(), None
    except (ApiError, Unreachable) as error:
        return None, error


def is_namespace_terminating(error: ApiError | Unreachable) -> bool:
    """Whether a create failed because its namespace is being deleted: the owner will be deleted, too."""
    return isinstance(error, Forbidden) and any(one.reason == "NamespaceTerminating" for one in error.causes)
