"""The wire format of protobuf: a message is a row of numbered fields, each a number, eight or four bytes, or a text.

Nothing is known here about what the fields mean. Whatever the bytes are, the only error is `BadObject`.
"""

from collections.abc import Iterator
from typing import Final

from levelset.errors import BadObject

__all__ = ["BYTES", "FIXED32", "FIXED64", "VARINT", "Field", "read_fields", "signed", "write_bytes", "write_varint"]

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

Field = tuple[int, int, int | bytes]
"""The number of a field, how it is written, and what stands there: an unsigned number, or the bytes themselves."""

_LONGEST: Final = 10
_ALL: Final = (1 << 64) - 1


def read_fields(data: bytes) -> Iterator[Field]:
    """The fields of a message in their order; raises BadObject where it breaks off or makes no sense."""
    position, end = 0, len(data)
    while position < end:
        key, position = _varint(data, position)
        number, wire = key >> 3, key & 7
        if not number:
            raise BadObject(f"a protobuf field without a number at byte {position}")
        if wire == VARINT:
            value, position = _varint(data, position)
            yield number, wire, value
            continue
        if wire == BYTES:
            size, position = _varint(data, position)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise BadObject(f"protobuf field {number} is written in a way that there is not ({wire})")
        if size > end - position:
            raise BadObject(f"protobuf field {number} breaks off: {size} bytes are said, {end - position} are there")
        yield number, wire, data[position : position + size]
        position += size


def signed(value: int, bits: int) -> int:
    """The number with a sign that an unsigned one of this many bits stands for; what is above them is cut off."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def write_varint(value: int) -> bytes:
    """A number, seven bits to a byte; negative ones as 64 bits."""
    value &= _ALL
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def write_bytes(number: int, content: bytes) -> bytes:
    """A field that holds bytes: a text, or another message."""
    return write_varint(number << 3 | BYTES) + write_varint(len(content)) + content


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    for place in range(position, min(position + _LONGEST, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _ALL, place + 1
        shift += 7
    raise BadObject(f"a protobuf number breaks off, or has more than {_LONGEST} bytes, at byte {position}")
