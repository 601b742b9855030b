"""The standard library of CEL: operators, size and membership.

The Python source beside a declaration is inlined instead of a call where the types are known; `int:` marks results that
must be checked for overflow.
"""

import math
from typing import Any

from levelset.cel.dynamic_operators import at, contains, maybe, whole
from levelset.cel.errors import EvaluationError
from levelset.cel.types import Row, declare
from levelset.cel.values import MAX_TIME, MAX_UINT, MIN_INT, MIN_TIME, Duration, Timestamp, Uint, equal, order

__all__ = ["OVERLOADS"]


def _unsigned(number: int) -> Uint:
    if 0 <= number <= MAX_UINT:
        return Uint(number)
    raise EvaluationError("unsigned integer overflow")


def _span(number: int) -> Duration:
    if MIN_INT <= number <= -MIN_INT - 1:
        return Duration(number)
    raise EvaluationError("duration overflow")


def _moment(number: int) -> Timestamp:
    if MIN_TIME <= number <= MAX_TIME:
        return Timestamp(number)
    raise EvaluationError("timestamp overflow")


def _divide(one: int, two: int) -> int:
    if two == 0:
        raise EvaluationError("division by zero")
    found = abs(one) // abs(two)
    return whole(found if (one < 0) == (two < 0) else -found)


def _modulo(one: int, two: int) -> int:
    if two == 0:
        raise EvaluationError("modulus by zero")
    if two == -1:
        whole(-one)
    found = abs(one) % abs(two)
    return -found if one < 0 else found


def _divide_unsigned(one: int, two: int) -> Uint:
    if two == 0:
        raise EvaluationError("division by zero")
    return Uint(one // two)


def _modulo_unsigned(one: int, two: int) -> Uint:
    if two == 0:
        raise EvaluationError("modulus by zero")
    return Uint(one % two)


def _divide_double(one: float, two: float) -> float:
    if two:
        return one / two
    if one == 0 or math.isnan(one) or math.isnan(two):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1, two)


def _plus(one: Any, two: Any) -> Any:
    return one + two


def _not_equal(one: Any, two: Any) -> bool:
    return not equal(one, two)


def _less(one: Any, two: Any) -> bool:
    return order(one, two) < 0


def _less_equal(one: Any, two: Any) -> bool:
    return order(one, two) <= 0


def _greater(one: Any, two: Any) -> bool:
    return order(one, two) > 0


def _greater_equal(one: Any, two: Any) -> bool:
    return order(one, two) >= 0


def _entry(value: Any, key: Any) -> Any:
    return value[key]


def _minus(number: int) -> int:
    return whole(-number)


def _size_bytes(value: bytes) -> int:
    return len(value)


def _starts(text: str, part: str) -> bool:
    return text.startswith(part)


def _ends(text: str, part: str) -> bool:
    return text.endswith(part)


def _has(text: str, part: str) -> bool:
    return part in text


_ORDERED = ("int", "uint", "string", "bytes", "timestamp", "duration", "bool")
_NUMBERS = ("int", "uint", "double")
_MIXED = [(one, two) for one in _NUMBERS for two in _NUMBERS if one != two or one == "double"]
_COMPARISONS = (
    ("_<_", _less, "<"),
    ("_<=_", _less_equal, "<="),
    ("_>_", _greater, ">"),
    ("_>=_", _greater_equal, ">="),
)

