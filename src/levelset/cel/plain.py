"""Values of expressions turned back into JSON: what policies write out goes into objects."""

import base64
import math
from typing import Any

from levelset.cel.faults import EvaluationError
from levelset.cel.instants import format_duration, format_timestamp
from levelset.cel.values import Duration, Timestamp, is_list, is_map, type_name

__all__ = ["plain_value"]


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
