"""Retries of engine calls: until the effect is visible, or the time is over."""

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
    Incomplete,
    RuntimeNotHealthy,
)
from levelset_dcp.engines.interface import Engine
from levelset_dcp.engines.models import ContainerInfo

__all__ = ["act_and_verify", "find_container", "is_final", "retry_call", "stop_and_remove", "wait_started"]

_PAUSE: Final = 0.2
_VERIFY_TIMEOUT: Final = 6.0
_BUDGET: Final = 30.0
_BACKOFF: Final = Backoff(first=0.2, factor=2.0, cap=10.0, jitter=0.1, quiet=None)
_FIRST_PAUSE: Final = 0.2
_START_BUDGET: Final = 6.0


T = TypeVar("T")


def is_final(error: EngineError) -> bool:
    """Whether a retry cannot help: the object is missing, exists already, or its port is taken."""
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
    """Calls `act`, then `verify` a moment later, and retries both for `budget` seconds until both succeed.

    Returns the result of `verify`, which raises an EngineError while the effect is not visible. A final error of `act`
    is raised at once. After the budget, or after `attempts`, the error of the last attempt is raised.
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
                return await _verify(verify)
            except EngineError:
                if not _has_time(made, attempts, end):
                    raise
        await timing.sleep(next(delays))


def _has_time(made: int, attempts: int | None, end: float) -> bool:
    return made != attempts and timing.now() < end


async def _verify(verify: Callable[[], Awaitable[T]]) -> T:
    try:
        async with timing.within(_VERIFY_TIMEOUT):
            return await verify()
    except TimeoutError as error:
        raise EngineTimedOut(f"the engine did not confirm the operation within {_VERIFY_TIMEOUT:g} s") from error


async def find_container(engine: Engine, name: str) -> ContainerInfo | None:
    """The container of a name or ID; None if there is none."""
    try:
        return await engine.inspect_container(name)
    except EngineNotFound:
        return None


async def retry_call(act: Callable[[], Awaitable[None]], *, budget: float = _BUDGET) -> None:
    """Calls `act` until it succeeds, for `budget` seconds; EngineNotFound and RuntimeNotHealthy are raised at once."""
    until, pause = timing.now() + budget, _FIRST_PAUSE
    while True:
        try:
            await act()
        except (EngineNotFound, RuntimeNotHealthy):
            raise
        except EngineError:
            if timing.now() + pause > until:
                raise
            await timing.sleep(pause)
            pause *= 2
        else:
            return


async def wait_started(engine: Engine, container_id: str) -> ContainerInfo:
    """Inspects a container until its start is visible: engines may report a start before `inspect` shows it."""
    until = timing.now() + _START_BUDGET
    while True:
        try:
            info = await engine.inspect_container(container_id)
            if info.status not in ("created", "unknown") or timing.now() > until:
                return info
        except (EngineTimedOut, Incomplete):
            if timing.now() > until:
                raise
        await timing.sleep(_FIRST_PAUSE)


async def stop_and_remove(engine: Engine, container_id: str, *, grace: float) -> None:
    """Stops and removes a container; does nothing if it does not exist."""
    try:
        await retry_call(lambda: engine.stop_container(container_id, grace=grace))
        await retry_call(lambda: engine.remove_container(container_id, force=True))
    except EngineNotFound:
        return
