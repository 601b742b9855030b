"""Several API servers of one machine behind one port, as children of this process: `levelset serve --workers N`.

Each child listens on the same port (SO_REUSEPORT), so that the operating system spreads the connections, and uses the
same etcd. A child that ends is started again. All of them end with this process, even if it is killed: they notice that
their standard input has ended.
"""

import asyncio
import json
import logging
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from levelset.errors import ConfigError
from levelset.http.server import listen_error_message

__all__ = ["WorkerGroup", "audit_log_of", "reserve_port", "wait_parent"]

log = logging.getLogger(__name__)

_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 30.0
_STABLE_SECONDS: Final = 30.0
_READY_SECONDS: Final = 120.0
_STOP_SECONDS: Final = 15.0


class WorkerGroup:
    """Processes of one command, each with `--worker NUMBER`: from `start`, which returns when they serve, to `stop`."""

    def __init__(self, command: Sequence[str], number: int) -> None:
        self._workers = [_Worker([*command, "--worker", str(index)], index) for index in range(number)]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> dict[str, Any]:
        """Starts all workers; returns what the first one says about itself. Raises ConfigError if one cannot start."""
        first = await self._workers[0].start()  # it creates what all of them share
        await asyncio.gather(*(one.start() for one in self._workers[1:]))
        self._tasks = [asyncio.create_task(one.keep(), name=f"worker {one.number}") for one in self._workers]
        return first

    def reopen_logs(self) -> None:
        """Passes SIGHUP on: the audit logs are opened again."""
        for one in self._workers:
            one.send(signal.SIGHUP)

    async def stop(self) -> None:
        """Ends all workers: by SIGTERM, and after fifteen seconds by SIGKILL."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(one.stop() for one in self._workers))


class _Worker:
    """One child process, which is started again when it ends."""

    def __init__(self, command: Sequence[str], number: int) -> None:
        self._command = command
        self.number = number
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> dict[str, Any]:
        """Starts the process; returns its ready line when it serves, and raises ConfigError if it ends before."""
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_READY_SECONDS):
                line = await process.stdout.readline()
        except TimeoutError:
            await self.stop()
            raise ConfigError(f"Worker {self.number} did not serve within {_READY_SECONDS:g} s.") from None
        if not line:
            code = await process.wait()
            raise ConfigError(f"Worker {self.number} ended with code {code} before it served; see its message above.")
        ready: dict[str, Any] = json.loads(line)
        return ready

    async def keep(self) -> None:
        """Starts the process again whenever it ends, with growing delays if it does not last."""
        delay = _FIRST_DELAY
        while True:
            began = time.monotonic()
            code = -1 if self._process is None else await self._process.wait()
            if time.monotonic() - began > _STABLE_SECONDS:
                delay = _FIRST_DELAY
            log.error("worker %d ended with code %d; it is started again in %g s", self.number, code, delay)
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)
            try:
                await self.start()
            except (ConfigError, OSError, ValueError) as error:
                log.error("worker %d was not started: %s", self.number, error)  # noqa: TRY400 - no bug of ours
            else:
                log.warning("worker %d serves again", self.number)

    def send(self, number: int) -> None:
        """Sends a signal to the process, if it runs."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def stop(self) -> None:
        """Ends the process."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            log.warning("worker %d did not end within %g s and is killed", self.number, _STOP_SECONDS)
            self.send(signal.SIGKILL)
            await process.wait()


def reserve_port(host: str, port: int) -> socket.socket:
    """A socket that holds a port for the workers, without listening; raises ConfigError if it is in use."""
    if not hasattr(socket, "SO_REUSEPORT"):
        raise ConfigError("--workers needs an operating system with SO_REUSEPORT: start one server without it.")
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        if port:
            with socket.socket(family) as probe:  # without SO_REUSEPORT: it must not join another server's port
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
        held = socket.socket(family)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(address)
    except OSError as error:
        raise ConfigError(listen_error_message(error, host, port)) from error
    return held


async def wait_parent() -> None:
    """Returns when the parent of this worker has ended: standard input is a pipe from it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(4096):
        pass


def audit_log_of(path: str, worker: int) -> str:
    """The audit log of one worker, `audit.worker-0.log`: each has its own, since a file is rotated by its writer."""
    name = Path(path)
    return str(name.with_name(f"{name.stem}.worker-{worker}{name.suffix}"))
