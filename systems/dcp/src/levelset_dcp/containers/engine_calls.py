"""Calls of the engine that are made again if they fail, and whose effect is looked at before they count."""

from collections.abc import Awaitable, Callable
from typing import Final

from levelset.aio import timing
from levelset_dcp.engines.errors import EngineError, EngineNotFound, EngineTimedOut, Incomplete, RuntimeNotHealthy
from levelset_dcp.engines.interface import Engine
from levelset_dcp.engines.models import ContainerInfo

__all__ = ["find_container", "insist", "stop_and_remove", "wait_started"]

_FIRST_PAUSE: Final = 0.2
_BUDGET: Final = 30.0
_START_BUDGET: Final = 6.0


async def find_container(engine: Engine, name: str) -> ContainerInfo | None:
    """The container of a name or ID; None if there is none."""
    try:
        return await engine.inspect_container(name)
    except EngineNotFound:
        return None


async def insist(act: Callable[[], Awaitable[None]], *, budget: float = _BUDGET) -> None:
    """Acts until it succeeds, for so many seconds; what will not change by itself is raised at once."""
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
    """How a container is after its start: engines may say that it was started before it is to be seen."""
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
    """Ends a container and removes it; fine if it is gone."""
    try:
        await insist(lambda: engine.stop_container(container_id, grace=grace))
        await insist(lambda: engine.remove_container(container_id, force=True))
    except EngineNotFound:
        return
