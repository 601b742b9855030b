"""The schemas of types that have nothing inside: texts, numbers, times, quantities, enumerations."""

import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from levelset.codegen.constraints import PRESERVE
from levelset.codegen.hints import Place, Schema
from levelset.objects.quantity import Quantity
from levelset.objects.times import MicroTime

__all__ = ["ANYTHING", "INT_OR_STRING", "enum_schema", "leaf_schema", "values_schema"]

ANYTHING: Final[Mapping[str, Any]] = {PRESERVE: True}
"""Any JSON value."""

INT_OR_STRING: Final[Mapping[str, Any]] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
"""A number or a text, as a port or a share is: 8080, "http", "25%"."""

_AMOUNT: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"

_LEAVES: Final[Mapping[Any, Mapping[str, Any]]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number", "format": "double"},
    bytes: {"type": "string", "format": "byte"},
    dt.datetime: {"type": "string", "format": "date-time"},
    MicroTime: {"type": "string", "format": "date-time"},
    dt.date: {"type": "string", "format": "date"},
    # Neither has a format that a server would read as Python writes it.
    dt.time: {"type": "string"},
    dt.timedelta: {"type": "string"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"type": "string"},
    Quantity: {**INT_OR_STRING, "pattern": _AMOUNT},
    Any: ANYTHING,
    object: ANYTHING,
    msgspec.Raw: ANYTHING,
}


def leaf_schema(hint: Any) -> Schema | None:
    """The schema of a type without parts, or None for one that has some."""
    try:
        found = _LEAVES.get(hint)
    except TypeError:  # a hint that cannot be a key is no leaf
        return None
    return None if found is None else dict(found)


def enum_schema(kind: type[enum.Enum], place: Place) -> Schema:
    """The schema of an enumeration: the values of its members."""
    return values_schema([one.value for one in kind], place)


def values_schema(values: Sequence[Any], place: Place) -> Schema:
    """The schema of a choice of values, which must be of one type."""
    found = {_kind(one) for one in values}
    if len(found) != 1 or "" in found:
        shown = ", ".join(map(repr, values))
        raise place.refuse(f"a choice of {shown} is of several types, or of one without a schema; choose among texts")
    return {"type": found.pop(), "enum": list(values)}


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case _:
            return ""
