"""Decodes objects that clients send as Kubernetes protobuf into the JSON tree of the same object.

An object comes in an envelope (`runtime.Unknown`) that names its apiVersion and kind. The JSON names of the fields, and
which of them are omitted when zero, are data: `data/protobuf.json`, written by `scripts/generate_protobuf.py`. Unknown
fields are ignored, as in Kubernetes. Messages with a JSON form of their own, such as Time and Quantity, are in
`WELL_KNOWN_TYPES`. Whatever the bytes are, the only error is `BadObject`.
"""

import base64
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import msgspec

from levelset.apiserver.resources.server_state import Tree
from levelset.apiserver.schema.builtin_schemas import DATA
from levelset.errors import BadObject
from levelset.objects import decode_tree
from levelset.objects.json_tree import is_map

__all__ = [
    "BYTES",
    "FIXED32",
    "FIXED64",
    "MAGIC",
    "PROTOBUF",
    "VARINT",
    "WELL_KNOWN_TYPES",
    "WireField",
    "preload",
    "read_fields",
    "read_protobuf",
    "signed",
    "write_bytes",
    "write_varint",
]

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
MAGIC: Final = b"k8s\x00"
_MAX_DEPTH: Final = 100
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

WireField = tuple[int, int, int | bytes]
"""Field number, wire type and value: an unsigned integer, or the raw bytes."""

_MAX_VARINT_BYTES: Final = 10
_MASK_64: Final = (1 << 64) - 1


class _Field(msgspec.Struct, frozen=True):
    """A field of a message: its JSON name, its shape, and the type of its value or of each element."""

    name: str
    type: str
    shape: str
    """`+` for a list, `%` for a map, empty for one value."""
    drops_zero: bool
    is_message: bool


class _Table(msgspec.Struct):
    kinds: dict[str, str]
    messages: dict[str, str]


def read_protobuf(data: bytes) -> Tree:
    """Decodes an object in its envelope, with the `apiVersion` and `kind` of the envelope; raises BadObject."""
    if not data.startswith(MAGIC):
        raise BadObject("the body is not Kubernetes protobuf: it does not begin with the k8s prefix")
    version, kind, raw = _read_envelope(data[len(MAGIC) :])
    name = _message_name(version, kind)
    if name is None:
        raise BadObject(f"kind {kind!r} of {version!r} cannot be decoded from protobuf")
    tree: Tree = {"apiVersion": version, "kind": kind}
    made = _read(name, raw, tree, 0)
    return made if made is tree else tree


def preload() -> None:
    """Loads the data file, so that no request waits for the disk."""
    _table()


def _read_envelope(data: bytes) -> tuple[str, str, bytes]:
    """The apiVersion, kind and raw object of an envelope."""
    named, raw = {1: "", 2: ""}, b""
    for number, wire, value in read_fields(data):
        if number == 1 and wire == BYTES and isinstance(value, bytes):
            for inner, inside, text in read_fields(value):
                if inside == BYTES and inner in named:
                    named[inner] = _text(text, "typeMeta")
        elif number == 2 and wire == BYTES and isinstance(value, bytes):
            raw = value
    return named[1], named[2], raw


def _message_name(version: str, kind: str) -> str | None:
    # DeleteOptions are sent in the group and version of the object that is deleted.
    kinds = _table().kinds
    return kinds.get(kind) if kind == "DeleteOptions" else kinds.get(f"{version} {kind}")


def _read(name: str, data: bytes, tree: Tree, depth: int) -> Any:
    """Decodes a message into `tree` and returns its JSON form: the tree, or the value of a well-known type."""
    if depth > _MAX_DEPTH:
        raise BadObject(f"the protobuf is nested more than {_MAX_DEPTH} levels deep")
    fields = _fields(name)
    for number, wire, value in read_fields(data):
        field = fields.get(number)
        if field is not None:
            _read_field(field, wire, value, tree, depth)
    if "[]" in tree:
        return tree["[]"]
    convert = WELL_KNOWN_TYPES.get(name)
    return tree if convert is None else convert(tree)


