"""A server process to measure, and the load on it."""

import asyncio
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from apiserver_clients import TOKEN, Crowd, RequestSender, converse

SOURCE = Path(__file__).parents[1] / "src"


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
        """The resident memory of the process, in MB."""
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
    """Puts the load generator on the last core and a server on the others, so that they do not compete."""
    if len(CORES) > 1:
        os.sched_setaffinity(process, CORES[-1:] if last else CORES[:-1])


@contextlib.contextmanager
def serving(*, data: str = "memory", tls: bool = True, durability: str = "normal") -> Iterator[Running]:
    """Runs a server process until the end of the block."""
    command = [
        sys.executable,
        str(Path(__file__).with_name("apiserver.py")),
        "--serve",
        data,
        "--durability",
        durability,
        *([] if tls else ["--plain"]),
    ]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(SOURCE)})
    try:
        assert process.stdout is not None
        report = json.loads(process.stdout.readline())
        started = time.perf_counter() - began
        pin(process.pid, last=False)
        pin(0, last=True)
        context = ssl.create_default_context(cadata=report["ca"]) if tls else None
        yield Running(process, report["port"], context, started)
    finally:
        os.sched_setaffinity(0, CORES)
        process.send_signal(signal.SIGTERM)
        process.wait(20)


async def serve(data: str, *, tls: bool, durability: Literal["normal", "full"]) -> None:
    """The other side of `serving`: the server, ready for requests."""
    from levelset.apiserver.server import ApiServer
    from levelset.storage import MemoryStorage, SqliteStorage

    storage = MemoryStorage() if data == "memory" else SqliteStorage(data, durability=durability)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with ApiServer(storage, token=TOKEN, tls=tls) as server:
        port = int(server.url.rpartition(":")[2])
        print(json.dumps({"port": port, "ca": server.ca.decode() if server.ca else None}), flush=True)
        await stopped.wait()
    await storage.close()


@dataclass
class Load:
    """The result of a run: requests per second by wall time and by the server's CPU time, and all latencies."""

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


async def load(
    server: Running,
    requests: Sequence[bytes],
    *,
    connections: int,
    expected: bytes,
    crowd: Crowd | None = None,
    events: int = 0,
) -> Load:
    """Sends the requests over so many connections, each one at a time, while the crowd gets so many events."""
    left = iter(requests)
    senders = [RequestSender(server.port, server.tls, left, expected) for _ in range(connections)]
    cpu, began = server.cpu, time.perf_counter()
    converse(senders, crowd, events=events)
    seconds = time.perf_counter() - began
    return Load(len(requests), seconds, server.cpu - cpu, [taken for sender in senders for taken in sender.times])
