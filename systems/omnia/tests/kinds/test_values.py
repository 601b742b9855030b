"""Semantic versions and durations."""

import pytest

from levelset_omnia.kinds.values import Version, is_same_version, seconds_of

__all__: list[str] = []

IN_ORDER = [
    "0.9.9",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.10.0",
    "v2.0.0",
]


def parsed(text: str) -> Version:
    found = Version.parse(text)
    assert found is not None
    return found


def test_versions_are_in_the_order_of_semantic_versioning() -> None:
    assert sorted(sorted(IN_ORDER, key=len), key=parsed) == IN_ORDER


@pytest.mark.parametrize("text", ["", "1", "1.0", "01.0.0", "1.0.0-", "1.0.0+", "1.0.0-ä", "one", "1.0.0.0", "V1.0.0"])
def test_a_malformed_version_is_none(text: str) -> None:
    assert Version.parse(text) is None


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("1.0.0", "v1.0.0", True),
        ("1.0.0+a", "1.0.0+b", True),
        ("1.0.0-a", "1.0.0", False),
        ("latest", "latest", True),
        ("latest", "1.0.0", False),
    ],
)
def test_a_leading_v_and_build_metadata_do_not_count(one: str, other: str, is_same: bool) -> None:
    assert is_same_version(one, other) is is_same


@pytest.mark.parametrize(
    ("text", "seconds"), [("5m", 300), ("1h30m", 5400), ("500ms", 0.5), ("1.5s", 1.5), ("0s", 0), ("24h", 86400)]
)
def test_a_duration_is_parsed_to_seconds(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "-5m", "5d", "5m3", "٥m"])
def test_a_malformed_duration_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="such as 5m or 1h30m"):
        seconds_of(text)
