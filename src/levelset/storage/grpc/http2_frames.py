"""HTTP/2 frames as bytes (RFC 9113, sections 4 and 6): reads those of a server, and builds those of a client."""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

__all__ = [
    "ACK",
    "CONTINUATION",
    "DATA",
    "DEFAULT_WINDOW",
    "END_HEADERS",
    "END_STREAM",
    "GOAWAY",
    "HEADERS",
    "HIGHEST_WINDOW",
    "LONGEST_FRAME",
    "PING",
    "PREFACE",
    "PUSH_PROMISE",
    "RST_STREAM",
    "SETTINGS",
    "WINDOW_UPDATE",
    "ErrorCode",
    "Frame",
    "FrameReader",
    "ProtocolFailed",
    "Setting",
    "frame",
    "goaway",
    "header_frames",
    "payload_without_padding",
    "read_settings",
    "reset",
    "settings",
    "window_update",
]

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LONGEST_FRAME: Final = 16_384
"""The longest payload that either end may send before it has read other settings; ours stay so."""
DEFAULT_WINDOW: Final = 65_535
HIGHEST_WINDOW: Final = 2**31 - 1

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING = 0x0, 0x1, 0x3, 0x4, 0x5, 0x6
GOAWAY, WINDOW_UPDATE, CONTINUATION = 0x7, 0x8, 0x9
ACK, END_STREAM, END_HEADERS, PADDED, PRIORITIZED = 0x1, 0x1, 0x4, 0x8, 0x20

_HEAD: Final = Struct(">HBBBL")  # the length in two parts, the type, the flags, the stream
_HEAD_SIZE: Final = 9
_SETTING: Final = Struct(">HL")
_PRIORITY_SIZE: Final = 5


class ErrorCode:
    """Why a stream or a connection ends."""

    NO_ERROR: Final = 0x0
    PROTOCOL_ERROR: Final = 0x1
    INTERNAL_ERROR: Final = 0x2
    FLOW_CONTROL_ERROR: Final = 0x3
    STREAM_CLOSED: Final = 0x5
    FRAME_SIZE_ERROR: Final = 0x6
    REFUSED_STREAM: Final = 0x7
    CANCEL: Final = 0x8
    COMPRESSION_ERROR: Final = 0x9
    ENHANCE_YOUR_CALM: Final = 0xB
    INADEQUATE_SECURITY: Final = 0xC


class Setting:
    """What one end tells the other at the start."""

    HEADER_TABLE_SIZE: Final = 0x1
    ENABLE_PUSH: Final = 0x2
    MAX_CONCURRENT_STREAMS: Final = 0x3
    INITIAL_WINDOW_SIZE: Final = 0x4
    MAX_FRAME_SIZE: Final = 0x5
    MAX_HEADER_LIST_SIZE: Final = 0x6


class ProtocolFailed(Exception):
    """The server has broken the protocol: the connection must end with `code`."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Frame(NamedTuple):
    """One frame, whose payload may still have its padding."""

    kind: int
    flags: int
    stream: int
    payload: bytes


class FrameReader:
    """Cuts the bytes of a connection into frames."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete now; raises ProtocolFailed for one that is too long.

        It must be iterated to its end before more is fed.
        """
        if self._rest:
            data = self._rest + data
        position, end = 0, len(data)
        while end - position >= _HEAD_SIZE:
            high, low, kind, flags, stream = _HEAD.unpack_from(data, position)
            length = high << 8 | low
            if length > LONGEST_FRAME:
                self._rest = b""
                raise ProtocolFailed(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes is too long")
            start = position + _HEAD_SIZE
            if end - start < length:
                break
            position = start + length
            yield Frame(kind, flags, stream & HIGHEST_WINDOW, data[start:position])
        self._rest = data[position:]


def payload_without_padding(one: Frame) -> bytes:
    """The payload of DATA or HEADERS without padding and priority; raises ProtocolFailed."""
    payload, start, padding = one.payload, 0, 0
    if one.flags & PADDED:
        if not payload:
            raise ProtocolFailed(ErrorCode.FRAME_SIZE_ERROR, "a padded frame is empty")
        start, padding = 1, payload[0]
    if one.kind == HEADERS and one.flags & PRIORITIZED:
        start += _PRIORITY_SIZE
    if start + padding > len(payload):
        raise ProtocolFailed(ErrorCode.PROTOCOL_ERROR, "the padding of a frame is longer than the frame")
    return payload[start : len(payload) - padding]


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """The bytes of a frame."""
    length = len(payload)
    return _HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream) + payload


def header_frames(stream: int, block: bytes, *, longest: int) -> bytes:
    """HEADERS of a request, with CONTINUATION frames if the block is long."""
    if len(block) <= longest:
        return frame(HEADERS, END_HEADERS, stream, block)
    parts = [block[start : start + longest] for start in range(0, len(block), longest)]
    kinds = [HEADERS] + [CONTINUATION] * (len(parts) - 1)
    last = len(parts) - 1
    return b"".join(
        frame(kind, END_HEADERS if number == last else 0, stream, part)
        for number, (kind, part) in enumerate(zip(kinds, parts, strict=True))
    )


def settings(pairs: Iterable[tuple[int, int]]) -> bytes:
    """A SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*pair) for pair in pairs))


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """The settings of a frame; raises ProtocolFailed."""
    if len(payload) % _SETTING.size:
        raise ProtocolFailed(ErrorCode.FRAME_SIZE_ERROR, "a SETTINGS frame has an odd length")
    return [(key, value) for key, value in _SETTING.iter_unpack(payload)]


def window_update(stream: int, increment: int) -> bytes:
    """Allows the server to send so many more bytes."""
    return frame(WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big"))


def reset(stream: int, code: int) -> bytes:
    """Ends a stream."""
    return frame(RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def goaway(code: int, reason: str) -> bytes:
    """Ends the connection; a server opens no streams here, so none was processed."""
    return frame(GOAWAY, 0, 0, bytes(4) + code.to_bytes(4, "big") + reason.encode()[:200])
