"""Runtime costs of calls that take more than one step, in proportion to the sizes of their arguments.

As in Kubernetes, a character of a string costs a tenth of a step, rounded up.
"""

from collections.abc import Callable, Mapping
from typing import Any

from levelset.cel.values import is_list, is_map

__all__ = ["CHARGES", "traversal"]


def _traverse(value: Any, *_: Any) -> int:
    return len(value) // 10 + 1


def _twice(value: Any, *_: Any) -> int:
    return len(value) // 5 + 1


def _regex(value: str, pattern: str, *_: Any) -> int:
    # A counted repetition makes a pattern larger than its length.
    return ((len(value) + 1) // 10 + 1) * (len(pattern) // 4 + 1) + 5_000 * pattern.count("{")


def _search(value: str, part: str, *_: Any) -> int:
    return (len(value) // 10 + 1) * (len(part) // 10 + 1)


def _both(one: Any, two: Any, *_: Any) -> int:
    return (len(one) + len(two)) // 10 + 1


def _product(one: Any, two: Any, *_: Any) -> int:
    return len(one) * len(two) + 1


def _square(value: Any, *_: Any) -> int:
    return 2 * len(value) * len(value) + 1


def _items(value: Any, *_: Any) -> int:
    return len(value) + 1


def _last(*values: Any) -> int:
    return len(values[-1]) + 1


def _number(value: int, *_: Any) -> int:
    return max(value, 0) + 10


def _compare(one: Any, two: Any) -> int:
    if isinstance(one, str | bytes) and isinstance(two, str | bytes):
        return min(len(one), len(two)) // 10 + 1
    return traversal(one) // 10 + 1


def _prefix(_: str, part: str) -> int:
    return len(part) // 10 + 1


def _replaced(text: str, part: str, by: str, *_: Any) -> int:
    return (len(text) * 2 + text.count(part) * len(by)) // 10 + 1


def _formatted(text: str, values: list[Any]) -> int:
    return len(text) // 10 + traversal(values) + 1


def _joined(items: list[Any], separator: str = "") -> int:
    return traversal(items) + len(items) * len(separator) // 10 + 1


def _named_format(_: Any, value: str) -> int:
    return ((len(value) + 1) // 10 + 1) * 32


def _selector(_: Any, value: str) -> int:
    return 10 + len(value) // 10 + len(value) // 2 * 50


def _check(*_: Any) -> int:
    return 350_000


def traversal(value: Any) -> int:
    """The cost of traversing a value and everything in it."""
    if isinstance(value, str | bytes):
        return len(value) // 10
    if is_list(value):
        return sum(map(traversal, value))
    if is_map(value):
        return sum(traversal(key) + traversal(one) for key, one in value.items())
    return 1


def _walk(value: Any, *_: Any) -> int:
    return traversal(value) + 1


CHARGES: Mapping[str, Callable[..., int]] = {
    "traverse": _traverse,
    "twice": _twice,
    "regex": _regex,
    "search": _search,
    "both": _both,
    "product": _product,
    "square": _square,
    "items": _items,
    "last": _last,
    "number": _number,
    "compare": _compare,
    "format": _named_format,
    "selector": _selector,
    "check": _check,
    "walk": _walk,
    "prefix": _prefix,
    "replaced": _replaced,
    "formatted": _formatted,
    "joined": _joined,
}
