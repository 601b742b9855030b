"""The lists library: sum, min, max, indexOf, sort, slice and the like."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

from levelset.cel.dynamic_operators import whole
from levelset.cel.errors import EvaluationError
from levelset.cel.types import Row, declare
from levelset.cel.values import MAX_UINT, NONE, Duration, Optional, Uint, equal, frozen, is_list, order, type_name

__all__ = ["OVERLOADS"]

_SORTED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_MAX_RANGE = 1_000_000


def _is_sorted(items: list[Any]) -> bool:
    return all(order(one, two) <= 0 for one, two in itertools.pairwise(items))


def _sum(items: list[Any]) -> Any:
    total: Any = None
    for item in items:
        total = item if total is None else _plus(total, item)
    return 0 if total is None else total


def _plus(one: Any, two: Any) -> Any:
    if type(one) is float:
        return one + two
    if type(one) is Uint:
        if one + two > MAX_UINT:
            raise EvaluationError("unsigned integer overflow")
        return Uint(one + two)
    return Duration(whole(one + two)) if type(one) is Duration else whole(one + two)


def _sum_from(zero: Any) -> Callable[[list[Any]], Any]:
    def run(items: list[Any]) -> Any:
        return _sum(items) if items else zero

    return run


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def run(items: list[Any]) -> Any:
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if order(item, best) == sign:
                best = item
        return best

    return run


def _index_of(items: list[Any], wanted: Any) -> int:
    return next((place for place, item in enumerate(items) if equal(item, wanted)), -1)


def _last_index_of(items: list[Any], wanted: Any) -> int:
    return next((place for place in range(len(items) - 1, -1, -1) if equal(items[place], wanted)), -1)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items[start:end])


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    current = list(items)
    if depth > 0:
        _bounded(current)
    while depth > 0 and any(is_list(item) for item in current):
        current = [one for item in current for one in (item if is_list(item) else [item])]
        depth -= 1
        _bounded(current)
    return current


def _bounded(items: list[Any]) -> None:
    """Raises EvaluationError for a list that is too large when flattened: the same list may occur in it many times."""
    if sum(len(item) for item in items if is_list(item)) > _MAX_RANGE:
        raise EvaluationError(f"flatten: the result exceeds the limit of {_MAX_RANGE} elements")


def _sort(items: list[Any]) -> list[Any]:
    return _sort_by_keys(items, items)


def _sort_by_keys(items: list[Any], keys: list[Any]) -> list[Any]:
    if len(items) != len(keys):
        raise EvaluationError("@sortByAssociatedKeys() expected a list of the same size as the associated keys list")
    if len({type_name(key) for key in keys}) > 1:
        raise EvaluationError("list elements must have the same type")
    if keys:
        try:
            order(keys[0], keys[0])
        except EvaluationError:
            raise EvaluationError("list elements must be comparable") from None
    pairs = sorted(zip(keys, items, strict=True), key=functools.cmp_to_key(_by_key))
    return [item for _, item in pairs]


def _by_key(one: tuple[Any, Any], two: tuple[Any, Any]) -> int:
    return order(one[0], two[0])


def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    seen: set[Any] = set()
    for item in items:
        key = frozen(item)
        if key not in seen:
            seen.add(key)
            found.append(item)
    return found


def _range(count: int) -> list[int]:
    if count > _MAX_RANGE:
        raise EvaluationError(f"lists.range({count}) exceeds the limit of {_MAX_RANGE}")
    return list(range(count))


def _first(items: list[Any]) -> Optional:
    return Optional(items[0]) if items else NONE


def _last(items: list[Any]) -> Optional:
    return Optional(items[-1]) if items else NONE


_ZEROES: dict[str, Any] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_typed: list[Row] = [(f"sum: list({kind}).() {kind}", _sum_from(zero)) for kind, zero in _ZEROES.items()]
for _kind in _SORTED:
    _typed += [
        (f"isSorted: list({_kind}).() bool", _is_sorted),
        (f"min: list({_kind}).() {_kind}", _extreme("min", -1)),
        (f"max: list({_kind}).() {_kind}", _extreme("max", 1)),
    ]

OVERLOADS = [
    *declare(
        [
            *_typed,
            ("indexOf: list(A).(A) int", _index_of),
            ("lastIndexOf: list(A).(A) int", _last_index_of),
        ],
        charge="walk",
    ),
    *declare(
        [
            ("slice: list(A).(int, int) list(A)", _slice),
            ("flatten: list(list(A)).() list(A)", _flatten),
            ("flatten: list(dyn).(int) list(dyn)", _flatten),
            ("reverse: list(A).() list(A)", lambda items: items[::-1]),
        ],
        charge="items",
    ),
    *declare([(f"sort: list({kind}).() list({kind})", _sort) for kind in _SORTED], charge="square"),
    *declare(
        [
            ("@sortByAssociatedKeys: list(A).(list(B)) list(A)", _sort_by_keys),
            ("distinct: list(A).() list(A)", _distinct),
        ],
        charge="square",
    ),
    *declare([("lists.range: (int) list(int)", _range)], charge="number"),
    *declare([("first: list(A).() optional(A)", _first), ("last: list(A).() optional(A)", _last)]),
]
