"""The quantity library: quantities such as 500m or 1Gi."""

from levelset.cel.errors import EvaluationError
from levelset.cel.types import declare
from levelset.cel.values import MAX_INT, MIN_INT
from levelset.errors import BadQuantity
from levelset.objects.quantity import Quantity

__all__ = ["OVERLOADS"]

_NANOS = 10**9


def _parse(text: str) -> Quantity:
    try:
        return Quantity(text)
    except BadQuantity as error:
        raise EvaluationError(f"quantity parse error: {error}") from None


def _is_quantity(text: str) -> bool:
    try:
        Quantity(text)
    except BadQuantity:
        return False
    return True


def _is_integer(amount: Quantity) -> bool:
    return amount.nanos % _NANOS == 0 and MIN_INT <= amount.nanos // _NANOS <= MAX_INT


def _as_integer(amount: Quantity) -> int:
    if not _is_integer(amount):
        raise EvaluationError("cannot convert value to integer")
    return amount.nanos // _NANOS


def _as_float(amount: Quantity) -> float:
    try:
        return float(amount)
    except OverflowError:
        return float("inf") if amount.nanos > 0 else float("-inf")


def _compare(one: Quantity, two: Quantity) -> int:
    return (one.nanos > two.nanos) - (one.nanos < two.nanos)


OVERLOADS = [
    *declare([("quantity: (string) Quantity", _parse), ("isQuantity: (string) bool", _is_quantity)], charge="traverse"),
    *declare(
        [
            ("sign: Quantity.() int", lambda amount: (amount.nanos > 0) - (amount.nanos < 0)),
            ("isInteger: Quantity.() bool", _is_integer),
            ("asInteger: Quantity.() int", _as_integer),
            ("asApproximateFloat: Quantity.() double", _as_float),
            ("isGreaterThan: Quantity.(Quantity) bool", lambda one, two: one > two),
            ("isLessThan: Quantity.(Quantity) bool", lambda one, two: one < two),
            ("compareTo: Quantity.(Quantity) int", _compare),
            ("add: Quantity.(Quantity) Quantity", lambda one, two: one + two),
            ("add: Quantity.(int) Quantity", lambda one, two: one + Quantity.of(two)),
            ("sub: Quantity.(Quantity) Quantity", lambda one, two: one - two),
            ("sub: Quantity.(int) Quantity", lambda one, two: one - Quantity.of(two)),
        ]
    ),
]
