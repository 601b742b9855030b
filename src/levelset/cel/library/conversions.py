"""Type conversion functions: int, uint, double, string, bytes, bool, dyn and type."""

import math
import re
from typing import Any

from levelset.cel.errors import EvaluationError
from levelset.cel.types import declare
from levelset.cel.values import (
    MAX_INT,
    MAX_TIME,
    MAX_UINT,
    MIN_INT,
    MIN_TIME,
    Duration,
    Named,
    Timestamp,
    Uint,
    format_duration,
    format_timestamp,
    parse_duration,
    parse_timestamp,
    type_name,
)
from levelset.objects.lazy_pattern import Pattern

__all__ = ["OVERLOADS", "format_double"]

_INTEGER = Pattern(r"[+-]?[0-9]{1,400}")
_FLOAT = Pattern(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,10})?|inf|infinity|nan)", re.IGNORECASE)
_TRUE = frozenset(("1", "t", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "false", "FALSE", "False"))
_SECOND = 10**9


def _int_of_uint(number: int) -> int:
    if number > MAX_INT:
        raise EvaluationError("integer overflow")
    return int(number)


def _int_of_double(number: float) -> int:
    if not MIN_INT < number < MAX_INT:
        raise EvaluationError("integer overflow")
    return int(number)


def _int_of_string(text: str) -> int:
    number = int(text) if _INTEGER.fullmatch(text) else None
    if number is None or not MIN_INT <= number <= MAX_INT:
        raise _unconverted(text, "int")
    return number


def _uint_of_int(number: int) -> Uint:
    if number < 0:
        raise EvaluationError("unsigned integer overflow")
    return Uint(number)


def _uint_of_double(number: float) -> Uint:
    if not 0 <= number < MAX_UINT:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(number))


def _uint_of_string(text: str) -> Uint:
    number = int(text) if _INTEGER.fullmatch(text) and text[0] not in "+-" else None
    if number is None or number > MAX_UINT:
        raise _unconverted(text, "uint")
    return Uint(number)


def _double_of_string(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise _unconverted(text, "double")
    return float(text)


def _string_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def format_double(number: float) -> str:
    """A double as Go prints it: the fewest digits that identify it."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    shown = repr(number)
    if "e" not in shown:
        return shown.removesuffix(".0")
    digits, _, exponent = shown.partition("e")
    return f"{digits.removesuffix('.0')}e{exponent[0]}{exponent[1:].zfill(2)}"


def _bool_of_string(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _unconverted(text, "bool")


def _unconverted(text: str, kind: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from 'string' to '{kind}': {text[:80]!r} is none")


def _time_of_int(seconds: int) -> Timestamp:
    if not MIN_TIME <= seconds * _SECOND <= MAX_TIME:
        raise EvaluationError("timestamp overflow")
    return Timestamp(seconds * _SECOND)


def _same(value: Any) -> Any:
    return value


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


OVERLOADS = [
    *declare(
        [
            ("int: (int) int", _same, "{0}"),
            ("int: (uint) int", _int_of_uint),
            ("int: (double) int", _int_of_double),
            ("int: (timestamp) int", lambda value: int(value) // _SECOND),
            ("int: (duration) int", int),
            ("uint: (uint) uint", _same, "{0}"),
            ("uint: (int) uint", _uint_of_int),
            ("uint: (double) uint", _uint_of_double),
            ("double: (double) double", _same, "{0}"),
            ("double: (int) double", float),
            ("double: (uint) double", float),
            ("bool: (bool) bool", _same, "{0}"),
            ("string: (string) string", _same, "{0}"),
            ("string: (int) string", str),
            ("string: (uint) string", lambda value: str(int(value))),
            ("string: (double) string", format_double),
            ("string: (bool) string", lambda value: "true" if value else "false"),
            ("string: (timestamp) string", format_timestamp),
            ("string: (duration) string", format_duration),
            ("string: (Quantity) string", str),
            ("string: (IP) string", str),
            ("string: (CIDR) string", str),
            ("string: (Semver) string", str),
            ("bytes: (bytes) bytes", _same, "{0}"),
            ("timestamp: (timestamp) timestamp", _same, "{0}"),
            ("timestamp: (int) timestamp", _time_of_int),
            ("duration: (duration) duration", _same, "{0}"),
            ("duration: (int) duration", Duration),
            ("dyn: (A) dyn", _same, "{0}"),
            ("type: (A) type(A)", lambda value: Named(type_name(value))),
        ]
    ),
    *declare(
        [
            ("string: (bytes) string", _string_of_bytes),
            ("int: (string) int", _int_of_string),
            ("uint: (string) uint", _uint_of_string),
            ("double: (string) double", _double_of_string),
            ("bool: (string) bool", _bool_of_string),
            ("timestamp: (string) timestamp", parse_timestamp),
            ("duration: (string) duration", lambda text: Duration(parse_duration(text))),
            ("bytes: (string) bytes", _encode),
        ],
        charge="traverse",
    ),
]
