"""The frames of a terminal's socket: the six of HMP v1 (Hex1b Muxer Protocol) that DCP speaks; pure.

A frame is its type (one byte), the length of its payload (four bytes, little-endian) and the payload.
"""

import json
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from levelset.errors import LevelsetError

__all__ = [
    "MAX_PAYLOAD",
    "BadFrame",
    "FrameReader",
    "FrameType",
    "encode_frame",
    "exit_frame",
    "hello_frame",
    "parse_size",
]

MAX_PAYLOAD: Final = 16 << 20
_HEAD: Final = 5
_LARGEST_SIDE: Final = 65535


class FrameType(IntEnum):
    """What a frame is; a server sends all but INPUT, a client INPUT and RESIZE."""

    HELLO = 1
    """JSON with version, width and height; the first frame of a server."""
    STATE_SYNC = 2
    """The screen, or the last output, for a client that has just connected."""
    OUTPUT = 3
    INPUT = 4
    RESIZE = 5
    """Width and height, four bytes each, little-endian."""
    EXIT = 6
    """The exit code, four bytes, little-endian; the last frame of a server."""


class BadFrame(LevelsetError):
    """A frame that is too large."""


def encode_frame(kind: FrameType, payload: bytes = b"") -> bytes:
    """A whole frame."""
    return bytes([kind]) + len(payload).to_bytes(4, "little") + payload


def hello_frame(columns: int, rows: int) -> bytes:
    """The first frame of a server."""
    return encode_frame(FrameType.HELLO, json.dumps({"version": 1, "width": columns, "height": rows}).encode())


def exit_frame(code: int) -> bytes:
    """The last frame of a server."""
    return encode_frame(FrameType.EXIT, (code & 0xFFFFFFFF).to_bytes(4, "little"))


def parse_size(payload: bytes) -> tuple[int, int] | None:
    """The columns and rows of a RESIZE frame; None if they are no size of a terminal."""
    columns, rows = (int.from_bytes(payload[start : start + 4], "little") for start in (0, 4))
    is_size = len(payload) == 8 and 0 < columns <= _LARGEST_SIDE and 0 < rows <= _LARGEST_SIDE
    return (columns, rows) if is_size else None


class FrameReader:
    """Splits bytes, which may be cut anywhere, into frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    def add(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The type and payload of each frame that is complete now; raises BadFrame."""
        self._held += data
        while len(self._held) >= _HEAD:
            size = int.from_bytes(self._held[1:_HEAD], "little")
            if size > MAX_PAYLOAD:
                raise BadFrame(f"a frame has {size} bytes, and may have {MAX_PAYLOAD}")
            if len(self._held) < _HEAD + size:
                return
            kind, payload = self._held[0], bytes(self._held[_HEAD : _HEAD + size])
            del self._held[: _HEAD + size]
            yield kind, payload
