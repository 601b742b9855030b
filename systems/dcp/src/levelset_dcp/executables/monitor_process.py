"""The monitor process: stops a program when another process exits, even after the session is gone.

`python -m levelset_dcp.executables.monitor_process CHILD CHILD-STARTED MONITOR SECONDS` waits for the exit of the
process MONITOR, which was started at SECONDS since 1970, and then stops CHILD with its descendants. It does nothing if
CHILD has exited, or if its PID was reused.
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

_MODULE: Final = "levelset_dcp.executables.monitor_process"
_TOLERANCE: Final = 2.0
"""Seconds; the kernel reports the boot time in whole seconds."""


def monitor_command(child: Identity, monitor: int, at: datetime, ambient: Mapping[str, str]) -> Command:
    """The command line of the monitor process of a child."""
    arguments = (str(child.pid), str(child.started), str(monitor), str(at.timestamp()))
    path = {name: ambient[name] for name in ("PATH", "HOME") if name in ambient}
    env = {**path, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
    return Command(argv=(sys.executable, "-m", _MODULE, *arguments), env=env)


async def monitor(child: Identity, monitor: int, at: float) -> None:
    """Waits for the exit of a process, then stops the child; returns at once if the child does not run."""
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
    """The start time of a process in seconds since 1970; None if the kernel does not report it. Blocks."""
    try:
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    boot = next((int(line.split()[1]) for line in lines if line.startswith("btime ")), None)
    return None if boot is None else boot + identity.started / os.sysconf("SC_CLK_TCK")


def main(arguments: list[str]) -> int:
    """Runs the monitor; returns the exit code, 2 for a usage error."""
    try:
        child, started, other, seconds = arguments
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
