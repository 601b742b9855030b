"""The sources of `exec`, `attach` and `portforward` of a kind: what a node implements to serve them.

```python
async def exec_(request: StreamRequest) -> RunCommand:
    if request.parameter("container") not in ("", "main"):
        raise BadRequest(f"container {request.parameter('container')} is not valid for pod {request.name}")

    async def run(streams: RemoteStreams) -> int:
        await streams.write(STDOUT, b"hello")
        return 0

    return run


server.serve_streams("", "Pod", StreamSources(exec=exec_))
```

What a source raises before it returns is the response; the connection is upgraded after that.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

import msgspec

from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.wire.request_options import is_true

__all__ = [
    "STDERR",
    "STDOUT",
    "ByteQueue",
    "ConnectPort",
    "PortConnection",
    "RemoteStreams",
    "RunCommand",
    "StreamRequest",
    "StreamSources",
    "TerminalSize",
]

STDOUT: Final = 1
STDERR: Final = 2
_HIGH: Final = 256 * 1024
"""The received bytes that may wait for a slow reader before the client has to wait."""


class StreamRequest(msgspec.Struct, frozen=True):
    """A request for a stream of an object: its name, its stored tree, and the query parameters."""

    name: str
    namespace: str | None
    tree: Object
    query: Mapping[str, tuple[str, ...]]

    def parameter(self, name: str) -> str:
        """The first value of a parameter; empty if it is not given."""
        return next(iter(self.query.get(name, ())), "")

    def is_set(self, name: str) -> bool:
        """Whether a parameter is true."""
        return is_true(next(iter(self.query.get(name, ())), None))


class TerminalSize(msgspec.Struct, frozen=True):
    """The size of the client's terminal."""

    columns: int
    rows: int


class ByteQueue:
    """Received bytes that wait for a reader. `hold` is called when too many do, and `release` when they are read."""

    def __init__(self, hold: Callable[[], None], release: Callable[[], None]) -> None:
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._is_ended = False
        self._is_held = False
        self._hold, self._release = hold, release
        self._ready = asyncio.Event()

    def put(self, data: bytes) -> None:
        """Adds bytes; no effect after the end."""
        if self._is_ended or not data:
            return
        self._parts.append(data)
        self._size += len(data)
        self._ready.set()
        if self._size > _HIGH and not self._is_held:
            self._is_held = True
            self._hold()

    def end(self) -> None:
        """No more bytes come; idempotent."""
        self._is_ended = True
        self._ready.set()

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        while not self._parts and not self._is_ended:
            self._ready.clear()
            await self._ready.wait()
        if not self._parts:
            return b""
        data = self._parts.popleft()
        self._size -= len(data)
        if self._is_held and self._size <= _HIGH // 2:
            self._is_held = False
            self._release()
        return data


class RemoteStreams:
    """The streams of one `exec` or `attach`, between the client and a process."""

    def __init__(
        self,
        send: Callable[[int, bytes], Awaitable[None]],
        *,
        stdin: ByteQueue | None,
        stdout: bool,
        stderr: bool,
        tty: bool,
    ) -> None:
        self._send = send
        self._sizes: deque[TerminalSize] = deque(maxlen=1)
        self._resized = asyncio.Event()
        self._wanted = {STDOUT: stdout, STDERR: stderr}
        self.stdin = stdin
        """What the client types; None if it sends nothing."""
        self.tty = tty

    def wants(self, stream: int) -> bool:
        """Whether the client wants STDOUT or STDERR."""
        return self._wanted[stream]

    async def write(self, stream: int, data: bytes) -> None:
        """Sends output, if the client wants it; waits while the client reads too slowly."""
        if data and self._wanted[stream]:
            await self._send(stream, data)

    async def sizes(self) -> AsyncIterator[TerminalSize]:
        """The size of the client's terminal, whenever it changes; only the latest one of several."""
        while True:
            await self._resized.wait()
            self._resized.clear()
            if self._sizes:
                yield self._sizes.popleft()

    def resize(self, message: bytes) -> None:
        """Takes in a message with a size, as JSON; what is not one is ignored."""
        try:
            tree = json.loads(message)
            columns, rows = int(tree["Width"]), int(tree["Height"])
        except (ValueError, TypeError, KeyError):
            return
        if 0 < columns < 1 << 16 and 0 < rows < 1 << 16:
            self._sizes.append(TerminalSize(columns, rows))
            self._resized.set()


class PortConnection(msgspec.Struct, frozen=True):
    """A connection to a port of a Pod."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


RunCommand = Callable[[RemoteStreams], Awaitable[int]]
"""Runs a command, or attaches to one, and returns its exit code; it is cancelled when the client has gone."""
ConnectPort = Callable[[int], Awaitable[PortConnection]]
"""Connects to a port of a Pod; OSError if that fails."""


class StreamSources(msgspec.Struct, frozen=True, kw_only=True):
    """What a node serves of a kind; a subresource without a source is refused, or not found if it is none of a Pod."""

    exec: Callable[[StreamRequest], Awaitable[RunCommand]] | None = None
    attach: Callable[[StreamRequest], Awaitable[RunCommand]] | None = None
    portforward: Callable[[StreamRequest], Awaitable[ConnectPort]] | None = None
