"""An API server in a process of its own, whose memory can be measured."""

import asyncio
import re
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

__all__ = ["ServerProcess", "server_process"]


class ServerProcess:
    """A running server: its address and its process."""

    def __init__(self, pid: int, url: str, token: str) -> None:
        self.pid = pid
        self.token = token
        self.is_secure = url.startswith("https:")
        self.port = int(url.rpartition(":")[2])

    async def resident_bytes(self) -> int:
        """The resident memory of the process."""
        text = await asyncio.to_thread(Path(f"/proc/{self.pid}/status").read_text, "utf-8")
        found = re.search(r"^VmRSS:\s+(\d+) kB", text, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A new connection, without a certificate."""
        context = None
        if self.is_secure:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context)


@asynccontextmanager
async def server_process(*options: str) -> AsyncIterator[ServerProcess]:
    """Starts `python -m levelset.apiserver`, and ends it."""
    command = [sys.executable, "-m", "levelset.apiserver", *options]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        url, token = (await process.stdout.readline()).decode().split()
        yield ServerProcess(process.pid, url, token)
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()
