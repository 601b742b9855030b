"""The subset of DER that X.509 certificates need, and PEM."""

import binascii
import re
from datetime import UTC, datetime

__all__ = [
    "BITS", "BOOLEAN", "INTEGER", "OCTETS", "OID", "SEQUENCE", "SET", "UTF8", "from_pem", "number", "oid", "parts",
    "tagged", "time", "to_pem", "value_of",
]  # fmt: skip

BOOLEAN, INTEGER, BITS, OCTETS, OID, UTF8, SEQUENCE, SET = 0x01, 0x02, 0x03, 0x04, 0x06, 0x0C, 0x30, 0x31

_LINE = 64


def tagged(tag: int, *contents: bytes) -> bytes:
    """A DER value: tag, length and contents."""
    content = b"".join(contents)
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def number(value: int) -> bytes:
    """A non-negative INTEGER."""
    return tagged(INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def oid(text: str) -> bytes:
    """An OBJECT IDENTIFIER, from its dotted form."""
    first, second, *rest = map(int, text.split("."))
    return tagged(OID, b"".join(_base_128(arc) for arc in (first * 40 + second, *rest)))


def time(moment: datetime) -> bytes:
    """A time: UTCTime until 2049, GeneralizedTime afterwards."""
    moment = moment.astimezone(UTC)
    if 1950 <= moment.year < 2050:
        return tagged(0x17, moment.strftime("%y%m%d%H%M%SZ").encode())
    return tagged(0x18, f"{moment.year:04}{moment:%m%d%H%M%SZ}".encode())


def parts(data: bytes) -> list[bytes]:
    """Splits concatenated values, each with its tag; raises ValueError."""
    found: list[bytes] = []
    start = 0
    while start < len(data):
        end = start + sum(_size(data[start:]))
        if end > len(data):
            raise ValueError("a value is longer than its container")
        found.append(data[start:end])
        start = end
    return found


def value_of(data: bytes) -> bytes:
    """The contents of a value; raises ValueError."""
    head, size = _size(data)
    return data[head : head + size]


def to_pem(label: str, data: bytes) -> bytes:
    """The data as PEM."""
    text = binascii.b2a_base64(data, newline=False).decode()
    lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""]).encode()


def from_pem(label: str, data: bytes) -> bytes | None:
    """The data of the first PEM block with this label; None if there is none."""
    name = re.escape(label.encode())
    found = re.search(b"-----BEGIN %b-----([A-Za-z0-9+/=\\s]+)-----END %b-----" % (name, name), data)
    return None if found is None else binascii.a2b_base64(found[1])


def _base_128(arc: int) -> bytes:
    digits = [arc & 0x7F]
    while arc := arc >> 7:
        digits.append(0x80 | arc & 0x7F)
    return bytes(reversed(digits))


def _size(data: bytes) -> tuple[int, int]:
    """The size of tag and length, and that of the contents."""
    if len(data) < 2:
        raise ValueError("a value is truncated")
    if data[1] < 0x80:
        return 2, data[1]
    count = data[1] & 0x7F
    return 2 + count, int.from_bytes(data[2 : 2 + count], "big")
