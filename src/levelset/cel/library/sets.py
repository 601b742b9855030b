"""The sets library: contains, intersects and equivalent on lists."""

from typing import Any

from levelset.cel.types import declare
from levelset.cel.values import equal

__all__ = ["OVERLOADS"]


def _within(one: Any, items: list[Any]) -> bool:
    return any(equal(one, item) for item in items)


def _contains(items: list[Any], others: list[Any]) -> bool:
    return all(_within(one, items) for one in others)


def _intersects(items: list[Any], others: list[Any]) -> bool:
    return any(_within(one, items) for one in others)


def _equivalent(items: list[Any], others: list[Any]) -> bool:
    return _contains(items, others) and _contains(others, items)


OVERLOADS = declare(
    [
        ("sets.contains: (list(A), list(A)) bool", _contains),
        ("sets.intersects: (list(A), list(A)) bool", _intersects),
        ("sets.equivalent: (list(A), list(A)) bool", _equivalent),
    ],
    charge="product",
)