def _read_field(field: _Field, wire: int, value: int | bytes, tree: Tree, depth: int) -> None:
    name = field.name
    if field.shape == "%":
        key, found = _entry(field, wire, value, depth)
        tree.setdefault(name, {})[key] = found
    elif field.shape == "+":
        tree.setdefault(name, []).extend(_items(field, wire, value, depth))
    elif name == "-":
        _read(field.type, _bytes(wire, value, field.type), tree, depth + 1)
    elif field.is_message:
        before: Any = tree.get(name)
        made = _read(field.type, _bytes(wire, value, name), before if is_map(before) else {}, depth + 1)
        if made is not None:
            tree[name] = made
    else:
        scalar = _scalar(field.type, wire, value, name)
        if scalar or not field.drops_zero:
            tree[name] = scalar
        else:
            tree.pop(name, None)


def _items(field: _Field, wire: int, value: int | bytes, depth: int) -> list[Any]:
    if field.is_message:
        return [_read(field.type, _bytes(wire, value, field.name), {}, depth + 1)]
    if field.type in "ilt" and wire == BYTES and isinstance(value, bytes):
        # Packed repeated integers: a field key before each makes them fields that `read_fields` can decode.
        packed = b"".join(b"\x08" + one for one in _split(value, field.name))
        return [_scalar(field.type, VARINT, one, field.name) for _, _, one in read_fields(packed)]
    return [_scalar(field.type, wire, value, field.name)]


def _split(value: bytes, name: str) -> list[bytes]:
    found, start = list[bytes](), 0
    for place, byte in enumerate(value, 1):
        if byte < 0x80:
            found.append(value[start:place])
            start = place
    if start != len(value):
        raise BadObject(f"{name}: truncated protobuf varint")
    return found


def _entry(field: _Field, wire: int, value: int | bytes, depth: int) -> tuple[str, Any]:
    key, found = "", _zero(field)
    for number, inside, part in read_fields(_bytes(wire, value, field.name)):
        if number == 1:
            key = _text(_bytes(inside, part, field.name), field.name)
        elif number == 2:
            found = (
                _read(field.type, _bytes(inside, part, field.name), {}, depth + 1)
                if field.is_message
                else _scalar(field.type, inside, part, f"{field.name}[{key}]")
            )
    return key, found


def _zero(field: _Field) -> Any:
    return _read(field.type, b"", {}, 0) if field.is_message else {"t": False, "i": 0, "l": 0}.get(field.type, "")


def _scalar(type_: str, wire: int, value: int | bytes, name: str) -> Any:
    if type_ == "s":
        return _text(_bytes(wire, value, name), name)
    if type_ == "b":
        return base64.b64encode(_bytes(wire, value, name)).decode()
    if type_ == "d":
        if wire != FIXED64 or not isinstance(value, bytes):
            raise BadObject(f"{name} must be a 64-bit double in protobuf")
        number: float = struct.unpack("<d", value)[0]
        if not math.isfinite(number):
            raise BadObject(f"{name} must be a finite number, not {number}")
        return number
    if wire != VARINT or not isinstance(value, int):
        raise BadObject(f"{name} must be an integer in protobuf")
    if type_ == "t":
        return value != 0
    return signed(value, 32 if type_ == "i" else 64)


def _bytes(wire: int, value: int | bytes, name: str) -> bytes:
    if wire != BYTES or not isinstance(value, bytes):
        raise BadObject(f"{name} must be length-delimited in protobuf, not an integer")
    return value


def _text(value: int | bytes, name: str) -> str:
    try:
        return value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError as error:
        raise BadObject(f"{name} is not valid UTF-8: {error.reason} at byte {error.start}") from error


@cache
def _table() -> _Table:
    return msgspec.json.decode((DATA / "protobuf.json").read_bytes(), type=_Table)


