"""Finds the engine of this machine: the one that is wanted, else one that runs, else one that is installed."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from levelset.errors import ConfigError
from levelset_dcp.engines.cli import CliEngine
from levelset_dcp.engines.docker import DockerEngine
from levelset_dcp.engines.interface import Engine
from levelset_dcp.engines.models import EngineStatus
from levelset_dcp.engines.podman import PodmanEngine

__all__ = ["choose_engine", "known_engines", "open_engine"]


def known_engines(*, env: Mapping[str, str] | None = None) -> tuple[CliEngine, ...]:
    """The engines that can be asked, the usual one first; `env` is the environment that their tools get."""
    return DockerEngine(env=env), PodmanEngine(env=env)


async def choose_engine(engines: Sequence[Engine], *, wanted: str | None = None) -> Engine:
    """The engine called `wanted`; without a wish the best: running, else installed, else the first of them.

    Raises ConfigError if none is called so.
    """
    if wanted:
        for engine in engines:
            if engine.name == wanted:
                return engine
        names = ", ".join(engine.name for engine in engines)
        raise ConfigError(f"there is no container engine {wanted!r}; choose one of: {names}")
    if not engines:
        raise ConfigError("there is no container engine to choose from; name at least one")
    statuses = await asyncio.gather(*(engine.check_status() for engine in engines))
    return max(zip(engines, statuses, strict=True), key=lambda one: _rank(one[1]))[0]


@asynccontextmanager
async def open_engine(
    wanted: str | None = None, *, env: Mapping[str, str] | None = None
) -> AsyncGenerator[CliEngine, None]:
    """The engine of this machine, with its health looked after while the block goes on."""
    engines = known_engines(env=env)
    chosen = await choose_engine(engines, wanted=wanted)
    async with next(one for one in engines if one is chosen) as engine:
        yield engine


def _rank(status: EngineStatus) -> tuple[bool, bool]:
    return status.is_healthy, status.is_installed
