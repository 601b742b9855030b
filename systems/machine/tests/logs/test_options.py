"""LogOptions of a request: the parameters of kubectl and of DCP, and invalid ones."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.errors import BadRequest
from levelset_machine import LogOptions

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def of(**query: str) -> LogOptions:
    return LogOptions.of_query(query, now=NOW)


def test_an_empty_query_selects_everything() -> None:
    assert of() == LogOptions()


def test_the_parameters_of_kubectl_are_parsed() -> None:
    found = of(follow="true", tailLines="5", limitBytes="100", sinceSeconds="60", timestamps="true")
    since = NOW - timedelta(minutes=1)
    assert found == LogOptions(follow=True, tail=5, limit_bytes=100, since=since, timestamps=True)
    assert of(sinceTime="2026-01-31T11:00:00Z").since == NOW - timedelta(hours=1)


def test_the_parameters_of_dcp_are_parsed() -> None:
    assert of(skip="2", limit="3", lineNumbers="true") == LogOptions(skip=2, limit_lines=3, line_numbers=True)
    assert of(tail="7", line_numbers="1") == LogOptions(tail=7, line_numbers=True)


def test_other_parameters_are_ignored() -> None:
    assert of(container="web", source="stdout", previous="false", pretty="true") == LogOptions()


@pytest.mark.parametrize(
    ("text", "expected"), [("true", True), ("1", True), ("", True), ("False", False), ("0", False)]
)
def test_a_flag_is_parsed_as_api_servers_do(text: str, expected: bool) -> None:
    assert of(follow=text).follow is expected


@pytest.mark.parametrize(
    ("field", "query"),
    [
        ("limit", {"limit": "0"}),
        ("limit", {"limit": "5", "follow": "true"}),
        ("tail", {"tail": "1000001"}),
        ("tail", {"tail": "1", "skip": "1"}),
        ("tail", {"tail": "1", "tailLines": "1"}),
        ("tailLines", {"tailLines": "-1"}),
        ("tailLines", {"tailLines": "many"}),
        ("tailLines", {"tailLines": "٣"}),
        ("limitBytes", {"limitBytes": "0"}),
        ("skip", {"skip": "-1"}),
        ("skip", {"skip": "9" * 19}),
        ("sinceSeconds", {"sinceSeconds": "0"}),
        ("sinceTime", {"sinceTime": "yesterday"}),
        ("sinceTime", {"sinceTime": "2026-01-31T11:00:00Z", "sinceSeconds": "5"}),
    ],
)
def test_an_invalid_value_is_rejected_with_its_field(field: str, query: dict[str, str]) -> None:
    with pytest.raises(BadRequest, match=f"^{field}: ") as refused:
        LogOptions.of_query(query, now=NOW)
    assert [cause.field for cause in refused.value.causes] == [field]


def test_a_tail_of_zero_selects_no_lines() -> None:
    assert of(tailLines="0").tail == 0


def test_since_seconds_beyond_the_calendar_means_no_limit() -> None:
    assert of(sinceSeconds="9" * 18).since is None


FIELDS = ["follow", "tail", "tailLines", "skip", "limit", "limitBytes", "sinceSeconds", "sinceTime", "timestamps"]


@given(st.dictionaries(st.sampled_from(FIELDS), st.text() | st.integers().map(str)))
def test_any_query_is_parsed_or_rejected(query: dict[str, str]) -> None:
    try:
        LogOptions.of_query(query, now=NOW)
    except BadRequest as refused:
        assert refused.causes[0].field in FIELDS