_rows: list[Row] = [
    ("_+_: (int, int) int", lambda one, two: whole(one + two), "int:{0} + {1}"),
    ("_+_: (uint, uint) uint", lambda one, two: _unsigned(one + two)),
    ("_+_: (double, double) double", _plus, "{0} + {1}"),
    ("_+_: (timestamp, duration) timestamp", lambda one, two: _moment(one + two)),
    ("_+_: (duration, timestamp) timestamp", lambda one, two: _moment(one + two)),
    ("_+_: (duration, duration) duration", lambda one, two: _span(one + two)),
    ("_-_: (int, int) int", lambda one, two: whole(one - two), "int:{0} - {1}"),
    ("_-_: (uint, uint) uint", lambda one, two: _unsigned(one - two)),
    ("_-_: (double, double) double", lambda one, two: one - two, "{0} - {1}"),
    ("_-_: (timestamp, timestamp) duration", lambda one, two: _span(one - two)),
    ("_-_: (timestamp, duration) timestamp", lambda one, two: _moment(one - two)),
    ("_-_: (duration, duration) duration", lambda one, two: _span(one - two)),
    ("_*_: (int, int) int", lambda one, two: whole(one * two), "int:{0} * {1}"),
    ("_*_: (uint, uint) uint", lambda one, two: _unsigned(one * two)),
    ("_*_: (double, double) double", lambda one, two: one * two, "{0} * {1}"),
    ("_/_: (int, int) int", _divide),
    ("_/_: (uint, uint) uint", _divide_unsigned),
    ("_/_: (double, double) double", _divide_double),
    ("_%_: (int, int) int", _modulo),
    ("_%_: (uint, uint) uint", _modulo_unsigned),
    ("-_: (int) int", _minus),
    ("-_: (double) double", lambda number: -number),
    ("_?_:_: (bool, A, A) A", lambda test, yes, no: yes if test else no),
    ("!_: (bool) bool", lambda value: not value, "not {0}"),
    ("_[_]: (list(A), int) A", at),
    ("_[_]: (map(A, B), A) B", _entry, "{0}[{1}]"),
    ("_[_]: (optional(list(A)), int) optional(A)", maybe),
    ("_[_]: (optional(map(A, B)), A) optional(B)", maybe),
    ("_[?_]: (list(A), int) optional(A)", maybe),
    ("_[?_]: (map(A, B), A) optional(B)", maybe),
    ("_[?_]: (optional(list(A)), int) optional(A)", maybe),
    ("_[?_]: (optional(map(A, B)), A) optional(B)", maybe),
    ("@in: (A, map(A, B)) bool", contains, "{0} in {1}"),
    # In the order of upstream: the first one that fits decides what the items of `[]` are.
    ("size: (bytes) int", _size_bytes, "len({0})"),
    ("size: (list(A)) int", len, "len({0})"),
    ("size: (map(A, B)) int", len, "len({0})"),
    ("size: (string) int", len, "len({0})"),
    ("size: bytes.() int", _size_bytes, "len({0})"),
    ("size: list(A).() int", len, "len({0})"),
    ("size: map(A, B).() int", len, "len({0})"),
    ("size: string.() int", len, "len({0})"),
]
_rows += [
    (f"{name}: ({kind}, {kind}) bool", run, f"{{0}} {sign} {{1}}")
    for name, run, sign in _COMPARISONS
    for kind in _ORDERED
]
_rows += [(f"{name}: ({one}, {two}) bool", run) for name, run, _ in _COMPARISONS for one, two in _MIXED]

OVERLOADS = [
    *declare(_rows),
    *declare([("_==_: (A, A) bool", equal), ("_!=_: (A, A) bool", _not_equal)], charge="compare"),
    *declare([("@in: (A, list(A)) bool", contains)], charge="last"),
    *declare(
        [
            ("_+_: (string, string) string", _plus, "{0} + {1}"),
            ("_+_: (bytes, bytes) bytes", _plus, "{0} + {1}"),
            ("_+_: (list(A), list(A)) list(A)", _plus, "{0} + {1}"),
        ],
        charge="both",
    ),
    *declare(
        [
            ("startsWith: string.(string) bool", _starts, "{0}.startswith({1})"),
            ("endsWith: string.(string) bool", _ends, "{0}.endswith({1})"),
        ],
        charge="prefix",
    ),
    *declare([("contains: string.(string) bool", _has, "{1} in {0}")], charge="search"),
]
