"""The guard process: stops containers when another process exits, even after the session is gone.

`python -m levelset_dcp.containers.guard_process container ENGINE ID PID SECONDS` waits for the exit of the process
PID, which was started at SECONDS since 1970, and then stops the container. `... session ENGINE PID STARTED` waits for
the exit of a session, and then removes its orphans, if it was killed.
"""

import asyncio
import sys
from typing import Final

from levelset.errors import LevelsetError
from levelset_dcp.containers.orphan_cleanup import clean_orphans
from levelset_dcp.engines import Engine, EngineNotFound
from levelset_dcp.engines.retries import retry_call
from levelset_dcp.engines.selection import open_runtime
from levelset_dcp.executables.monitor_process import began
from levelset_dcp.records import MemoryRecords
from levelset_machine import Identity, Machine, identity_of

__all__ = ["guard_container", "guard_session", "main"]

_TOLERANCE: Final = 2.0
"""Seconds; the kernel reports the boot time in whole seconds."""
_GRACE: Final = 10.0


async def guard_container(engine: Engine, container_id: str, pid: int, at: float) -> None:
    """Waits for the exit of a process, then stops a container; does nothing if the container does not exist."""
    watched = identity_of(pid)
    found = None if watched is None else await asyncio.to_thread(began, watched)
    if watched is not None and (found is None or abs(found - at) <= _TOLERANCE):
        await _wait(watched)
    try:
        await retry_call(lambda: engine.stop_container(container_id, grace=_GRACE))
    except EngineNotFound:
        return


async def guard_session(engine: Engine, creator: Identity) -> None:
    """Waits for the exit of a session, then removes its orphans and those of other dead sessions."""
    await _wait(creator)
    await clean_orphans(engine, MemoryRecords())


async def _wait(identity: Identity) -> None:
    async with Machine(guard=False) as machine:
        run = machine.adopt(identity)
        if run is not None:
            await run.wait()


async def _run(arguments: list[str]) -> None:
    mode, name, *rest = arguments
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
            raise ValueError(f"unknown mode {mode}; expected container or session")


def main(arguments: list[str]) -> int:
    """Runs the guard; returns the exit code, 2 for a usage error."""
    try:
        asyncio.run(_run(arguments))
    except ValueError as error:
        sys.stderr.write(f"{error}\n{__doc__}\n")
        return 2
    except LevelsetError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
