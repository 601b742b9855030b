"""Waits for the end of another process: a session ends with the program that has started it."""

from levelset.errors import ConfigError
from levelset_machine import Identity, Machine, identity_of

__all__ = ["monitored", "wait_end"]


def monitored(pid: int, started: int | None = None) -> Identity:
    """The process to wait for; ConfigError if there is none, or another one has its number by now.

    `started` is field 22 of /proc/PID/stat: what tells it from a later process with the same number.
    """
    found = identity_of(pid)
    if found is None:
        raise ConfigError(f"--monitor: there is no process {pid}")
    if started is not None and started != found.started:
        raise ConfigError(f"--monitor: process {pid} is another one: it began at {found.started}, and not at {started}")
    return found


async def wait_end(identity: Identity) -> None:
    """Returns when the process has ended."""
    async with Machine(guard=False) as machine:
        run = machine.adopt(identity)
        if run is not None:
            await run.wait()
