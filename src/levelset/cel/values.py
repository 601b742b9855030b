"""CEL values without a Python equivalent, equality and order of all values, and their conversion from and to JSON.

Numbers, strings, bytes, lists, maps and null are the Python values; this module adds unsigned numbers, timestamps and
durations (parsed and formatted to the nanosecond), types as values, and optional values. The three kinds of numbers are
subclasses of int, so that comparing two of one kind costs nothing; their class distinguishes them.

`converter` gives timestamps, bytes, doubles, sets and keyed lists the types that expressions expect; most schemas need
no conversion, and their values are used as they are. `plain_value` converts the result of an expression back to JSON.
"""

import base64
import binascii
import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, TypeGuard

from levelset.cel.errors import EvaluationError
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.quantity import Quantity

__all__ = [
    "MAX_INT",
    "MAX_TIME",
    "MAX_UINT",
    "MIN_INT",
    "MIN_TIME",
    "NONE",
    "Convert",
    "Duration",
    "KeyedList",
    "Made",
    "Named",
    "Optional",
    "SetList",
    "Timestamp",
    "Uint",
    "converter",
    "equal",
    "format_duration",
    "format_timestamp",
    "frozen",
    "is_list",
    "is_map",
    "no_overload",
    "order",
    "parse_date",
    "parse_duration",
    "parse_timestamp",
    "plain_value",
    "to_datetime",
    "type_name",
]

MAX_INT: Final = 2**63 - 1
MIN_INT: Final = -(2**63)
MAX_UINT: Final = 2**64 - 1
MAX_TIME: Final = 253402300799999999999  # nanoseconds: the end of 9999
MIN_TIME: Final = -62135596800000000000  # the beginning of 1


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


class Timestamp(int):
    """A point in time, in nanoseconds since 1970; `offset` is the zone it was written in, used only for printing."""

    offset: int = 0  # seconds east of Greenwich


class Duration(int):
    """A length of time in nanoseconds."""

    __slots__ = ()


class Made(dict[str, Any]):
    """An object that an expression constructed, with its type name: `Object.spec{...}`."""

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
    """A present optional value; NONE is the absent one."""

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
    """A list without order (x-kubernetes-list-type: set)."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not is_list(other) or len(other) != len(self):
            return False
        return set(map(frozen, self)) == set(map(frozen, other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # unhashable, as every list is

    def __add__(self, other: Any) -> "SetList":
        mine = set(map(frozen, self))
        return SetList([*self, *(one for one in other if frozen(one) not in mine)])


class KeyedList(list[Any]):
    """A list whose items are identified by some of their fields (x-kubernetes-list-type: map)."""

    __slots__ = ("keys",)

    def __init__(self, items: Sequence[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def key_of(self, item: Any) -> tuple[Any, ...]:
        """The key of this item."""
        return tuple(item.get(key) for key in self.keys)

    def __eq__(self, other: object) -> bool:
        if not is_list(other) or len(other) != len(self):
            return False
        mine = {self.key_of(item): item for item in self}
        theirs = {self.key_of(item): item for item in other}
        return mine.keys() == theirs.keys() and all(equal(item, theirs[key]) for key, item in mine.items())

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # unhashable, as every list is

    def __add__(self, other: Any) -> "KeyedList":
        merged = {self.key_of(item): item for item in self}
        merged.update((self.key_of(item), item) for item in other)
        return KeyedList(list(merged.values()), self.keys)


_NUMBERS = frozenset((int, Uint, float))
_ORDERED = frozenset((str, bytes, bool, Timestamp, Duration))


def frozen(value: Any) -> Hashable:
    """A hashable form of a value: equal values have equal forms."""
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
    """Whether two values are equal: numbers of all types are compared by value, everything else within its type."""
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
    """-1, 0 or 1 if the first is less than, equal to or greater than the second; EvaluationError if not comparable."""
    kind, other = one.__class__, two.__class__
    if kind in _NUMBERS and other in _NUMBERS:
        if math.isnan(one) or math.isnan(two):
            raise EvaluationError("NaN values cannot be ordered")
    elif kind is not other or kind not in _ORDERED:
        raise no_overload()
    return bool(one > two) - bool(one < two)


def no_overload() -> EvaluationError:
    """The error for a function without an overload for these values."""
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
    """The name of a value's type."""
    found = _TYPE_NAMES.get(value.__class__)
    if found is not None:
        return found
    if is_list(value):
        return "list"
    if is_map(value):
        return "map"
    return str(getattr(value, "cel_type", "dyn"))


