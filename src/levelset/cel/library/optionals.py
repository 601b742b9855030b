"""The optional library: optional.of, orValue and the like."""

from typing import Any

from levelset.cel.errors import EvaluationError
from levelset.cel.types import declare
from levelset.cel.values import MIN_TIME, NONE, Optional, Timestamp

__all__ = ["OVERLOADS"]


def _value(optional: Optional) -> Any:
    if optional is NONE:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _of_non_zero(value: Any) -> Optional:
    if isinstance(value, Timestamp):
        is_zero = value == MIN_TIME
    else:
        is_zero = value is None or (isinstance(value, int | float | str | bytes | list | dict) and not value)
    return NONE if is_zero else Optional(value)


def _unwrap(items: list[Optional]) -> list[Any]:
    return [item.value for item in items if item is not NONE]


OVERLOADS = declare(
    [
        ("optional.of: (A) optional(A)", Optional),
        ("optional.none: () optional(A)", lambda: NONE),
        ("optional.ofNonZeroValue: (A) optional(A)", _of_non_zero),
        ("hasValue: optional(A).() bool", lambda optional: optional is not NONE),
        ("value: optional(A).() A", _value),
        ("or: optional(A).(optional(A)) optional(A)", lambda one, two: two if one is NONE else one),
        ("orValue: optional(A).(A) A", lambda one, two: two if one is NONE else one.value),
        ("optional.unwrap: (list(optional(A))) list(A)", _unwrap),
        ("unwrapOpt: list(optional(A)).() list(A)", _unwrap),
    ]
)
