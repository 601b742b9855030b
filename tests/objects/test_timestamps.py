from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.errors import BadTime
from levelset.objects.timestamps import MicroTime, format_time, parse_time, seconds_precision


def test_a_time_is_written_in_whole_seconds_and_utc():
    berlin = timezone(timedelta(hours=1))
    assert format_time(datetime(2026, 1, 31, 13, 0, 0, 999999, berlin)) == "2026-01-31T12:00:00Z"


def test_a_micro_time_is_written_with_six_digits_even_when_they_are_zero():
    assert format_time(MicroTime.of(datetime(2026, 1, 31, 12, tzinfo=UTC))) == "2026-01-31T12:00:00.000000Z"


def test_years_before_1000_keep_four_digits():
    assert format_time(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31t12:00:00z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T14:30:00+02:30", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00.123456789Z", datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)),
    ],
)
def test_any_rfc_3339_time_is_read(text, expected):
    assert parse_time(text) == expected


@pytest.mark.parametrize(
    "text", ["", "now", "2026-01-31", "2026-02-30T00:00:00Z", "2026-01-31T12:00:00", "0001-01-01T00:00:00+01:00", None]
)
def test_anything_else_is_a_bad_time(text):
    with pytest.raises(BadTime):
        parse_time(text)


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(BadTime, match="time zone"):
        format_time(datetime(2026, 1, 1))


OFFSETS = some.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(some.datetimes(timezones=OFFSETS, min_value=datetime(1970, 1, 1), max_value=datetime(9000, 1, 1)))
def test_a_written_time_reads_back_to_the_second(time):
    assert parse_time(format_time(time)) == seconds_precision(time)
    assert parse_time(format_time(MicroTime.of(time))) == time


@given(some.text(max_size=40))
def test_no_text_raises_anything_but_a_bad_time(text):
    try:
        parse_time(text)
    except BadTime as error:
        assert error.position == 0
