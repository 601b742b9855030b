"""Validation of numbers: ranges, multiples and formats."""

import math

from levelset.apiserver.schema import field_errors
from levelset.apiserver.schema.formats import INT32, INT64
from levelset.apiserver.schema.schema_nodes import Node, Tree
from levelset.errors import Cause

__all__ = ["check", "is_integer", "is_multiple", "is_number", "limits_beyond", "span"]

WHOLE_FLOATS = 2**53
LARGEST_FLOAT = 3.4028234663852886e38


def is_integer(value: Tree) -> bool:
    """Whether the value is a whole number: an integer, or a float such as 1.0."""
    if isinstance(value, float):
        return value.is_integer() and abs(value) < WHOLE_FLOATS
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Tree) -> bool:
    """Whether the value is a number; booleans are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def span(node: Node) -> tuple[float, float] | None:
    """The range that type and format imply for a number; None if unlimited."""
    if node.int_or_string:
        return None
    if node.type == "integer":
        return INT32 if node.format == "int32" else INT64
    if node.type == "number" and node.format == "float":
        return -LARGEST_FLOAT, LARGEST_FLOAT
    return None


def check(node: Node, value: float, path: str) -> list[Cause]:
    """The errors in a number."""
    causes: list[Cause] = []

    def wrong(detail: str) -> None:
        causes.append(field_errors.invalid(path, value, f"{path} in body should be {detail}"))

    beyond = ["Checked"] if _is_beyond(node, value) else []
    for name in [*beyond, *limits_beyond(node)]:
        form = f"with format {node.format}" if node.format else "(default format)"
        text = f"{name} value must be of type {node.type} {form} in {path}"
        causes.append(field_errors.invalid("<nil>", "", text))  # as upstream, without a place of its own
    if node.multiple_of is not None and not is_multiple(value, node.multiple_of):
        wrong(f"a multiple of {field_errors.show(node.multiple_of)}")
    low, high = node.minimum, node.maximum
    if low is not None and (value <= low if node.exclusive_minimum else value < low):
        wrong(f"greater than {'' if node.exclusive_minimum else 'or equal to '}{field_errors.show(low)}")
    if high is not None and (value >= high if node.exclusive_maximum else value > high):
        wrong(f"less than {'' if node.exclusive_maximum else 'or equal to '}{field_errors.show(high)}")
    return causes


def limits_beyond(node: Node) -> list[str]:
    """The limits of a number that are none of its type and format: as upstream, every number is wrong then."""
    limits = {"MultipleOf": node.multiple_of, "Maximum boundary": node.maximum, "Minimum boundary": node.minimum}
    return [name for name, limit in limits.items() if limit is not None and _is_beyond(node, limit)]


def _is_beyond(node: Node, value: float) -> bool:
    within = span(node)
    if within is None:
        return False
    is_fraction = node.type == "integer" and value.__class__ is float and not float(value).is_integer()
    return is_fraction or not within[0] <= value <= within[1]


def is_multiple(value: float, step: float) -> bool:
    """Whether the number is a multiple of the step; always False if the step is not positive."""
    if not step > 0:
        return False
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        ratio = 1 / step * value if step < 1 else value / step
    except OverflowError:
        return False
    return math.isfinite(ratio) and ratio.is_integer()
