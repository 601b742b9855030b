"""Encodes protobuf messages by field number, as Go clients send them."""

from levelset.apiserver.wire.protobuf import MAGIC, write_bytes, write_varint

__all__ = ["envelope", "message", "meta"]

Value = int | str | bytes | tuple[int | str | bytes, ...]


def message(*fields: tuple[int, Value]) -> bytes:
    """A message: integers are varints, strings and bytes are length-delimited."""
    return b"".join(_field(number, value) for number, value in fields)


def meta(name: str, *more: tuple[int, Value]) -> bytes:
    """An ObjectMeta with all the empty fields that Go writes."""
    empty = [(number, "") for number in (2, 3, 4, 5, 6)]
    return message((1, name), *empty, (7, 0), (8, b""), *more)


def envelope(version: str, kind: str, raw: bytes) -> bytes:
    """An object in the wire format of `application/vnd.kubernetes.protobuf`."""
    return MAGIC + message((1, message((1, version), (2, kind))), (2, raw), (3, ""), (4, ""))


def _field(number: int, value: Value) -> bytes:
    if isinstance(value, tuple):
        return b"".join(_field(number, one) for one in value)
    if isinstance(value, int):
        return write_varint(number << 3) + write_varint(value)
    return write_bytes(number, value.encode() if isinstance(value, str) else value)
