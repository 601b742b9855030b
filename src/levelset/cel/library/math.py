"""The math library: greatest, least, rounding, bit operations."""

import math
from collections.abc import Callable
from typing import Any

from levelset.cel.dynamic_operators import whole
from levelset.cel.errors import EvaluationError
from levelset.cel.types import Row, declare
from levelset.cel.values import MAX_INT, MAX_UINT, Uint, is_list, no_overload, order

__all__ = ["OVERLOADS"]

_NUMBERS = ("int", "uint", "double")


def _extreme(name: str, sign: int) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        only: Any = values[0] if len(values) == 1 else None
        items = only if is_list(only) else list(values)
        if not items:
            raise EvaluationError(f"math.@{name}(list) argument must not be empty")
        best = items[0]
        for item in items:
            if type(item) not in (int, float, Uint):
                raise no_overload()
            if order(item, best) == sign:
                best = item
        return best

    return run


def _round(number: float) -> float:
    if not math.isfinite(number):
        return number
    return math.copysign(math.floor(abs(number) + 0.5), number)


def _rounded(by: Callable[[float], int]) -> Callable[[float], float]:
    def run(number: float) -> float:
        return float(by(number)) if math.isfinite(number) else number

    return run


def _sign(number: float) -> float:
    return number if math.isnan(number) else float((number > 0) - (number < 0))


def _signed(number: int) -> int:
    number &= MAX_UINT
    return number - MAX_UINT - 1 if number > MAX_INT else number


def _shift_left(number: int, by: int) -> int:
    if by < 0:
        raise EvaluationError(f"math.bitShiftLeft() negative offset: {by}")
    return 0 if by > 63 else number << by


def _shift_right(number: int, by: int) -> int:
    if by < 0:
        raise EvaluationError(f"math.bitShiftRight() negative offset: {by}")
    return 0 if by > 63 else (number & MAX_UINT) >> by


def _sqrt(number: float) -> float:
    return math.sqrt(number) if number >= 0 else math.nan


_rows: list[Row] = [
    ("math.ceil: (double) double", _rounded(math.ceil)),
    ("math.floor: (double) double", _rounded(math.floor)),
    ("math.trunc: (double) double", _rounded(math.trunc)),
    ("math.round: (double) double", _round),
    ("math.abs: (double) double", abs),
    ("math.abs: (int) int", lambda number: whole(abs(number))),
    ("math.abs: (uint) uint", Uint),
    ("math.sign: (double) double", _sign),
    ("math.sign: (int) int", lambda number: (number > 0) - (number < 0)),
    ("math.sign: (uint) uint", lambda number: Uint(number > 0)),
    ("math.isNaN: (double) bool", math.isnan),
    ("math.isInf: (double) bool", math.isinf),
    ("math.isFinite: (double) bool", math.isfinite),
    ("math.sqrt: (double) double", _sqrt),
    ("math.sqrt: (int) double", _sqrt),
    ("math.sqrt: (uint) double", _sqrt),
    ("math.bitOr: (int, int) int", lambda one, two: one | two),
    ("math.bitOr: (uint, uint) uint", lambda one, two: Uint(one | two)),
    ("math.bitAnd: (int, int) int", lambda one, two: one & two),
    ("math.bitAnd: (uint, uint) uint", lambda one, two: Uint(one & two)),
    ("math.bitXor: (int, int) int", lambda one, two: one ^ two),
    ("math.bitXor: (uint, uint) uint", lambda one, two: Uint(one ^ two)),
    ("math.bitNot: (int) int", lambda number: ~number),
    ("math.bitNot: (uint) uint", lambda number: Uint(number ^ MAX_UINT)),
    ("math.bitShiftLeft: (int, int) int", lambda number, by: _signed(_shift_left(number, by))),
    ("math.bitShiftLeft: (uint, int) uint", lambda number, by: Uint(_shift_left(number, by) & MAX_UINT)),
    ("math.bitShiftRight: (int, int) int", lambda number, by: _signed(_shift_right(number, by))),
    ("math.bitShiftRight: (uint, int) uint", lambda number, by: Uint(_shift_right(number, by))),
]
for _name, _signum in (("min", -1), ("max", 1)):
    _run = _extreme(_name, _signum)
    for _one in _NUMBERS:
        _rows += [(f"math.@{_name}: ({_one}) {_one}", _run), (f"math.@{_name}: (list({_one})) {_one}", _run)]
        _rows += [(f"math.@{_name}: ({_one}, {_two}) {_one if _one == _two else 'dyn'}", _run) for _two in _NUMBERS]

OVERLOADS = declare(_rows)
