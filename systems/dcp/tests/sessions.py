"""Sessions in a process of their own, as somebody would start them; and words for tests to talk about them."""

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

__all__ = ["Started", "lines_of", "running_session", "until_state"]

WITHIN = 18.0


@dataclass
class Started:
    """A session in another process."""

    process: asyncio.subprocess.Process
    client: Client
    kubeconfig: Path
    said: asyncio.StreamReader


def environment(home: Path) -> dict[str, str]:
    """Nothing of the user's is touched: another home folder, and with it another state store."""
    return {**os.environ, "HOME": str(home), "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}


@asynccontextmanager
async def running_session(home: Path, *words: str) -> AsyncGenerator[Started, None]:
    """A session that is ready; what is left of it is killed in the end."""
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
        *words,
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
            yield Started(process, client, kubeconfig, process.stdout)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until_state(client: Client, name: str, state: str) -> Executable:
    """The Executable, once it is in a state."""
    return await client.wait(
        Ref(Executable, name), lambda one: bool(one.status and one.status.state == state), within=WITHIN
    )


async def lines_of(client: Client, name: str, **query: Any) -> list[str]:
    """The lines of a program."""
    async with client.logs(Ref(Executable, name), **query) as lines:
        return [line async for line in lines]
