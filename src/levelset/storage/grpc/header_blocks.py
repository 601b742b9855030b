"""The header blocks of gRPC calls, in HPACK: requests that are encoded once, and responses that are decoded once.

The connection announces a dynamic table of no bytes, so that a block means the same at any time: the same answer to two
calls is the same bytes, and is read from a memo. HPACK itself, its Huffman code above all, is the library `hpack`'s.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from levelset.storage.grpc.http2_frames import ErrorCode, ProtocolFailed

__all__ = ["LONGEST_BLOCK", "Headers", "decode_block", "encode_block", "encode_timeout"]

Headers = Mapping[bytes, bytes]

LONGEST_BLOCK: Final = 65_536
_LITERAL: Final = b"\x10"  # never indexed, with a name of its own
_TIMEOUT: Final = _LITERAL + b"\x0cgrpc-timeout"
_LONGEST_TIMEOUT: Final = 99_999_999  # eight digits


def encode_block(headers: Iterable[tuple[str, str]]) -> bytes:
    """A block of headers which no table remembers; it can be sent again and again."""
    hpack: Any = import_module("hpack")
    block: bytes = hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*pair) for pair in headers])
    return block


def encode_timeout(seconds: float) -> bytes:
    """The rest of a block: how long the caller waits for the response."""
    value = b"%dm" % max(1, min(_LONGEST_TIMEOUT, int(seconds * 1000)))
    return _TIMEOUT + bytes((len(value),)) + value


@lru_cache(maxsize=256)
def decode_block(block: bytes) -> Headers:
    """The headers of a response, of several with one name the last; raises ProtocolFailed."""
    hpack: Any = import_module("hpack")
    decoder = hpack.Decoder(max_header_list_size=LONGEST_BLOCK)  # whose table is empty, like that of the connection
    try:
        return MappingProxyType(dict(decoder.decode(block, raw=True)))
    except hpack.HPACKError as error:
        raise ProtocolFailed(ErrorCode.COMPRESSION_ERROR, f"a header block cannot be read: {error}") from error
