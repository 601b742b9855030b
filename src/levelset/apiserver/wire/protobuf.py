"""Objects that clients send as protobuf, as Go clients like to: read into the tree that the same object is in JSON.

An object comes in an envelope that names its kind. What its fields are called in JSON, and which of them are left out
when they are zero, is data (`data/protobuf.json`, written by `scripts/generate_protobuf.py`). Fields that nobody knows
are left aside, as Kubernetes does.

What some protobuf messages are in JSON: a time, a quantity, a number or a text, an object of whatever kind.

Each form gets the fields of a message and gives the value in JSON; None if it stands for nothing.

The wire format of protobuf: a message is a row of numbered fields, each a number, eight or four bytes, or a text.

Nothing is known here about what the fields mean. Whatever the bytes are, the only error is `BadObject`.
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
    "FORMS",
    "MAGIC",
    "PROTOBUF",
    "VARINT",
    "Field",
    "preload",
    "read_fields",
    "read_protobuf",
    "signed",
    "write_bytes",
    "write_varint",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _time(fields: dict[str, Any]) -> str | None:
    moment = _moment(fields)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def _micro_time(fields: dict[str, Any]) -> str | None:
    moment = _moment(fields)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _moment(fields: dict[str, Any]) -> datetime | None:
    seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
    if not seconds and not nanos:
        return None
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise BadObject(f"{seconds} seconds since 1970 are no time that can be written down") from error


def _quantity(fields: dict[str, Any]) -> str:
    return fields.get("string") or "0"


def _int_or_string(fields: dict[str, Any]) -> int | str:
    match fields.get("type", 0):
        case 0:
            return int(fields.get("intVal", 0))
        case 1:
            return str(fields.get("strVal", ""))
        case other:
            raise BadObject(f"a number or a text is neither of them: its type is {other}")


def _json(fields: dict[str, Any]) -> Any:
    raw = base64.b64decode(fields.get("raw") or fields.get("Raw") or "")
    return decode_tree(raw) if raw else None


def _schema_or_bool(fields: dict[str, Any]) -> Any:
    return fields.get("schema", fields.get("allows", False))


def _schema_or_array(fields: dict[str, Any]) -> Any:
    return fields.get("jSONSchemas") or fields.get("schema")


def _schema_or_names(fields: dict[str, Any]) -> Any:
    return fields.get("property") or fields.get("schema")


FORMS: Final[Mapping[str, Callable[[dict[str, Any]], Any]]] = {
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


PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
MAGIC: Final = b"k8s\x00"
_DEEPEST: Final = 100


class _Field(msgspec.Struct, frozen=True):
    """What stands in a field: its name, whether it is a list or a map, and the type of (each) value."""

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
    """The object in an envelope, with `apiVersion` and `kind` as the envelope says; raises BadObject."""
    if not data.startswith(MAGIC):
        raise BadObject("the body does not begin as protobuf of Kubernetes does")
    version, kind, raw = _open(data[len(MAGIC) :])
    name = _find(version, kind)
    if name is None:
        raise BadObject(f"no kind {kind!r} of version {version!r} is known in protobuf")
    tree: Tree = {"apiVersion": version, "kind": kind}
    made = _read(name, raw, tree, 0)
    return made if made is tree else tree


def preload() -> None:
    """Reads the data file, so that no request waits for the disk."""
    _table()


def _open(data: bytes) -> tuple[str, str, bytes]:
    """What an envelope says: apiVersion, kind, and the object itself."""
    named, raw = {1: "", 2: ""}, b""
    for number, wire, value in read_fields(data):
        if number == 1 and wire == BYTES and isinstance(value, bytes):
            for inner, inside, text in read_fields(value):
                if inside == BYTES and inner in named:
                    named[inner] = _text(text, "typeMeta")
        elif number == 2 and wire == BYTES and isinstance(value, bytes):
            raw = value
    return named[1], named[2], raw


def _find(version: str, kind: str) -> str | None:
    # Options of a deletion come in the version of what is to be deleted.
    kinds = _table().kinds
    return kinds.get(kind) if kind == "DeleteOptions" else kinds.get(f"{version} {kind}")


def _read(name: str, data: bytes, tree: Tree, depth: int) -> Any:
    """Reads a message into a tree, and gives what it is in JSON: the tree itself, or what it stands for."""
    if depth > _DEEPEST:
        raise BadObject(f"the protobuf is nested more than {_DEEPEST} levels deep")
    fields = _fields(name)
    for number, wire, value in read_fields(data):
        field = fields.get(number)
        if field is not None:
            _take(field, wire, value, tree, depth)
    if "[]" in tree:
        return tree["[]"]
    form = FORMS.get(name)
    return tree if form is None else form(tree)


def _take(field: _Field, wire: int, value: int | bytes, tree: Tree, depth: int) -> None:
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
        # Numbers may stand one behind the other; with a key before each of them they are fields of their own.
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
        raise BadObject(f"{name}: a protobuf number breaks off")
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
            raise BadObject(f"{name} must be a number of eight bytes in protobuf")
        number: float = struct.unpack("<d", value)[0]
        if not math.isfinite(number):
            raise BadObject(f"{name} must be a number that JSON can say, not {number}")
        return number
    if wire != VARINT or not isinstance(value, int):
        raise BadObject(f"{name} must be a whole number in protobuf")
    if type_ == "t":
        return value != 0
    return signed(value, 32 if type_ == "i" else 64)


def _bytes(wire: int, value: int | bytes, name: str) -> bytes:
    if wire != BYTES or not isinstance(value, bytes):
        raise BadObject(f"{name} is written as a number in protobuf, and is none")
    return value


def _text(value: int | bytes, name: str) -> str:
    try:
        return value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError as error:
        raise BadObject(f"{name} is no text in UTF-8: {error.reason} at byte {error.start}") from error


@cache
def _table() -> _Table:
    return msgspec.json.decode((DATA / "protobuf.json").read_bytes(), type=_Table)


@cache
def _fields(name: str) -> dict[int, _Field]:
    made: dict[int, _Field] = {}
    for one in filter(None, _table().messages[name].split(",")):
        number, member, type_ = one.split(" ")
        shape = type_[0] if type_[0] in "+%" else ""
        base = type_.lstrip("+%?")
        made[int(number)] = _Field(member, base, shape, type_.startswith("?"), len(base) > 1)
    return made
