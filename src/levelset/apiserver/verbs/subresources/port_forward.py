"""`portforward`: connections to ports of a Pod, each a pair of streams of SPDY/3.1, which a WebSocket may carry.

For each connection the client opens a stream for errors and one for data, with the same `requestid` and `port`.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from levelset.apiserver.verbs.subresources.remote_command import offered_protocols, spdy_response
from levelset.apiserver.verbs.subresources.stream_sources import ByteQueue, ConnectPort, StreamRequest
from levelset.errors import BadRequest
from levelset.http import Request, Response, SpdySession, SpdyStream, Tunnel, WebSocket, accept_websocket, is_websocket

__all__ = ["forward_ports"]

_PROTOCOL: Final = "portforward.k8s.io"
_TUNNELLED: Final = f"SPDY/3.1+{_PROTOCOL}"
_CHUNK: Final = 65536
_MOST_CONNECTIONS: Final = 200


def forward_ports(request: Request, wanted: StreamRequest, connect: ConnectPort) -> Response:
    """The response that upgrades the connection and forwards ports; BadRequest if the client asks for no upgrade."""
    if is_websocket(request):
        offered = offered_protocols(request.headers.get("sec-websocket-protocol"))
        if _TUNNELLED not in offered:
            raise BadRequest(f"none of the protocols {', '.join(offered) or '(none)'} is supported; offer {_TUNNELLED}")

        def open_socket(socket: WebSocket) -> None:
            forwarder = _Forwarder(socket.sink, socket.send_bytes, socket.close, wanted, connect)
            socket.on_message(lambda data: forwarder.receive(data if isinstance(data, bytes) else data.encode()))

        return accept_websocket(request, open_socket, protocol=_TUNNELLED)

    def open_tunnel(tunnel: Tunnel) -> None:
        forwarder = _Forwarder(tunnel, tunnel.write, tunnel.close, wanted, connect)
        tunnel.when_received(forwarder.receive)

    return spdy_response(request, _PROTOCOL, open_tunnel)


class _Forwarder:
    """The connections of one client; their tasks end with its connection."""

    def __init__(
        self,
        tunnel: Tunnel,
        write: Callable[[bytes], None],
        close: Callable[[], None],
        wanted: StreamRequest,
        connect: ConnectPort,
    ) -> None:
        self._tunnel = tunnel
        self._wanted = wanted
        self._connect = connect
        self._session = SpdySession(write, self._open, lambda _: close())
        self._errors: dict[str, SpdyStream] = {}
        self._tasks = set[asyncio.Task[None]]()
        tunnel.when_closed(self._end)

    def receive(self, data: bytes) -> None:
        """Handles bytes of the client."""
        self._session.receive(data)

    def _end(self) -> None:
        self._session.close()
        for task in self._tasks:
            task.cancel()

    def _open(self, stream: SpdyStream) -> None:
        key = f"{stream.headers.get('requestid')}/{stream.headers.get('port')}"
        match stream.headers.get("streamtype"):
            case "error" if len(self._errors) < _MOST_CONNECTIONS:
                self._errors[key] = stream
            case "data" if key in self._errors and len(self._tasks) < _MOST_CONNECTIONS:
                self._begin(stream, self._errors.pop(key))
            case _:
                stream.finish()

    def _begin(self, data: SpdyStream, error: SpdyStream) -> None:
        received = ByteQueue(self._tunnel.hold, self._tunnel.release)
        data.on_data, data.on_end = received.put, received.end
        name = f"port forward to {self._wanted.namespace}/{self._wanted.name}"
        task = asyncio.get_running_loop().create_task(self._forward(data, error, received), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, data: SpdyStream, error: SpdyStream, received: ByteQueue) -> None:
        text = data.headers.get("port", "")
        try:
            if not text.isdecimal() or not 0 < int(text) < 1 << 16:
                raise OSError(f"{text!r} is not a port")
            connection = await self._connect(int(text))
        except OSError as failure:
            pod = f"{self._wanted.name}_{self._wanted.namespace}"
            error.write(f"error forwarding port {text} to pod {pod}: {failure}".encode())
        else:
            await self._copy(data, received, connection.reader, connection.writer)
        data.finish()
        error.finish()

    async def _copy(
        self, data: SpdyStream, received: ByteQueue, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Copies both ways until the Pod has closed its side, or the client is gone."""
        sending = asyncio.get_running_loop().create_task(_send(received, writer), name="port forward, sending")
        try:
            with suppress(ConnectionError):
                while chunk := await reader.read(_CHUNK):
                    data.write(chunk)
                    if self._tunnel.is_backed_up:
                        await self._tunnel.wait_drained()
        finally:
            sending.cancel()
            writer.close()


async def _send(received: ByteQueue, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await received.read():
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
