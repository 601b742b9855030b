"""A server process to measure, and clients that only write requests and count what comes back.

They are raw asyncio protocols, so that the load generator takes as little of the machine as it can.
"""

import asyncio
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOKEN = "0123456789abcdef0123456789abcdef"
PATIENCE = 120.0
SOURCE = Path(__file__).parents[1] / "src"


def to_bytes(method: str, path: str, body: bytes = b"") -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nAuthorization: Bearer {TOKEN}\r\n"
    )
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


@dataclass
class Running:
    """A server process, and how to reach it."""

    process: "subprocess.Popen[str]"
    port: int
    tls: ssl.SSLContext | None
    started: float
    """Seconds from the start of the process to its being ready, by its own word and by ours."""

    @property
    def memory(self) -> float:
        """What the process holds, in MB."""
        return int(status(self.process.pid, "VmRSS").split()[0]) / 1024

    @property
    def cpu(self) -> float:
        """User and system time of the process until now, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/status").read_text().partition(f"{name}:")[2].partition("\n")[0].strip()


CORES = sorted(os.sched_getaffinity(0))


def pin(process: int, *, last: bool) -> None:
    """Puts the load generator on the last core and a server on the others, so that neither takes from the other."""
    if len(CORES) > 1:
        os.sched_setaffinity(process, CORES[-1:] if last else CORES[:-1])


@contextlib.contextmanager
def serving(*, data: str = "memory", tls: bool = True) -> Iterator[Running]:
    """Runs a server process until the end of the block."""
    command = [
        sys.executable,
        str(Path(__file__).with_name("apiserver.py")),
        "--serve",
        data,
        *([] if tls else ["--plain"]),
    ]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(SOURCE)})
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        started = time.perf_counter() - began
        pin(process.pid, last=False)
        pin(0, last=True)
        context = ssl.create_default_context(cadata=told["ca"]) if tls else None
        yield Running(process, told["port"], context, started)
    finally:
        os.sched_setaffinity(0, CORES)
        process.send_signal(signal.SIGTERM)
        process.wait(20)


async def serve(data: str, *, tls: bool) -> None:
    """The other side of `serving`: the server, ready to be asked."""
    from levelset.apiserver.server import ApiServer
    from levelset.storage import MemoryStorage, SqliteStorage

    storage = MemoryStorage() if data == "memory" else SqliteStorage(data)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with ApiServer(storage, token=TOKEN, tls=tls) as server:
        port = int(server.url.rpartition(":")[2])
        print(json.dumps({"port": port, "ca": server.ca.decode() if server.ca else None}), flush=True)
        await stopped.wait()
    await storage.close()


class Asker(asyncio.Protocol):
    """Sends the next request as soon as it has an answer; looks only for its status and its end."""

    def __init__(self, next_request: Callable[[], bytes | None], expected: bytes, done: asyncio.Future[None]) -> None:
        self.next_request, self.expected, self.done = next_request, b"HTTP/1.1 " + expected, done
        self.buffer = bytearray()
        self.missing = self.usual = 0
        self.times: list[float] = []
        self.sent = 0.0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        assert self.transport is not None
        request = self.next_request()
        if request is None:
            self.transport.close()
            return
        self.sent = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        if len(data) == self.usual and data.startswith(self.expected) and not self.buffer and not self.missing:
            pass  # as long as the last answer, which came whole: so did this one
        elif self.missing:  # the body of a long answer is only counted
            self.missing -= len(data)
        else:
            self.buffer += data
            head = self.buffer.find(b"\r\n\r\n")
            if head < 0:
                return
            if not self.buffer.startswith(self.expected):
                self.fail(RuntimeError(f"not {self.expected!r}: {bytes(self.buffer[:500])!r}"))
                return
            self.missing = head + 4 + length_in(self.buffer[:head]) - len(self.buffer)
            self.usual = 0 if self.missing else len(data)
            self.buffer.clear()
        if self.missing:
            return
        self.times.append(time.perf_counter() - self.sent)
        self.ask()

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self.fail(error)
        elif not self.done.done():
            self.done.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
        if self.transport is not None:
            self.transport.abort()


def length_in(head: bytes | bytearray) -> int:
    start = head.lower().find(b"content-length:") + 15
    end = head.find(b"\r\n", start)
    return int(head[start : end if end > 0 else None])


@dataclass
class Load:
    """What a run gave: requests per second by the clock and by the server's processor time, and how long each took."""

    count: int
    seconds: float
    cpu: float
    times: list[float] = field(repr=False)

    @property
    def rate(self) -> float:
        return self.count / self.seconds

    @property
    def per_core(self) -> float:
        return self.count / self.cpu if self.cpu else float("inf")

    @property
    def p99(self) -> float:
        return sorted(self.times)[int(len(self.times) * 0.99)]


async def load(server: Running, requests: Sequence[bytes], *, connections: int, expected: bytes) -> Load:
    """Sends the requests over so many connections, each one at a time."""
    left = iter(requests)
    loop = asyncio.get_running_loop()
    askers: list[Asker] = []
    name = "localhost" if server.tls else None
    finished = [loop.create_future() for _ in range(connections)]
    gate = asyncio.Event()
    for done in finished:
        _, asker = await loop.create_connection(
            lambda done=done: Waiting(gate, lambda: next(left, None), expected, done),
            "127.0.0.1", server.port, ssl=server.tls, server_hostname=name,
        )  # fmt: skip
        askers.append(asker)
    cpu, began = server.cpu, time.perf_counter()
    gate.set()
    for asker in askers:
        asker.ask()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*finished)
    seconds = time.perf_counter() - began
    return Load(len(requests), seconds, server.cpu - cpu, [taken for asker in askers for taken in asker.times])


class Waiting(Asker):
    """Connects first, and begins when told: handshakes are not what is measured."""

    def __init__(self, gate: asyncio.Event, *rest: Any) -> None:
        super().__init__(*rest)
        self.gate = gate

    def ask(self) -> None:
        if self.gate.is_set():
            super().ask()


class Watcher(asyncio.Protocol):
    """Opens a watch and counts the lines that come; a stalled one stops reading."""

    def __init__(self, path: str, *, stalled: bool = False) -> None:
        self.request, self.stalled = to_bytes("GET", path), stalled
        self.lines = self.bytes = 0
        self.opened = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None
        self.wanted = 0
        self.reached: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.bytes += len(data)
        if not self.opened.done() and b"\r\n\r\n" in data:
            self.opened.set_result(None)
            if self.stalled and self.transport is not None:
                self.transport.pause_reading()
        self.lines += data.count(b'{"type":"')
        if self.reached is not None and self.lines >= self.wanted and not self.reached.done():
            self.reached.set_result(None)

    async def wait_lines(self, count: int) -> None:
        if self.lines < count:
            self.wanted, self.reached = count, asyncio.get_running_loop().create_future()
            await self.reached


@contextlib.asynccontextmanager
async def watching(
    server: Running, path: str, *, count: int = 1, stalled: bool = False
) -> AsyncIterator[list[Watcher]]:
    loop = asyncio.get_running_loop()
    watchers: list[Watcher] = []
    for _ in range(count):
        _, watcher = await loop.create_connection(
            lambda: Watcher(path, stalled=stalled), "127.0.0.1", server.port,
            ssl=server.tls, server_hostname="localhost" if server.tls else None,
        )  # fmt: skip
        watchers.append(watcher)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(watcher.opened for watcher in watchers))
    try:
        yield watchers
    finally:
        for watcher in watchers:
            if watcher.transport is not None:
                watcher.transport.abort()
