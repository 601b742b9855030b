"""Thousands of watches on one server over real sockets, each a bare protocol that counts the events it gets."""

import asyncio
import json
import resource
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

__all__ = ["ManyWatches", "WatchProtocol", "allow_files", "open_watches"]


class WatchProtocol(asyncio.Protocol):
    """One watch: sends its request, and counts the lines after the head of the response."""

    def __init__(self, head: bytes, on_event: Callable[[], None]) -> None:
        self.events = 0
        self.is_open = False
        self.is_lost = False
        self._head = head
        self._on_event = on_event
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self._head)

    def data_received(self, data: bytes) -> None:
        if not self.is_open:
            head, _, data = data.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            self.is_open = True
            self._on_event()
        # In one chunk there is one event at least; the line end of an event is inside of its JSON line only there.
        count = data.count(b'{"type":"')
        self.events += count
        if count:
            self._on_event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._on_event()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class ManyWatches:
    """Open watches of the ConfigMaps of one server."""

    def __init__(self, url: str, token: str) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "", address.port or 0
        self._token = token
        self._changed = asyncio.Event()
        self.watches: list[WatchProtocol] = []

    async def open(self, count: int, *, together: int = 100) -> float:
        """Opens watches; returns the seconds until the server has accepted all."""
        began = time.perf_counter()
        for start in range(0, count, together):
            await asyncio.gather(*(self._connect() for _ in range(min(together, count - start))))
        await self._until(lambda: all(one.is_open for one in self.watches))
        return time.perf_counter() - began

    async def measure_event(self, write: Callable[[], Awaitable[Any]]) -> float:
        """Writes an object; returns the seconds until every watch has its event."""
        expected = self.watches[0].events + 1
        began = time.perf_counter()
        await write()
        await self._until(lambda: all(one.events >= expected for one in self.watches))
        return time.perf_counter() - began

    @property
    def lost(self) -> int:
        """How many connections the server has ended."""
        return sum(one.is_lost for one in self.watches)

    def close(self) -> None:
        for one in self.watches:
            one.close()

    async def request(self, method: str, path: str, tree: Any = None) -> tuple[int, float]:
        """A request on a connection of its own: its status, and the seconds that it took."""
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection(self._host, self._port)
        body = b"" if tree is None else json.dumps(tree).encode()
        writer.write(self._head(method, path, len(body), close=True) + body)
        answer = await reader.read()
        writer.close()
        return int(answer.split(b" ", 2)[1]), time.perf_counter() - began

    async def _connect(self) -> None:
        head = self._head("GET", "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0", 0)
        make = partial(WatchProtocol, head, self._changed.set)
        made = await asyncio.get_running_loop().create_connection(make, self._host, self._port)
        self.watches.append(made[1])

    def _head(self, method: str, target: str, length: int, *, close: bool = False) -> bytes:
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self._token}"]
        lines += ["Content-Type: application/json", f"Content-Length: {length}"] if length else []
        lines += ["Connection: close"] if close else []
        return "\r\n".join([*lines, "", ""]).encode()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(100):
            while not is_so():
                self._changed.clear()
                await self._changed.wait()
                await asyncio.sleep(0.001)


@asynccontextmanager
async def open_watches(url: str, token: str) -> AsyncGenerator[ManyWatches, None]:
    watches = ManyWatches(url, token)
    try:
        yield watches
    finally:
        watches.close()
        await asyncio.sleep(0)


def allow_files(count: int) -> bool:
    """Raises the limit of open files of this process; whether it is enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    return max(soft, resource.getrlimit(resource.RLIMIT_NOFILE)[0]) >= count
