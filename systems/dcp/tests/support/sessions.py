"""Helpers for tests of sessions: a session in its own process, and waits for states of Executables."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelset import Client, Ref
from levelset_dcp.kinds import Executable
from levelset_machine import Identity, Machine, identity_of

__all__ = [
    "WITHIN",
    "SessionProcess",
    "environment",
    "identity_of_process",
    "lines_of",
    "running_session",
    "until_state",
    "wait_for_exit",
]

WITHIN = 120.0


@dataclass
class SessionProcess:
    """A session in another process."""

    process: asyncio.subprocess.Process
    client: Client
    kubeconfig: Path
    stdout: asyncio.StreamReader


def environment(home: Path) -> dict[str, str]:
    """The environment of a session, with another home directory, so that the user's state store is not touched."""
    return {**os.environ, "HOME": str(home), "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}


@asynccontextmanager
async def running_session(home: Path, *arguments: str) -> AsyncGenerator[SessionProcess, None]:
    """Starts a session and waits until it is ready; it is killed at the end of the block."""
    kubeconfig = home / "kubeconfig"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "levelset_dcp.cli",
        "start",
        "--kubeconfig",
        str(kubeconfig),
        "--container-runtime",
        "none",
        *arguments,
        stdout=-1,
        env=environment(home),
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(WITHIN):
            line = await process.stdout.readline()
            assert line.startswith(b"levelset-dcp is at "), line
            await process.stdout.readline()
        async with await Client.connect(str(kubeconfig)) as client:
            yield SessionProcess(process, client, kubeconfig, process.stdout)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until_state(client: Client, name: str, state: str) -> Executable:
    """Waits until an Executable is in a state."""
    return await client.wait(
        Ref(Executable, name), lambda one: bool(one.status and one.status.state == state), within=WITHIN
    )


async def lines_of(client: Client, name: str, **query: Any) -> list[str]:
    """The lines of a program's log."""
    async with client.logs(Ref(Executable, name), **query) as lines:
        return [line async for line in lines]


async def wait_for_exit(identity: Identity, *, within: float) -> None:
    """Waits for the exit of a process that is not our child."""
    async with asyncio.timeout(within), Machine(guard=False) as machine:
        run = machine.adopt(identity)
        if run is not None:
            await run.wait()


def identity_of_process(one: Executable) -> Identity:
    """The identity of the process of a running Executable."""
    assert one.status is not None
    assert one.status.pid is not None
    found = identity_of(one.status.pid)
    assert found is not None
    return found
