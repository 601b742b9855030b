"""Objects that clients send as protobuf, as Go clients like to: read into the tree that the same object is in JSON.

An object comes in an envelope that names its kind. What its fields are called in JSON, and which of them are left out
when they are zero, is data (`data/protobuf.json`, written by `scripts/generate_protobuf.py`). Fields that nobody knows
are left aside, as Kubernetes does.
"""

import base64
import math
import struct
from functools import cache
from typing import Any, Final

import msgspec

from levelset.apiserver.protoforms import FORMS
from levelset.apiserver.protowire import BYTES, FIXED64, VARINT, read_fields, signed
from levelset.apiserver.schemas.builtin import DATA
from levelset.apiserver.world import Tree
from levelset.errors import BadObject
from levelset.objects.trees import is_map

__all__ = ["MAGIC", "PROTOBUF", "preload", "read_protobuf"]

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
