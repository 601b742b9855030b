"""The order of resourceVersions, and the filter for objects of other kinds."""

import pytest

from levelset.runtime.watch.machine import KindFilter, is_older, newer_version
from tests.runtime.watch.machine_inputs import VIEW


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


def test_the_newer_version_never_goes_back_if_versions_are_comparable() -> None:
    assert [newer_version("10", seen) for seen in ("9", "10", "11", "x")] == ["10", "10", "11", "x"]


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
def test_an_object_of_another_kind_is_distinguished_from_another_encoding_of_the_same_kind(raw, expected) -> None:
    assert KindFilter(VIEW).holds(raw) is expected


def test_an_object_of_another_kind_is_named() -> None:
    assert KindFilter(VIEW).describe(b'{"kind":"Table","apiVersion":"meta.k8s.io/v1"}') == "Table of meta.k8s.io/v1"


def test_an_object_of_another_kind_is_recognized_even_if_it_begins_like_one_of_the_kind_before_it() -> None:
    kind_filter = KindFilter(VIEW)
    owned = b'{"metadata":{"ownerReferences":[{"kind":"ConfigMap"}]},"kind":'
    for beginning in (owned, b'{"data":{},"kind":', b'{"apiVersion":"v1", "kind" : '):
        assert kind_filter.holds(beginning + b'"ConfigMap"}')
        assert not kind_filter.holds(beginning + b'"Secret"}')


def test_an_object_of_the_same_kind_in_another_group_is_recognized_after_one_of_our_own() -> None:
    kind_filter = KindFilter(VIEW)
    ours, theirs = (
        f'{{"kind":"{VIEW.gvk.kind}","apiVersion":"{version}","metadata":{{}}}}'.encode()
        for version in (VIEW.gvk.api_version, "other.dev/v1")
    )
    assert [kind_filter.holds(raw) for raw in (ours, theirs, ours)] == [True, False, True]
