"""Which version is older, and which object was not asked for."""

import pytest

from levelset.runtime.watch.machine import Sieve, is_older, newest
from tests.runtime.watch.scripted import VIEW


@pytest.mark.parametrize(
    ("version", "than", "expected"),
    [
        ("1", "2", True),
        ("2", "1", False),
        ("9", "10", True),
        ("10", "9", False),
        ("007", "8", True),
        ("5", "5", False),
        ("a", "b", False),
        ("1", "b", False),
        ("b", "1", False),
        ("", "1", False),
        ("1", "", False),
        ("\u0661", "2", False),
    ],
)
def test_only_whole_numbers_have_an_order(version: str, than: str, expected: bool) -> None:
    assert is_older(version, than) is expected


def test_the_newest_version_never_goes_back_where_there_is_an_order() -> None:
    assert [newest("10", seen) for seen in ("9", "10", "11", "x")] == ["10", "10", "11", "x"]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"kind":"ConfigMap","apiVersion":"v1"}', True),
        (b'{"apiVersion":"v1", "metadata":{}, "kind" : "ConfigMap"}', True),
        (b'{"metadata":{}}', True),
        (b'{"kind":"Table","apiVersion":"meta.k8s.io/v1"}', False),
        (b'{"kind" : "ConfigMap","apiVersion":"example.dev/v1"}', False),
        (b'{"kind":7}', False),
        (b"nonsense", False),
    ],
)
def test_an_object_of_another_kind_is_told_from_one_that_is_only_written_in_another_way(raw, expected) -> None:
    assert Sieve(VIEW).holds(raw) is expected


def test_a_stray_object_is_named() -> None:
    assert Sieve(VIEW).stray(b'{"kind":"Table","apiVersion":"meta.k8s.io/v1"}') == "Table of meta.k8s.io/v1"
