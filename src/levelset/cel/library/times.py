"""Accessors of timestamps and durations: getFullYear, getHours and the like, in a time zone."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo

from levelset.cel.errors import EvaluationError
from levelset.cel.types import Row, declare
from levelset.cel.values import to_datetime
from levelset.objects.lazy_pattern import Pattern

__all__ = ["OVERLOADS"]

_SECOND = 10**9
_OFFSET = Pattern(r"([+-]?)([0-9]{1,2}):([0-9]{2})")


@lru_cache(256)
def _zone(name: str) -> timezone | ZoneInfo:
    match = _OFFSET.fullmatch(name)
    if match:
        away = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-away if match[1] == "-" else away)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise EvaluationError(f"unknown time zone {name[:80]}") from None


def _local(timestamp: int, zone: str | None) -> datetime:
    moment = to_datetime(timestamp)
    try:
        return moment if zone is None else moment.astimezone(_zone(zone))
    except OverflowError:
        raise EvaluationError("timestamp overflow") from None


_PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}
_SPANS = {"getHours": 3600 * _SECOND, "getMinutes": 60 * _SECOND, "getSeconds": _SECOND, "getMilliseconds": 10**6}


def _of_time(part: Callable[[datetime], int]) -> Callable[..., int]:
    def get(timestamp: int, zone: str | None = None) -> int:
        return part(_local(timestamp, zone))

    return get


def _of_span(unit: int) -> Callable[[int], int]:
    def get(duration: int) -> int:
        found = abs(duration) // unit
        return -found if duration < 0 else found

    return get


def _rows() -> list[Row]:
    rows: list[Row] = []
    for name, part in _PARTS.items():
        rows.append((f"{name}: timestamp.() int", _of_time(part)))
        rows.append((f"{name}: timestamp.(string) int", _of_time(part)))
    return [*rows, *((f"{name}: duration.() int", _of_span(unit)) for name, unit in _SPANS.items())]


OVERLOADS = declare(_rows())
