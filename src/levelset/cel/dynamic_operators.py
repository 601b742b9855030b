"""Runtime helpers of compiled expressions: dynamically typed field access, indexing, and checked arithmetic."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from levelset.cel.errors import EvaluationError
from levelset.cel.values import MAX_INT, MIN_INT, NONE, Optional, equal, is_list, is_map, no_overload

__all__ = [
    "as_bool",
    "as_list",
    "at",
    "contains",
    "elements",
    "entries_into",
    "field",
    "has_field",
    "index",
    "make_map",
    "maybe",
    "pairs",
    "present",
    "select",
    "whole",
]


def whole(number: int) -> int:
    """The number, if it fits into a signed 64-bit integer; raises EvaluationError otherwise."""
    if MIN_INT <= number <= MAX_INT:
        return number
    raise EvaluationError("integer overflow")


def as_bool(value: Any) -> bool:
    """The value, which must be a bool."""
    if value is True or value is False:
        return bool(value)
    raise no_overload()


def as_list(value: Any) -> list[Any]:
    """The value, which must be a list."""
    if is_list(value):
        return value
    raise no_overload()


def field(value: Any, name: str) -> Any:
    """A nullable field; null counts as absent and raises KeyError."""
    found = value[name]
    if found is None:
        raise KeyError(name)
    return found


def select(value: Any, name: str) -> Any:
    """A field of a dynamically typed value."""
    if is_map(value):
        return value[name]
    if isinstance(value, Optional):
        return maybe(value, name)
    raise no_overload()


def has_field(value: Any, name: str) -> bool:
    """Whether a dynamically typed value has this field."""
    if is_map(value):
        return name in value
    if isinstance(value, Optional):
        return value is not NONE and has_field(value.value, name)
    raise no_overload()


def present(value: Any) -> Optional:
    """The value as a present optional value."""
    return Optional(value)


def maybe(value: Any, key: Any) -> Optional:
    """A field, entry or item as an optional value."""
    if isinstance(value, Optional):
        return NONE if value is NONE else maybe(value.value, key)
    if is_map(value):
        found = value.get(key, NONE)
        return NONE if found is NONE or found is None else Optional(found)
    if is_list(value) and _is_index(key):
        items: list[Any] = value
        return Optional(items[int(key)]) if 0 <= key < len(items) else NONE
    raise no_overload()


def at(items: Sequence[Any], place: int) -> Any:
    """The item at this index."""
    if 0 <= place < len(items):
        return items[place]
    raise EvaluationError(f"index out of bounds: {place}")


def index(value: Any, key: Any) -> Any:
    """The item or entry of a dynamically typed value."""
    if is_map(value):
        if isinstance(key, Mapping | list):
            raise no_overload()
        return value[key]
    if is_list(value) and _is_index(key):
        return at(value, int(key))
    if isinstance(value, Optional):
        return maybe(value, key)
    raise no_overload()


def _is_index(key: Any) -> bool:
    return isinstance(key, int | float) and not isinstance(key, bool) and key % 1 == 0


def contains(item: Any, value: Any) -> bool:
    """Whether a list has this item, or a map this key."""
    if is_map(value):
        return not isinstance(item, Mapping | list) and item in value
    if is_list(value):
        return any(equal(item, one) for one in value)
    raise no_overload()


def elements(value: Any) -> Iterable[Any]:
    """What a macro with one variable iterates over: the items of a list, the keys of a map."""
    if is_list(value) or is_map(value):
        return value
    raise no_overload()


def pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """What a macro with two variables iterates over: indexes and items of a list, keys and values of a map."""
    if is_list(value):
        return enumerate(value)
    if is_map(value):
        return value.items()
    raise no_overload()


def make_map(entries: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """A map of these entries; a duplicate key is an error."""
    found: dict[Any, Any] = {}
    for key, value in entries:
        if isinstance(key, Mapping | list | float) or key is None:
            raise EvaluationError("unsupported key type")
        if key in found:
            raise EvaluationError(f"Failed with repeated key: {key}")
        found[key] = value
    return found


def entries_into(found: dict[Any, Any], more: Any) -> None:
    """Adds entries to a map; a key that it already has is an error."""
    if not is_map(more):
        raise no_overload()
    for key, value in more.items():
        if key in found:
            raise EvaluationError(f"insert failed: key {key} already exists")
        found[key] = value
