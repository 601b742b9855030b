"""Ends a program when another process ends: a small process of its own, so that it works when the session is gone.

`python -m levelset_dcp.executables.monitoring CHILD CHILD-STARTED MONITOR SECONDS` waits for the process MONITOR, which
has begun at SECONDS since 1970, and then ends CHILD and all that it has started. If CHILD is not the process that is
meant, or has ended, it leaves quietly.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from levelset_machine import Command, Identity, Machine, StopFailed, identity_of

__all__ = ["began", "main", "monitor", "monitor_command"]

_MODULE: Final = "levelset_dcp.executables.monitoring"
_TOLERANCE: Final = 2.0
"""Seconds; the kernel tells when it was started in whole ones."""


def monitor_command(child: Identity, monitor: int, at: datetime, ambient: Mapping[str, str]) -> Command:
    """The command that looks after a child."""
    words = (str(child.pid), str(child.started), str(monitor), str(at.timestamp()))
    path = {name: ambient[name] for name in ("PATH", "HOME") if name in ambient}
    env = {**path, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
    return Command(argv=(sys.executable, "-m", _MODULE, *words), env=env)


async def monitor(child: Identity, monitor: int, at: float) -> None:
    """Waits for a process, and then ends the child; returns at once if the child is gone."""
    async with Machine(guard=False) as machine:
        run = machine.adopt(child)
        if run is None:
            return
        watched = identity_of(monitor)
        found = None if watched is None else await asyncio.to_thread(began, watched)
        is_same = watched is not None and (found is None or abs(found - at) <= _TOLERANCE)
        other = machine.adopt(watched) if watched is not None and is_same else None
        if other is not None:
            ends = [asyncio.create_task(one.wait()) for one in (run, other)]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for one in ends:
                one.cancel()
        await machine.stop(run)


def began(identity: Identity) -> float | None:
    """When a process was started, in seconds since 1970; None where the kernel does not tell. Blocks."""
    try:
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    boot = next((int(line.split()[1]) for line in lines if line.startswith("btime ")), None)
    return None if boot is None else boot + identity.started / os.sysconf("SC_CLK_TCK")


def main(words: list[str]) -> int:
    """Does what the words say; 2 if they are not understood."""
    try:
        child, started, other, seconds = words
        child_identity, at = Identity(int(child), int(started)), float(seconds)
        asyncio.run(monitor(child_identity, int(other), at))
    except ValueError:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    except StopFailed as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
