"""Cron schedules: the times of five fields, descriptors and intervals, in time zones."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.objects import BadSchedule, CronSchedule, parse_schedule, split_time_zone

START = datetime(2031, 1, 1, 12, 30, 15, tzinfo=UTC)  # a Wednesday
NEW_YORK = ZoneInfo("America/New_York")
SAO_PAULO = ZoneInfo("America/Sao_Paulo")


def times(text: str, count: int = 3, *, after: datetime = START, zone: ZoneInfo | None = None) -> list[str]:
    schedule, found = parse_schedule(text), list[str]()
    at: datetime | None = after
    for _ in range(count):
        at = schedule.next_after(at, zone or UTC) if at is not None else None
        found.append("never" if at is None else at.astimezone(zone or UTC).strftime("%m-%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", ["01-01 12:31", "01-01 12:32", "01-01 12:33"]),
        ("*/20 * * * *", ["01-01 12:40", "01-01 13:00", "01-01 13:20"]),
        ("5 4 * * *", ["01-02 04:05", "01-03 04:05", "01-04 04:05"]),
        ("0 9-17/4 * * mon-fri", ["01-01 13:00", "01-01 17:00", "01-02 09:00"]),
        ("0 0 1 */4 *", ["05-01 00:00", "09-01 00:00", "01-01 00:00"]),
        ("0 0 31 * *", ["01-31 00:00", "03-31 00:00", "05-31 00:00"]),
        ("0 0 13 * fri", ["01-03 00:00", "01-10 00:00", "01-13 00:00"]),  # either day is sufficient
        ("0 0 */2 * fri", ["01-03 00:00", "01-05 00:00", "01-07 00:00"]),
        ("0 0 29 2 *", ["02-29 00:00", "02-29 00:00", "02-29 00:00"]),
        ("0 0 31 2 *", ["never", "never", "never"]),
        ("@weekly", ["01-05 00:00", "01-12 00:00", "01-19 00:00"]),
        ("@every 90m", ["01-01 14:00", "01-01 15:30", "01-01 17:00"]),
    ],
)
def test_the_next_times(text: str, expected: list[str]) -> None:
    assert times(text) == expected


def test_a_time_that_the_clock_skips_is_left_out() -> None:
    before = datetime(2031, 3, 8, 12, tzinfo=NEW_YORK)  # the clock goes from 2:00 to 3:00 on the 9th
    assert times("30 2 * * *", 2, after=before, zone=NEW_YORK) == ["03-10 02:30", "03-11 02:30"]


def test_a_time_that_the_clock_repeats_comes_twice() -> None:
    before = datetime(2031, 11, 1, 12, tzinfo=NEW_YORK)  # the clock goes back from 2:00 to 1:00 on the 2nd
    schedule = parse_schedule("30 1 * * *")
    first = schedule.next_after(before, NEW_YORK)
    assert first is not None
    second = schedule.next_after(first, NEW_YORK)
    assert second is not None
    assert second - first == timedelta(hours=1)
    assert first.astimezone(NEW_YORK).strftime("%d %H:%M") == second.astimezone(NEW_YORK).strftime("%d %H:%M")


def test_a_midnight_that_does_not_exist_is_passed() -> None:
    before = datetime(2018, 11, 2, 12, tzinfo=SAO_PAULO)  # the clock went from 0:00 to 1:00 on the 4th
    assert times("0 3 * * *", 3, after=before, zone=SAO_PAULO) == ["11-03 03:00", "11-04 03:00", "11-05 03:00"]


def test_the_last_time_before_now() -> None:
    schedule = parse_schedule("0 9 * * mon")
    assert schedule.last_between(START - timedelta(days=40), START) == datetime(2030, 12, 30, 9, tzinfo=UTC)
    assert schedule.last_between(START - timedelta(days=1), START) is None
    every = parse_schedule("@every 7m")
    assert every.last_between(START - timedelta(minutes=30), START) == START - timedelta(minutes=2)
    assert every.last_between(START, START + timedelta(minutes=6)) is None


FIELDS = st.tuples(
    st.sampled_from(["*", "0", "*/7", "15,45", "3-9/2"]),
    st.sampled_from(["*", "0", "*/5", "1,2,3", "22-23"]),
    st.sampled_from(["*", "1", "*/10", "28-31"]),
    st.sampled_from(["*", "2", "mar-nov", "*/5"]),
    st.sampled_from(["*", "0", "mon-fri", "6"]),
).map(" ".join)
MOMENTS = st.datetimes(datetime(2030, 1, 1), datetime(2032, 1, 1))


@given(FIELDS, MOMENTS, st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]))
def test_the_next_time_matches_all_fields_and_is_later(text: str, moment: datetime, name: str) -> None:
    schedule, zone = parse_schedule(text), ZoneInfo(name)
    at = moment.replace(tzinfo=UTC)
    found = schedule.next_after(at, zone)
    if found is None:
        return
    local = found.astimezone(zone)
    day, weekday = local.day in schedule.days, local.isoweekday() % 7 in schedule.weekdays
    assert found > at
    assert local.minute in schedule.minutes
    assert local.hour in schedule.hours
    assert local.month in schedule.months
    assert (day and weekday) if schedule.needs_both_days else (day or weekday)
    assert schedule.last_between(at, found, zone) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("@never", "unrecognized descriptor: @never"),
        ("@every 5", 'failed to parse duration @every 5: time: invalid duration "5"'),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("-1 * * * *", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        (f"{'9' * 30} * * * *", "value out of range"),
    ],
)
def test_a_bad_schedule_is_refused_with_the_message_of_kubernetes(text: str, message: str) -> None:
    with pytest.raises(BadSchedule) as caught:
        parse_schedule(text)
    assert message in str(caught.value)


def test_intervals_are_of_whole_seconds_and_at_least_one() -> None:
    intervals = {"1h30m": 5400, "1.5s": 1, "200ms": 1, "-5m": 1, "2m3.7s": 123}
    assert {text: parse_schedule(f"@every {text}").every for text in intervals} == {
        text: timedelta(seconds=seconds) for text, seconds in intervals.items()
    }
    assert isinstance(parse_schedule("@every 99999999999h"), CronSchedule)


def test_a_time_zone_in_front_is_split_off() -> None:
    assert split_time_zone("TZ=Asia/Tokyo  0 9 * * *") == ("Asia/Tokyo", "0 9 * * *")
    assert split_time_zone("CRON_TZ=UTC @daily") == ("UTC", "@daily")
    assert split_time_zone("@daily") == (None, "@daily")
