"""The values of CEL that Python has no match for, and the equality and order of all of them.

Numbers, texts, bytes, lists, maps and null are the Python values; what follows adds unsigned numbers, times,
durations, types as values, and values that may be missing. The three kinds of numbers are subclasses of int, so that
comparing two of one kind costs nothing; their class tells them apart.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, TypeGuard

from levelset.cel.errors import EvaluationError
from levelset.objects.quantity import Quantity

__all__ = [
    "MAX_INT",
    "MAX_TIME",
    "MAX_UINT",
    "MIN_INT",
    "MIN_TIME",
    "NONE",
    "Duration",
    "KeyedList",
    "Made",
    "Named",
    "Optional",
    "SetList",
    "Timestamp",
    "Uint",
    "equal",
    "frozen",
    "is_list",
    "is_map",
    "no_overload",
    "order",
    "type_name",
]

MAX_INT: Final = 2**63 - 1
MIN_INT: Final = -(2**63)
MAX_UINT: Final = 2**64 - 1
MAX_TIME: Final = 253402300799999999999  # nanoseconds: the end of 9999
MIN_TIME: Final = -62135596800000000000  # the beginning of 1


class Uint(int):
    """An unsigned number of 64 bits."""

    __slots__ = ()


class Timestamp(int):
    """A point in time, as nanoseconds since 1970; `offset` is the zone it was written in, which only texts show."""

    offset: int = 0  # seconds east of Greenwich


class Duration(int):
    """A length of time in nanoseconds."""

    __slots__ = ()


class Made(dict[str, Any]):
    """An object that an expression has written out, with the name that it gave it: `Object.spec{...}`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class Named:
    """A type as a value."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


class Optional:
    """A value that is there; NONE is the one that is not."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Optional) or self is NONE or other is NONE:
            return self is other
        return equal(self.value, other.value)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "optional.none()" if self is NONE else f"optional.of({self.value!r})"


NONE: Final = Optional(None)


class SetList(list[Any]):
    """A list whose order does not matter (x-kubernetes-list-type: set)."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not is_list(other) or len(other) != len(self):
            return False
        return set(map(frozen, self)) == set(map(frozen, other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # as every list

    def __add__(self, other: Any) -> "SetList":
        mine = set(map(frozen, self))
        return SetList([*self, *(one for one in other if frozen(one) not in mine)])


class KeyedList(list[Any]):
    """A list whose items are told apart by some of their fields (x-kubernetes-list-type: map)."""

    __slots__ = ("keys",)

    def __init__(self, items: Sequence[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def key_of(self, item: Any) -> tuple[Any, ...]:
        """What tells this item apart."""
        return tuple(item.get(key) for key in self.keys)

    def __eq__(self, other: object) -> bool:
        if not is_list(other) or len(other) != len(self):
            return False
        mine = {self.key_of(item): item for item in self}
        theirs = {self.key_of(item): item for item in other}
        return mine.keys() == theirs.keys() and all(equal(item, theirs[key]) for key, item in mine.items())

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # as every list

    def __add__(self, other: Any) -> "KeyedList":
        merged = {self.key_of(item): item for item in self}
        merged.update((self.key_of(item), item) for item in other)
        return KeyedList(list(merged.values()), self.keys)


_NUMBERS = frozenset((int, Uint, float))
_ORDERED = frozenset((str, bytes, bool, Timestamp, Duration))


def frozen(value: Any) -> Hashable:
    """Something that is equal, and has the same hash, for values that are equal."""
    if is_list(value):
        return tuple(map(frozen, value))
    if is_map(value):
        return frozenset((key, frozen(one)) for key, one in value.items())
    return value if value.__class__ in _NUMBERS else (value.__class__, value)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether this is a list."""
    return isinstance(value, list)


def is_map(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    """Whether this is a map or an object."""
    return isinstance(value, Mapping)


def equal(one: Any, two: Any) -> bool:
    """Whether two values are equal: numbers of all kinds are compared by what they count, all else within its type."""
    kind, other = one.__class__, two.__class__
    if kind in _NUMBERS and other in _NUMBERS:
        return bool(one == two)
    if is_list(one) and is_list(two):
        return _equal_lists(one, two)
    if is_map(one) and is_map(two):
        return _equal_maps(one, two)
    return kind is other and bool(one == two)


def _equal_lists(one: list[Any], two: list[Any]) -> bool:
    if type(one) is not list:
        return one == two
    if type(two) is not list:
        return two == one
    return len(one) == len(two) and all(map(equal, one, two))


def _equal_maps(one: Mapping[Any, Any], two: Mapping[Any, Any]) -> bool:
    return len(one) == len(two) and all(key in two and equal(value, two[key]) for key, value in one.items())


def order(one: Any, two: Any) -> int:
    """-1, 0 or 1 as the first comes before, with or after the second; raises EvaluationError if there is no order."""
    kind, other = one.__class__, two.__class__
    if kind in _NUMBERS and other in _NUMBERS:
        if math.isnan(one) or math.isnan(two):
            raise EvaluationError("NaN values cannot be ordered")
    elif kind is not other or kind not in _ORDERED:
        raise no_overload()
    return bool(one > two) - bool(one < two)


def no_overload() -> EvaluationError:
    """What is raised when no variant of a function takes such values."""
    return EvaluationError("no such overload")


_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    Named: "type",
    Optional: "optional_type",
    Quantity: "kubernetes.Quantity",
}


def type_name(value: Any) -> str:
    """The name of the type that a value has."""
    found = _TYPE_NAMES.get(value.__class__)
    if found is not None:
        return found
    if is_list(value):
        return "list"
    if is_map(value):
        return "map"
    return str(getattr(value, "cel_type", "dyn"))
