"""Cron schedules as CronJobs have them: five fields, descriptors such as `@daily`, and `@every 1h30m`.

The syntax, the messages and the times are those of the library that Kubernetes uses.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

import msgspec

from levelset.objects.lazy_pattern import Pattern

__all__ = ["BadSchedule", "CronSchedule", "parse_schedule", "split_time_zone"]

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_AMOUNT: Final = r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION: Final = Pattern(rf"[+-]?(?:0|(?:{_AMOUNT})+)")
_AMOUNTS: Final = Pattern(_AMOUNT)
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_MINUTE: Final = timedelta(minutes=1)
_YEARS: Final = 5  # a schedule without a time in so many years has none, such as the 31st of February
_MOST_DIGITS: Final = 18
_LONGEST: Final = timedelta(days=366 * 300)


class BadSchedule(ValueError):
    """A schedule that is not valid; the message is that of Kubernetes.

    What to do: correct the schedule of the CronJob: five fields, such as `*/5 * * * *`, or a word such as `@daily`.
    """


class CronSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """When a CronJob is due: at certain minutes of the wall clock of a time zone, or at a constant interval."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    """The days of the week, of which 0 is Sunday."""
    needs_both_days: bool = False
    """Whether the day of the month and of the week must match: one of them is `*`. Else one is sufficient."""
    every: timedelta | None = None

    def next_after(self, at: datetime, zone: tzinfo = UTC) -> datetime | None:
        """The first time after `at`, in UTC; None if there is none within five years.

        A time that the wall clock skips is left out, and one that it repeats comes twice.
        """
        if self.every is not None:
            return at.replace(microsecond=0) + self.every
        moment = at.astimezone(UTC).replace(second=0, microsecond=0) + _MINUTE
        limit = at.year + _YEARS
        while True:
            local = moment.astimezone(zone)
            if local.year > limit:
                return None
            later = self._skip(local, zone)
            if later is None:
                return moment
            moment = later

    def last_between(self, after: datetime, until: datetime, zone: tzinfo = UTC) -> datetime | None:
        """The last time after `after` and not after `until`, in UTC; None if there is none."""
        if self.every is not None:
            after = after.replace(microsecond=0)
            count = (until - after) // self.every
            return after + count * self.every if count > 0 else None
        window = timedelta(hours=1)
        while True:
            start = max(after, until - window)
            found = None
            for one in self._times(start, until, zone):
                found = one
            if found is not None or start == after:
                return found
            window *= 4

    def _times(self, after: datetime, until: datetime, zone: tzinfo) -> Iterator[datetime]:
        at = self.next_after(after, zone)
        while at is not None and at <= until:
            yield at
            at = self.next_after(at, zone)

    def _skip(self, local: datetime, zone: tzinfo) -> datetime | None:
        """A later moment, up to which no time matches; None if this one does."""
        if local.month not in self.months:
            first = local.replace(day=1, hour=0, minute=0, fold=0)
            return _forward(local, (first + timedelta(days=32)).replace(day=1), zone)
        if not self._matches_day(local):
            midnight = local.replace(hour=0, minute=0, fold=0)
            return _forward(local, midnight + timedelta(days=1), zone)
        if local.hour not in self.hours:
            return local.astimezone(UTC) + timedelta(minutes=60 - local.minute)
        return None if local.minute in self.minutes else local.astimezone(UTC) + _MINUTE

    def _matches_day(self, local: datetime) -> bool:
        day, weekday = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return day and weekday if self.needs_both_days else day or weekday


def _forward(local: datetime, wall: datetime, zone: tzinfo) -> datetime:
    """The moment of a later wall clock time; where the clock is changed at that time, at least a minute later."""
    moment = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return max(moment, local.astimezone(UTC) + _MINUTE)


def split_time_zone(text: str) -> tuple[str | None, str]:
    """The time zone that a schedule begins with (`TZ=` or `CRON_TZ=`), and the rest of it."""
    if not text.startswith(("TZ=", "CRON_TZ=")):
        return None, text
    zone, _, rest = text.partition("=")[2].partition(" ")
    return zone, rest.strip()


def parse_schedule(text: str) -> CronSchedule:
    """The schedule that a text without a time zone says; raises BadSchedule."""
    if text.startswith("@every "):
        return CronSchedule(every=_parse_duration(text))
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise BadSchedule(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise BadSchedule(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minutes, hours, days, months, weekdays = (
        _parse_field(field, *limits) for field, limits in zip(fields, _FIELDS, strict=True)
    )
    return CronSchedule(
        minutes=minutes[0],
        hours=hours[0],
        days=days[0],
        months=months[0],
        weekdays=weekdays[0],
        needs_both_days=days[1] or weekdays[1],
    )


def _parse_duration(text: str) -> timedelta:
    """The interval of `@every`, of whole seconds and at least one."""
    given = text.removeprefix("@every ")
    if _DURATION.fullmatch(given) is None:
        raise BadSchedule(f'failed to parse duration {text}: time: invalid duration "{given}"')
    seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in _AMOUNTS.findall(given))
    whole = 1 if given.startswith("-") else max(1, int(seconds))
    return min(timedelta(seconds=min(whole, int(_LONGEST.total_seconds()))), _LONGEST)


def _parse_field(text: str, low: int, high: int, names: dict[str, int]) -> tuple[frozenset[int], bool]:
    """The numbers of a field, and whether it is `*`."""
    found: set[int] = set()
    is_any = False
    for part in filter(None, dict.fromkeys(text.split(","))):  # a million times the same is parsed once
        numbers, any_number = _parse_range(part, low, high, names)
        found.update(numbers)
        is_any = is_any or any_number
    return frozenset(found), is_any


def _parse_range(text: str, low: int, high: int, names: dict[str, int]) -> tuple[range, bool]:
    parts = text.split("/")
    limits = parts[0].split("-")
    is_any = limits[0] in ("*", "?")
    if is_any:
        first, last = low, high
    else:
        first = last = _number(limits[0], names)
        if len(limits) == 2:
            last = _number(limits[1], names)
        elif len(limits) > 2:
            raise BadSchedule(f"too many hyphens: {text}")
    if len(parts) > 2:
        raise BadSchedule(f"too many slashes: {text}")
    step = _number(parts[1], {}) if len(parts) == 2 else 1
    if len(parts) == 2 and len(limits) == 1:
        last = high
    if first < low:
        raise BadSchedule(f"beginning of range ({first}) below minimum ({low}): {text}")
    if last > high:
        raise BadSchedule(f"end of range ({last}) above maximum ({high}): {text}")
    if first > last:
        raise BadSchedule(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    if step == 0:
        raise BadSchedule(f"step of range should be a positive number: {text}")
    return range(first, last + 1, step), is_any and step == 1


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch("[+-]?[0-9]+", text):
        raise BadSchedule(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if len(text) > _MOST_DIGITS:
        raise BadSchedule(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    if int(text) < 0:
        raise BadSchedule(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
