"""Selects the container engine: the named one, else a running one, else an installed one."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from levelset.errors import ConfigError
from levelset_dcp.engines.cli.engine import CliEngine, DockerEngine, PodmanEngine
from levelset_dcp.engines.interface import Engine
from levelset_dcp.engines.models import EngineStatus

__all__ = ["NONE", "RUNTIMES", "choose_engine", "known_engines", "open_engine", "open_runtime"]

NONE: Final = "none"
RUNTIMES: Final = ("docker", "podman", "memory", NONE)
"""The values of `--container-runtime`."""


def known_engines(*, env: Mapping[str, str] | None = None) -> tuple[CliEngine, ...]:
    """All supported engines, the preferred one first; `env` is the environment of their tools."""
    return DockerEngine(env=env), PodmanEngine(env=env)


async def choose_engine(engines: Sequence[Engine], *, wanted: str | None = None) -> Engine:
    """The engine named `wanted`; by default the first running one, else the first installed one, else the first.

    Raises ConfigError if there is no engine of that name.
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
    """The engine of this machine; its status is polled in the background for the length of the block."""
    engines = known_engines(env=env)
    chosen: Engine | None = None
    if wanted is None:
        chosen = await asyncio.to_thread(_only_installed, engines)
    if chosen is None:
        chosen = await choose_engine(engines, wanted=wanted)
    async with next(one for one in engines if one is chosen) as engine:
        yield engine


def _only_installed(engines: Sequence[CliEngine]) -> CliEngine | None:
    """The engine whose tool is the only one on the PATH; there is no need to wait for its status to choose it."""
    found = [one for one in engines if one.is_installed()]
    return found[0] if len(found) == 1 else None


def _rank(status: EngineStatus) -> tuple[bool, bool]:
    return status.is_healthy, status.is_installed


@asynccontextmanager
async def open_runtime(name: str | None) -> AsyncGenerator[Engine | None, None]:
    """The engine of this name for the length of a block; without a name the installed one, or None."""
    if name == NONE:
        yield None
        return
    if name == "memory":
        # Imported late: few sessions run without containers of a real engine.
        from levelset_dcp.engines.memory.engine import InMemoryEngine  # noqa: PLC0415

        yield InMemoryEngine()
        return
    async with open_engine(name) as engine:
        # An engine that was named is used even if it is not installed or started yet.
        yield engine if name is not None or await asyncio.to_thread(engine.is_installed) else None
