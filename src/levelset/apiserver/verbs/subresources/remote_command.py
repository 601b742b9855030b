"""`exec` and `attach`: the channels of a WebSocket, or the streams of SPDY/3.1, to a command that a source runs.

A message of a WebSocket begins with the number of its channel: 0 stdin, 1 stdout, 2 stderr, 3 the Status at the end, 4
the size of the terminal; from `v5` on, 255 closes the channel that follows. SPDY has a stream for each of them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import msgspec

from levelset.apiserver.verbs.subresources.stream_sources import (
    STDERR,
    STDOUT,
    ByteQueue,
    RemoteStreams,
    RunCommand,
    StreamRequest,
)
from levelset.errors import ApiError, BadRequest
from levelset.http import Request, Response, SpdySession, SpdyStream, Tunnel, WebSocket, accept_websocket, is_websocket

__all__ = ["check_streams", "offered_protocols", "run_remote_command", "spdy_response"]

_STDIN, _ERROR, _RESIZE, _CLOSE = 0, 3, 4, 255
_V5, _V4, _V1 = "v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io"
_NAMES: Final = {"stdin": _STDIN, "stdout": STDOUT, "stderr": STDERR, "error": _ERROR, "resize": _RESIZE}
_SPDY: Final = "SPDY/3.1"
_OPEN_WITHIN: Final = 30.0
"""The seconds within which a client has to open its streams."""

log = logging.getLogger(__name__)


def check_streams(request: StreamRequest) -> None:
    """Raises BadRequest if a request for `exec` or `attach` names no stream, or a terminal with stderr."""
    if not any(request.is_set(name) for name in ("stdin", "stdout", "stderr")):
        raise BadRequest("you must specify at least 1 of stdin, stdout, stderr")
    if request.is_set("tty") and request.is_set("stderr"):
        raise BadRequest("tty and stderr cannot both be true")


def run_remote_command(request: Request, wanted: StreamRequest, run: RunCommand) -> Response:
    """The response that upgrades the connection and runs the command; BadRequest if the client asks for no upgrade."""
    if is_websocket(request):
        offered = offered_protocols(request.headers.get("sec-websocket-protocol"))
        chosen = next((one for one in (_V5, _V4, _V1) if one in offered), None)
        if offered and chosen is None:
            raise BadRequest(f"none of the protocols {', '.join(offered)} is supported; offer {_V5}")
        return accept_websocket(
            request, lambda socket: _start(_SocketChannels(socket, chosen or _V1), wanted, run), protocol=chosen
        )
    offered = offered_protocols(request.headers.get("x-stream-protocol-version"))
    if offered and _V4 not in offered:
        raise BadRequest(f"none of the protocols {', '.join(offered)} is supported; offer {_V4}")
    return spdy_response(request, _V4, lambda tunnel: _start(_SpdyChannels(tunnel, wanted), wanted, run))


def offered_protocols(header: str | None) -> list[str]:
    """The protocols that a client offers in a header, in its order."""
    return [one.strip() for one in (header or "").split(",") if one.strip()]


def spdy_response(request: Request, protocol: str, on_open: Callable[[Tunnel], None]) -> Response:
    """The response that upgrades a connection to SPDY; BadRequest if the client asks for no upgrade."""
    if (request.headers.get("upgrade") or "").lower() != _SPDY.lower():
        raise BadRequest("Upgrade request required: use a WebSocket, or SPDY/3.1")
    headers = (("Upgrade", _SPDY), ("Connection", "Upgrade"), ("X-Stream-Protocol-Version", protocol))
    return Response(101, headers, upgrade=on_open)


class _Channels(Protocol):
    """The channels of one client, whatever carries them."""

    tunnel: Tunnel
    has_status: bool
    """Whether the end is a Status; otherwise it is the text of an error, and nothing for success."""

    def begin(self, on_message: Callable[[int, bytes], None], on_end: Callable[[int], None]) -> None:
        """Passes on what the client sends, by channel, and the ends of its channels."""
        ...

    async def wait_open(self) -> None:
        """Waits until the client has opened its channels."""
        ...

    def send(self, channel: int, data: bytes) -> None:
        """Sends a message."""
        ...

    def close(self) -> None:
        """Closes everything after what was sent."""
        ...


def _start(channels: _Channels, wanted: StreamRequest, run: RunCommand) -> None:
    """Runs the command in a task that ends when the client has gone."""
    stdin = ByteQueue(channels.tunnel.hold, channels.tunnel.release) if wanted.is_set("stdin") else None
    streams = RemoteStreams(
        _sender(channels),
        stdin=stdin,
        stdout=wanted.is_set("stdout"),
        stderr=wanted.is_set("stderr") and not wanted.is_set("tty"),
        tty=wanted.is_set("tty"),
    )

    def on_message(channel: int, data: bytes) -> None:
        if channel == _STDIN and stdin is not None:
            stdin.put(data)
        elif channel == _RESIZE:
            streams.resize(data)

    def on_end(channel: int) -> None:
        if channel == _STDIN and stdin is not None:
            stdin.end()

    channels.begin(on_message, on_end)
    task = asyncio.get_running_loop().create_task(
        _run(channels, streams, run), name=f"remote command in {wanted.namespace}/{wanted.name}"
    )

    def end() -> None:
        task.cancel()

    channels.tunnel.when_closed(end)


def _sender(channels: _Channels) -> Callable[[int, bytes], Awaitable[None]]:
    async def send(channel: int, data: bytes) -> None:
        channels.send(channel, data)
        if channels.tunnel.is_backed_up:
            await channels.tunnel.wait_drained()

    return send


async def _run(channels: _Channels, streams: RemoteStreams, run: RunCommand) -> None:
    await channels.wait_open()
    if channels.tunnel.is_closed:
        return
    try:
        status = _exit_status(await run(streams))
    except ApiError as error:
        status = {"status": "Failure", "message": error.message, "reason": error.reason, "code": error.code}
    except Exception:
        log.exception("a remote command failed")
        status = {"status": "Failure", "message": "the command could not be run", "reason": "InternalError"}
    tree: dict[str, object] = {"kind": "Status", "apiVersion": "v1", "metadata": dict[str, object](), **status}
    if channels.has_status:
        channels.send(_ERROR, msgspec.json.encode(tree))
    elif status["status"] == "Failure":
        channels.send(_ERROR, str(status["message"]).encode())
    channels.close()


def _exit_status(code: int) -> dict[str, object]:
    """The Status of an exit code."""
    if code == 0:
        return {"status": "Success"}
    cause = {"reason": "ExitCode", "message": str(code)}
    text = f"command terminated with non-zero exit code: command terminated with exit code {code}"
    return {"status": "Failure", "message": text, "reason": "NonZeroExitCode", "details": {"causes": [cause]}}


class _SocketChannels:
    """Channels in the messages of a WebSocket."""

    def __init__(self, socket: WebSocket, protocol: str) -> None:
        self.tunnel = socket.sink
        self.has_status = protocol != _V1
        self._socket = socket
        self._closes_channels = protocol == _V5

    def begin(self, on_message: Callable[[int, bytes], None], on_end: Callable[[int], None]) -> None:
        def receive(message: str | bytes) -> None:
            data = message.encode() if isinstance(message, str) else message
            if self._closes_channels and len(data) >= 2 and data[0] == _CLOSE:
                on_end(data[1])
            elif data:
                on_message(data[0], data[1:])

        self._socket.on_message(receive)
        # As upstream, an empty message tells the client that the channels are open.
        self.send(STDOUT, b"")

    async def wait_open(self) -> None:
        """All channels of a WebSocket are open at once."""

    def send(self, channel: int, data: bytes) -> None:
        self._socket.send_bytes(bytes([channel]) + data)

    def close(self) -> None:
        self._socket.close()


class _SpdyChannels:
    """Channels as streams of SPDY, which the client opens."""

    has_status = True

    def __init__(self, tunnel: Tunnel, wanted: StreamRequest) -> None:
        self.tunnel = tunnel
        self._streams: dict[int, SpdyStream] = {}
        self._wanted = _expected_channels(wanted)
        self._opened = asyncio.Event()
        self._session = SpdySession(tunnel.write, self._open, lambda _: tunnel.close())
        self._on_message: Callable[[int, bytes], None] = lambda _channel, _data: None
        self._on_end: Callable[[int], None] = lambda _: None

    def begin(self, on_message: Callable[[int, bytes], None], on_end: Callable[[int], None]) -> None:
        self._on_message, self._on_end = on_message, on_end
        self.tunnel.when_received(self._session.receive)
        self.tunnel.when_closed(self._session.close)

    def _open(self, stream: SpdyStream) -> None:
        channel = _NAMES.get(stream.headers.get("streamtype", ""))
        if channel is None or channel in self._streams:
            stream.finish()
            return
        self._streams[channel] = stream
        stream.on_data = lambda data: self._on_message(channel, data)
        stream.on_end = lambda: self._on_end(channel)
        if self._wanted <= self._streams.keys():
            self._opened.set()

    async def wait_open(self) -> None:
        try:
            async with asyncio.timeout(_OPEN_WITHIN):
                await self._opened.wait()
        except TimeoutError:
            self.tunnel.close()

    def send(self, channel: int, data: bytes) -> None:
        stream = self._streams.get(channel)
        if stream is not None:
            stream.write(data)

    def close(self) -> None:
        for stream in self._streams.values():
            stream.finish()
        self.tunnel.close()


def _expected_channels(wanted: StreamRequest) -> set[int]:
    """The channels that a client opens for a request."""
    found = {_NAMES[name] for name in ("stdin", "stdout", "stderr") if wanted.is_set(name)}
    return {_ERROR, *found, *({_RESIZE} if wanted.is_set("tty") else set())}
