"""A gRPC server by the library h2, an implementation of HTTP/2 of its own: in memory, and on a socket of loopback."""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from levelset.storage.grpc.grpc_connection import Event, GrpcConnection

__all__ = ["H2Server", "LoopbackServer", "exchange", "framed"]

RESPONSE = [(b":status", b"200"), (b"content-type", b"application/grpc")]

h2_config: Any = import_module("h2.config")  # it has no types that mypy accepts
h2_connection: Any = import_module("h2.connection")
h2_events: Any = import_module("h2.events")
h2_settings: Any = import_module("h2.settings")


def framed(message: bytes) -> bytes:
    """A message with its head."""
    return b"\0" + len(message).to_bytes(4, "big") + message


class H2Server:
    """The server's end of a connection; what it was sent is in `requests`, `bodies`, `ended` and `resets`."""

    def __init__(self, *, acknowledges: bool = True, **settings: int) -> None:
        self.h2: Any = h2_connection.H2Connection(h2_config.H2Configuration(client_side=False, header_encoding=None))
        codes = {h2_settings.SettingCodes[name]: value for name, value in settings.items()}
        if codes:
            self.h2.local_settings = h2_settings.Settings(client=False, initial_values=codes)
            self.h2.max_inbound_frame_size = self.h2.local_settings.max_frame_size
        self.h2.initiate_connection()
        self.acknowledges = acknowledges
        """Whether what is received is given back to the windows."""
        self.requests: dict[int, dict[bytes, bytes]] = {}
        self.bodies: dict[int, bytes] = {}
        self.ended: list[int] = []
        self.resets: dict[int, int] = {}
        self.pings = self.pongs = 0
        self.on_end: Callable[[int], None] = lambda stream: None
        self._unsent: dict[int, deque[bytes]] = {}
        self._trailers: dict[int, list[tuple[bytes, bytes]]] = {}

    def receive(self, data: bytes) -> bytes:
        """Takes bytes of the client; returns those for it."""
        for event in self.h2.receive_data(data):
            match type(event).__name__:
                case "RequestReceived":
                    self.requests[event.stream_id] = dict(event.headers)
                    self.bodies[event.stream_id] = b""
                case "DataReceived":
                    self.bodies[event.stream_id] += event.data
                    if self.acknowledges:
                        self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case "StreamEnded":
                    self.ended.append(event.stream_id)
                    self.on_end(event.stream_id)
                case "StreamReset":
                    self.resets[event.stream_id] = int(event.error_code)
                case "PingReceived":
                    self.pings += 1
                case "PingAckReceived":
                    self.pongs += 1
                case _:
                    pass
        self._send()
        return bytes(self.h2.data_to_send())

    def begin(self, stream: int) -> None:
        """Begins a response."""
        self.h2.send_headers(stream, RESPONSE)

    def send(self, stream: int, content: bytes) -> None:
        """Sends bytes of the response, as it fits into the client's windows."""
        self._unsent.setdefault(stream, deque()).append(content)
        self._send()

    def finish(self, stream: int, status: int = 0, message: str = "") -> None:
        """Ends a response."""
        self._trailers[stream] = [(b"grpc-status", b"%d" % status), (b"grpc-message", message.encode())]
        self._send()

    def answer(self, stream: int, content: bytes) -> None:
        """A whole response with one message."""
        self.begin(stream)
        self.send(stream, framed(content))
        self.finish(stream)

    def _send(self) -> None:
        for stream, parts in self._unsent.items():
            while parts and (available := self._available(stream)):
                part = parts.popleft()
                self.h2.send_data(stream, part[:available])
                if part[available:]:
                    parts.appendleft(part[available:])
        for stream in [stream for stream in self._trailers if not self._unsent.get(stream)]:
            self.h2.send_headers(stream, self._trailers.pop(stream), end_stream=True)

    def _available(self, stream: int) -> int:
        return int(min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size))


def exchange(connection: GrpcConnection, server: H2Server) -> list[Event]:
    """Moves bytes between both ends until they are silent; returns the client's events."""
    events: list[Event] = []
    to_client = bytes(server.h2.data_to_send())
    while to_client or connection.has_output() or connection.has_acks():
        events += connection.receive(to_client)
        to_client = server.receive(connection.output())
    return events


class LoopbackServer:
    """Servers by h2 on a port; `make` makes one for each connection."""

    def __init__(self, make: Callable[[], H2Server]) -> None:
        self.make = make
        self.connections: list[tuple[H2Server, asyncio.Transport]] = []
        self.port = 0

    @classmethod
    @asynccontextmanager
    async def run(
        cls, make: Callable[[], H2Server] = H2Server, *, tls: ssl.SSLContext | None = None, port: int = 0
    ) -> "AsyncGenerator[LoopbackServer, None]":
        """A running one."""
        loopback = cls(make)
        server = await asyncio.get_running_loop().create_server(lambda: _Peer(loopback), "127.0.0.1", port, ssl=tls)
        loopback.port = server.sockets[0].getsockname()[1]
        try:
            yield loopback
        finally:
            server.close()
            for _, transport in loopback.connections:
                transport.abort()
            await server.wait_closed()

    def flush(self) -> None:
        """Sends what the newest server has to send."""
        server, transport = self.connections[-1]
        transport.write(bytes(server.h2.data_to_send()))

    def accept(self, transport: asyncio.Transport) -> H2Server:
        """A server for a new connection."""
        server = self.make()
        self.connections.append((server, transport))
        return server


class _Peer(asyncio.Protocol):
    def __init__(self, loopback: LoopbackServer) -> None:
        self._loopback = loopback

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server = self._loopback.accept(transport)
        transport.write(bytes(self._server.h2.data_to_send()))

    def data_received(self, data: bytes) -> None:
        self._transport.write(self._server.receive(data))
