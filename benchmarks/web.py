"""Measures the HTTP server: requests per second, plain and over TLS, and the fan-out of watch events.

`python benchmarks/web.py` starts the server as a second process, on one core, and sends requests from this one, on another.
"cpu" is the user and system time of the server alone: the capacity of one core. "wall" is until the clients have
everything, so it depends on the slower of the two sides.
"""

import argparse
import asyncio
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from levelset.http import CertificateAuthority, Limits, Request, Response, Server, Sink

OBJECT = json.dumps({"kind": "Widget", "metadata": {"name": "one"}, "spec": {"text": "x" * 1430}}).encode()
LINE = b'{"type":"MODIFIED","object":' + OBJECT + b"}\n"
JSON = (("Content-Type", "application/json"), ("Cache-Control", "no-cache, private"))
HEADERS = (
    "Host: localhost\r\nAccept: application/json\r\nUser-Agent: bench\r\nAuthorization: Bearer 0123456789abcdef\r\n"
)
BUFFER = memoryview(bytearray(256 * 1024))


def to_bytes(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\n{HEADERS}\r\n".encode()


class Application:
    """A handler with one object, and a watch to which it writes on request."""

    def __init__(self) -> None:
        self.sinks: list[Sink] = []

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        match request.path:
            case "/watch":
                return Response(200, JSON, self.sinks.append)
            case "/state":
                memory = Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]
                return Response(200, JSON, json.dumps([time.process_time(), int(memory) // 1024]).encode())
            case "/later":
                return self.later()
            case "/fan":
                events, by = (int(request.parameter(name) or 1) for name in ("events", "by"))
                return Response(200, JSON, self.fan(events, by))
            case _:
                return Response(200, JSON, OBJECT)

    async def later(self) -> Response:
        return Response(200, JSON, OBJECT)

    async def fan(self, events: int, by: int) -> AsyncIterator[bytes]:
        """Writes `events` to every watcher, `by` in one tick, as fast as they are read."""
        for _ in range(events // by):
            for _ in range(by):
                line = bytes(bytearray(LINE))  # every event is another object
                for sink in self.sinks:
                    sink.write(line)
            await asyncio.sleep(0)
            for sink in self.sinks:
                if sink.is_backed_up:
                    await sink.wait_drained()
        yield b"done"


class RequestSender(asyncio.BufferedProtocol):
    """Sends the next request when the response is complete; all responses have the same length."""

    def __init__(self, request: bytes, count: int, done: Callable[[], None]) -> None:
        self.request, self.left, self.done = request, count, done
        self.size = self.got = 0

    def connection_made(self, transport) -> None:
        self.transport = transport
        transport.write(self.request)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the signature is asyncio's
        return BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        if not self.size:
            head = bytes(BUFFER[:nbytes]).partition(b"\r\n\r\n")[0]
            self.size = len(head) + 4 + int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
        self.got += nbytes
        if self.got < self.size:
            return
        self.got = 0
        self.left -= 1
        if self.left:
            self.transport.write(self.request)
        else:
            self.done()


class Watcher(RequestSender):
    """Sends one request, and is done after so many bytes."""

    def buffer_updated(self, nbytes: int) -> None:
        self.got += nbytes
        if self.got >= self.left:
            self.left = sys.maxsize
            self.done()


async def fetch(port: int, tls: ssl.SSLContext | None, path: str) -> bytes:
    name = "localhost" if tls else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
    writer.write(to_bytes(path).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    body = (await reader.read()).partition(b"\r\n\r\n")[2]
    writer.close()
    return body


async def open_all(
    kind: type[RequestSender], port: int, tls: ssl.SSLContext | None, count: int, request: bytes, each: int
) -> tuple[list[asyncio.BaseTransport], list["asyncio.Future[None]"]]:
    loop = asyncio.get_running_loop()
    transports, futures = [], []
    for _ in range(count):
        future = loop.create_future()
        name = "localhost" if tls else None
        transport, _ = await loop.create_connection(
            lambda future=future: kind(request, each, lambda: future.set_result(None)),
            "127.0.0.1", port, ssl=tls, server_hostname=name,
        )  # fmt: skip
        transports.append(transport)
        futures.append(future)
    return transports, futures


async def load(port: int, tls: ssl.SSLContext | None, path: str, connections: int, total: int) -> str:
    """Requests per second over `connections` connections; best of three."""
    best = (0.0, 0.0)
    for _ in range(3):
        before = json.loads(await fetch(port, tls, "/state"))
        began = time.perf_counter()
        transports, futures = await open_all(
            RequestSender, port, tls, connections, to_bytes(path), total // connections
        )
        await asyncio.gather(*futures)
        wall = time.perf_counter() - began
        cpu = json.loads(await fetch(port, tls, "/state"))[0] - before[0]
        for transport in transports:
            transport.close()
        best = max(best, (total / cpu, total / wall))
    return f"{best[0]:>11,.0f}/s cpu {best[1]:>11,.0f}/s wall {1e6 / best[0]:>8.1f} us"


async def fan_out(port: int, tls: ssl.SSLContext | None, watchers: int, events: int, by: int) -> str:
    """Events x watchers per second."""
    size = (len(LINE) * events) + 1
    transports, futures = await open_all(Watcher, port, tls, watchers, to_bytes("/watch"), size)
    before = json.loads(await fetch(port, tls, "/state"))
    began = time.perf_counter()
    await fetch(port, tls, f"/fan?events={events}&by={by}")
    await asyncio.gather(*futures)
    wall = time.perf_counter() - began
    after = json.loads(await fetch(port, tls, "/state"))
    for transport in transports:
        transport.close()
    total, cpu = watchers * events, after[0] - before[0]
    return f"{total / cpu:>11,.0f}/s cpu {total / wall:>11,.0f}/s wall {1e6 * cpu / total:>8.2f} us, {after[1]} MB"


async def serve(tls: ssl.SSLContext | None) -> None:
    async with Server(Application().handle, tls=tls, limits=Limits(connections=5000)) as server:
        print(server.port, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextmanager
def running(role: str, directory: str) -> Iterator[int]:
    command = [sys.executable, __file__, "--serve", role, "--directory", directory]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.communicate("")


def pin(core: int) -> None:
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {core})


def measure(requests: int, directory: str, roles: list[str]) -> None:
    for role in roles:
        with running(role, directory) as port:
            tls = trusting(directory) if role == "tls" else None
            for path, connections in (("/one", 1), ("/one", 32), ("/one", 64), ("/later", 32)):
                total = requests // (4 if tls else 1) // (4 if connections == 1 else 1)
                figures = asyncio.run(load(port, tls, path, connections, total))
                words = "coroutine" if path == "/later" else "function"
                print(f"GET 1.5 KB, {role:<5}, {words:<9}, {connections:>4} connections {figures}")
        for watchers, events, by in ((100, 100, 1), (1000, 100, 1), (100, 5000, 50), (1000, 500, 50)):
            with running(role, directory) as port:
                tls = trusting(directory) if role == "tls" else None
                figures = asyncio.run(fan_out(port, tls, watchers, events // (5 if tls else 1), by))
                print(f"events to {watchers:>5} watchers, {role:<5}, {by:>3} in one tick {figures}")


def trusting(directory: str) -> ssl.SSLContext:
    """The context of a client; the server has written the certificate to trust."""
    return ssl.create_default_context(cafile=str(Path(directory, "ca.pem")))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--serve", choices=["plain", "tls"], help=argparse.SUPPRESS)
    arguments.add_argument("--directory", help=argparse.SUPPRESS)
    arguments.add_argument("--only", choices=["plain", "tls"], help="measure only these connections")
    arguments.add_argument("--requests", type=int, default=64_000)
    options = arguments.parse_args()
    if not options.serve:
        pin(1)
        with tempfile.TemporaryDirectory() as directory:
            measure(options.requests, directory, [options.only] if options.only else ["plain", "tls"])
        return
    pin(0)
    tls = None
    if options.serve == "tls":
        authority = CertificateAuthority.create("bench")
        Path(options.directory, "ca.pem").write_bytes(authority.certificate)
        tls = authority.server_context(authority.issue_server(["localhost"], ["127.0.0.1"]))
    asyncio.run(serve(tls))


if __name__ == "__main__":
    main()
