"""A real server process on one data file, which is killed, stopped, continued and started again."""

# ruff: noqa: ASYNC110 - the other process cannot set an event

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from levelset.client.client import open_transport
from levelset.client.transport.interface import Call, Response, Transport
from levelset.errors import Unreachable

__all__ = ["ServerProcess"]

_START = "from levelset.cli.main import main; main()"
_ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one)}


class ServerProcess:
    """`levelset serve` with full durability; itself a transport to whichever process runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: Transport | None = None

    async def start(self) -> None:
        """Starts a process, and waits until it is ready."""
        kubeconfig = self._folder / "kubeconfig"
        kubeconfig.unlink(missing_ok=True)
        self._process = self._launch("kubeconfig", stderr=subprocess.DEVNULL)
        while not kubeconfig.exists():
            if self._process.poll() is not None:
                raise AssertionError(f"the server ended with {self._process.returncode} when it was started again")
            await asyncio.sleep(0.02)
        transport, _ = await open_transport(kubeconfig)
        while not await _is_ready(transport):
            await asyncio.sleep(0.02)
        self._transport = transport

    async def kill(self) -> None:
        """Ends the process at once, wherever it is."""
        assert self._process is not None
        transport, self._transport = self._transport, None
        self._process.kill()
        await asyncio.to_thread(self._process.wait)
        if transport is not None:
            await transport.aclose()

    async def pause(self, seconds: float) -> None:
        """Stops the process for a while."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    async def start_second(self) -> tuple[int, str]:
        """Starts another process on the same file; its exit code and message."""
        process = self._launch("second-kubeconfig", stderr=subprocess.PIPE)
        try:
            _, errors = await asyncio.to_thread(process.communicate, timeout=60)
        finally:
            process.kill()
        return process.returncode, errors.decode()

    async def send(self, call: Call, /) -> Response:
        """As `Transport.send`."""
        if self._transport is None:
            await asyncio.sleep(0.01)
            raise Unreachable("the server is not running; it is being started again")
        return await self._transport.send(call)

    async def aclose(self) -> None:
        """Ends the process."""
        if self._process is not None:
            await self.kill()

    def _launch(self, kubeconfig: str, *, stderr: int) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", _START, "serve", "--data", "data.db", "--kubeconfig", kubeconfig]
        return subprocess.Popen(command, cwd=self._folder, env=_ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=stderr)


async def _is_ready(transport: Transport) -> bool:
    try:
        return (await transport.send(Call(method="GET", path="/readyz", timeout=5.0))).status == 200
    except Unreachable:
        return False
