"""Times and durations as texts: RFC 3339 and Go's `1h30m`, to the nanosecond."""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from levelset.cel.errors import EvaluationError
from levelset.cel.values import Timestamp

__all__ = ["format_duration", "format_timestamp", "parse_date", "parse_duration", "parse_timestamp", "to_datetime"]

_SECOND = 10**9
_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]{1,30}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PART = re.compile(r"([0-9]{0,40})(?:\.([0-9]{0,40}))?(ns|us|µs|μs|ms|s|m|h|d|w)")
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


@lru_cache(1024)
def parse_timestamp(text: str) -> Timestamp:
    """The time that a text in RFC 3339 stands for; raises EvaluationError."""
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


def parse_date(text: str) -> int:
    """Nanoseconds since 1970 of the beginning of a day; raises EvaluationError."""
    match = _DATE.fullmatch(text)
    try:
        day = date(*map(int, match.groups())) if match else None
    except ValueError:
        day = None
    if day is None:
        raise EvaluationError(f"Invalid date formatted string {text[:80]!r}")
    return (day - _EPOCH.date()).days * 86400 * _SECOND


@lru_cache(1024)
def parse_duration(text: str, *, days: bool = False) -> int:
    """Nanoseconds of a duration as Go writes it, with `days` also in days and weeks; raises EvaluationError."""
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
    """A time in RFC 3339, with as much of the fraction as there is."""
    offset = getattr(timestamp, "offset", 0)
    moment = to_datetime(timestamp + offset * _SECOND)
    rest = timestamp % _SECOND
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    hours, minutes = divmod(abs(offset) // 60, 60)
    zone = f"{'-' if offset < 0 else '+'}{hours:02d}:{minutes:02d}" if offset else "Z"
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}{zone}"
