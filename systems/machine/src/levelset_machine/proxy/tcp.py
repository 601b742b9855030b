"""A TCP proxy to endpoints that change.

```python
proxy = TcpProxy()
port = await proxy.listen("127.0.0.1", 0)
proxy.endpoints = (("127.96.128.1", 8080), ("127.96.128.2", 8080))
...
await proxy.close()
```
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, cast

from levelset.aio import Backoff, timing
from levelset_machine.proxy.endpoints import CannotListen, Choose, Endpoint, EndpointPicker, ProxyStats, check_port

__all__ = ["TcpProxy"]

_MAX_PARKED: Final = 20
_DIAL_TIMEOUT: Final = 5.0
_RETRY: Final = Backoff(first=0.05, cap=2.0, jitter=0.0, quiet=None)
_CLOSE_TIMEOUT: Final = 2.0
_BACKLOG: Final = 1024

_MAX_BUFFERED: Final = 1024 * 1024
"""How many bytes of a client are buffered at most while it has no endpoint."""

_READ_SIZE: Final = 256 * 1024
"""How much asyncio reads at once: reading is paused while the buffer still has space for that."""


class TcpProxy:
    """Listens, and forwards each connection to one of its `endpoints`, chosen per connection.

    - While there are none, connections are parked: at most 20, with up to 1 MB of what each client has sent; beyond
      that the oldest is dropped. They go on as soon as there is an endpoint.
    - If an endpoint refuses, or does not answer within `dial_timeout`, another one is tried. If all fail, they are
      tried again with backoff, and at once when the endpoints change; after `retry_timeout` seconds the client is
      dropped.
    - A change of the endpoints affects new connections only.
    - With `sticky`, a client gets the endpoint that it had within so many seconds.
    """

    def __init__(
        self,
        *,
        choose: Choose = random.choice,
        sticky: float | None = None,
        retry_timeout: float = 20.0,
        dial_timeout: float = _DIAL_TIMEOUT,
    ) -> None:
        self._picker = EndpointPicker(choose, sticky=sticky)
        self._retry_timeout = retry_timeout
        self._dial_timeout = dial_timeout
        self._endpoints: tuple[Endpoint, ...] = ()
        self._changed = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._connections: dict[_Connection, None] = {}
        self._parked: deque[_Connection] = deque()
        self._opened = self._dropped = self._failed = 0
        self._emptied = asyncio.Event()
        self._is_closed = False

    async def listen(self, address: str, port: int = 0) -> int:
        """Listens on one more address, and returns the port, which the system chooses for 0; raises CannotListen."""
        loop = asyncio.get_running_loop()
        check_port(address, port)
        try:
            server = await loop.create_server(self._accept, address, port, backlog=_BACKLOG)
        except OSError as error:
            raise CannotListen.of(address, port, error) from error
        self._servers.append(server)
        found: int = server.sockets[0].getsockname()[1]
        return found

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints for new connections."""
        return self._endpoints

    @endpoints.setter
    def endpoints(self, endpoints: Iterable[Endpoint]) -> None:
        self._endpoints = tuple(dict.fromkeys(endpoints))
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        if self._endpoints:
            parked, self._parked = self._parked, deque[_Connection]()
            for connection in parked:
                self._start(connection)

    @property
    def sticky(self) -> float | None:
        """For how many seconds a client keeps its endpoint; None without session affinity."""
        return self._picker.sticky

    @sticky.setter
    def sticky(self, seconds: float | None) -> None:
        self._picker.sticky = seconds

    @property
    def stats(self) -> ProxyStats:
        """Counts of the connections."""
        return ProxyStats(len(self._connections), len(self._parked), self._opened, self._dropped, self._failed)

    async def close(self) -> None:
        """Stops listening and aborts all connections; returns when they are closed, after 2 seconds at the latest."""
        self._is_closed = True
        for server in self._servers:
            server.close()
        self._servers.clear()
        self._parked.clear()
        dialing = [connection.task for connection in self._connections if connection.task is not None]
        for connection in tuple(self._connections):
            self._abort(connection)
        try:
            async with timing.within(_CLOSE_TIMEOUT):
                await asyncio.gather(*dialing, return_exceptions=True)
                while self._connections:
                    self._emptied.clear()
                    await self._emptied.wait()
        except TimeoutError:
            self._connections.clear()  # connection_lost comes in a later iteration of the loop; no need to wait for it

    def _accept(self) -> "_Side":
        return _Connection(self._connected, self._ended).client

    def _connected(self, connection: "_Connection") -> None:
        if self._is_closed:
            connection.abort()
            return
        self._connections[connection] = None
        self._opened += 1
        if self._endpoints:
            self._start(connection)
        else:
            self._park(connection)

    def _park(self, connection: "_Connection") -> None:
        self._parked.append(connection)
        if len(self._parked) > _MAX_PARKED:
            self._dropped += 1
            self._parked.popleft().abort()

    def _start(self, connection: "_Connection") -> None:
        task = asyncio.get_running_loop().create_task(self._dial(connection), name=f"proxy/{connection.host}")
        connection.task = task
        task.add_done_callback(partial(self._dialed, connection))

    def _dialed(self, connection: "_Connection", task: "asyncio.Task[None]") -> None:
        connection.task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            connection.abort()
            context: dict[str, Any] = {"message": "a proxy failed to forward a connection", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    async def _dial(self, connection: "_Connection") -> None:
        """Connects a client to an endpoint; parks it again if there are no endpoints any more."""
        delays = _RETRY.delays()
        deadline = timing.now() + self._retry_timeout
        while self._endpoints:
            changed = self._changed
            if await self._try_each(connection):
                return
            if timing.now() >= deadline:
                self._failed += 1
                connection.abort()
                return
            await _wait_set(changed, min(next(delays), deadline - timing.now()))
        self._park(connection)

    async def _try_each(self, connection: "_Connection") -> bool:
        tried: set[Endpoint] = set()
        loop, host = asyncio.get_running_loop(), connection.host
        while True:
            endpoint = self._picker.pick(self._endpoints, host, now=timing.now(), tried=tried)
            if endpoint is None:
                return False
            tried.add(endpoint)
            try:
                async with timing.within(self._dial_timeout):
                    await loop.create_connection(connection.side, *endpoint)
            except (OSError, OverflowError):  # a TimeoutError is an OSError
                continue
            self._picker.note(host, endpoint, now=timing.now())
            return True

    def _ended(self, connection: "_Connection") -> None:
        if connection.task is not None:
            connection.task.cancel()
        if connection in self._parked:
            self._parked.remove(connection)
        self._connections.pop(connection, None)
        if not self._connections:
            self._emptied.set()

    def _abort(self, connection: "_Connection") -> None:
        if connection.task is not None:
            connection.task.cancel()
        connection.abort()


class _Connection:
    """One proxied connection: the client's side, and the server's side once an endpoint has accepted.

    Each side is read no faster than the other one takes it. The end of one side's data is forwarded as a half-close, so
    that the other can still answer. What a client sends before there is a server side is buffered up to a limit; then
    it is not read any further, and TCP flow control makes it wait.

    `on_connect` is called when the client is connected, and `on_end` once, when both sides are closed.
    """

    __slots__ = ("_buffer", "_buffered", "_eof_buffered", "client", "is_over", "on_connect", "on_end", "server", "task")

    def __init__(self, on_connect: "Callable[[_Connection], None]", on_end: "Callable[[_Connection], None]") -> None:
        self.on_connect = on_connect
        self.on_end = on_end
        self.client = _Side(self)
        self.server: _Side | None = None
        self.task: asyncio.Task[None] | None = None
        """Dials the endpoints, until one has accepted."""
        self.is_over = False
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._eof_buffered = False

    def side(self) -> "_Side":
        """The protocol for a connection to an endpoint."""
        return _Side(self)

    @property
    def host(self) -> str:
        """The address of the client."""
        name = self.client.transport.get_extra_info("peername")
        return str(name[0]) if name else ""

    def buffer(self, data: bytes) -> None:
        """Buffers data of the client until there is a server side."""
        self._buffer.append(data)
        self._buffered += len(data)
        if self._buffered > _MAX_BUFFERED - _READ_SIZE:
            self.client.transport.pause_reading()

    def buffer_eof(self) -> None:
        """Remembers that the client has closed its sending side."""
        self._eof_buffered = True

    def join(self, server: "_Side") -> None:
        """Connects both sides, and forwards what was buffered."""
        if self.is_over or self.server is not None:
            server.transport.abort()
            return
        self.server = server
        self.client.other, server.other = server, self.client
        buffered, self._buffer = self._buffer, []
        for data in buffered:
            server.transport.write(data)
        if self._eof_buffered:
            server.transport.write_eof()
        if not server.is_full:
            self.client.transport.resume_reading()

    def lost(self) -> None:
        """Called when one side is closed."""
        if not self.is_over and self.client.is_lost and (self.server is None or self.server.is_lost):
            self.is_over = True
            self._buffer.clear()
            self.on_end(self)

    def abort(self) -> None:
        """Closes both sides at once."""
        for side in (self.client, self.server):
            if side is not None:
                side.transport.abort()


class _Side(asyncio.Protocol):
    """One side of a proxied connection."""

    __slots__ = ("connection", "has_ended", "is_full", "is_lost", "other", "transport")

    transport: asyncio.Transport

    def __init__(self, connection: _Connection) -> None:
        self.connection = connection
        self.other: _Side | None = None
        self.has_ended = False
        self.is_full = False
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Reports that the client has connected, or joins both sides."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_READ_SIZE)
        if self is self.connection.client:
            self.connection.on_connect(self.connection)
        else:
            self.connection.join(self)

    def data_received(self, data: bytes) -> None:
        """Forwards data."""
        if self.other is None:
            self.connection.buffer(data)
        else:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        """Forwards a half-close; the connection stays open for the answer, and closes when both sides have ended."""
        self.has_ended = True
        other = self.other
        if other is None:
            self.connection.buffer_eof()
            return True
        if other.has_ended:
            other.transport.close()
            return False
        if not other.transport.is_closing():
            other.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        """Pauses reading of the other side until the write buffer is drained."""
        self.is_full = True
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Resumes reading of the other side."""
        self.is_full = False
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Closes the other side after its buffered data; aborts it if this side was reset."""
        self.is_lost = True
        other = self.other
        if other is not None and not other.is_lost:
            if exc is None:
                other.transport.close()
            else:
                other.transport.abort()
        self.connection.lost()


async def _wait_set(event: asyncio.Event, seconds: float) -> None:
    try:
        async with timing.within(max(0.0, seconds)):
            await event.wait()
    except TimeoutError:
        return
