"""The protobuf encoding of OpenAPI v2 documents, with the messages of gnostic read from a data file."""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema.builtin_schemas import DATA
from levelset.apiserver.wire.protobuf import FIXED64, write_bytes, write_varint
from levelset.objects import encode_tree
from levelset.objects.json_tree import is_list

__all__ = ["preload", "write_openapi", "write_part"]

_Choice = tuple[str, Any]


class _Field(msgspec.Struct, frozen=True):
    number: int
    type: str
    is_list: bool


class _Table(msgspec.Struct):
    messages: dict[str, str]


def write_openapi(head: Object, paths: bytes, definitions: bytes) -> bytes:
    """The bytes of a document from its head and its already encoded paths and definitions."""
    fields = _fields("Document")
    rest = ((fields["paths"], paths), (fields["definitions"], definitions))
    return _message("Document", head) + b"".join(write_bytes(field.number, content) for field, content in rest)


def write_part(name: str, tree: Object) -> bytes:
    """The bytes of a message within a document; those of maps can be concatenated."""
    return _message(name, tree)


def preload() -> None:
    """Reads the data file, so that no request waits for the disk."""
    _table()


def _message(name: str, tree: Any) -> bytes:
    choose, named = _CHOICES.get(name), _NAMED.get(name)
    if choose is not None:
        chosen, value = choose(tree)
        tree = {chosen: value}
    elif named is not None:
        tree = {named: [{"name": key, "value": value} for key, value in tree.items()]}
    fields = _fields(name)
    pieces: list[bytes] = []
    for key, value in tree.items():
        field = fields.get(key)
        if field is not None:
            pieces += [_value(field, one) for one in (value if field.is_list else (value,))]
        elif key.startswith("x-"):
            pieces.append(_value(fields["vendorExtension"], {"name": key, "value": value}))
    return b"".join(pieces)


def _value(field: _Field, value: Any) -> bytes:
    match field.type:
        case "s":
            return write_bytes(field.number, str(value).encode())
        case "l" | "t":
            return write_varint(field.number << 3) + write_varint(int(value))
        case "d":
            return write_varint(field.number << 3 | FIXED64) + struct.pack("<d", value)
        case message:
            return write_bytes(field.number, _message(message, value))


def _parameter(tree: Any) -> _Choice:
    return ("bodyParameter" if tree["in"] == "body" else "nonBodyParameter"), tree


def _additional(tree: Any) -> _Choice:
    return ("boolean" if isinstance(tree, bool) else "schema"), tree


def _types(tree: Any) -> _Choice:
    return "value", tree if is_list(tree) else [tree]


# Messages that are a choice of several, or wrap one: the field to set, and its value.
_CHOICES: Final[Mapping[str, Callable[[Any], _Choice]]] = {
    "AdditionalPropertiesItem": _additional,
    "Any": lambda tree: ("yaml", encode_tree(tree).decode()),
    "ItemsItem": lambda tree: ("schema", [tree]),
    "NonBodyParameter": lambda tree: (f"{tree['in']}ParameterSubSchema", tree),
    "Parameter": _parameter,
    "ParametersItem": lambda tree: ("parameter", tree),
    "ResponseValue": lambda tree: ("response", tree),
    "SchemaItem": lambda tree: ("schema", tree),
    "TypeItem": _types,
}
# Messages that are maps: the name of their list of named members.
_NAMED: Final[Mapping[str, str]] = {
    "Definitions": "additionalProperties",
    "Paths": "path",
    "Properties": "additionalProperties",
    "Responses": "responseCode",
}


@cache
def _table() -> _Table:
    return msgspec.json.decode((DATA / "openapi_v2.json").read_bytes(), type=_Table)


@cache
def _fields(name: str) -> dict[str, _Field]:
    made: dict[str, _Field] = {}
    for one in filter(None, _table().messages[name].split(",")):
        number, member, type_ = one.split(" ")
        made[member] = _Field(int(number), type_.removeprefix("+"), type_.startswith("+"))
    return made
