"""Timestamps as Kubernetes writes them: RFC 3339 in UTC, with whole seconds, or microseconds for a `MicroTime`."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from levelset.errors import BadTime
from levelset.objects.lazy_pattern import Pattern

__all__ = ["MicroTime", "format_time", "parse_time", "seconds_precision"]

_RFC3339: Final = Pattern(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,12}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)


class MicroTime(datetime):
    """A time with microseconds, always written with six digits.

    Leases and events use it, and kube-apiserver rejects one without the six digits, even if they are zero.
    """

    @classmethod
    def of(cls, time: datetime) -> "MicroTime":
        """The same instant, to be written with six digits."""
        utc = _to_utc(time)
        return cls(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, UTC)


def parse_time(text: str) -> datetime:
    """Parses an RFC 3339 time into UTC; digits past the microsecond are dropped. BadTime if it is invalid."""
    found = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise BadTime(f"{_shown(text)} is no RFC 3339 time such as 2026-01-31T12:00:00Z", position=0)
    year, month, day, hour, minute, second, fraction, sign, off_hour, off_minute = found.groups()
    micro = int((fraction or "0")[:6].ljust(6, "0"))
    try:
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), micro, UTC)
        return moment - _offset(sign, off_hour, off_minute)
    except (ValueError, OverflowError) as error:
        raise BadTime(f"{_shown(text)} is no time on any calendar: {error}", position=0) from error


def format_time(time: datetime) -> str:
    """The text as Kubernetes writes it: whole seconds, or six fractional digits for a `MicroTime`."""
    utc = _to_utc(time)
    digits = f".{utc.microsecond:06d}" if isinstance(time, MicroTime) else ""
    return f"{utc.year:04d}-{utc.month:02d}-{utc.day:02d}T{utc.hour:02d}:{utc.minute:02d}:{utc.second:02d}{digits}Z"


def seconds_precision(time: datetime) -> datetime:
    """The same instant in UTC, truncated to whole seconds, the precision of a Kubernetes `Time`."""
    return _to_utc(time).replace(microsecond=0)


def _offset(sign: str | None, hours: str | None, minutes: str | None) -> timedelta:
    if sign is None or hours is None or minutes is None:
        return timedelta()
    if int(hours) > 23 or int(minutes) > 59:
        raise ValueError("offset must be below 24 hours")
    size = timedelta(hours=int(hours), minutes=int(minutes))
    return size if sign == "+" else -size


def _to_utc(time: datetime) -> datetime:
    if time.tzinfo is None:
        raise BadTime(f"{time.isoformat()} has no time zone; use datetime.now(UTC)")
    return time.astimezone(UTC)


def _shown(text: Any) -> str:
    shown = repr(text)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
