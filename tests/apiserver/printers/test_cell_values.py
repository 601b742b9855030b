from datetime import UTC, datetime, timedelta

import pytest

from levelset.apiserver.printers.cell_values import age, human_duration

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (timedelta(seconds=0), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(minutes=2), "2m"),
        (timedelta(minutes=9, seconds=59), "9m59s"),
        (timedelta(minutes=10, seconds=5), "10m"),
        (timedelta(minutes=179), "179m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=7, minutes=59), "7h59m"),
        (timedelta(hours=8, minutes=30), "8h"),
        (timedelta(hours=47), "47h"),
        (timedelta(days=2), "2d"),
        (timedelta(days=7, hours=23), "7d23h"),
        (timedelta(days=8, hours=5), "8d"),
        (timedelta(days=729), "729d"),
        (timedelta(days=730), "2y"),
        (timedelta(days=365 * 3 + 40), "3y40d"),
        (timedelta(days=365 * 9), "9y"),
        (timedelta(seconds=-1), "0s"),
        (timedelta(seconds=-5), "<invalid>"),
    ],
)
def test_a_duration_is_printed_in_a_few_characters(span: timedelta, expected: str) -> None:
    assert human_duration(span.total_seconds()) == expected


def test_an_age_is_the_time_since_a_text() -> None:
    assert age("2025-12-31T23:59:00Z", NOW) == "60s"


def test_a_time_that_is_missing_or_none_has_no_age() -> None:
    assert [age(None, NOW), age("", NOW), age("yesterday", NOW), age(5, NOW)] == [
        "<unknown>",
        "<unknown>",
        "<invalid>",
        "<invalid>",
    ]
