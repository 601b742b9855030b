"""Which container engine a session uses: the one that was named, or whichever runs on this machine."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from levelset_dcp.engines import Engine, InMemoryEngine, open_engine

__all__ = ["NONE", "RUNTIMES", "open_runtime"]

NONE: Final = "none"
RUNTIMES: Final = ("docker", "podman", "memory", NONE)
"""What can be named."""


@asynccontextmanager
async def open_runtime(name: str | None) -> AsyncGenerator[Engine | None, None]:
    """The engine of this name for the length of a block; without a name the one of this machine, None without any."""
    if name == NONE:
        yield None
        return
    if name == "memory":
        yield InMemoryEngine()
        return
    async with open_engine(name) as engine:
        status = await engine.check_status()
        # One that was named is kept: it may be installed, or started, later.
        yield engine if name is not None or status.is_installed else None
