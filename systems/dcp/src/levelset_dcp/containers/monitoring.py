"""Ends containers when another process ends: a small process of its own, so that it works when the session is gone.

`python -m levelset_dcp.containers.monitoring container ENGINE ID PID SECONDS` waits for the process PID, which has
begun at SECONDS since 1970, and then stops the container. `... session ENGINE PID STARTED` waits for a session, and
then removes what it has made for itself, if it was killed before it could do that.
"""

import asyncio
import sys
from typing import Final

from levelset.errors import LevelsetError
from levelset_dcp.containers.engine_calls import insist
from levelset_dcp.engines import Engine, EngineNotFound
from levelset_dcp.executables.monitoring import began
from levelset_dcp.harvest import harvest
from levelset_dcp.records import MemoryRecords
from levelset_dcp.runtimes import open_runtime
from levelset_machine import Identity, Machine, identity_of

__all__ = ["guard_container", "guard_session", "main"]

_TOLERANCE: Final = 2.0
"""Seconds; the kernel tells when it was started in whole ones."""
_GRACE: Final = 10.0


async def guard_container(engine: Engine, container_id: str, pid: int, at: float) -> None:
    """Waits for a process, and then stops a container; fine if that is gone."""
    watched = identity_of(pid)
    found = None if watched is None else await asyncio.to_thread(began, watched)
    if watched is not None and (found is None or abs(found - at) <= _TOLERANCE):
        await _wait(watched)
    try:
        await insist(lambda: engine.stop_container(container_id, grace=_GRACE))
    except EngineNotFound:
        return


async def guard_session(engine: Engine, creator: Identity) -> None:
    """Waits for a session, and then removes what it, and other dead ones, have left."""
    await _wait(creator)
    await harvest(engine, MemoryRecords())


async def _wait(identity: Identity) -> None:
    async with Machine(guard=False) as machine:
        run = machine.adopt(identity)
        if run is not None:
            await run.wait()


async def _run(words: list[str]) -> None:
    mode, name, *rest = words
    async with open_runtime(name) as engine:
        if engine is None:
            raise ValueError(f"there is no engine {name}")
        if mode == "container":
            container_id, pid, seconds = rest
            await guard_container(engine, container_id, int(pid), float(seconds))
        elif mode == "session":
            pid, started = rest
            await guard_session(engine, Identity(int(pid), int(started)))
        else:
            raise ValueError(f"{mode} is not known")


def main(words: list[str]) -> int:
    """Does what the words say; 2 if they are not understood."""
    try:
        asyncio.run(_run(words))
    except ValueError as error:
        sys.stderr.write(f"{error}\n{__doc__}\n")
        return 2
    except LevelsetError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