_SECOND = 10**9
_TIME = Pattern(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]{1,30}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_DATE = Pattern(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PART = Pattern(r"([0-9]{0,40})(?:\.([0-9]{0,40}))?(ns|us|µs|μs|ms|s|m|h|d|w)")
_UNITS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_LONG = {"d": 86400 * _SECOND, "w": 7 * 86400 * _SECOND}
_MAX = 2**63 - 1
_CACHED_LENGTH = 100  # longer texts, which objects may have, are not cached


def parse_timestamp(text: str) -> Timestamp:
    """Parses an RFC 3339 time; raises EvaluationError."""
    return _cached_timestamp(text) if len(text) <= _CACHED_LENGTH else _parse_timestamp(text)


def _parse_timestamp(text: str) -> Timestamp:
    match = _TIME.fullmatch(text)
    if match is None:
        raise EvaluationError(f"type conversion error from 'string' to 'google.protobuf.Timestamp': {text[:80]!r}")
    *parts, fraction, sign, hours, minutes = match.groups()
    try:
        moment = datetime(*map(int, parts), tzinfo=UTC)  # type: ignore[misc, arg-type]  # six numbers
        if int(hours or 0) > 23 or int(minutes or 0) > 59:
            raise ValueError("no such offset")
    except ValueError:
        raise EvaluationError(f"timestamp out of range: {text[:80]!r}") from None
    away = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    seconds = int((moment - away - _EPOCH).total_seconds())
    found = Timestamp(seconds * _SECOND + int((fraction or "").ljust(9, "0")[:9]))
    found.offset = int(away.total_seconds())
    return found


_cached_timestamp = lru_cache(1024)(_parse_timestamp)


def parse_date(text: str) -> int:
    """Nanoseconds since 1970 at the start of a day; raises EvaluationError."""
    match = _DATE.fullmatch(text)
    try:
        day = date(*map(int, match.groups())) if match else None
    except ValueError:
        day = None
    if day is None:
        raise EvaluationError(f"Invalid date formatted string {text[:80]!r}")
    return (day - _EPOCH.date()).days * 86400 * _SECOND


def parse_duration(text: str, *, days: bool = False) -> int:
    """Nanoseconds of a duration in Go's syntax, with `days` also in days and weeks; raises EvaluationError."""
    return _cached_duration(text, days) if len(text) <= _CACHED_LENGTH else _parse_duration(text, days)


def _parse_duration(text: str, days: bool) -> int:
    body = text[1:] if text[:1] in ("+", "-") else text
    total, at = 0, 0
    if body != "0":
        while at < len(body) or not body:
            match = _PART.match(body, at)
            if match is None or not (match[1] or match[2]) or (match[3] in _LONG and not days):
                raise EvaluationError(f"invalid duration: {text[:80]!r}")
            total += _part(match)
            at = match.end()
    if total > _MAX:
        raise EvaluationError(f"invalid duration: {text[:80]!r} is out of range")
    return -total if text.startswith("-") else total


_cached_duration = lru_cache(1024)(_parse_duration)


def _part(match: re.Match[str]) -> int:
    unit = _UNITS.get(match[3]) or _LONG[match[3]]
    fraction = match[2] or ""
    parts: int = 10 ** len(fraction)
    return int(match[1] or 0) * unit + int(fraction or 0) * unit // parts


def format_duration(duration: int) -> str:
    """A duration in seconds, as in `90.5s`."""
    whole, rest = divmod(abs(duration), _SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if duration < 0 else ''}{whole}{fraction}s"


def to_datetime(timestamp: int) -> datetime:
    """The time in UTC, to the microsecond."""
    return _EPOCH + timedelta(microseconds=timestamp // 1000)


def format_timestamp(timestamp: int) -> str:
    """A time in RFC 3339, with as many fractional digits as needed."""
    offset = getattr(timestamp, "offset", 0)
    moment = to_datetime(timestamp + offset * _SECOND)
    rest = timestamp % _SECOND
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    hours, minutes = divmod(abs(offset) // 60, 60)
    zone = f"{'-' if offset < 0 else '+'}{hours:02d}:{minutes:02d}" if offset else "Z"
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}{zone}"


Convert = Callable[[Any], Any]


def converter(schema: Mapping[str, Any]) -> Convert | None:
    """The conversion of values of this schema; None if they need none.

    A value that does not match its schema is returned unchanged: schema validation has already rejected it.
    """
    if schema.get("x-kubernetes-int-or-string") is True:
        return None
    kind = schema.get("type")
    if kind == "number":
        return _number
    if kind == "string":
        return _STRINGS.get(schema.get("format", ""))
    if kind == "array":
        return _array(schema)
    return _object(schema) if kind == "object" else None


def _number(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _time(value: Any) -> Any:
    return parse_timestamp(value) if isinstance(value, str) else value


def _day(value: Any) -> Any:
    return Timestamp(parse_date(value)) if isinstance(value, str) else value


def _span(value: Any) -> Any:
    return Duration(parse_duration(value, days=True)) if isinstance(value, str) else value


def _binary(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else value
    except (binascii.Error, ValueError):
        return value


_STRINGS: Mapping[str, Convert] = {"date": _day, "date-time": _time, "duration": _span, "byte": _binary}


def _array(schema: Mapping[str, Any]) -> Convert | None:
    items = schema.get("items")
    each = converter(items) if is_map(items) else None
    wrap = _wrapper(schema)
    if each is None and wrap is None:
        return None

    def convert(value: Any) -> Any:
        if not is_list(value):
            return value
        found: list[Any] = value
        if each is not None:
            found = [each(item) for item in found]
        return found if wrap is None else wrap(found)

    return convert


def _wrapper(schema: Mapping[str, Any]) -> Callable[[list[Any]], list[Any]] | None:
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return SetList
    if kind != "map":
        return None
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    return lambda items: KeyedList(items, keys) if all(is_map(item) for item in items) else items


def _object(schema: Mapping[str, Any]) -> Convert | None:
    values = schema.get("additionalProperties")
    if is_map(values):
        return _entries(converter(values))
    properties: Mapping[str, Any] = schema.get("properties") or {}
    found = {name: converter(each) for name, each in properties.items() if is_map(each)}
    changes = [(name, convert) for name, convert in found.items() if convert is not None]
    return _members(changes) if changes else None


def _entries(each: Convert | None) -> Convert | None:
    if each is None:
        return None

    def convert(value: Any) -> Any:
        if not is_map(value):
            return value
        entries: Mapping[str, Any] = value
        return {key: each(one) for key, one in entries.items()}

    return convert


def _members(changes: list[tuple[str, Convert]]) -> Convert:
    def convert(value: Any) -> Any:
        if not is_map(value):
            return value
        found: dict[str, Any] = dict(value)
        for name, change in changes:
            if name in found:
                found[name] = change(found[name])
        return found

    return convert


def plain_value(value: Any) -> Any:
    """The value as a JSON tree that shares nothing with it; raises EvaluationError if JSON cannot represent it."""
    try:
        return _plain(value)
    except RecursionError:
        raise EvaluationError("the value is nested too deeply") from None


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Timestamp):
        return format_timestamp(value)
    if isinstance(value, Duration):
        return format_duration(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if is_map(value):
        return {_key(key): _plain(member) for key, member in value.items()}
    if is_list(value):
        return [_plain(member) for member in value]
    raise EvaluationError(f"a value of type {type_name(value)} cannot be part of an object")


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return key if isinstance(key, str) else str(int(key))
