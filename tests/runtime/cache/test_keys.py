"""Keys and versions."""

import pytest

from levelset.runtime.cache.keys import is_older, key_for, key_of
from tests.runtime.cache.sites import cached_site, node


def test_a_key_is_namespace_and_name_or_the_name_alone() -> None:
    assert key_of(cached_site("a").head) == key_for("a", "default") == "default/a"
    assert key_of(node("a").head) == key_for("a", None) == "a"


@pytest.mark.parametrize(
    ("version", "than", "expected"),
    [
        ("9", "10", True),
        ("10", "9", False),
        ("10", "10", False),
        ("10", "11", True),
        ("", "10", False),
        ("a", "10", False),
        ("10", "aaa", False),
        ("٣", "10", True),  # digits all the same, and the smaller number
    ],
)
def test_a_version_is_older_only_if_both_are_numbers_and_it_is_smaller(version: str, than: str, expected: bool) -> None:
    assert is_older(version, than) is expected
