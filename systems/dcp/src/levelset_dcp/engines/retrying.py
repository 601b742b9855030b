"""Asks an engine until what was asked for can be seen: engines report success before the effect, and fail by chance."""

import random as stdlib_random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from levelset.aio import Backoff, timing
from levelset_dcp.engines.errors import (
    CouldNotAllocate,
    EngineAlreadyExists,
    EngineError,
    EngineNotFound,
    EngineTimedOut,
)

__all__ = ["act_and_verify", "is_final"]

T = TypeVar("T")

_PAUSE: Final = 0.2
_LOOK: Final = 6.0
_BUDGET: Final = 30.0
_BACKOFF: Final = Backoff(first=0.2, factor=2.0, cap=10.0, jitter=0.1, quiet=None)


def is_final(error: EngineError) -> bool:
    """Whether asking again would not help: it is not there, it is there, or somebody else has it."""
    return isinstance(error, (EngineNotFound, EngineAlreadyExists, CouldNotAllocate))


async def act_and_verify(
    act: Callable[[], Awaitable[object]],
    verify: Callable[[], Awaitable[T]],
    *,
    budget: float = _BUDGET,
    attempts: int | None = None,
    is_final: Callable[[EngineError], bool] = is_final,
    random: Callable[[], float] = stdlib_random.random,
) -> T:
    """Does something and looks at it a little later; does it again while one of both fails, for `budget` seconds.

    `verify` gives what it has seen, or raises an EngineError if that is not what was wanted. What is final ends it at
    once if `act` has raised it; `verify` may raise everything. The error of the last attempt is raised in the end, also
    if `attempts` were made.
    """
    end, made, delays = timing.now() + budget, 0, _BACKOFF.delays(random=random)
    while True:
        made += 1
        try:
            await act()
        except EngineError as error:
            if is_final(error) or not _has_time(made, attempts, end):
                raise
        else:
            await timing.sleep(_PAUSE)
            try:
                return await _look(verify)
            except EngineError:
                if not _has_time(made, attempts, end):
                    raise
        await timing.sleep(next(delays))


def _has_time(made: int, attempts: int | None, end: float) -> bool:
    return made != attempts and timing.now() < end


async def _look(verify: Callable[[], Awaitable[T]]) -> T:
    try:
        async with timing.within(_LOOK):
            return await verify()
    except TimeoutError as error:
        raise EngineTimedOut(f"the engine did not show within {_LOOK:g} s what it has done") from error
