"""Trees of JSON given the form that expressions expect: times, bytes, numbers with a point, sets and keyed lists.

Most schemas need none of it, and their values are used as they are.

Values of expressions turned back into JSON: what policies write out goes into objects.
"""

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import Any

from levelset.cel.errors import EvaluationError
from levelset.cel.timestamps import format_duration, format_timestamp, parse_date, parse_duration, parse_timestamp
from levelset.cel.values import Duration, KeyedList, SetList, Timestamp, is_list, is_map, type_name

__all__ = ["Convert", "converter", "plain_value"]

Convert = Callable[[Any], Any]


def converter(schema: Mapping[str, Any]) -> Convert | None:
    """What gives values of this schema their form; None if they have it already.

    A value that is not what its schema says is left as it is: the schema's own check has refused it by then.
    """
    if schema.get("x-kubernetes-int-or-string") is True:
        return None
    kind = schema.get("type")
    if kind == "number":
        return _number
    if kind == "string":
        return _STRINGS.get(schema.get("format", ""))
    if kind == "array":
        return _array(schema)
    return _object(schema) if kind == "object" else None


def _number(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _time(value: Any) -> Any:
    return parse_timestamp(value) if isinstance(value, str) else value


def _day(value: Any) -> Any:
    return Timestamp(parse_date(value)) if isinstance(value, str) else value


def _span(value: Any) -> Any:
    return Duration(parse_duration(value, days=True)) if isinstance(value, str) else value


def _binary(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else value
    except (binascii.Error, ValueError):
        return value


_STRINGS: Mapping[str, Convert] = {"date": _day, "date-time": _time, "duration": _span, "byte": _binary}


def _array(schema: Mapping[str, Any]) -> Convert | None:
    items = schema.get("items")
    each = converter(items) if is_map(items) else None
    wrap = _wrapper(schema)
    if each is None and wrap is None:
        return None

    def convert(value: Any) -> Any:
        if not is_list(value):
            return value
        found: list[Any] = value
        if each is not None:
            found = [each(item) for item in found]
        return found if wrap is None else wrap(found)

    return convert


def _wrapper(schema: Mapping[str, Any]) -> Callable[[list[Any]], list[Any]] | None:
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return SetList
    if kind != "map":
        return None
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    return lambda items: KeyedList(items, keys) if all(is_map(item) for item in items) else items


def _object(schema: Mapping[str, Any]) -> Convert | None:
    values = schema.get("additionalProperties")
    if is_map(values):
        return _entries(converter(values))
    properties: Mapping[str, Any] = schema.get("properties") or {}
    found = {name: converter(each) for name, each in properties.items() if is_map(each)}
    changes = [(name, convert) for name, convert in found.items() if convert is not None]
    return _members(changes) if changes else None


def _entries(each: Convert | None) -> Convert | None:
    if each is None:
        return None

    def convert(value: Any) -> Any:
        if not is_map(value):
            return value
        entries: Mapping[str, Any] = value
        return {key: each(one) for key, one in entries.items()}

    return convert


def _members(changes: list[tuple[str, Convert]]) -> Convert:
    def convert(value: Any) -> Any:
        if not is_map(value):
            return value
        found: dict[str, Any] = dict(value)
        for name, change in changes:
            if name in found:
                found[name] = change(found[name])
        return found

    return convert


def plain_value(value: Any) -> Any:
    """The value as a tree of JSON that shares nothing with it; raises EvaluationError if JSON has no such thing."""
    try:
        return _plain(value)
    except RecursionError:
        raise EvaluationError("the value is nested too deeply") from None


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Timestamp):
        return format_timestamp(value)
    if isinstance(value, Duration):
        return format_duration(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if is_map(value):
        return {_key(key): _plain(member) for key, member in value.items()}
    if is_list(value):
        return [_plain(member) for member in value]
    raise EvaluationError(f"a value of type {type_name(value)} cannot stand in an object")


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return key if isinstance(key, str) else str(int(key))