@cache
def _fields(name: str) -> dict[int, _Field]:
    fields: dict[int, _Field] = {}
    for one in filter(None, _table().messages[name].split(",")):
        number, member, type_ = one.split(" ")
        shape = type_[0] if type_[0] in "+%" else ""
        base = type_.lstrip("+%?")
        fields[int(number)] = _Field(member, base, shape, type_.startswith("?"), len(base) > 1)
    return fields


def _time(fields: dict[str, Any]) -> str | None:
    moment = _datetime(fields)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def _micro_time(fields: dict[str, Any]) -> str | None:
    moment = _datetime(fields)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _datetime(fields: dict[str, Any]) -> datetime | None:
    seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
    if not seconds and not nanos:
        return None
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise BadObject(f"timestamp out of range: {seconds} seconds since 1970") from error


def _quantity(fields: dict[str, Any]) -> str:
    return fields.get("string") or "0"


def _int_or_string(fields: dict[str, Any]) -> int | str:
    match fields.get("type", 0):
        case 0:
            return int(fields.get("intVal", 0))
        case 1:
            return str(fields.get("strVal", ""))
        case other:
            raise BadObject(f"IntOrString has the unknown type {other}")


def _json(fields: dict[str, Any]) -> Any:
    raw = base64.b64decode(fields.get("raw") or fields.get("Raw") or "")
    return decode_tree(raw) if raw else None


def _schema_or_bool(fields: dict[str, Any]) -> Any:
    return fields.get("schema", fields.get("allows", False))


def _schema_or_array(fields: dict[str, Any]) -> Any:
    return fields.get("jSONSchemas") or fields.get("schema")


def _schema_or_names(fields: dict[str, Any]) -> Any:
    return fields.get("property") or fields.get("schema")


WELL_KNOWN_TYPES: Final[Mapping[str, Callable[[dict[str, Any]], Any]]] = {
    "meta.v1.Time": _time,
    "meta.v1.MicroTime": _micro_time,
    "meta.v1.FieldsV1": _json,
    "api.resource.Quantity": _quantity,
    "util.intstr.IntOrString": _int_or_string,
    "pkg.runtime.RawExtension": _json,
    "apiextensions.v1.JSON": _json,
    "apiextensions.v1.JSONSchemaPropsOrBool": _schema_or_bool,
    "apiextensions.v1.JSONSchemaPropsOrArray": _schema_or_array,
    "apiextensions.v1.JSONSchemaPropsOrStringArray": _schema_or_names,
}


def read_fields(data: bytes) -> Iterator[WireField]:
    """The fields of a message in their order; raises BadObject if it is truncated or malformed."""
    position, end = 0, len(data)
    while position < end:
        key, position = _varint(data, position)
        number, wire = key >> 3, key & 7
        if not number:
            raise BadObject(f"protobuf field number 0 at byte {position}")
        if wire == VARINT:
            value, position = _varint(data, position)
            yield number, wire, value
            continue
        if wire == BYTES:
            size, position = _varint(data, position)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise BadObject(f"protobuf field {number} has the unknown wire type {wire}")
        if size > end - position:
            raise BadObject(f"protobuf field {number} is truncated: expected {size} bytes, found {end - position}")
        yield number, wire, data[position : position + size]
        position += size


def signed(value: int, bits: int) -> int:
    """The two's complement value of the lowest `bits` bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def write_varint(value: int) -> bytes:
    """Encodes a varint: seven bits per byte; negative numbers as 64 bits."""
    value &= _MASK_64
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def write_bytes(number: int, content: bytes) -> bytes:
    """Encodes a length-delimited field: a string, bytes or a message."""
    return write_varint(number << 3 | BYTES) + write_varint(len(content)) + content


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    for place in range(position, min(position + _MAX_VARINT_BYTES, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK_64, place + 1
        shift += 7
    raise BadObject(f"protobuf varint is truncated or longer than {_MAX_VARINT_BYTES} bytes at byte {position}")
