"""Server-side WebSocket (RFC 6455): handshake and frames, on an upgraded connection.

Browsers can watch this way: `accept_websocket` responds to the request, and each event is sent as one text frame.
"""

import base64
import hashlib
from collections.abc import Callable

from levelset.http.messages import Request, Response, Tunnel

__all__ = ["WebSocket", "accept_websocket", "encode_frame", "is_websocket"]

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MORE, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_OPCODES = frozenset({_MORE, _TEXT, _BINARY, _CLOSE, _PING, _PONG})
_CLOSE_CODES = frozenset({1000, 1001, 1002, 1003, *range(1007, 1015)})
_MAX_MESSAGE = 64 * 1024
_MAX_CONTROL = 125


def is_websocket(request: Request) -> bool:
    """Whether a request is a WebSocket handshake."""
    headers = request.headers
    is_upgrade = "upgrade" in (headers.get("connection") or "").lower()
    return is_upgrade and request.method == "GET" and (headers.get("upgrade") or "").lower() == "websocket"


def accept_websocket(
    request: Request, on_open: Callable[["WebSocket"], None], *, protocol: str | None = None
) -> Response:
    """The response to a WebSocket request; `on_open` is called with the open WebSocket.

    400 for an invalid handshake, 426 for another version. `protocol` is the subprotocol that was chosen among those
    that the client offered.
    """
    key = request.headers.get("sec-websocket-key") or ""
    if request.headers.get("sec-websocket-version") != "13":
        return Response(426, (("Sec-WebSocket-Version", "13"), ("Upgrade", "websocket")))
    if not is_websocket(request) or len(key) != 24:
        return Response(400, (("Content-Type", "text/plain"),), b"This is not a WebSocket handshake.\n")
    digest = hashlib.sha1(key.encode("latin-1") + _MAGIC, usedforsecurity=False).digest()
    headers = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", base64.b64encode(digest).decode("ascii")),
    ]
    if protocol is not None:
        headers.append(("Sec-WebSocket-Protocol", protocol))
    return Response(101, tuple(headers), upgrade=lambda tunnel: on_open(WebSocket(tunnel)))


class WebSocket:
    """An open WebSocket; without `on_message`, messages of the client are ignored, except ping and close.

    `sink` has the backlog of the client, and takes callbacks for the end.
    """

    __slots__ = ("_message", "_on_message", "_received", "sink")

    def __init__(self, sink: Tunnel) -> None:
        self.sink = sink
        self._received = bytearray()
        self._message: tuple[int, bytearray] | None = None
        self._on_message: Callable[[str | bytes], None] | None = None
        sink.when_received(self._receive)

    def on_message(self, callback: Callable[[str | bytes], None]) -> None:
        """Calls `callback` with each complete message of the client: text as `str`, binary as `bytes`."""
        self._on_message = callback

    def send_text(self, data: bytes) -> None:
        """Sends one text frame; `data` is UTF-8."""
        self.sink.write(encode_frame(_TEXT, data))

    def send_bytes(self, data: bytes) -> None:
        """Sends one binary frame."""
        self.sink.write(encode_frame(_BINARY, data))

    def close(self, code: int = 1000) -> None:
        """Sends a close frame, and closes the connection after all that was sent."""
        self.sink.write(encode_frame(_CLOSE, code.to_bytes(2, "big")))
        self.sink.close()

    def _receive(self, data: bytes) -> None:
        self._received += data
        while (frame := _take_frame(self._received)) is not None:
            opcode, payload, is_last = frame
            if 0 <= opcode <= _BINARY:
                self._collect(opcode, payload, is_last=is_last)
            elif opcode == _PING:
                # A client that does not read would fill the memory with pongs; only the latest ping needs one.
                if not self.sink.is_backed_up:
                    self.sink.write(encode_frame(_PONG, payload))
            elif opcode == _CLOSE:
                self.close(_close_code(payload))
            elif opcode < 0:
                self.close(-opcode)
            if self.sink.is_closed:
                self._received.clear()

    def _collect(self, opcode: int, payload: bytes, *, is_last: bool) -> None:
        """Assembles the frames of a message; a violation of the protocol closes the connection."""
        if self._on_message is None:
            return
        if (opcode == _MORE) == (self._message is None):
            self.close(1002)
            return
        kind, body = self._message = self._message or (opcode, bytearray())
        body += payload
        if len(body) > _MAX_MESSAGE:
            self.close(1009)
        elif is_last:
            self._message = None
            try:
                self._on_message(body.decode() if kind == _TEXT else bytes(body))
            except UnicodeDecodeError:
                self.close(1007)


def encode_frame(opcode: int, data: bytes) -> bytes:
    """One unfragmented, unmasked frame, as servers send them."""
    size = len(data)
    if size < 126:
        return bytes((0x80 | opcode, size)) + data
    if size < 65536:
        return bytes((0x80 | opcode, 126)) + size.to_bytes(2, "big") + data
    return bytes((0x80 | opcode, 127)) + size.to_bytes(8, "big") + data


def _take_frame(buffer: bytearray) -> tuple[int, bytes, bool] | None:
    """Takes the first complete frame; None if it is incomplete, a negative close code if it is invalid."""
    if len(buffer) < 2:
        return None
    opcode, is_last, size, start = buffer[0] & 0x0F, bool(buffer[0] & 0x80), buffer[1] & 0x7F, 2
    if not buffer[1] & 0x80 or buffer[0] & 0x70 or opcode not in _OPCODES:
        return _fault(buffer, 1002)  # a client must mask; reserved bits and other opcodes mean what was not agreed on
    if opcode >= _CLOSE and (size > _MAX_CONTROL or not is_last):
        return _fault(buffer, 1002)
    if size >= 126:
        start = 4 if size == 126 else 10
        if len(buffer) < start:
            return None
        size = int.from_bytes(buffer[2:start], "big")
    if size > _MAX_MESSAGE:
        return _fault(buffer, 1009)
    end = start + 4 + size
    if len(buffer) < end:
        return None
    mask = (buffer[start : start + 4] * (size // 4 + 1))[:size]
    payload = int.from_bytes(buffer[start + 4 : end], "big") ^ int.from_bytes(mask, "big")
    del buffer[:end]
    return opcode, payload.to_bytes(size, "big"), is_last


def _close_code(payload: bytes) -> int:
    """The code to answer a close frame with: its own, unless it may not be sent."""
    if not payload:
        return 1000
    code = int.from_bytes(payload[:2], "big")
    is_valid = len(payload) >= 2 and (code in _CLOSE_CODES or 3000 <= code <= 4999)
    return code if is_valid else 1002


def _fault(buffer: bytearray, code: int) -> tuple[int, bytes, bool]:
    buffer.clear()
    return -code, b"", True
