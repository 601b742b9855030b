"""The server's side of WebSocket (RFC 6455): the handshake and the frames, on top of an upgraded connection.

A browser can watch this way: `accept_websocket` answers the request, and each event goes out as one text frame.
"""

import base64
import hashlib
from collections.abc import Callable

from levelset.http.messages import Request, Response, Tunnel

__all__ = ["WebSocket", "accept_websocket", "encode_frame", "is_websocket"]

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MORE, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_LONGEST = 64 * 1024


def is_websocket(request: Request) -> bool:
    """Whether a request asks for a WebSocket."""
    headers = request.headers
    is_asked = "upgrade" in (headers.get("connection") or "").lower()
    return is_asked and request.method == "GET" and (headers.get("upgrade") or "").lower() == "websocket"


def accept_websocket(request: Request, talk: Callable[["WebSocket"], None], *, protocol: str | None = None) -> Response:
    """The answer to a request that asks for a WebSocket; `talk` is called with the open one.

    400 if the handshake is not sound, 426 if the version is another. `protocol` is the subprotocol that was chosen
    among those that the client offered.
    """
    key = request.headers.get("sec-websocket-key") or ""
    if request.headers.get("sec-websocket-version") != "13":
        return Response(426, (("Sec-WebSocket-Version", "13"), ("Upgrade", "websocket")))
    if not is_websocket(request) or len(key) != 24:
        return Response(400, (("Content-Type", "text/plain"),), b"This is no WebSocket handshake.\n")
    digest = hashlib.sha1(key.encode("latin-1") + _MAGIC, usedforsecurity=False).digest()
    headers = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", base64.b64encode(digest).decode("ascii")),
    ]
    if protocol is not None:
        headers.append(("Sec-WebSocket-Protocol", protocol))
    return Response(101, tuple(headers), upgrade=lambda tunnel: talk(WebSocket(tunnel)))


class WebSocket:
    """An open WebSocket that sends; what the client says is read only for pings and the end, unless somebody listens.

    `sink` tells how the client keeps up, and takes callbacks for the end.
    """

    __slots__ = ("_heard", "_inbox", "_message", "sink")

    def __init__(self, sink: Tunnel) -> None:
        self.sink = sink
        self._inbox = bytearray()
        self._message: tuple[int, bytearray] | None = None
        self._heard: Callable[[str | bytes], None] | None = None
        sink.when_received(self._receive)

    def when_heard(self, callback: Callable[[str | bytes], None]) -> None:
        """Has `callback` called with each whole message of the client: a text as `str`, anything else as `bytes`."""
        self._heard = callback

    def send_text(self, data: bytes) -> None:
        """Sends one text frame; `data` is UTF-8."""
        self.sink.write(encode_frame(_TEXT, data))

    def send_bytes(self, data: bytes) -> None:
        """Sends one binary frame."""
        self.sink.write(encode_frame(_BINARY, data))

    def close(self, code: int = 1000) -> None:
        """Says goodbye and ends the connection after all that was sent."""
        self.sink.write(encode_frame(_CLOSE, code.to_bytes(2, "big")))
        self.sink.close()

    def _receive(self, data: bytes) -> None:
        self._inbox += data
        while (frame := _take_frame(self._inbox)) is not None:
            opcode, payload, is_last = frame
            if 0 <= opcode <= _BINARY:
                self._collect(opcode, payload, is_last=is_last)
            elif opcode == _PING:
                self.sink.write(encode_frame(_PONG, payload))
            elif opcode == _CLOSE:
                self.close(int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1000)
            elif opcode < 0:
                self.close(-opcode)
            if self.sink.is_closed:
                self._inbox.clear()

    def _collect(self, opcode: int, payload: bytes, *, is_last: bool) -> None:
        """Puts the frames of a message together; what breaks the protocol ends the connection."""
        if self._heard is None:
            return
        if (opcode == _MORE) == (self._message is None):
            self.close(1002)
            return
        kind, body = self._message = self._message or (opcode, bytearray())
        body += payload
        if len(body) > _LONGEST:
            self.close(1009)
        elif is_last:
            self._message = None
            try:
                self._heard(body.decode() if kind == _TEXT else bytes(body))
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


def _take_frame(inbox: bytearray) -> tuple[int, bytes, bool] | None:
    """Takes the first whole frame; None if it is not all there yet, a negative close code if it cannot be read."""
    if len(inbox) < 2:
        return None
    opcode, is_last, size, start = inbox[0] & 0x0F, bool(inbox[0] & 0x80), inbox[1] & 0x7F, 2
    if not inbox[1] & 0x80:
        return _fault(inbox, 1002)  # a client must mask
    if size >= 126:
        start = 4 if size == 126 else 10
        if len(inbox) < start:
            return None
        size = int.from_bytes(inbox[2:start], "big")
    if size > _LONGEST:
        return _fault(inbox, 1009)
    end = start + 4 + size
    if len(inbox) < end:
        return None
    mask = (inbox[start : start + 4] * (size // 4 + 1))[:size]
    payload = int.from_bytes(inbox[start + 4 : end], "big") ^ int.from_bytes(mask, "big")
    del inbox[:end]
    return opcode, payload.to_bytes(size, "big"), is_last


def _fault(inbox: bytearray, code: int) -> tuple[int, bytes, bool]:
    inbox.clear()
    return -code, b"", True
